#!/usr/bin/env bash
# Installs what one part of this project needs and this machine lacks; says what and why.
#   usage: hack/setup.sh [sandbox|kubectl|test|sdk|peers|dns|ovn|real|bench|check]
# When all is there it prints one line, asks nothing of the network and takes some milliseconds.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-sandbox}
start=${EPOCHREALTIME/[.,]/}
PATH=$PWD/.cache/bin:$HOME/.cargo/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL=C # what apt says is read below
deny_version=0.20.2
machete_version=0.9.2

say() { echo "  $*"; }
die() { echo "hack/setup.sh: $*" >&2; exit 1; }
# since <microseconds>: how long ago that was.
since() {
  local tenths=$(((${EPOCHREALTIME/[.,]/} - $1) / 100000))
  echo "$((tenths / 10)).$((tenths % 10)) s"
}
# part <name> command…: runs it and says how long it took.
part() {
  local name=$1 begun=${EPOCHREALTIME/[.,]/}
  shift
  "$@"
  say "$name: there after $(since "$begun")"
}
# Shows what a command said only if it fails.
quietly() {
  local log
  log=$(mktemp)
  "$@" >"$log" 2>&1 || { cat "$log" >&2; rm "$log"; return 1; }
  rm "$log"
}

missing=() # packages, by their Debian names
# need <command> <Debian package> <why>
need() {
  type -P "$1" >/dev/null && return
  missing+=("$2")
  say "$2: $3"
}

need_linker() {
  need cc gcc "cargo links with it"
  # A compiler without the C library's own files answers with the bare name.
  [[ $(cc -print-file-name=crt1.o 2>/dev/null) == */* ]] && return
  missing+=(libc6-dev)
  say "libc6-dev: the C library, to link with"
}
need_network() {
  need ip iproute2 "makes links, addresses and routes"
  need iptables iptables "the gateways' NAT"
  need nft nftables "hides the addresses of a node's pods from whatever is outside"
  need conntrack conntrack "lets gateways forget flows that went astray before their tunnel was up"
}
need_guest() {
  need qemu-system-x86_64 qemu-system-x86 "boots a kernel that has GRE, for the guest test"
  need busybox busybox-static "the guest's small tools"
  need cpio cpio "packs the guest's files"
  need dash dash "the guest's shell"
  need depmod kmod "loads the guest's modules"
  need xz xz-utils "unpacks the guest's kernel"
}
need_tools() {
  need ping iputils-ping "sends test packets"
  need ps procps "looks for processes left behind"
  need setsid util-linux "gives an exec its own session"
  need perl perl-base "speaks HTTP inside the tests' pods"
}

need_control_plane() {
  need openssl openssl "makes the certificates of a real control plane"
  need curl curl "asks a real API server whether it is ready"
  hack/go.sh --have >/dev/null || need_venv "fetches a Go that can build a control plane"
}
need_peers() {
  need nft nftables "flanneld and the agent keep their rules with it"
  hack/peers-build.sh --have >/dev/null && return
  hack/go.sh --have >/dev/null || need_venv "fetches a Go that can build flanneld"
}
need_coredns() {
  hack/dns-build.sh --have >/dev/null && return
  hack/go.sh --have >/dev/null || need_venv "fetches a Go that can build CoreDNS"
}
# Where the packages come with services, those may start; the test has databases and sockets of its own.
need_ovn() {
  need ovn-northd ovn-central "OVN itself: a real router's next hop is moved by what the controller writes"
  need ovn-nbctl ovn-common "changes and lists what OVN should do"
  need ovsdb-server openvswitch-common "OVN's databases"
}
# need_venv <why>: Python's own installer.
need_venv() {
  python3 -c 'import venv, ensurepip' 2>/dev/null && return
  missing+=(python3-venv)
  say "python3-venv: $1"
}
# What fetches the clients that hack/sdk.sh provides: nothing, where they are there.
need_client_of_rules() {
  hack/sdk.sh python --have >/dev/null 2>&1 && return
  need_venv "runs a client of the rules that owes nothing to this project"
  need mvn maven "fetches the Java SDK, whose own .proto files that client is generated from"
}
# What hack/neutron.sh makes: nothing more, where it is there.
need_neutron() {
  hack/neutron.sh --have >/dev/null && return
  need_venv "holds Neutron and Keystone, for the tests and benchmarks of networks in OpenStack"
}
need_java_sdk() {
  need javac default-jdk-headless "compiles and runs a program that uses the Java SDK"
  need mvn maven "fetches the Java SDK"
}

# The other families' names for a Debian package.
elsewhere() {
  case $1:$2 in
    dnf:iproute2) echo iproute ;;
    dnf:iptables) echo iptables-nft ;;
    dnf:conntrack | apk:conntrack | pacman:conntrack) echo conntrack-tools ;;
    dnf:perl-base | apk:perl-base | pacman:perl-base) echo perl ;;
    dnf:iputils-ping | pacman:iputils-ping) echo iputils ;;
    dnf:procps | apk:procps | pacman:procps) echo procps-ng ;;
    dnf:qemu-system-x86) echo qemu-system-x86-core ;;
    apk:qemu-system-x86) echo qemu-system-x86_64 ;;
    dnf:busybox-static | pacman:busybox-static) echo busybox ;;
    dnf:xz-utils | apk:xz-utils | pacman:xz-utils) echo xz ;;
    dnf:openvswitch-common | apk:openvswitch-common | pacman:openvswitch-common) echo openvswitch ;;
    dnf:ovn-common | apk:ovn-c* | pacman:ovn-c*) echo ovn ;;
    dnf:libc6-dev) echo glibc-devel ;;
    apk:libc6-dev) echo musl-dev ;;
    pacman:libc6-dev) echo glibc ;;
    dnf:python3-venv | apk:python3-venv) echo python3 ;;
    pacman:python3-venv) echo python ;;
    dnf:default-jdk-headless) echo java-latest-openjdk-devel ;;
    apk:default-jdk-headless) echo openjdk21-jdk ;;
    pacman:default-jdk-headless) echo jdk-openjdk ;;
    *) echo "$2" ;;
  esac
}

may_be_root() { ((EUID == 0)) || type -P sudo >/dev/null; }
root() {
  if ((EUID == 0)); then
    "$@"
  elif type -P sudo >/dev/null; then
    sudo "$@"
  else
    die "neither root nor sudo here; as root, run: $*"
  fi
}

# A new machine is often still updating itself: waits for its lock.
apt_get() { root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }

apt_updated=
apt_update() {
  [[ $apt_updated ]] && return
  # One source out of order is no reason to stop: what is needed may come from the others.
  may_be_root && apt_get update || say "apt-get could not update every source: going on with what it knows"
  apt_updated=1
}

# Tells those without apt what to install, in their own package manager's words.
ask_to_install() {
  local manager command package names=()
  for manager in dnf apk pacman; do type -P "$manager" >/dev/null && break; manager=; done
  case $manager in
    dnf) command="dnf install" ;;
    apk) command="apk add" ;;
    pacman) command="pacman -S --needed" ;;
    *) die "no apt-get here; please install: ${missing[*]}" ;;
  esac
  for package in "${missing[@]}"; do names+=("$(elsewhere "$manager" "$package")"); done
  die "please install these and start again:  $command ${names[*]}"
}

install_missing() {
  ((${#missing[@]})) || return 0
  type -P apt-get >/dev/null || ask_to_install
  apt_update
  quietly apt_get -y --no-install-recommends install "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}"
}

# The machine's own kubectl, else its package manager's; built only where both are absent or too old,
# and that may need Python.
provide_kubectl() {
  hack/kubectl.sh --have >/dev/null && return
  changed=1
  local begun path
  if type -P apt-get >/dev/null && may_be_root && apt_update && hack/kubectl.sh --packaged; then
    say "kubectl: what a person types, the tests type too"
    missing=(kubectl)
  elif ! hack/kubectl.sh --have-go >/dev/null && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    say "python3-venv: fetches a Go that can build kubectl"
    missing=(python3-venv)
  else
    missing=()
  fi
  install_missing
  begun=${EPOCHREALTIME/[.,]/}
  path=$(hack/kubectl.sh)
  say "kubectl: $path, there after $(since "$begun")"
}

# provide_sdk <python|java> <what it is and why>
provide_sdk() {
  hack/sdk.sh "$1" --have >/dev/null 2>&1 && return
  changed=1
  say "$2"
  part "the rules' client ($1)" quietly hack/sdk.sh "$1"
}
provide_client_of_rules() {
  provide_sdk python "grpcio, grpcio-tools and xds-protos from PyPI (80 MB, into .cache/sdk) and the Java SDK's .proto files: a client of the rules that owes nothing to this project"
}
provide_java_sdk() {
  local version
  version=$(java --version 2>/dev/null | sed -nE '1s/^[^0-9]*([0-9]+).*/\1/p')
  ((${version:-0} >= 17)) || die "the Java SDK is tried with a JDK from 17 on; java here is ${version:-none}"
  provide_sdk java "the released Java SDK and what it needs, from Maven Central (40 MB, into .cache/sdk)"
}

provide_neutron() {
  hack/neutron.sh --have >/dev/null && return
  changed=1
  say "Neutron 29 and Keystone 30 from PyPI (50 MB to fetch, 390 MB in ~/.cache/causeway/neutron): an OpenStack that"
  say "  networks are created in, on loopback and without root; on two cores some two minutes"
  part "Neutron and Keystone" quietly hack/neutron.sh
}

provide_guest_kernel() {
  [[ -e .cache/guest/kernel/vmlinuz ]] && return
  if ! type -P apt-get >/dev/null; then
    say "no guest kernel: it comes from a Debian or Ubuntu archive; the guest test will fail and say so"
    return
  fi
  changed=1
  say "a guest kernel (30 MB, only unpacked, into .cache/guest): most machines' own cannot make GRE tunnels"
  apt_update
  part "guest kernel" hack/guest-kernel.sh
}

# provide_cargo_tool <name> <version> <why>; built from source, at the version that the check was written for.
provide_cargo_tool() {
  [[ $("cargo-$1" --version 2>/dev/null) =~ (^| )"$2"$ ]] && return
  changed=1
  say "cargo-$1 $2: $3; built from source, some minutes"
  part "cargo-$1" cargo install --quiet --locked "cargo-$1@$2"
}
provide_cargo_tools() {
  provide_cargo_tool deny "$deny_version" "checks licences and advisories of dependencies"
  provide_cargo_tool machete "$machete_version" "finds dependencies that nothing uses"
}

changed=
case $purpose in
  sandbox) need_linker; need_network ;;
  bench) need_linker; need_network; need_tools; need_neutron ;;
  test) need_linker; need_network; need_tools; need_guest; need_client_of_rules; need_neutron ;;
  sdk) need_linker; need_java_sdk ;;
  peers) need_linker; need_network; need_tools; need_peers ;;
  dns) need_linker; need_network; need_tools; need_coredns ;;
  ovn) need_linker; need_network; need_tools; need_ovn ;;
  real) need_linker; need_network; need_tools; need_control_plane ;;
  check) need_linker ;;
  kubectl) ;;
  *) die "unknown purpose '$purpose': sandbox, kubectl, test, sdk, peers, dns, ovn, real, bench or check" ;;
esac
if ((${#missing[@]})); then
  changed=1
  part packages install_missing
fi
case $purpose in
  test) provide_kubectl; provide_guest_kernel; provide_client_of_rules; provide_neutron ;;
  sdk) provide_java_sdk ;;
  bench) provide_kubectl; provide_neutron ;;
  kubectl | dns | ovn | real) provide_kubectl ;;
  check) provide_cargo_tools ;;
esac
if [[ $changed ]]; then
  echo "set-up for $purpose: installed in $(since "$start")"
else
  echo "set-up for $purpose: all there"
fi
