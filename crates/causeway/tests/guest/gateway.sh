# Runs in the guest, in the first gateway's namespace, by `kubectl exec`.
#   usage: gateway.sh whole | clean | remove <link|address|route-out|route-in|snat> <seconds>
set -uo pipefail
link=ovn-gre0
address=10.100.0.1/24
far=242.1.0.0/16
near=242.0.0.0/16
rule=(POSTROUTING ! -s 242.0.0.0/16 -d "$far" -o ovn-gre0 -m comment --comment causeway:ns1/ovn-gre0 -j SNAT --to-source 242.0.0.1-242.0.0.8)

# The iptables in whose tables the gateway has its own chains.
chains() {
  local variant
  for variant in iptables-legacy iptables-nft; do
    "$variant" -w 5 -t nat -S SNAT_FILTER >/dev/null 2>&1 && { echo "$variant"; return; }
  done
  echo "no SNAT_FILTER in either iptables" >&2
  return 1
}
first_rule() { "$nat" -w 5 -t nat -S POSTROUTING 1 2>/dev/null; }

# Each part of what the gateway must hold, or a word on what it does not.
whole() {
  local said
  said=$(ip -d -o link show dev "$link" 2>&1)
  [[ $said == *[\<,]UP[,\>]* ]] || { echo "the link is not up: $said"; return 1; }
  [[ $said == *'gre remote 172.50.16.21 local 172.50.16.11 ttl 255'* && $said == *'mtu 1476'* ]] ||
    { echo "not the GRE link it should be: $said"; return 1; }
  said=$(ip -4 -o addr show dev "$link")
  [[ $said == *" $address "* ]] || { echo "no address $address: $said"; return 1; }
  said=$(ip route show "$far")
  [[ $said == *"dev $link"* ]] || { echo "no route into the tunnel: $said"; return 1; }
  said=$(ip route show "$near")
  [[ $said == *'via 10.0.1.1 dev eth0'* ]] || { echo "no route to the logical switch: $said"; return 1; }
  said=$(first_rule)
  [[ $said == *"-d $far "*'--to-source 242.0.0.1-242.0.0.8'* ]] || { echo "the SNAT rule is not first: $said"; return 1; }
}

remove() {
  case $1 in
    link) ip link del "$link" ;;
    address) ip addr del "$address" dev "$link" ;;
    route-out) ip route del "$far" ;;
    route-in) ip route del "$near" ;;
    snat) "$nat" -w 5 -t nat -D "${rule[@]}" ;;
  esac
}

repaired() {
  local end=$((EPOCHSECONDS + $1)) why
  until why=$(whole); do
    ((EPOCHSECONDS < end)) || { echo "not put back within $1 s: $why"; return 1; }
    # Looking takes a dozen processes, and the program needs the processor too.
    sleep 0.5
  done
}

# Nothing of the tunnel, and all of the gateway's own.
clean() {
  local left
  left=$(ip -o link show | grep -F "$link:"; ip route show | grep -E "$link|^242\."; ip -o addr show | grep -F " $address ")
  left+=$(for one in iptables-legacy iptables-nft; do "$one" -w 5 -t nat -S 2>/dev/null; done | grep -E 'causeway|242\.')
  [[ -z $left ]] || { echo "left behind: $left"; return 1; }
  [[ $(first_rule) == '-A POSTROUTING -j SNAT_FILTER' ]] || { echo "the gateway's own chain is gone: $(first_rule)"; return 1; }
}

nat=$(chains) || exit
case $1 in
  whole | clean) "$1" ;;
  remove) remove "$2" && repaired "$3" ;;
esac
