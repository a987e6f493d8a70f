# Listens whether other gateways of the VPC are alive, and prints only what changes, and now and then that it listens:
#
#   causeway-watch 7 lost
#   causeway-watch 7 back
#   causeway-watch
#
# For each line of its input (a number, the gateway's address in the VPC, the one outside, the VPC's router, and `lost` for one that
# counts as lost already) it sends an echo a few times a second to both addresses, and over each link to whoever is always there:
# the router, and the underlay's gateway. By echoes and not by ARP, because OVN answers ARP for a port whose node is dead.
#
# A gateway is lost when it is silent so many times in a row: in the VPC, or outside if the underlay's gateway is one that answers. A
# link counts once it has answered; and no silence counts while we do not reach those that are always there, for then it may be us:
# after two such misses all counting begins anew, since whoever comes back does not hear everybody at the same moment. It is back
# when both links have answered twice as often in a row, or one alone for long.
every=0.1
misses=5
alone=50
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
count() {
  if [[ $2 == + ]]; then
    seen[$1]=1 missed[$1]=0 streak[$1]=$((${streak[$1]-0} + 1))
  elif [[ $1 == router || $1 == underlay ]]; then
    # Who has never answered is not missed.
    missed[$1]=$((${missed[$1]-0} + 1))
    [[ ! ${seen[$1]-} || ${missed[$1]} -lt 2 ]] || missed[lan]=0 missed[outside]=0
  else
    ! is_here || missed[$1]=$((${missed[$1]-0} + 1))
    streak[$1]=0
  fi
}
# Whether we ourselves are where we should be: who has ever answered does.
is_here() {
  [[ ${seen[router]-} && ${missed[router]} -eq 0 ]] || return
  [[ ! ${seen[underlay]-} || ${missed[underlay]} -eq 0 ]]
}
is_silent() {
  [[ ${seen[$1]-} && ${missed[$1]-0} -ge $misses ]]
}
is_lost() {
  is_silent lan || { [[ ${seen[underlay]-} ]] && is_silent outside; }
}
is_back() {
  local lan=${streak[lan]-0} outside=${streak[outside]-0}
  [[ $lan -ge $((2 * misses)) && $outside -ge $((2 * misses)) ]] ||
    [[ ! ${seen[outside]-} && $lan -ge $alone ]] || [[ ! ${seen[lan]-} && $outside -ge $alone ]]
}
listen() {
  local number=$1 lan=$2 outside=$3 router=$4 lost=$5 gateway= who sign
  local -A seen missed streak
  underlay_gateway
  while read -r who sign; do
    count "$who" "$sign"
    if [[ ! $lost ]] && is_lost; then
      lost=1
      echo "causeway-watch $number lost"
    elif [[ $lost ]] && is_back; then
      lost=
      echo "causeway-watch $number back"
    fi
  done < <(
    says lan eth0 "$lan" &
    says outside net1 "$outside" &
    says router eth0 "$router" &
    [[ ! $gateway ]] || says underlay net1 "$gateway" &
    wait
  )
}
[[ $(ping -V 2>&1) == *iputils* ]] || missing 'ping of iputils'
listeners=()
while read -r number lan outside router lost; do
  [[ ! $router ]] || { listen "$number" "$lan" "$outside" "$router" "$lost" <&- & listeners+=($!); }
done <<<"$input"
trap 'kill "${listeners[@]}" 2>/dev/null' EXIT
trap 'exit 1' TERM HUP INT PIPE
# Ends with its input. Whoever pings ends with the first line that nobody reads.
while :; do
  echo causeway-watch || exit 1
  IFS= read -r -t 5 _
  [[ $? -gt 128 ]] || exit 0
done
