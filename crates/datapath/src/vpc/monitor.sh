# Prints what `ip monitor` prints, and heartbeats; ends with its input or with the monitor.
#
# The first heartbeat says that it listens. Each later one has the digest of a listing. It lists every so many seconds,
# because iptables has no monitor, and prints a digest that is another one, or every fourth; and it lists whenever a line
# is read, which it repeats; one that begins with a `p` is for whoever asks the tunnels' peers. Of IPv6 it hears nothing: it has
# much to say after every new link, and no tunnel uses it.
read -r interval change pace <<<"$input"
ip -4 monitor link address route netconf </dev/null &
monitor=$!
trap 'kill "$monitor" "$heart" 2>/dev/null; wait' EXIT
trap 'exit 1' TERM HUP INT PIPE
# Until its socket is bound to groups, a change could be missed; and what arrives before it has learnt the links'
# names, it drops. It opens a second socket after that, in the versions we know: one that does not gets a second.
listening() {
  sockets=0
  for fd in "/proc/$monitor/fd/"*; do
    [[ ${fd##*/} -gt 2 && -S $fd ]] && sockets=$((sockets + 1))
  done
  [[ $sockets -ge 2 || $tries -gt 50 ]] || return
  while read -r _ family port groups _; do
    [[ $family == 0 && $port == "$monitor" && $groups != 00000000 ]] && return
  done </proc/net/netlink
  return 1
}
# Waits for a line, or ends with the input: of `read`, 1 is its end and more than 128 is its time-out, at which it gives what
# has come of a line.
pause() {
  local part=
  line=
  IFS= read -r -t "$1" part
  case $? in
    0) line=$begun$part begun= ;;
    1) exit 0 ;;
    *) begun+=$part ;;
  esac
}
# The same, after what came before there was anybody to take it.
next_line() {
  line=${early[0]-}
  early=("${early[@]:1}")
  [[ $line ]] || pause "$1"
}
# One that hangs is not waited for.
leave() {
  kill -USR1 "$monitor" 2>/dev/null
  kill "$prober" 2>/dev/null || return
  for tries in {1..20}; do
    kill -0 "$prober" 2>/dev/null || return
    sleep 0.1
  done
  kill -KILL "$prober"
}
beat() {
  # Not left to the script, which may have been killed; and by a signal of its own, to tell it apart.
  trap leave EXIT
  tries=0
  early=()
  begun=
  until listening; do
    tries=$((tries + 1))
    [[ $tries -le 250 ]] || exit 1
    pause 0.02
    [[ ! $line ]] || early+=("$line")
  done
  echo causeway-alive
  exec 5>&1
  coproc PROBER { probe "$change" "$pace" >&5; }
  prober=$PROBER_PID
  announce=${PROBER[1]}
  said=
  silent=0
  while next_line "$interval" && kill -0 "$monitor" 2>/dev/null && kill -0 "$prober" 2>/dev/null; do
    if [[ $line == p* ]]; then
      echo "${line#p}" >&"$announce"
      continue
    fi
    asked=$line
    listing
    sum=$(printf '%s' "$listed" | sha1sum 2>/dev/null)
    silent=$((silent + 1))
    [[ $asked || ${sum%% *} != "$said" || $silent -ge 4 ]] || continue
    said=${sum%% *}
    silent=0
    echo causeway-alive "$said" "$asked" || break
  done
  exit 1
}
beat <&0 &
heart=$!
wait "$monitor" 2>/dev/null
if [[ $? -ne $((128 + $(kill -l USR1))) ]]; then
  echo 'the monitor ended by itself' >&2
  exit 1
fi
wait "$heart"
exit "$?"
