# Listens whether other gateways of the VPC are alive, and prints only what changes, and now and then that it listens:
#
#   causeway-watch 7 lost
#   causeway-watch 7 back
#   causeway-watch
#
# For each line of its input (a number, the gateway's address in the VPC, the one outside, the VPC's router) it sends an echo a
# few times a second to both addresses, and over each link to whoever is always there: the router, and the underlay's gateway.
# By echoes and not by ARP, because OVN answers ARP for a port whose node is dead.
#
# A gateway is lost when one of its links is silent so many times in a row. A link counts once it has answered; and no silence
# counts while we do not reach those that are always there, for then it may be us: after two such misses all counting begins
# anew, since whoever comes back does not hear everybody at the same moment. It is back when all its links have answered twice as
# often in a row.
every=0.1
misses=5
says() {
  local line
  ping -n -O -i "$every" -I "$2" "$3" 2>/dev/null </dev/null | while read -r line; do
    case $line in
      *'bytes from '*) echo "$1 +" ;;
      'no answer yet'*) echo "$1 -" ;;
    esac
  done
}
underlay_gateway() {
  local word rest
  read -r _ word gateway rest <<<"$(ip -4 route show default dev net1 2>/dev/null)"
  [[ $word == via ]] || gateway=
}
# Whether we ourselves are where we should be: who has ever answered does.
is_here() {
  [[ ${seen[r]-} && ${missed[r]} -eq 0 ]] || return
  [[ ! ${seen[u]-} || ${missed[u]} -eq 0 ]]
}
listen() {
  local number=$1 lan=$2 outside=$3 router=$4 gateway= who sign lost= link
  local -A seen missed streak
  underlay_gateway
  while read -r who sign; do
    if [[ $sign == + ]]; then
      seen[$who]=1 missed[$who]=0 streak[$who]=$((${streak[$who]-0} + 1))
    elif [[ $who == [ru] ]]; then
      missed[$who]=$((${missed[$who]-0} + 1))
      [[ ${missed[$who]} -lt 2 ]] || missed[e]=0 missed[n]=0
    else
      ! is_here || missed[$who]=$((${missed[$who]-0} + 1))
      streak[$who]=0
    fi
    if [[ $lost ]]; then
      for link in e n; do
        [[ ! ${seen[$link]-} || ${streak[$link]} -ge $((2 * misses)) ]] || continue 2
      done
      lost=
      echo "causeway-watch $number back"
    else
      for link in e n; do
        [[ ${seen[$link]-} && ${missed[$link]-0} -ge $misses ]] || continue
        lost=1
        echo "causeway-watch $number lost"
        break
      done
    fi
  done < <(
    says e eth0 "$lan" &
    says n net1 "$outside" &
    says r eth0 "$router" &
    [[ ! $gateway ]] || says u net1 "$gateway" &
    wait
  )
}
[[ $(ping -V 2>&1) == *iputils* ]] || missing 'ping of iputils'
listeners=()
while read -r number lan outside router; do
  [[ ! $router ]] || { listen "$number" "$lan" "$outside" "$router" <&- & listeners+=($!); }
done <<<"$input"
trap 'kill "${listeners[@]}" 2>/dev/null' EXIT
trap 'exit 1' TERM HUP INT PIPE
# Ends with its input. Whoever pings ends with the first line that nobody reads.
while :; do
  echo causeway-watch || exit 1
  IFS= read -r -t 5 _
  [[ $? -gt 128 ]] || exit 0
done
