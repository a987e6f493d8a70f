#!/usr/bin/env bash
# Runs every test of the workspace, some test programs beside each other. cargo runs one after the other, and most of
# ours wait for most of their time: for a peer that falls silent, a lease that ends, a minute in which nothing happens.
#   usage: hack/tests.sh
# What a program said comes as a whole when it ends, and what failed is named once more at the end.
# LANES=1 runs one after the other; RUST_TEST_THREADS is how many tests of one program run at a time, else one per core.
set -euo pipefail
cd "$(dirname "$0")/.."
lanes=${LANES:-3}
# These first, with nobody beside them: an emulated machine that must share its cores takes ten times as long, and its clocks go on.
alone=(guest)
# Those that take longest, longest first: begun last, one of them would run on alone.
longest=(networks idle reachable bad_input replicas simulation)

die() { echo "hack/tests.sh: $*" >&2; exit 1; }

# The names of all test programs. They are cargo's own, so none is forgotten; one name may stand for programs of two crates.
names() {
  local said
  said=$(cargo test --workspace --no-run 2>&1) || { echo "$said" >&2; return 1; }
  sed -nE 's#^ *Executable tests/[^ ]* \(.*/(.*)-[0-9a-f]+\)$#\1#p' <<<"$said" | sort -u
}

# The arguments with which cargo runs this one.
selected() {
  case $1 in
    unit-tests) echo --lib --bins ;;
    doc-tests) echo --doc ;;
    # Optimized, and so with more runs than elsewhere.
    simulation) echo --profile simulation --test simulation ;;
    *) echo --test "$1" ;;
  esac
}

known=$(names)
[[ $known ]] || die "cargo named no test program"
all=()
for one in "${alone[@]}" "${longest[@]}"; do
  grep -qx "$one" <<<"$known" || die "there is no test program $one any more"
  all+=("$one")
done
all+=(unit-tests)
while read -r one; do [[ " ${alone[*]} ${longest[*]} " == *" $one "* ]] || all+=("$one"); done <<<"$known"
all+=(doc-tests)

logs=$(mktemp -d)
declare -A running=() # name by process
failed=()
end() {
  # It reaches all of a lane's processes, so sandboxes clear up after themselves.
  for pid in "${!running[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
  rm -rf "$logs"
}
trap end EXIT
trap 'exit 130' INT TERM

# A process group of its own for each, so that all of it can be ended.
set -m
begin() {
  # shellcheck disable=SC2046 # the arguments are several words
  hack/timed.sh "$1" cargo test --workspace --no-fail-fast $(selected "$1") >"$logs/$1" 2>&1 </dev/null &
  running[$!]=$1
}

# Waits for one to end, and shows what it said.
one_ends() {
  local pid status=0
  wait -n -p pid "${!running[@]}" || status=$?
  cat "$logs/${running[$pid]}"
  ((status == 0)) || failed+=("${running[$pid]}")
  unset "running[$pid]"
}

for one in "${all[@]}"; do
  ((${#running[@]} < lanes)) || one_ends
  begin "$one"
  [[ " ${alone[*]} " != *" $one "* ]] || one_ends
done
while ((${#running[@]})); do one_ends; done
((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
