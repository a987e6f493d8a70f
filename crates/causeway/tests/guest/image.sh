#!/usr/bin/env bash
# Packs the guest's root: this machine's tools and the fetched kernel's modules, then the program and its checks.
#   usage: image.sh <cache folder> <program> <samples folder> <initrd to write>
# The first part is kept in the cache, under a hash of all that goes into it. The second is appended to a copy:
# the kernel unpacks one archive after the other.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
cache=$(realpath "$1")
program=$(realpath "$2")
samples=$(realpath "$3")
out=$(realpath -m "$4")
kernel=$cache/kernel
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

tools=(bash dash busybox ip kmod nft ping setsid stty xtables-nft-multi xtables-legacy-multi)
applets=(awk cat chmod cp cut date dmesg env false find grep head kill ln ls mkdir mount mv poweroff pwd readlink
  rm sed seq sleep sort stat tail test timeout touch tr true uname wc)
# What the sandbox, the gateways and the nodes use; the rest comes with their dependencies.
modules=(veth bridge vxlan ip_gre iptable_nat iptable_mangle nft_chain_nat nft_nat nft_compat nft_masq nft_ct
  xt_nat xt_comment xt_conntrack xt_MASQUERADE xt_tcpudp xt_tcpmss xt_TCPMSS xt_multiport nf_conntrack)

# Some kubectl only start another of the server's version; then the newest of those beside it is taken.
kubectl() {
  local one found
  found=$(readlink -f "$(type -P kubectl)")
  for one in "$found".1.3[1-9]; do [[ -x $one ]] && found=$one; done
  echo "$found"
}

# A root folder in which /bin, /sbin and /lib are under /usr, as on this machine or not.
new_root() {
  mkdir -p "$1"/usr/{bin,lib,lib64}
  ln -s usr/bin "$1/bin"
  ln -s usr/bin "$1/sbin"
  ln -s bin "$1/usr/sbin"
  ln -s usr/lib "$1/lib"
  ln -s usr/lib64 "$1/lib64"
}

# add <root> <file> <name>: the program under that name, and the libraries it is linked to where it looks for them.
add() {
  install -m 755 "$2" "$1/usr/bin/$3"
  add_libraries "$1" "$2"
}
add_libraries() {
  local library
  # Of a static program ldd says so, and fails.
  { ldd "${@:2}" 2>/dev/null || true; } | sed -nE 's#^.*[[:space:]](/[^ ]+) \(0x.*#\1#p' | sort -u |
    while read -r library; do install -D "$library" "$1$library"; done
}

pack() { (cd "$1" && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet); }

add_tools() {
  local tool applet name known
  for tool in "${tools[@]}"; do add "$1" "$(type -P "$tool")" "$tool"; done
  add "$1" "$(kubectl)" kubectl
  known=$(busybox --list)
  for applet in "${applets[@]}"; do
    grep -qx "$applet" <<<"$known" || { echo "this busybox has no $applet" >&2; return 1; }
    ln -s busybox "$1/usr/bin/$applet"
  done
  for name in modprobe depmod insmod lsmod; do ln -s kmod "$1/usr/bin/$name"; done
  ln -s dash "$1/usr/bin/sh"
  for name in "" -restore -save; do
    ln -sf xtables-nft-multi "$1/usr/bin/iptables$name"
    ln -sf xtables-nft-multi "$1/usr/bin/iptables-nft$name"
    ln -sf xtables-nft-multi "$1/usr/bin/ip6tables-nft$name"
    ln -sf xtables-legacy-multi "$1/usr/bin/iptables-legacy$name"
  done
  # The extensions of iptables are loaded by name, so no linker lists them.
  for name in /usr/lib/*/xtables /usr/lib64/xtables /usr/lib/xtables; do
    [[ -d $name ]] || continue
    mkdir -p "$1$name"
    cp "$name"/lib{xt,ipt,ip6t}*.so "$1$name/"
    add_libraries "$1" "$name"/*.so
  done
}

add_modules() {
  local version module
  version=$(ls "$kernel/lib/modules")
  [[ -e $kernel/lib/modules/$version/modules.dep ]] || depmod -b "$kernel" "$version"
  for module in "${modules[@]}"; do
    modprobe --dirname "$kernel" --set-version "$version" --show-depends "$module" 2>/dev/null || true
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r module; do
    install -D -m 644 "$module" "$1/usr/lib/${module#*/kernel/lib/}"
  done
  cp "$kernel/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$1/usr/lib/modules/$version/"
  depmod -b "$1" "$version"
  printf '%s\n' "${modules[@]}" >"$1/modules"
}

# Everything that shapes the first part.
recipe() {
  local tool files=()
  for tool in "${tools[@]}"; do files+=("$(readlink -f "$(type -P "$tool")")"); done
  files+=("$(kubectl)")
  { cat "$here/image.sh" "$here/init" "$kernel/packages"; stat -c '%n %s %Y' "${files[@]}"; } | sha256sum | cut -c1-16
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
base=$cache/base-$(recipe).cpio
if [[ ! -e $base ]]; then
  root=$work/base
  new_root "$root"
  mkdir -p "$root"/{proc,sys,dev,tmp,run,root,etc}
  install -m 755 "$here/init" "$root/init"
  add_tools "$root"
  add_modules "$root"
  rm -f "$cache"/base-*.cpio
  pack "$root" >"$base.new"
  mv "$base.new" "$base"
fi

new_root "$work/top"
add "$work/top" "$program" causeway
strip "$work/top/usr/bin/causeway" 2>/dev/null || true
mkdir "$work/top/guest"
cp "$here"/*.sh "$work/top/guest/"
cp -r "$samples" "$work/top/guest/samples"
{ cat "$base"; pack "$work/top"; } >"$out"
