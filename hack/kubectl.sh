#!/usr/bin/env bash
# Makes sure there is a kubectl whose exec speaks WebSocket (1.31 or newer), and prints its path.
# The machine's own if it is new enough; else hack/kubectl, built once into .cache/bin.
#   usage: hack/kubectl.sh [--have | --packaged | --have-go]
# The flags only say: is there one, has apt one that is new enough, is there a Go to build it with?
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
minimum=31
root=$PWD
cache=$root/.cache
say() { echo "$*" >&2; }

# Whether this kubectl is new enough. Asking takes a Go program's start, so the answer is kept
# until the file behind the name changes.
new_enough() {
  local program=$1 seen stamp=$cache/setup/kubectl minor
  seen=$(stat -Lc '%n %s %Y %i' "$program")
  [[ -r $stamp && $(<"$stamp") == "$seen" ]] && return
  minor=$("$program" version --client 2>/dev/null |
    sed -n 's/^Client Version: *v1\.\([0-9]*\).*/\1/p') || return
  [[ ${minor:-0} -ge $minimum ]] || return
  mkdir -p "$cache/setup"
  echo "$seen" >"$stamp"
}

# Whether apt offers one that is new enough; the package of the same name with Google's SDK counts otherwise.
packaged() {
  local minor
  minor=$(LC_ALL=C apt-cache policy kubectl | sed -n 's/^  Candidate: 1\.\([0-9]*\)\..*/\1/p')
  [[ ${minor:-0} -ge $minimum ]]
}

build() {
  local go version module=k8s.io/component-base/version log=$cache/kubectl-build.log
  say "  kubectl from its Go modules, into .cache/bin: none from 1.$minimum on is here; some minutes"
  go=$(hack/go.sh)
  version=$(sed -n 's/^\tk8s\.io\/kubectl v0\.\(.*\)/v1.\1/p' hack/kubectl/go.mod)
  mkdir -p "$cache/bin"
  (cd hack/kubectl && GOCACHE=$cache/go-build GOMODCACHE=$cache/go-mod GOFLAGS=-modcacherw \
    GOTOOLCHAIN=local CGO_ENABLED=0 "$go" build -mod=readonly -trimpath -buildvcs=false \
    -ldflags "-s -w -X $module.gitVersion=$version" -o "$cache/bin/kubectl.new" .) >"$log" 2>&1 ||
    { cat "$log" >&2; return 1; }
  mv "$cache/bin/kubectl.new" "$cache/bin/kubectl"
  # More than a gigabyte that is needed again only when the recipe changes.
  rm -rf "$cache/go-build" "$cache/go-mod" "$cache/go-venv" "$log"
}

# The newest recipe's build, or the machine's own.
have() {
  local own
  own=$(PATH=${PATH//$cache\/bin:/} type -P kubectl || true)
  if [[ $own && $own != "$cache/bin/kubectl" ]] && new_enough "$own"; then
    echo "$own"
  elif [[ -x $cache/bin/kubectl && $(cat "$cache/bin/kubectl.recipe" 2>/dev/null) == "$recipe" ]]; then
    echo "$cache/bin/kubectl"
  else
    return 1
  fi
}

recipe=$(cat hack/kubectl.sh hack/kubectl/* | sha256sum)
case ${1:-} in
  --have) have; exit ;;
  --have-go) hack/go.sh --have; exit ;;
  --packaged) packaged; exit ;;
esac
have && exit
build
echo "$recipe" >"$cache/bin/kubectl.recipe"
echo "$cache/bin/kubectl"
