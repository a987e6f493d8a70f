# Links, then their settings, then NAT, then links up and routes, then flows; then what came of it.
allowed='^ipv4/(ip_forward|conf/[A-Za-z0-9_.-]+/(proxy_arp|rp_filter|promote_secondaries)) [0-9]+$'
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
# Flows to a range that appear to come from elsewhere than they should are forgotten. The table is listed once:
# that walks through every flow of the machine. It is brought down to pairs of ends, which are few.
number() {
  local IFS=.
  set -- $1
  n=$(($1 << 24 | $2 << 16 | $3 << 8 | $4))
}
forget() {
  while read -r range low high; do
    size=$((32 - ${range#*/}))
    number "${range%/*}"
    ranges+=("$range") sizes+=("$size") nets+=($((n >> size)))
    number "$low" && lows+=("$n")
    number "$high" && highs+=("$n")
  done
  conntrack -L 2>/dev/null | while read -r flow; do
    to=${flow#*dst=} from=${flow##*dst=}
    printf '%s %s\n' "${to%% *}" "${from%% *}"
  done | sort -u | while read -r to from; do
    [[ $to$from =~ ^[0-9.]+$ ]] || continue
    number "$to" && to=$n
    number "$from"
    for i in "${!ranges[@]}"; do
      ((to >> sizes[i] == nets[i] && (n < lows[i] || n > highs[i]))) && printf '%s %s\n' "${ranges[i]}" "$from"
    done
  done | sort -u | while read -r range from; do
    conntrack -D -d "$range" -q "$from"
  done
}
[[ $flows ]] && has conntrack && printf '%s' "$flows" | forget >/dev/null 2>&1
