# Runs in the guest, in its root namespace. For each check one line on the console, which the test reads:
#   GUEST ok <name>   or   GUEST FAIL <name> <why>
# Later checks build on earlier ones; one that fails does not keep the rest from saying what they see.
set -uo pipefail
tunnel=ovn-gre0
gateway=vpc-nat-gw-gw1-0
folder=/tmp/sandbox
export KUBECONFIG=$folder/cluster1.kubeconfig
# An emulated processor is many times slower than the one that the defaults are made for, and here it shares that one with
# other tests: whatever is waited for may take long.
export CAUSEWAY_EXEC_TIMEOUT=90
# kubectl ends before its garbage matters, and collecting it would be a third of its time.
export GOGC=off

# check <name> <command…>: its last line is the reason when it fails.
check() {
  local name=$1 said status=0 start=$EPOCHSECONDS
  shift
  said=$("$@" 2>&1) || status=$?
  if ((status == 0)); then
    echo "GUEST ok $name"
  else
    printf '%s\n' "$said" | sed 's/^/GUEST said /'
    failed=1
    echo "GUEST FAIL $name status $status: $(printf '%s' "$said" | tail -n 1)"
  fi
  echo "GUEST note $name took $((EPOCHSECONDS - start)) s"
}

# holds <text> <pattern>: the pattern is in the text, or the text is shown.
holds() { [[ $1 =~ $2 ]] || { echo "no match for /$2/ in: $1"; return 1; }; }

# within <seconds> <command…>: tried until it succeeds.
within() {
  local end=$((EPOCHSECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((EPOCHSECONDS < end)) || { echo "not in time: $*"; return 1; }
    sleep 0.2
  done
}

on_gateway() { kubectl exec -n kube-system "$gateway" -c vpc-nat-gw -- bash /guest/gateway.sh "$@"; }

# The kernel alone: distinguishes a guest that cannot from a program that does not.
kernel_makes_gre() {
  local n=0 name
  for name in a b; do ip netns add "$name" || return; done
  ip link add net1 netns a type veth peer name net1 netns b
  for name in a b; do
    n=$((n + 1))
    ip -n "$name" addr add "172.50.16.$n/24" dev net1
    ip -n "$name" link set net1 up
    ip -n "$name" link add gre1 type gre local "172.50.16.$n" remote "172.50.16.$((3 - n))" ttl 255 || return
    ip -n "$name" addr add "10.91.0.$n/24" dev gre1
    ip -n "$name" link set gre1 up
  done
  ip netns exec a ping -q -c 3 -i 0.1 -W 5 10.91.0.2
  local outcome=$?
  ip netns del a
  ip netns del b
  return "$outcome"
}

# Once, with the gateways' chains in nftables. Nodes besides: in cluster1 packets get from one to the other through VXLAN, in
# cluster2 straight.
packets_cross_once() {
  local report status=0
  report=$(causeway sandbox --once --apply /guest/samples/tunnel.yaml --iptables nft --timeout 400 -o json \
    --nodes 2 --nodes-backend vxlan,host-gw --nodes-ipv6) || status=$?
  report=${report//[$'\n' ]/}
  printf '%s' "$report" >/tmp/once.json
  ((status == 0)) || { echo "status $status: $report"; return 1; }
  holds "$report" '"ready":true' && holds "$report" '"type":"gre"' && holds "$report" '"sourceSeen":\["242\.0\.0\.'
}

# For good, with the variant that the gateway's own scripts would choose.
sandbox_stays() {
  causeway sandbox --apply /guest/samples/tunnel.yaml --timeout 400 --dir "$folder" >/tmp/sandbox.log 2>&1 &
  sandbox=$!
  until [[ -e $folder/ready ]]; do
    kill -0 "$sandbox" 2>/dev/null || { cat /tmp/sandbox.log; return 1; }
    ((SECONDS < start_by)) || { cat /tmp/sandbox.log; return 1; }
    sleep 0.2
  done
}

# nodes_healed <cluster> <back end>: pods reached each other, then not, then again.
nodes_healed() {
  local full='\{"worker1":\{"worker2":[0-9.]+\},"worker2":\{"worker1":[0-9.]+\}\}'
  local none='\{"worker1":\{"worker2":null\},"worker2":\{"worker1":null\}\}'
  # A route of each family was deleted.
  holds "$(</tmp/once.json)" "\"cluster\":\"$1\",\"backend\":\"$2\",\"ipv6\":true,\"nodes\":[^]]*\],\
\"reachedMs\":[0-9]+,\"before\":$full,\"flushed\":2,\"broken\":$none,\"repairedMs\":[0-9.]+,\"after\":$full"
}

status_is_said() {
  local row
  row=$(kubectl get vpcnattunnel -n ns1 "$tunnel" --no-headers) || return
  holds "$row" "^$tunnel +True +gre +gw1 +172\.50\.16\.11 +172\.50\.16\.21 "
}

client_reaches_server() { kubectl exec -n ns1 client -- ping -q -c 3 -W 5 242.1.1.20; }

# How often a repair was reported: an event that is reported again becomes a series and counts itself.
repairs() {
  kubectl get events -n ns1 -o 'jsonpath={range .items[?(@.reason=="DriftRepaired")]}x{.series.count} {end}' |
    awk '{ for (i = 1; i <= NF; i++) sum += $i == "x" ? 1 : substr($i, 2) } END { print sum + 0 }'
}
another_repair_was_reported() { (($(repairs) > before)); }

# drift <what> <seconds>: removed by hand, put back within the time, and reported on the object.
drift() {
  before=$(repairs)
  on_gateway remove "$1" "$2" && within 120 another_repair_was_reported
}

delete_returns() {
  timeout 150 kubectl delete vpcnattunnel -n ns1 "$tunnel" || return
  holds "$(kubectl get vpcnattunnel -n ns1 "$tunnel" --ignore-not-found)" '^$'
}

# The interrupt ends it, and what it made goes with it. A process that ends between the listing and the reading says
# nothing about the program.
program_runs() { { cat /proc/[0-9]*/comm 2>/dev/null || true; } | grep -x causeway; }
no_program_runs() { ! program_runs; }
sandbox_leaves_nothing() {
  program_runs || { echo "the sandbox was not running any more"; return 1; }
  kill -INT "$sandbox"
  within 60 no_program_runs || return
  # But for what the kernel itself puts into every namespace.
  holds "$(ip -o link | grep -vE '^[0-9]+: (lo:|(gre0|gretap0|erspan0|tunl0)@NONE:)')" '^$'
}

sandbox=
failed=
check kernel-gre kernel_makes_gre
check once packets_cross_once
check nodes-vxlan nodes_healed cluster1 vxlan
check nodes-host-gw nodes_healed cluster2 host-gw
start_by=$((SECONDS + 450))
# Not in a subshell: the sandbox is this shell's child.
if sandbox_stays; then echo "GUEST ok stays"; else failed=1 && echo "GUEST FAIL stays $(tail -n 1 /tmp/sandbox.log)"; fi
check status status_is_said
check gateway-holds on_gateway whole
check ping client_reaches_server
check drift-link drift link 180
check drift-address drift address 180
check drift-route-out drift route-out 180
check drift-route-in drift route-in 180
# No message reports a rule: the timer looks every 15 s.
check drift-snat drift snat 300
check ping-again client_reaches_server
check delete delete_returns
check gateway-clean on_gateway clean
check end sandbox_leaves_nothing

# What people would look at next.
[[ -z $failed ]] || tail -n 60 /tmp/sandbox.log "$folder"/logs/* | grep -v DEBUG | cut -c1-400 | sed 's/^/GUEST log /'
