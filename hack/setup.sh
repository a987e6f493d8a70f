#!/usr/bin/env bash
# Installs what one part of this project needs and this machine lacks; says what and why.
#   usage: hack/setup.sh [sandbox|test|bench|check]
# When all is there it prints one line, asks nothing of the network and takes some milliseconds.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-sandbox}
start=${EPOCHREALTIME/[.,]/}
PATH=$PWD/.cache/bin:$HOME/.cargo/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin
deny_version=0.20.2

say() { echo "  $*"; }
die() { echo "hack/setup.sh: $*" >&2; exit 1; }
took() {
  local tenths=$(((${EPOCHREALTIME/[.,]/} - start) / 100000))
  echo "$((tenths / 10)).$((tenths % 10)) s"
}

missing=() # packages, by their Debian names
# need <command> <Debian package> <why>
need() {
  type -P "$1" >/dev/null && return
  missing+=("$2")
  say "$2: $3"
}

need_linker() { type -P cc >/dev/null || { need gcc gcc "cargo links with it"; missing+=(libc6-dev); }; }
need_network() {
  need ip iproute2 "makes links, addresses and routes"
  need iptables iptables "the gateways' NAT"
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
    dnf:libc6-dev) echo glibc-devel ;;
    apk:libc6-dev) echo musl-dev ;;
    pacman:libc6-dev) echo glibc ;;
    dnf:python3-venv | apk:python3-venv) echo python3 ;;
    pacman:python3-venv) echo python ;;
    *) echo "$2" ;;
  esac
}

root() {
  if ((EUID == 0)); then
    "$@"
  elif type -P sudo >/dev/null; then
    sudo "$@"
  else
    die "neither root nor sudo here; as root, run: $*"
  fi
}

apt_updated=
apt_update() {
  [[ $apt_updated ]] || root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
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
  root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" \
    >/dev/null || die "apt-get could not install: ${missing[*]}"
}

# kubectl is built only where the machine has none that is new enough, and that may need Python.
provide_kubectl() {
  hack/kubectl.sh --have >/dev/null && return
  changed=1
  if ! hack/kubectl.sh --have-go >/dev/null && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    say "python3-venv: fetches a Go that can build kubectl"
    missing=(python3-venv)
    install_missing
  fi
  hack/kubectl.sh >/dev/null
}

provide_guest_kernel() {
  [[ -e .cache/guest/kernel/vmlinuz ]] && return
  if ! type -P apt-get >/dev/null; then
    say "no guest kernel: it comes from a Debian or Ubuntu archive; the guest test will say that it skips"
    return
  fi
  changed=1
  say "a guest kernel (30 MB, only unpacked, into .cache/guest): most machines' own cannot make GRE tunnels"
  apt_update
  hack/guest-kernel.sh
}

provide_cargo_deny() {
  [[ $(cargo-deny --version 2>/dev/null) == "cargo-deny $deny_version" ]] && return
  changed=1
  say "cargo-deny $deny_version: checks licences and advisories of dependencies; built from source, some minutes"
  cargo install --quiet --locked "cargo-deny@$deny_version"
}

changed=
need_linker
case $purpose in
  sandbox) need_network ;;
  bench) need_network; need_tools ;;
  test) need_network; need_tools; need_guest ;;
  check) ;;
  *) die "unknown purpose '$purpose': sandbox, test, bench or check" ;;
esac
((${#missing[@]})) && changed=1
install_missing
case $purpose in
  test) provide_kubectl; provide_guest_kernel ;;
  bench) provide_kubectl ;;
  check) provide_cargo_deny ;;
esac
if [[ $changed ]]; then
  echo "set-up for $purpose: installed in $(took)"
else
  echo "set-up for $purpose: all there"
fi
