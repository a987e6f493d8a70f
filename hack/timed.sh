#!/usr/bin/env bash
# Runs one part of a make target and says how long it took; ends as the part ends.
#   usage: hack/timed.sh "name" command [argument…]
set -euo pipefail
name=${1:?name of the part}
shift
(($# > 0)) || { echo "usage: hack/timed.sh name command [argument…]" >&2; exit 64; }

start=${EPOCHREALTIME/[.,]/}
status=0
"$@" || status=$?
tenths=$(((${EPOCHREALTIME/[.,]/} - start) / 100000))
failed=
((status == 0)) || failed=" (failed with status $status)"
printf '== %s … %d.%d s%s\n' "$name" $((tenths / 10)) $((tenths % 10)) "$failed"
exit "$status"
