#!/usr/bin/env bash
# Provides clients that are not ours, in .cache/sdk, where they are not there yet.
#   usage: hack/sdk.sh python|java [--have]
# python: an environment with gRPC and Envoy's messages from PyPI, and with stubs generated from the .proto files
#         that the released Java SDK carries. Prints its interpreter.
# java:   the released Java SDK and what it needs, from Maven Central. Prints the folder of the jars.
# With --have nothing is fetched, and what is not there is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/sdk
sdk=0.1.0
packages=(grpcio==1.85.1 grpcio-tools==1.85.1 xds-protos==1.85.0)
maven=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

have() { [[ -e $1 && $(cat "$1/made-of" 2>/dev/null) == "$2" ]]; }

# Shows what a command said only if it fails.
quietly() {
  "$@" >"$cache/log" 2>&1 || { cat "$cache/log" >&2; echo "hack/sdk.sh: $1 failed" >&2; return 1; }
}

# The SDK's own .proto files, into a folder.
provide_protos() {
  quietly mvn --batch-mode --quiet "$maven:copy" -Dartifact="io.opensergo:opensergo-java-sdk:$sdk" \
    -DoutputDirectory="$cache"
  python3 -m zipfile -e "$cache/opensergo-java-sdk-$sdk.jar" "$1"
}

make_python() {
  local folder=$1 site
  rm -rf "$folder"
  python3 -m venv "$folder"
  quietly "$folder/bin/pip" --disable-pip-version-check install "${packages[@]}"
  provide_protos "$folder/protos"
  site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  (
    cd "$folder/protos"
    "$folder/bin/python" -m grpc_tools.protoc -I. --python_out="$site" --grpc_python_out="$site" \
      {common/v1/common,fault_tolerance/v1/fault_tolerance,router/v1/route_fallback,transport/v1/protocol}.proto
  )
}

make_java() {
  rm -rf "$1"
  quietly mvn --batch-mode --quiet --file hack/sdk/pom.xml "$maven:copy-dependencies" -Dsdk.version="$sdk" \
    -DoutputDirectory="$1"
}

case ${1:-} in
  python) folder=$cache/python made_of="$(python3 --version), ${packages[*]}, SDK $sdk" path=$folder/bin/python ;;
  java) folder=$cache/java made_of="SDK $sdk" path=$folder ;;
  *) echo "usage: hack/sdk.sh python|java [--have]" >&2; exit 64 ;;
esac
if ! have "$folder" "$made_of"; then
  [[ ${2:-} == --have ]] && exit 1
  mkdir -p "$cache"
  "make_$1" "$folder"
  echo "$made_of" >"$folder/made-of"
fi
echo "$path"
