#!/usr/bin/env bash
# Fetches the kernel that the guest test boots, and unpacks it into .cache/guest/kernel; installs nothing.
# Debian's cloud kernel has the tunnels that many machines' own kernels lack; Ubuntu's virtual one too.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C # what apt says is read below
target=.cache/guest/kernel
[[ -e $target/vmlinuz ]] && exit

candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '(none)' || true; }
# What a metapackage stands for: the newest kernel of its kind.
newest() { apt-cache depends --important "$1" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1; }

image=
for meta in linux-image-cloud-amd64 linux-image-virtual; do
  [[ $(candidate "$meta") ]] && image=$(newest "$meta") && break
done
[[ $image ]] || { echo "no guest kernel: apt knows neither linux-image-cloud-amd64 nor linux-image-virtual" >&2; exit 1; }
packages=("$image")
# Ubuntu keeps the modules apart.
modules=${image/linux-image-/linux-modules-}
[[ $(candidate "$modules") ]] && packages+=("$modules")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# apt's own user must be able to write there, or it complains.
chmod 755 "$work"
(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}")
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
[[ -d $work/root/lib/modules ]] || mv "$work/root/usr/lib" "$work/root/lib"

rm -rf "$target"
mkdir -p "$target.new/lib"
mv "$work"/root/lib/modules "$target.new/lib/"
cp "$work"/root/boot/vmlinuz-* "$target.new/vmlinuz"
echo "${packages[*]}" >"$target.new/packages"
mv "$target.new" "$target"
