# Links, then their settings, then NAT, then links up and routes, then flows; then what came of it.
allowed='^ipv4/(ip_forward|conf/[A-Za-z0-9_.-]+/(proxy_arp|rp_filter)) [0-9]+$'
write() {
  number=0
  while IFS= read -r line; do
    number=$((number + 1))
    if [[ $line =~ $allowed && $line != */../* ]]; then
      printf '%s\n' "${line#* }" >"/proc/sys/net/${line% *}" && continue
    fi
    printf 'Command failed -:%s\n' "$number"
  done
}
feed() {
  [[ $2 ]] && printf '%s' "$2" | section "$1" "${@:3}" 2>&1
}
feed ip-first "$first" ip -force -batch -
feed sysctl "$sysctls" write
feed restore-legacy "$legacy_rules" "${legacy:-iptables-legacy}-restore" -w 5 --noflush
feed restore-nft "$nft_rules" "${nft:-iptables-nft}-restore" -w 5 --noflush
feed ip-last "$last" ip -force -batch -
# Every other source that flows to the range are translated to is forgotten with its flows.
number() {
  local IFS=.
  local -a part=($1)
  printf '%s' $((part[0] << 24 | part[1] << 16 | part[2] << 8 | part[3]))
}
forget() {
  while read -r range low high; do
    # A busy client has thousands of flows, and few sources.
    conntrack -L -d "$range" 2>/dev/null | while read -r flow; do
      flow=${flow##*dst=}
      printf '%s\n' "${flow%% *}"
    done | sort -u | while read -r source; do
      at=$(number "$source")
      ((at >= $(number "$low") && at <= $(number "$high"))) || conntrack -D -d "$range" -q "$source"
    done
  done
}
[[ $flows ]] && has conntrack && printf '%s' "$flows" | forget >/dev/null 2>&1
