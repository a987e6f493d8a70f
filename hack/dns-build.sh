#!/usr/bin/env bash
# Builds a CoreDNS with the plugins of hack/dns/main.go, once, and prints its path: what really answers, for the test of
# names of other clusters. Only Go and a module proxy are needed; every module is pinned in hack/dns/go.sum.
#   usage: hack/dns-build.sh [--have]
# What was built is kept under CAUSEWAY_CACHE (default: ~/.cache/causeway) by a hash of its recipe, and so is shared by all
# working copies.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")"
cache=${CAUSEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/causeway}/dns
folder=$cache/$(cat dns-build.sh dns/main.go dns/go.mod dns/go.sum | sha256sum | cut -c-16)
say() { echo "  $*" >&2; }
die() { echo "hack/dns-build.sh: $*" >&2; exit 1; }

if [[ ! -x $folder/coredns ]]; then
  [[ ${1:-} == --have ]] && exit 1
  mkdir -p "$folder"
  exec {lock}>"$cache/lock"
  flock "$lock" # another working copy may be building the same
fi
if [[ ! -x $folder/coredns ]]; then
  go=$(./go.sh)
  say "CoreDNS $(sed -n 's/^\tgithub.com\/coredns\/coredns //p' dns/go.mod) from its Go module; on two cores some three minutes"
  begun=$SECONDS
  (cd dns && env CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false -mod=readonly' \
    nice "$go" build -ldflags '-s -w' -o "$folder/coredns.new" . >"$folder/log" 2>&1) ||
    { cat "$folder/log" >&2; die "CoreDNS was not built"; }
  mv "$folder/coredns.new" "$folder/coredns"
  say "CoreDNS: built in $((SECONDS - begun)) s"
fi
echo "$folder/coredns"
