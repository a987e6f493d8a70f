# What there is of ours and of flannel's, by chains and not by whole tables: kube-proxy may have ten thousand chains beside
# them, which take half a second to list. Nothing here changes anything.
bounded() {
  if has timeout; then timeout -s KILL 20 "$@"; else "$@"; fi
}
for tool in nft iptables-nft ip6tables-nft; do has "$tool" || missing "$tool"; done
# chains <command> <table> <chain> <flannel's chain>
chains() {
  section "$1-$3" bounded "$1" -w 5 -t "$2" -S "$3"
  section "$1-$4" bounded "$1" -w 5 -t "$2" -S "$4"
}
filter() { chains "$1" filter FORWARD FLANNEL-FWD; }
nat() { chains "$1" nat POSTROUTING FLANNEL-POSTRTG; }
# A legacy table that nobody uses is not listed, for that would wake it up; nor is the tool needed when there is none.
legacy() {
  [[ -e $2 ]] || return
  local table names=$'filter\nnat'
  { read -r -d '' names <"$2"; } 2>/dev/null
  for table in $names; do
    [[ $table == filter || $table == nat ]] || continue
    has "$1" || missing "$1"
    "$table" "$1"
  done
}
section table-ip bounded nft -y list table ip causeway
section table-ip6 bounded nft -y list table ip6 causeway
section flannel-ip bounded nft list table ip flannel-ipv4
section flannel-ip6 bounded nft list table ip6 flannel-ipv6
for tool in iptables-nft ip6tables-nft; do
  filter "$tool"
  nat "$tool"
done
legacy iptables-legacy /proc/net/ip_tables_names
legacy ip6tables-legacy /proc/net/ip6_tables_names
finish 0
