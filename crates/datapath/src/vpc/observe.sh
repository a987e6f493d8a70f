# Everything the planner compares, with few processes and few bytes. Nothing here changes the gateway.
#
# A long listing is cut down to what is read: `l` a link, `a` an address, `r` a route, `c` a link's rp_filter and proxy_arp,
# `d` its proxy_delay. With `-o` a backslash stands for a line break. Of all rules those of the chains that ours stand in
# stay, the filter table, and whether the gateway's own chain is there; `s` is a source NAT rule of the form that ours have.
# `!` is a complaint.
slim='
function after(word, i) {
for (i = 3; i < NF; i++) if ($i == word) return $(i + 1)
}
/^[0-9]+: [^ ]+: </ {
gsub(/(BROADCAST|MULTICAST|LOWER_UP|POINTOPOINT|LOOPBACK|NO-CARRIER),?/, "", $3)
out = "l " $2 " " $3 " mtu " (after("mtu") + 0) " group " (after("group") + 0)
n = split($0, part, "\\")
if (split(part[2], word, " ") > 1) out = out "\\" word[1] " " word[2]
for (i = 3; i <= n; i++) {
sub(/^ +/, "", part[i])
if (part[i] ~ /^(vxlan|gre) /) {
sub(/ srcport [0-9]+ [0-9]+/, "", part[i])
sub(/ ttl auto/, "", part[i])
sub(/ (ageing 300|udpcsum|noudpcsum|addrgenmode|numtxqueues) .*/, "", part[i])
out = out "\\" part[i]
} else if (part[i] ~ /^alias /) {
out = out "\\" part[i]
break
}
}
print out
next
}
/^[0-9]+: / { print "a", $2, $4, $5 == "peer" ? $5 " " $6 : ""; next }
$1 == "inet" && $2 != "arp_cache" { print "c", $2, after("rp_filter"), after("proxy_neigh"); next }
$1 == "inet" { if ((dev = after("dev")) != "") print "d", dev, after("proxy_delay"); next }
$1 $2 $3 $4 $6 $8 $12 $15 $16 == "-APOSTROUTING!-s-d-o--commentSNAT--to-source" && NF == 17 && $13 ~ /^"?causeway:[^"]+"?$/ {
gsub(/"/, "", $13)
print "s", $5, $7, $9, substr($13, 10), $17
next
}
/^[*]/ { filter = /filter/ }
filter && /^[:-]/ { sub(/ .[0-9]+:[0-9]+.$/, ""); print; next }
/^(@@|$|[*]|:SNAT_FILTER |-A POSTROUTING |-A FORWARD |# Table )/ { print; next }
/^[:#-]|^COMMIT/ { next }
/^[A-Z]|^iptables/ { print "!", $0; next }
{
sub(/^(1|unicast) /, "")
sub(/ scope [^ ]+/, "")
sub(/ src [^ ]+/, "")
sub(/ +$/, "")
print "r", $0
}'
# A tool that hangs would hang whoever waits for the lock as well, and its script would stay for as long.
bounded() {
  if has timeout; then timeout -s KILL 20 "$@"; else "$@"; fi
}
kernel() {
  printf '%s\n' 'link show' 'addr show' 'route show' 'netconf show' 'ntable show name arp_cache' |
    ip -4 -d -N -o -batch -
}
# A legacy table that nobody uses is not listed, which leaves it asleep; nor is the tool asked when there is none.
legacy_save() {
  local names='not readable'
  { read -r -d '' names </proc/net/ip_tables_names; } 2>/dev/null
  if [[ $names ]]; then bounded "$legacy-save"; fi
}
tools() {
  section kernel kernel
  [[ $legacy ]] && section rules-legacy legacy_save
  [[ $nft ]] && section rules-nft bounded "$nft-save"
}
# What changes by itself must not stay: counters, dates, the use of an ARP table.
steady() {
  local IFS=$'\n' line delay table=
  text=
  set -f
  for line in $1; do
    case $line in
      'inet arp_cache '*' dev '*)
        delay=${line##* proxy_delay }
        line=${line#* dev }
        line="d ${line%% *} ${delay%% *}"
        ;;
      '*'*) table=$line ;;
      :SNAT_FILTER\ * | '-A POSTROUTING '* | '-A FORWARD '* | '# Table '*) ;;
      [:-]*)
        [[ $table == *filter ]] || continue
        line=${line% [[]*]}
        ;;
      'inet arp_cache '* | '#'* | COMMIT) continue ;;
      [A-Z]* | iptables*) line="! $line" ;;
    esac
    text+=$line$'\n'
  done
  set +f
}
# Sets `text`. For a short listing the tool that cuts it down would cost more than it saves.
list() {
  set -- /proc/sys/net/ipv4/conf/*
  if [[ $# -gt 40 ]] && has awk; then
    text=$(tools | awk "$slim")
  else
    text=$(tools)
    if [[ ${#text} -gt 20000 ]] && has awk; then
      text=$(printf '%s' "$text" | awk "$slim")
    else
      steady "$text"
    fi
  fi
}
# Sets `listed`.
listing() {
  local text value status
  # What changes while it is listed may be listed in part: then once more.
  for tries in 1 2 3; do
    list
    [[ $text == *'! Dump was interrupted'* ]] || break
  done
  # Neither has the gateway's chain: ask what the gateway's own scripts ask to choose.
  if [[ $legacy && $nft && $text != *:SNAT_FILTER\ * ]]; then
    text+=$'\n'$(section choice "$legacy" -w 5 -t nat -S INPUT 1)
  fi
  read -r value </proc/sys/net/ipv4/ip_forward
  status=$?
  printf -v listed '%s\n@@causeway begin forward\n%s\n@@causeway end %s' "$text" "$value" "$status"
}
