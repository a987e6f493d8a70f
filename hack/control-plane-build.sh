#!/usr/bin/env bash
# Builds a real control plane (kube-apiserver, kube-controller-manager, etcd) and the sandbox's stand-in for
# the kubelet, once, and prints the folder that holds them. Only Go and a module proxy are needed; every
# version is pinned by hack/control-plane/go.mod and go.sum.
#   usage: hack/control-plane-build.sh [--have]
# With KUBEBUILDER_ASSETS (envtest's convention) those of that folder are taken and only the rest is built.
# What was built is kept under CAUSEWAY_CACHE (default: ~/.cache/causeway) by a hash of its recipe, and so
# is shared by all working copies.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/control-plane"
kubernetes=$(sed -n "s/^\tk8s\.io\/kubernetes //p" go.mod)
etcd=$(sed -n 's/^require go\.etcd\.io\/etcd\/server\/v3 //p' etcd/go.mod)
cache=${CAUSEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/causeway}
say() { echo "  $*" >&2; }

# The big ones have a key of their own: a change in the stand-in costs seconds, not a quarter of an hour.
recipe=$(cat ../control-plane-build.sh go.mod go.sum etcd/go.mod etcd/go.sum | sha256sum | cut -c-16)
stand_in=$(cat go.mod go.sum kubelet/*.go | sha256sum | cut -c-16)
built=$cache/control-plane/$recipe
folder=$cache/control-plane/$recipe-$stand_in
[[ ${KUBEBUILDER_ASSETS:-} ]] && folder+=-$(sha256sum <<<"$KUBEBUILDER_ASSETS" | cut -c-8)

# build <name> <folder of its module> <package> <linker flags>: into $built.
build() {
  local name=$1 begun=$SECONDS
  [[ -x $built/$name ]] && return
  (cd "$2" && CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false -mod=readonly' \
    nice "$go" build -ldflags "-s -w $4" -o "$built/$name.new" "$3" >"$built/$name.log" 2>&1) ||
    { cat "$built/$name.log" >&2; exit 1; }
  mv "$built/$name.new" "$built/$name"
  say "$name: built in $((SECONDS - begun)) s"
}

# The version that the binaries report; without it they call themselves v0.0.0-master.
version_flags() {
  local minor=${kubernetes#v1.} package
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s ' \
      "$package" "$kubernetes" "$package" "$package" "${minor%%.*}"
  done
}

if [[ ! -e $folder/ready ]]; then
  [[ ${1:-} == --have ]] && exit 1
  mkdir -p "$built" "$folder"
  exec {lock}>"$cache/control-plane/lock"
  flock "$lock" # another working copy may be building the same
  go=$(../go.sh)
  assets=$built
  if [[ ${KUBEBUILDER_ASSETS:-} ]]; then
    assets=$KUBEBUILDER_ASSETS
    say "kube-apiserver and etcd: those of KUBEBUILDER_ASSETS ($assets)"
  else
    say "kube-apiserver and kube-controller-manager $kubernetes, etcd $etcd: the real control plane, from"
    say "  their Go modules; on two cores a quarter of an hour, 120 MB to fetch, 5 GB in Go's build cache"
    build kube-apiserver . k8s.io/kubernetes/cmd/kube-apiserver "$(version_flags)"
    build etcd etcd go.etcd.io/etcd/server/v3 ''
  fi
  if [[ ! -x $assets/kube-controller-manager ]]; then
    build kube-controller-manager . k8s.io/kubernetes/cmd/kube-controller-manager "$(version_flags)"
    ln -sfn "$built/kube-controller-manager" "$folder/"
  else
    ln -sfn "$assets/kube-controller-manager" "$folder/"
  fi
  ln -sfn "$assets/kube-apiserver" "$assets/etcd" "$folder/"
  say "causeway-kubelet: plays the kubelet of the sandbox's nodes on a real API server"
  rm -f "$built/causeway-kubelet"
  build causeway-kubelet . ./kubelet ''
  mv "$built/causeway-kubelet" "$folder/"
  touch "$folder/ready"
fi
echo "$folder"
