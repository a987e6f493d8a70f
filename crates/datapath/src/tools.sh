# Sections: a begin line, the output of one tool with what it complained, an end line with its exit status.
export LC_ALL=C
begin() { printf '@@causeway begin %s\n' "$1"; }
end() { printf '\n@@causeway end %s\n' "$1"; }
section() {
  begin "$1"
  "${@:2}" 2>&1
  end "$?"
}
has() { command -v "$1" >/dev/null; }
# The last line says that all was said. What carries it may drop what it has not passed on when a command ends, so
# the script stays until the reader says that it has this line, or has gone. Nobody waits for it meanwhile (9 is the
# lock).
finish() {
  exec 9<&-
  printf '@@causeway done %s\n' "$1"
  read -r -t 5 _
  exit "$1"
}
refuse() {
  printf '@@causeway begin error\n%s\n@@causeway end 0\n' "$2"
  finish "$1"
}
missing() {
  printf '@@causeway missing %s\n' "$1"
  finish 69
}
