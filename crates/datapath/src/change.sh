# Feeds the input to a tool that changes all of it or nothing.
if has timeout; then set -- timeout -s KILL 20 "$@"; fi
said=$(printf '%s' "$input" | "$@" 2>&1)
status=$?
begin change
printf '%s' "$said"
end "$status"
finish 0
