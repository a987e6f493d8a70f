#!/usr/bin/env bash
# Provides OpenStack's Neutron and Keystone, and prints the folder that they are in: venv/ with both, and template/
# with databases to start from. hack/neutron/serve.py runs either, without root, on loopback alone.
#   usage: hack/neutron.sh [--have]
# With --have nothing is made, and what is not there is a failure.
# Every package is pinned by its hashes in hack/neutron/requirements.lock. What was made is kept under CAUSEWAY_CACHE
# (default: ~/.cache/causeway) by a hash of its recipe, and so is shared by all working copies.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")"
lock=neutron/requirements.lock
recipe=(neutron.sh "$lock" neutron/template.py neutron/configuration.py)
cache=${CAUSEWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/causeway}/neutron
say() { echo "  $*" >&2; }
die() { echo "hack/neutron.sh: $*" >&2; exit 1; }

# Prints the path of a Python that both run on: the lock was tried with 3.11, 3.12 and 3.13.
find_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11; do
    "$name" -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit(1); print(sys.executable)' 2>/dev/null && return
  done
  return 1
}

# Shows what a command said only if it fails.
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; die "$1 failed"; }; }

make_venv() {
  local pip=("$folder/venv/bin/pip" --disable-pip-version-check install --require-hashes --no-deps)
  quietly "$python" -m venv --clear "$folder/venv"
  # One package is built here, and not with whatever setuptools is the newest today.
  sed -n '/^setuptools==/,/[^\\]$/p' "$lock" >"$folder/first"
  quietly "${pip[@]}" -r "$folder/first"
  quietly "${pip[@]}" --no-build-isolation -r "$lock"
}

python=$(find_python) || { [[ ${1:-} == --have ]] || die "Neutron needs a Python from 3.11 to 3.13"; exit 1; }
folder=$cache/$(cat "${recipe[@]}" <("$python" -VV) | sha256sum | cut -c-16)
if [[ ! -e $folder/ready ]]; then
  [[ ${1:-} == --have ]] && exit 1
  mkdir -p "$folder"
  exec {held}>"$cache/lock"
  flock "$held" # another working copy may be making the same
fi
if [[ ! -e $folder/ready ]]; then
  begun=$SECONDS
  make_venv
  say "Neutron and Keystone: installed in $((SECONDS - begun)) s"
  rm -rf "$folder/template"
  quietly "$folder/venv/bin/python" neutron/template.py "$folder/template"
  rm "$folder/log" "$folder/first"
  touch "$folder/ready"
fi
echo "$folder"
