# What a stranger would ask a gateway for. Nothing here changes it.
export LC_ALL=C
show() {
  printf '\n$ %s\n' "$*"
  if command -v timeout >/dev/null; then timeout -s KILL 10 "$@" 2>&1; else "$@" 2>&1; fi
}
show uname -r
show ip -V
show iptables -V
show ip -d -s addr show
show ip -N route show table all
show ip rule show
show ip neigh show
show iptables-legacy-save -c
show iptables-nft-save -c
show conntrack -C
show ss -lun
for name in ipv4/ip_forward ipv4/conf/all/rp_filter ipv4/conf/net1/rp_filter ipv4/conf/all/proxy_arp netfilter/nf_conntrack_max; do
  printf '%s = ' "$name"
  read -r value <"/proc/sys/net/$name" && printf '%s' "$value"
  printf '\n'
done 2>/dev/null
printf '@@causeway done 0\n'
read -r -t 5 _
