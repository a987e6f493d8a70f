#!/usr/bin/env bash
# Starts real control planes (three clusters, of which most tests use two, and a broker), runs on them the API
# suite and the end-to-end tests, and stops them again. The tests must have been built.
#   usage: hack/real.sh [test…]     names of crates/causeway/tests/*.rs; without any: api-suite and all
# KEEP=1 leaves the servers and their logs when a part failed, and says where.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d "${TMPDIR:-/tmp}/causeway-real.XXXXXX")
failed=()
end() {
  if [[ ${KEEP:-} && ${#failed[@]} -gt 0 ]]; then
    echo "the servers run on, in $dir; hack/control-plane.sh down $dir stops them"
  else
    hack/control-plane.sh down "$dir"
  fi
}
trap end EXIT
part() { hack/timed.sh "$@" || failed+=("$1"); }

# Not these: guest boots a kernel of its own, with a sandbox in it; replicas, control_plane and sandbox_demo switch faults of the
# embedded server; those of nodes and of clouds have servers of their own; rules_wire and rules_sdk are about clients, ovn
# about a router, dns_query about a Service with an address that no real server gives.
not_here=' guest replicas control_plane sandbox_nodes node node_peers status_nodes networks cloud_lab status_networks rules_wire rules_sdk ovn dns_query sandbox_demo '
tests=("$@")
if ((${#tests[@]} == 0)); then
  tests=(api-suite)
  for file in crates/causeway/tests/*.rs; do
    name=$(basename "$file" .rs)
    [[ $not_here == *" $name "* ]] || tests+=("$name")
  done
fi
hack/timed.sh "start the servers" hack/control-plane.sh up "$dir" cluster1 cluster2 cluster3 broker
export CAUSEWAY_REAL=$dir
for test in "${tests[@]}"; do
  case $test in
    api-suite) KUBECONFIG=$dir/cluster1.kubeconfig part "API suite" cargo test -q -p causeway-apiserver --test suite --test kubectl ;;
    # One after another: they share the servers. Those that need real ones are ignored elsewhere.
    *) part "$test" cargo test -q -p causeway --no-fail-fast --test "$test" -- --include-ignored --test-threads 1 ;;
  esac
done
if ((${#failed[@]})); then
  echo "failed on real API servers: ${failed[*]}"
  exit 1
fi
