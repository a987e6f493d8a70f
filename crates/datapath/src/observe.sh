# Everything the planner compares, in one go. Nothing here changes the gateway.
section links ip -j -d -N link show
section addresses ip -j -N -4 addr show
section routes ip -j -N -4 route show
section neighbours ip -j ntable show name arp_cache

# Listing a legacy table makes the kernel set it up, so one that nobody uses is left asleep.
tables=/proc/net/ip_tables_names
asleep() {
  [[ -e $tables ]] || return 0
  [[ -r $tables ]] && mapfile -t names <"$tables" && [[ " ${names[*]} " != *" nat "* ]]
}
filter=
nat() {
  section "nat-$1" "$2" -w 5 -t nat -S POSTROUTING
  "$2" -w 5 -t nat -S SNAT_FILTER >/dev/null 2>&1 || return
  filter=$1
  begin "filter-$1"
  end 0
}
if [[ $legacy ]]; then
  if asleep; then
    begin nat-legacy
    end 0
  else
    nat legacy "$legacy"
  fi
fi
[[ $nft ]] && nat nft "$nft"
# Neither has the gateway's chain: ask what the gateway's own scripts ask to choose.
[[ $legacy && $nft && ! $filter ]] && section choice "$legacy" -w 5 -t nat -S INPUT 1

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
