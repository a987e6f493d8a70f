#!/usr/bin/env bash
# Takes Causeway out of the cluster of your kubeconfig and leaves nothing stuck: first tunnels, forwards and networks, while
# the controller still cleans what it made for them; then the controller; then the definitions and the rest.
#   usage: hack/undeploy.sh [manifest…]     without manifests only tunnels, forwards, networks and definitions go
# WAIT=120: how many seconds each of these may take. FORCE=1: what remains loses its finalizer.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
wait=${WAIT:-120}
force=${FORCE:-}
tunnels=vpcnattunnels.kubeovn.ustc.io
forwards=vpcdnsforwards.kubeovn.ustc.io
records=gatewayexips.kubeovn.ustc.io
networks=networks.samplecrd.k8s.io
namespace=multi-vpc-system
app=multi-vpc-controller-manager
name=opensergo-control-plane
name_space=opensergo-system

say() { echo "undeploy: $*"; }
die() { echo "undeploy: $*" >&2; exit 1; }
# A server that does not answer is an error after some seconds, never a hang.
kube() { kubectl --request-timeout=15s "$@"; }
defined() {
  local found
  found=$(kube get crd "$1" --ignore-not-found -o name) || die "the API server does not answer; nothing was removed"
  [[ $found ]]
}

# until_none <command…>: waits until the command prints nothing any more, at most so long; failing is no answer.
until_none() {
  local deadline=$((SECONDS + wait)) left
  until left=$("$@") && [[ -z $left ]]; do
    ((SECONDS < deadline)) || return 1
    sleep 0.5
  done
}

# Of which kind it is: what follows is about that one.
of_tunnels() { kind=$tunnels kinds=tunnels finalizer=tunnel.finalizer.ustc.io lease=causeway-controller holder=.spec.natGwDp as=on; }
of_forwards() { kind=$forwards kinds=forwards finalizer=dns.finalizer.ustc.io lease=causeway-dns holder=.status.vpcDns as=of; }
of_networks() { kind=$networks kinds=networks finalizer=causeway/network lease=causeway-networks holder=.status.networkId as=as; }

# One line per object: namespace|name|asked to go|what has something of it|why it is still there
remaining() {
  kube get "$kind" -A -o jsonpath='{range .items[*]}{.metadata.namespace}|{.metadata.name}|{.metadata.deletionTimestamp}|{'"$holder"'}|{.status.conditions[?(@.type=="CleanupBlocked")].message}{"\n"}{end}'
}
# What has something of it, in words.
place() {
  case $kind in
    "$tunnels") echo "gateway ${1:-unknown}" ;;
    "$forwards") echo "DNS server ${1:-unknown}" ;;
    *) echo "the cloud's network ${1:-unknown}" ;;
  esac
}
# What that may keep: <namespace> <name>.
kept() {
  case $kind in
    "$tunnels") echo "link $2, its routes (protocol 157) and its rules (comment causeway:$1/$2) until its pod is replaced" ;;
    "$forwards") echo "a route to kube-dns (annotation causeway/vpc-dns-route of its Deployment) and a block of its Corefile (comment # causeway:)" ;;
    *) echo "its name, its subnet and our tags" ;;
  esac
}

# Also those that somebody creates meanwhile.
delete_and_list() {
  local left
  left=$(remaining) || return
  [[ $left ]] || return 0
  if grep -q '^[^|]*|[^|]*||' <<<"$left"; then
    kube delete "$kind" --all -A --wait=false >/dev/null
  fi
  echo "$left"
}

# Says so if nobody leads: then nobody cleans anything either.
leaderless() {
  local line renewed lasts leader at stale
  line=$(kube get leases -A --field-selector "metadata.name=$lease" -o jsonpath='{range .items[*]}{.spec.renewTime}|{.spec.leaseDurationSeconds}|{.spec.holderIdentity}|{.metadata.namespace}/{.metadata.name}{"\n"}{end}' | sort | tail -n 1)
  [[ $line ]] || { echo "No controller runs: there is no Lease $lease."; return; }
  IFS='|' read -r renewed lasts leader at <<<"$line"
  TZ=UTC printf -v stale '%(%Y-%m-%dT%H:%M:%S)T' $((EPOCHSECONDS - ${lasts:-15}))
  if [[ -z $leader || $renewed < $stale ]]; then
    echo "No controller runs: Lease $at was last renewed at $renewed."
  fi
}

report_remaining() {
  local space name _ what why
  echo "undeploy: these $kinds are still there after $wait s:" >&2
  while IFS='|' read -r space name _ what why; do
    echo "  $space/$name $as $(place "$what"): ${why:-no controller has handled its deletion}" >&2
  done
}

# Lets an object go as it is; the finalizers of others stay.
release() {
  local others
  others=$(kube get "$kind" -n "$1" "$2" --ignore-not-found -o jsonpath='{range .metadata.finalizers[*]}{@}{"\n"}{end}' |
    sed "\|^$finalizer\$|d; s/.*/\"&\"/" | paste -sd, -)
  kube patch "$kind" -n "$1" "$2" --type=merge -p "{\"metadata\":{\"finalizers\":[$others]}}" >/dev/null || true # checked afterwards
}

release_remaining() {
  local space name _ what why
  while IFS='|' read -r space name _ what why; do
    release "$space" "$name"
    say "$space/$name was let go: $(place "$what") may keep $(kept "$space" "$name")"
  done
}

remove_objects() {
  local left hint
  until_none delete_and_list && { say "no $kinds are left"; return; }
  left=$(remaining)
  [[ $left ]] || return 0
  if [[ -z $force ]]; then
    report_remaining <<<"$left"
    hint=$(leaderless)
    die "${hint:+$hint }Nothing else was removed. Mend what is named and start again; or start again with FORCE=1," \
      "which removes their finalizer and leaves what was made for them."
  fi
  release_remaining <<<"$left"
  until_none delete_and_list || die "others' finalizers hold these $kinds: $(remaining | cut -d '|' -f 1,2 | tr '|\n' '/ ')"
}

pods() { kube get pods -n "$namespace" -l "app=$app" -o name; }

remove_controller() {
  kube delete deployment -n "$namespace" "$app" --ignore-not-found --wait=false
  until_none pods || die "pods of the controller still run after $wait s: $(pods | tr '\n' ' ')"
}

remove_definitions() {
  kubectl delete -f deploy/crds.yaml --ignore-not-found --timeout="${wait}s" ||
    die "a definition did not go within $wait s; kubectl get $tunnels,$records -A shows what is left of its kind"
  kubectl delete -f deploy/dns-crds.yaml --ignore-not-found --timeout="${wait}s" ||
    die "a definition did not go within $wait s; kubectl get $forwards -A shows what is left of its kind"
  [[ -z $has_networks ]] || kubectl delete -f deploy/networks-crds.yaml --ignore-not-found --timeout="${wait}s" ||
    die "a definition did not go within $wait s; kubectl get $networks -A shows what is left of its kind"
}

# Others may have brought these, and rules are people's: nothing of ours is left in them.
report_rules() {
  ! defined faulttolerancerules.fault-tolerance.opensergo.io ||
    say "the definitions of rules stay, and every rule; kubectl delete -f deploy/rules-crds.yaml removes both"
}

# The name that data planes know, where it leads to us. The namespace may be somebody else's.
remove_name() {
  local leads
  leads=$(kube get service -n "$name_space" "$name" --ignore-not-found -o jsonpath='{.spec.externalName}') ||
    die "the API server does not answer; the Service $name_space/$name may still be there"
  [[ $leads == causeway-rules.* ]] || return 0
  kube delete service -n "$name_space" "$name" --ignore-not-found
  say "the namespace $name_space stays, with what else is in it"
}

# What peers go on seeing, and how to take that away too.
report_broker() {
  [[ $1 ]] || return 0
  say "this cluster's records at the broker stay; there, in the namespace of the exchange:" \
    "kubectl delete gatewayexips,tunnelends,leases -l submariner-io/clusterID=$1"
}

# The group is that of a well-known sample: others may have brought a definition of that name, and then its objects are
# none of ours.
ours() {
  local categories
  categories=$(kube get crd "$1" -o jsonpath='{.spec.names.categories[*]}') || die "the API server does not answer; nothing was removed"
  [[ " $categories " == *" causeway "* ]]
}

cluster= has_networks=
if defined "$networks" && ours "$networks"; then
  has_networks=1
  of_networks
  remove_objects
fi
if defined "$forwards"; then
  of_forwards
  remove_objects
fi
if defined "$tunnels"; then
  of_tunnels
  remove_objects
  ! defined "$records" || cluster=$(kube get "$records" -n kube-system -l 'localCluster,!submariner-io/clusterID' \
    -o jsonpath='{.items[*].metadata.labels.localCluster}' | cut -d ' ' -f 1)
fi
if (($#)); then
  remove_controller
fi
remove_definitions
for manifest in "$@"; do
  kubectl delete -f "$manifest" --ignore-not-found --timeout="${wait}s" ||
    die "not all of $manifest could be removed within $wait s; see above"
done
if (($#)); then
  remove_name
  report_broker "$cluster"
fi
report_rules
say "done"
