# Sections: a begin line, the output of one tool, an end line with the tool's exit status. What a tool complained is
# said in it if it failed.
export LC_ALL=C
begin() { printf '@@causeway begin %s\n' "$1"; }
end() { printf '\n@@causeway end %s\n' "$1"; }
section() {
  local said status
  begin "$1"
  { said=$("${@:2}" 2>&1 >&3 3>&-); } 3>&1
  status=$?
  [[ $status -eq 0 ]] || printf '! %s\n' "${said//$'\n'/; }"
  end "$status"
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
