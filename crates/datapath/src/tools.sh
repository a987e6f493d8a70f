# Sections: a begin line, the output of one tool, an end line with the tool's exit status. What a tool complained
# follows its output if it failed.
export LC_ALL=C
begin() { printf '@@causeway begin %s\n' "$1"; }
end() { printf '\n@@causeway end %s\n' "$1"; }
section() {
  local said status
  begin "$1"
  { said=$("${@:2}" 2>&1 >&3 3>&-); } 3>&1
  status=$?
  [[ $status -eq 0 ]] || printf '%s\n' "$said"
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
  section error printf '%s' "$2"
  finish "$1"
}
missing() {
  printf '@@causeway missing %s\n' "$1"
  finish 69
}
# Prints a listing, or that it is the one that the reader has.
answer() {
  digest=$(printf '%s' "$1" | md5sum 2>/dev/null)
  digest=${digest%% *}
  if [[ $digest && $digest == "$2" ]]; then
    echo '@@causeway same'
  else
    printf '%s\n' "$1"
    [[ ! $digest ]] || printf '@@causeway digest %s\n' "$digest"
  fi
  finish 0
}
