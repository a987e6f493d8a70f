#!/usr/bin/env bash
# Starts and stops real control planes on loopback, each with an etcd and a CA of its own, RBAC on.
#   usage: hack/control-plane.sh up DIR NAME…    starts what is not running; a NAME that begins with
#                                                "broker" gets no kube-controller-manager; only one that
#                                                ends with 1 has streaming lists: both ways are used
#          hack/control-plane.sh down DIR        stops all that `up DIR` started and removes DIR
# DIR gets for each NAME a NAME.kubeconfig (system:masters) and a folder NAME with, for each component
# (etcd, kube-apiserver, kube-controller-manager), COMPONENT.run (starts it, ends with it), COMPONENT.pid and
# COMPONENT.log; and audit.log: what the accounts of deploy/*.yaml asked of that API server, a line each.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
say() { echo "  $*" >&2; }
die() { echo "hack/control-plane.sh: $*" >&2; exit 1; }

# Eight ports in a row that nobody listens on, below those that the kernel gives away.
free_ports() {
  local base port
  for ((base = 16000; base < 20000; base += 8)); do
    [[ -e $ports/$base ]] && continue
    for ((port = base; port < base + 8; port++)); do
      ! (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue 2
    done
    # Two that start at once do not get the same.
    mkdir "$ports/$base" 2>/dev/null && { echo "$base"; return; }
  done
  die "no free ports between 16000 and 20000"
}

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
authority() { key "$1" && openssl req -x509 -new -key "$1.key" -days 3650 -subj "/CN=$2" -out "$1.crt"; }
# certificate <name> <authority> <subject> <extensions>
certificate() {
  key "$1"
  openssl req -new -key "$1.key" -subj "$3" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 3650 \
    -extfile <(echo "$4") -out "$1.crt"
}
certificates() {
  local names=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc
  authority ca kubernetes-ca
  authority front-proxy-ca front-proxy-ca
  openssl genrsa -out sa.key 2048
  certificate apiserver ca /CN=kube-apiserver "subjectAltName=$names"$'\nextendedKeyUsage=serverAuth'
  certificate front-proxy front-proxy-ca /CN=front-proxy-client extendedKeyUsage=clientAuth
  certificate manager ca /CN=system:kube-controller-manager extendedKeyUsage=clientAuth
}

# kubeconfig <file> <credentials>: with everything inside, so that the file can be copied.
kubeconfig() {
  cat >"$1" <<END
apiVersion: v1
kind: Config
clusters: [{name: $name, cluster: {server: "https://127.0.0.1:$base", certificate-authority-data: $(data ca.crt)}}]
users: [{name: $name, user: {$2}}]
contexts: [{name: $name, context: {cluster: $name, user: $name}}]
current-context: $name
END
  chmod 600 "$1"
}

data() { base64 -w0 "certs/$1"; }

# Who asked for what, as far as it is one of ours: the rights of deploy/*.yaml are compared with it.
audit_policy() {
  cat <<'END'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:multi-vpc-system", "system:serviceaccounts:submariner-k8s-broker",
                 "system:serviceaccounts:kube-flannel"]
  - level: None
END
}

# component <name> <flag>…: writes the file that starts it. It goes on in the same process, so that its id
# is the one that the file wrote.
component() {
  local program=$1 folder=$PWD
  shift
  {
    echo '#!/usr/bin/env bash'
    echo "echo \$\$ >$(printf %q "$folder/$program.pid")"
    printf 'exec %q' "$binaries/$program"
    printf ' %q' "$@"
    printf ' >>%q 2>&1 </dev/null\n' "$folder/$program.log"
  } >"$program.run"
  chmod +x "$program.run"
}

write_components() {
  local gates=WatchList=false etcd=http://127.0.0.1:$((base + 1)) peer=http://127.0.0.1:$((base + 2)) c=$PWD/certs
  echo "$etcd" >etcd.url
  [[ $name == *1 ]] && gates=WatchList=true
  component etcd --data-dir "$PWD/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls "$peer" \
    --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
  component kube-apiserver --etcd-servers "$etcd" --bind-address 127.0.0.1 --secure-port "$base" \
    --advertise-address 192.0.2.1 --endpoint-reconciler-type none --service-cluster-ip-range 10.96.0.0/16 \
    --feature-gates "$gates" --authorization-mode Node,RBAC --allow-privileged=true --client-ca-file "$c/ca.crt" --cert-dir "$c" \
    --token-auth-file "$c/tokens.csv" \
    --tls-cert-file "$c/apiserver.crt" --tls-private-key-file "$c/apiserver.key" \
    --service-account-issuer https://kubernetes.default.svc \
    --service-account-signing-key-file "$c/sa.key" --service-account-key-file "$c/sa.key" \
    --requestheader-client-ca-file "$c/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$c/front-proxy.crt" --proxy-client-key-file "$c/front-proxy.key" \
    --audit-policy-file "$PWD/audit-policy.yaml" --audit-log-path "$PWD/audit.log"
  [[ $name == broker* ]] ||
    component kube-controller-manager --kubeconfig "$PWD/manager.kubeconfig" --leader-elect=false \
      --authentication-kubeconfig "$PWD/manager.kubeconfig" --authorization-kubeconfig "$PWD/manager.kubeconfig" \
      --bind-address 127.0.0.1 --secure-port $((base + 3)) --cert-dir "$c" --root-ca-file "$c/ca.crt" \
      --service-account-private-key-file "$c/sa.key" --use-service-account-credentials=true
}

# A component runs if its process is there and is of that program: numbers are given away again.
runs() {
  local pid
  pid=$(cat "$1.pid" 2>/dev/null) && [[ $(readlink "/proc/$pid/exe") == */"${1##*/}" ]]
}

# launch <component>: starts it unless it runs.
launch() {
  if [[ -e $1.run ]] && ! runs "$1"; then setsid "./$1.run" >/dev/null 2>&1 </dev/null & fi
}

# An API server waits for its etcd; the controller manager does not wait, so it comes later.
start() {
  local dir=$1 name=$2 base token
  mkdir -p "$dir/$name/certs"
  cd "$dir/$name"
  if [[ ! -e base ]]; then
    base=$(free_ports)
    (cd certs && certificates) >/dev/null 2>certs.log || { cat certs.log >&2; die "no certificates"; }
    token=$(openssl rand -hex 16)
    echo "$token,admin,admin,system:masters" >certs/tokens.csv
    kubeconfig manager.kubeconfig "client-certificate-data: $(data manager.crt), client-key-data: $(data manager.key)"
    kubeconfig "$dir/$name.kubeconfig" "token: $token"
    audit_policy >audit-policy.yaml
    write_components
    echo "$base" >base
  fi
  launch etcd
  launch kube-apiserver
}

# One after another is as good: they come up side by side.
await() {
  local dir=$1 name=$2 deadline=$((SECONDS + 120)) base
  base=$(<"$dir/$name/base")
  cd "$dir/$name/certs"
  until curl -sf --cacert ca.crt "https://127.0.0.1:$base/readyz" >/dev/null; do
    ((SECONDS < deadline)) || { tail -n 5 ../*.log >&2; die "the API server of $name is not ready"; }
    sleep 0.1
  done
  [[ ! -e ../kube-controller-manager.run ]] && return
  (cd .. && launch kube-controller-manager)
  until curl -sfk "https://127.0.0.1:$((base + 3))/healthz" >/dev/null; do
    ((SECONDS < deadline)) || { tail -n 5 ../*.log >&2; die "the controller manager of $name is not healthy"; }
    sleep 0.1
  done
}

up() {
  local dir name
  mkdir -p "$1" "$ports"
  dir=$(cd "$1" && pwd)
  chmod 700 "$dir"
  shift
  binaries=$("$here/control-plane-build.sh")
  ln -sfn "$binaries" "$dir/bin"
  for name in "$@"; do (start "$dir" "$name"); done
  for name in "$@"; do (await "$dir" "$name"); done
}

down() {
  local dir=$1 file program pids=()
  for file in "$dir"/*/*.pid; do
    program=${file%.pid}
    [[ -e $file ]] && runs "$program" || continue
    # One that was stopped for a test does not hear a polite word.
    kill -KILL "$(<"$file")" && pids+=("$(<"$file")")
  done
  for file in "$dir"/*/base; do [[ -e $file ]] && rm -rf "${ports:?}/$(<"$file")"; done
  for pid in "${pids[@]}"; do
    for ((try = 0; try < 100; try++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
  done
  rm -rf "$dir"
}

ports=${TMPDIR:-/tmp}/causeway-ports-$UID
case ${1:-} in
  up) (($# > 2)) || die "usage: up DIR NAME…"; shift; up "$@" ;;
  down) (($# == 2)) || die "usage: down DIR"; down "$2" ;;
  *) die "usage: up DIR NAME… | down DIR" ;;
esac
