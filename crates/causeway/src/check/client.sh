# In the pod that speaks first. One line of input: the address, the port, how many bytes, whether the port echoes, and
# the longest packet to try. Says what it found in lines; the last one says that all was said.
read -r -t 10 target port bytes echoes mtu
export LC_ALL=C
say() { printf '%s %s\n' "$1" "$2"; }
lines() { while IFS= read -r line; do say "$1" "$line"; done; }
finish() {
  echo "@@causeway done $1"
  read -r -t 5 _
  exit "$1"
}
for tool in head yes sha1sum; do
  command -v "$tool" >/dev/null || { say missing "$tool"; finish 0; }
done
if command -v ping >/dev/null; then
  said=$(ping -n -c 5 -i 0.2 -W 2 "$target" 2>&1)
  lines echo <<<"$said"
  # A connection to nowhere would be given up by the kernel after two minutes.
  [[ $said != *' 0 received'* ]] || finish 0
  # One that is too long for the way is told so, and how long it may be: that long one must then arrive.
  said=$(ping -n -c 2 -i 0.2 -W 2 -M do -s $((mtu - 28)) "$target" 2>&1)
  lines long <<<"$said"
  named='mtu ?= ?([0-9]{2,5})'
  if [[ $said =~ $named ]]; then
    mtu=${BASH_REMATCH[1]}
    ping -n -c 2 -i 0.2 -W 2 -M do -s $((mtu - 28)) "$target" 2>&1 | lines fits
  fi
else
  say missing ping
fi
content() { yes causeway | head -c "$bytes"; }
sum() { sha1sum | while read -r sum _; do echo "$sum"; done; }
now() { read -r uptime _ </proc/uptime && say "$1" "$uptime"; }
[[ $port != 0 ]] || finish 0
say sent "$(content | sum)"
exec 3<>"/dev/tcp/$target/$port" || { say refused "no connection to port $port of $target"; finish 0; }
now begin
if [[ $echoes == yes ]]; then
  content >&3 &
  say got "$bytes $(head -c "$bytes" <&3 | sum)"
else
  content >&3
  read -r got <&3
  say got "$got"
fi
now end
finish 0
