# Asks the peer of each tunnel whether it answers, again and again, and prints what came back; one line for some tunnels,
# short enough to be written at once:
#
#   causeway-probe 7 demo:812:+:1048576:2048: …
#
# After the number of the newest change that it has heard of, for each link: the near answer in microseconds (`-` none,
# `?` not asked, `+` not timed), the far one (`+`, `-`, `?`), bytes in and out, and by which other link packets from the VPC
# to the peer's range leave (`!` by none).
#
# The near question is ARP for an address in the peer's range that nobody has: the peer answers for it as for any other
# there. The kernel asks, a process only puts the questions and reads the answers, for many at once. No more than a few are
# in the kernel's table at a time, because that is one for the whole machine. Where ARP is of no use it is an echo that may
# go one hop, which the peer's gateway reports as too short. The far question is the same with two hops, for the router behind
# that gateway; a process each, so they go round. Of links that stand by nothing is asked: whatever they say would show the peer
# the wrong way.
some=40
far_share=12
declare -A to gre standby streak was far_was rx tx
readonly standby_group='group 1129797891 '
router= from=
# Waits for a number, the newest of which counts, and for which links have changed with it (`+`: many); or ends with the input.
# At its time-out `read` gives what has come of a line: on a busy machine that is often not all.
listen() {
  local part= line
  IFS= read -r -t "$1" part
  case $? in
    0) line=$begun$part begun= ;;
    1) exit 0 ;;
    *) begun+=$part && return ;;
  esac
  [[ $line ]] || return 0
  heard=${line%% *}
  named+=${line#"$heard"}
}
tunnels() {
  local first word link rest
  order=()
  gre=()
  standby=()
  to=()
  router= from=
  # A line of a link begins with its number.
  while read -r first word link rest; do
    case $first in
      [0-9]*:)
        word=${word%%[:@]*}
        # As a number, which is how `-N` has it, or by its name.
        [[ $rest != *'link/[778]'* && $rest != *link/gre* ]] || gre[$word]=1
        [[ $rest != *"$standby_group"* ]] || standby[$word]=1
        ;;
      [0-9]*)
        # The way in is by the VPC's router: what is asked for its sake is asked as if it came from there.
        if [[ $word == via ]]; then
          rest=${rest#dev }
          router=$link
          from=" from $link iif ${rest%% *}"
        fi
        [[ $word == dev && ! ${standby[$link]-} ]] || continue
        order+=("$link")
        to[$link]=${first%/*}
        ;;
    esac
  done <<<"$(printf 'link show %s\nlink show %s\nroute show proto 157\n' 'type gre' "${standby_group% }" | ip -4 -N -o -force -batch - 2>/dev/null)"
}
# The same of some links alone, which takes a tenth of the time where they are among a thousand.
look_at() {
  local first word rest link=
  for link; do unset "to[$link]" "gre[$link]" "streak[$link]" "was[$link]" "far_was[$link]"; done
  link=
  # Routes of a link do not name it: they follow its own line.
  while read -r first word rest; do
    case $first in
      [0-9]*:)
        link=${word%%[:@]*}
        [[ $rest != *link/gre* ]] || gre[$link]=1
        [[ $rest != *"$standby_group"* ]] || link=
        ;;
      [0-9]*) [[ ! $link || $word == via ]] || to[$link]=${first%/*} ;;
    esac
  done <<<"$(printf 'link show dev %s\nroute show proto 157 dev %s\n' $(for link; do echo "$link $link"; done) |
    ip -4 -o -force -batch - 2>/dev/null)"
}
# What is known of a link that is gone is not known of the next one of its name.
forget() {
  local link
  for link in "${!streak[@]}"; do
    [[ ${to[$link]-} ]] || unset "streak[$link]" "was[$link]" "far_was[$link]"
  done
}
# All lines at once: to read one by one the shell goes back to the end of each, and the kernel begins at the first link again.
traffic() {
  local line name
  local -a lines words
  mapfile -t lines </proc/net/dev
  for line in "${lines[@]}"; do
    name=${line%%:*}
    name=${name##* }
    [[ ${to[$name]-} ]] || continue
    words=(${line#*:})
    rx[$name]=${words[0]} tx[$name]=${words[8]}
  done
}
# Microseconds since a moment, or nothing where the shell cannot count them.
since() {
  local now=${EPOCHREALTIME/[.,]/}
  elapsed=+
  [[ ! $now || ! $1 ]] || elapsed=$((now - $1))
}
# An echo through a link that may go so many hops: prints the link and how long the answer took, if any came.
hop() {
  local said start=${EPOCHREALTIME/[.,]/}
  local -a by=(-I "$1")
  [[ ! ${unbound[$1]-} ]] || by=()
  said=$(ping -n -c 1 -W 1 -t "$2" "${by[@]}" "${to[$1]}" 2>/dev/null)
  if [[ $said == *'ime to live exceeded'* || $said == *'ytes from '* ]]; then
    since "$start"
    echo "$1 $elapsed"
  fi
}
# A ping that is bound to a link lists all links first, with a thousand of them 20 ms, in which nobody else may change any: so
# those are not bound whose packets go into the link by themselves.
unbind() {
  local link first rest
  local -A at
  for link; do at[${to[$link]}]=$link; done
  while read -r first rest; do
    link=${at[${first:-.}]-}
    [[ ! $link || "$rest " != *"dev $link "* ]] || unbound[$link]=1
  done <<<"$(for link; do echo "route get ${to[$link]}"; done | ip -4 -o -force -batch - 2>/dev/null)"
}
hops() {
  local count=$1 link
  for link in "${@:2}"; do hop "$link" "$count" & done
  wait
}
# By ARP: near answers into `near`; on the way, where packets go, into `astray`.
resolve() {
  local start link ask= poll= first rest nap
  local -A at
  for link; do
    at[${to[$link]}]=$link
    ask+="neigh replace ${to[$link]} dev $link nud failed"$'\n'"neigh replace ${to[$link]} dev $link use"$'\n'
    near[$link]=-
  done
  start=${EPOCHREALTIME/[.,]/}
  # One that cannot be asked, as on a link that is down, ends the batch: then each has its own.
  if ! printf '%s' "$ask" | ip -4 -force -batch - >/dev/null 2>&1; then
    for link; do
      printf 'neigh replace %s dev %s %s\n' "${to[$link]}" "$link" 'nud failed' "${to[$link]}" "$link" use |
        ip -4 -batch - >/dev/null 2>&1
    done
  fi
  # A second in all: an answer may be late, and the kernel takes it when it has long given up.
  for nap in .002 .003 .005 .008 .013 .021 .034 .055 .089 .144 .233 .377; do
    listen "$nap"
    poll=
    for link in "${at[@]}"; do poll+="neigh show to ${to[$link]} dev $link"$'\n'; done
    while read -r first rest; do
      link=${at[${first:-.}]-}
      [[ $link && $rest == *REACHABLE* ]] || continue
      since "$start"
      near[$link]=$elapsed
      unset "at[$first]"
    done <<<"$(printf '%s' "$poll" | ip -4 -force -batch - 2>/dev/null)"
    [[ ${#at[@]} -gt 0 ]] || break
    # To look takes time as well, and on a busy machine more than the naps.
    since "$start"
    [[ $elapsed == + || $elapsed -lt 1000000 ]] || break
  done
}
# Where packets from the VPC to each range go.
follow() {
  local link asks= first rest dev any=
  local -A at
  for link; do
    astray[$link]='!'
    at[${to[$link]}]=$link
    asks+="route get ${to[$link]}$from"$'\n'
  done
  [[ ! $router ]] || asks+="route get $router"$'\n'
  while read -r first rest; do
    [[ ! $router || $first != "$router" ]] || any=1
    link=${at[${first:-.}]-}
    [[ $link && $rest == *'dev '* ]] || continue
    dev=${rest#*dev }
    dev=${dev%% *}
    any=1
    astray[$link]=$dev
    [[ $dev != "$link" ]] || astray[$link]=
  done <<<"$(printf '%s' "$asks" | ip -4 -o -force -batch - 2>/dev/null)"
  # Where there is no way at all, not even to the router, nobody could be asked.
  [[ $any ]] || astray=()
}
# Asks some tunnels, the first so many of them both questions.
ask() {
  local quota=$1 link elapsed time line= result
  local -a by_arp=() by_echo=() far_ones=()
  local -A near far astray unbound
  shift
  for link; do
    far[$link]='?'
    if [[ ! ${gre[$link]-} && $has_use ]]; then by_arp+=("$link"); else by_echo+=("$link"); fi
  done
  follow "$@"
  [[ ${#by_arp[@]} -eq 0 ]] || resolve "${by_arp[@]}"
  for link in "${by_echo[@]}"; do
    near[$link]='?'
    [[ ! $has_ping ]] || near[$link]=-
  done
  if [[ $has_ping && ${#by_echo[@]} -gt 0 ]]; then
    while read -r link time; do [[ ! $link ]] || near[$link]=$time; done <<<"$(hops 1 "${by_echo[@]}")"
  fi
  for link; do
    [[ $has_ping && ${#far_ones[@]} -lt $quota && ${near[$link]} != [-?] ]] || continue
    far_ones+=("$link")
    far[$link]=-
  done
  if [[ ${#far_ones[@]} -gt 0 ]]; then
    [[ ${#order[@]} -le $some ]] || unbind "${far_ones[@]}"
    while read -r link time; do [[ ! $link ]] || far[$link]=+; done <<<"$(hops 2 "${far_ones[@]}")"
  fi
  # The one that is gone already ends the batch; what it leaves is asked anew all the same.
  for link in "${by_arp[@]}"; do echo "neigh del ${to[$link]} dev $link"; done | ip -4 -force -batch - >/dev/null 2>&1
  for link; do
    # Not to be asked is no change of mind, nor is to be asked for the first time.
    result=${far[$link]/[?]/${far_was[$link]-}}
    [[ ${far_was[$link]-} || ! ${was[$link]-} ]] || was[$link]+=$result
    far_was[$link]=$result
    result=${near[$link]/[0-9+]*/+}${astray[$link]-}/$result
    if [[ ${was[$link]-} == "$result" ]]; then streak[$link]=$((streak[$link] + 1)); else streak[$link]=1; fi
    was[$link]=$result
    line+=" $link:${near[$link]}:${far[$link]}:${rx[$link]-0}:${tx[$link]-0}:${astray[$link]-}"
  done
  printf 'causeway-probe %s%s\n' "$number" "$line"
}
# Both numbers come with the input: that of the newest change, and the seconds between two questions. What is new, or has
# just changed its mind, is asked every second; many tunnels take longer than few. Those that a round has still to ask wait
# in a queue, and what is new goes before them; what is said to have changed is asked at once.
probe() {
  local number=$1 pace=$2 last=-1000 next=0 period now i link quota=0 asked heard= named= changed begun=
  local -a order queue=() late fresh some_of
  local has_ping= has_use=
  # A command that has begun is waited for: none is left behind.
  trap 'exit 0' TERM
  # Another one's does not say that an echo went too far.
  [[ $(ping -V 2>&1) == *iputils* ]] && has_ping=1
  [[ $(ip neigh help 2>&1) == *'[ use ]'* ]] && has_use=1
  while :; do
    now=$SECONDS
    # Somebody may have put the clock back.
    [[ $now -ge $last ]] || last=-1000
    tunnels
    forget
    traffic
    period=$((pace + ${#order[@]} / 100))
    if [[ ${#queue[@]} -eq 0 ]]; then
      quota=8
      if [[ $((now - last)) -ge $period ]]; then
        last=$now
        [[ $((${#order[@]} / far_share)) -le $quota ]] || quota=$((${#order[@]} / far_share))
        # Another one is the first in every round.
        [[ $next -lt ${#order[@]} ]] || next=0
        queue=("${order[@]:next}" "${order[@]:0:next}")
        # Who was silent before makes others wait: those go last, together.
        late=()
        for i in "${!queue[@]}"; do
          link=${queue[i]}
          [[ ! ${streak[$link]-} || ${was[$link]-} == -* ]] || continue
          [[ ! ${streak[$link]-} ]] || late+=("$link")
          unset "queue[i]"
        done
        queue=("${queue[@]}" "${late[@]}")
        next=$((next + quota))
        [[ ${#order[@]} -gt $quota ]] || next=0
      else
        for link in "${order[@]}"; do
          [[ ${streak[$link]-3} -ge 3 || ${#queue[@]} -ge $some ]] || queue+=("$link")
        done
      fi
    fi
    # What was never asked comes first.
    fresh=()
    for link in "${order[@]}"; do
      [[ ! ${streak[$link]-} ]] || continue
      fresh+=("$link")
      streak[$link]=0
    done
    queue=("${fresh[@]}" "${queue[@]}")
    asked=
    # Some of them in any case: one that changes all the time must not keep the others waiting.
    while [[ ${#queue[@]} -gt 0 ]]; do
      some_of=()
      for link in "${queue[@]:0:some}"; do
        # It may be gone by now.
        [[ ! ${to[$link]-} ]] || some_of+=("$link")
      done
      queue=("${queue[@]:some}")
      [[ ${#some_of[@]} -gt 0 ]] || continue
      ask "$quota" "${some_of[@]}"
      asked=1
      quota=$((quota > some ? quota - some : 0))
      [[ $heard || ${#queue[@]} -eq 0 ]] || listen .001
      [[ ! $heard ]] || break
    done
    [[ $asked ]] || printf 'causeway-probe %s\n' "$number"
    if [[ ! $heard ]]; then
      period=$((period - (SECONDS - last)))
      for link in "${order[@]}"; do
        [[ ${streak[$link]-0} -ge 3 ]] || period=1
      done
      [[ $period -ge 1 ]] || period=1
      # Silence would mean that nobody is here.
      [[ $period -le 10 ]] || period=10
      listen "$period"
    fi
    if [[ $heard ]]; then
      number=$heard changed=$named heard= named=
      some_of=()
      for link in $changed; do
        [[ " ${some_of[*]} " == *" $link "* ]] || some_of+=("$link")
      done
      if [[ ${#order[@]} -le $some ]]; then
        # Few are all asked anew: any of them may be what has changed.
        last=-1000
      elif [[ $changed == *+* || ${#some_of[@]} -gt $some ]]; then
        # So are many.
        queue=() last=-1000
      elif [[ ${#some_of[@]} -gt 0 ]]; then
        look_at "${some_of[@]}"
        for i in "${!some_of[@]}"; do
          [[ ${to[${some_of[i]}]-} ]] || unset "some_of[i]"
        done
        # What lies behind the peer may take its time, and has it in the next second.
        [[ ${#some_of[@]} -eq 0 ]] || ask 0 "${some_of[@]}"
      fi
    fi
  done
}
