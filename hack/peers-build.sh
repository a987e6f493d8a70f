#!/usr/bin/env bash
# Builds what `causeway node` has to get along with, once, and prints the folder that holds it: flanneld, and the
# CNI plugins flannel, bridge and host-local. Only Go, a C compiler and a module proxy are needed.
#   usage: hack/peers-build.sh [--have]
# Every module is pinned by its hash here, and what it needs in turn by its own go.sum.
# What was built is kept under CAUSEWAY_CACHE (default: ~/.cache/causeway) by a hash of its recipe, and so
# is shared by all working copies.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")"
flannel=github.com/flannel-io/flannel@v0.28.9
flannel_hash=h1:9+P0Pc8hearNZZpW6/Cc/4vEOiXaqQonYayDDeyibqY=
# The last plugins that had flannel's among them; bridge and host-local are newer ones, as a node of today has them.
plugins=github.com/containernetworking/plugins@v1.9.1
plugins_hash=h1:8oU6WsIsU3bpnNZuvHp74a6cE1MJwbj2P7s4/yTUNlA=
old_plugins=github.com/containernetworking/plugins@v0.9.1
old_plugins_hash=h1:FD1tADPls2EEi3flPc2OegIY1M9pUa9r2Quag7HMLV8=
cache=${CAUSEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/causeway}/peers
folder=$cache/$(sha256sum <peers-build.sh | cut -c-16)
say() { echo "  $*" >&2; }
die() { echo "hack/peers-build.sh: $*" >&2; exit 1; }

# fetch <module@version> <hash> <folder>: the module's files, writable, where its own go.mod is the main one.
fetch() {
  local said dir sum
  said=$(cd "$sources" && "$go" mod download -json "$1") || die "$1: $said"
  sum=$(sed -n 's/^\t"Sum": "\(.*\)",$/\1/p' <<<"$said")
  dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$said")
  [[ $sum == "$2" ]] || die "$1 has the hash $sum, not $2"
  cp -r "$dir" "$3"
  chmod -R u+w "$3"
}

# build <name> <folder of its module> <package> <linker flags> [VARIABLE=value…]
build() {
  local name=$1 module=$2 package=$3 flags=$4 begun=$SECONDS
  shift 4
  (cd "$module" && env GOFLAGS='-trimpath -buildvcs=false -mod=readonly' "$@" \
    nice "$go" build -ldflags "-s -w $flags" -o "$folder/$name" "$package" >"$folder/$name.log" 2>&1) ||
    { cat "$folder/$name.log" >&2; die "$name was not built"; }
  say "$name: built in $((SECONDS - begun)) s"
}

if [[ ! -e $folder/ready ]]; then
  [[ ${1:-} == --have ]] && exit 1
  mkdir -p "$folder"
  exec {lock}>"$cache/lock"
  flock "$lock" # another working copy may be building the same
fi
if [[ ! -e $folder/ready ]]; then
  go=$(./go.sh)
  sources=$(mktemp -d)
  trap 'rm -rf "$sources"' EXIT
  say "flanneld (${flannel##*@}) and the CNI plugins flannel (${old_plugins##*@}), bridge and host-local (${plugins##*@}):"
  say "  the peers of causeway node, from their Go modules; on two cores some three minutes"
  fetch "$flannel" "$flannel_hash" "$sources/flannel"
  fetch "$plugins" "$plugins_hash" "$sources/plugins"
  fetch "$old_plugins" "$old_plugins_hash" "$sources/old-plugins"
  # One cloud's backend needs a module that proxies do not always have, and nothing here needs that cloud.
  grep -q '/backend/tencentvpc"' "$sources/flannel/main.go" || die "flannel's main.go is not as it was"
  sed -i '/\/backend\/tencentvpc"/d' "$sources/flannel/main.go"
  build flanneld "$sources/flannel" . "-X github.com/flannel-io/flannel/pkg/version.Version=${flannel##*@}" CGO_ENABLED=1
  build flannel "$sources/old-plugins" ./plugins/meta/flannel '' CGO_ENABLED=0
  build bridge "$sources/plugins" ./plugins/main/bridge '' CGO_ENABLED=0
  build host-local "$sources/plugins" ./plugins/ipam/host-local '' CGO_ENABLED=0
  touch "$folder/ready"
fi
echo "$folder"
