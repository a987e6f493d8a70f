# Everything the planner compares, in one go and with few processes. Nothing here changes the gateway.
kernel() {
  printf '%s\n' 'addr show' 'route show' 'ntable show name arp_cache' | ip -j -d -N -batch -
}
# A tool that hangs would hang whoever waits for the lock as well.
bounded() {
  if has timeout; then timeout -s KILL 20 "$@"; else "$@"; fi
}
# Of all rules those of the chains that ours stand in, and whether the gateway's own chain is there. A legacy table
# that nobody uses is not listed, which leaves it asleep.
rules() {
  local IFS=$'\n' text status line
  begin "rules-$1"
  text=$(bounded "$2-save" 2>&1)
  status=$?
  set -f
  for line in $text; do
    case $line in
      :SNAT_FILTER\ *) own=1 ;;&
      \** | :SNAT_FILTER\ * | '-A POSTROUTING '* | '-A FORWARD '* | '# Table '*) printf '%s\n' "$line" ;;
      *) [[ $status -eq 0 ]] || printf '%s\n' "$line" ;;
    esac
  done
  set +f
  end "$status"
}
listing() {
  section kernel kernel
  own=
  [[ $legacy ]] && rules legacy "$legacy"
  [[ $nft ]] && rules nft "$nft"
  # Neither has the gateway's chain: ask what the gateway's own scripts ask to choose.
  [[ $legacy && $nft && ! $own ]] && section choice bounded "$legacy" -w 5 -t nat -S INPUT 1
  begin forward
  read -r value </proc/sys/net/ipv4/ip_forward && printf '%s' "$value"
  end "$?"
  # Builtins only: a process per file would take longer than all the rest.
  shopt -s dotglob
  begin sysctls
  for dir in /proc/sys/net/ipv4/conf/*; do
    { read -r proxy <"$dir/proxy_arp" && read -r strict <"$dir/rp_filter" &&
      read -r promote <"$dir/promote_secondaries"; } 2>/dev/null &&
      printf '%s %s %s %s\n' "${dir##*/}" "$proxy" "$strict" "$promote"
  done
  end 0
}
