# Everything the planner compares, with few processes and few bytes. Nothing here changes the gateway.
#
# A long listing is cut down to what is read: `l` a link, `a` an address, `r` a route, `c` a link's rp_filter and proxy_arp,
# `d` its proxy_delay. With `-o` a backslash stands for a line break. Of all rules those of the chains that ours stand in
# stay, and whether the gateway's own chain is there; `s` is a source NAT rule of the form that ours have. `!` is a complaint.
slim='
/^(@@|$)/b
s/^-A POSTROUTING -d ([^ ]+) -m comment --comment "?causeway:([^" ]+)"? -j SNAT --to-source ([^ ]+) *$/s \1 \2 \3/;t
/^(\*|:SNAT_FILTER |-A POSTROUTING |-A FORWARD |# Table )/b
/^([:#-]|COMMIT)/d
s/^([A-Z]|iptables)/! &/;t
/^[0-9]+: [^ ]+: </{
s/^[0-9]+: ([^ ]+): /l \1 /
s/(BROADCAST|MULTICAST|LOWER_UP|POINTOPOINT|LOOPBACK|NO-CARRIER),?//g
s/ mtu [^\\]* (group [0-9]+)[^\\]*\\ *link[^\\]*/ \1/
s/ srcport [0-9]+ [0-9]+//
s/( dstport [0-9]+) [^\\]*/\1/
/\\ *(vxlan|gre) /!s/\\[^\\]* addrgenmode [^\\]*//
s/ addrgenmode [^\\]*//
s/\\ +/\\/g
b
}
/^[0-9]+: /{
s/^[0-9]+: ([^ ]+) +inet /a \1 /
s/ scope .*//
b
}
s/^inet ([^ ]+) .*rp_filter ([^ ]+) .*proxy_neigh ([^ ]+).*/c \1 \2 \3/;t
s/^inet arp_cache .* dev ([^ ]+) .* proxy_delay ([0-9]+).*/d \1 \2/;t
/^inet /d
s/^(1|unicast) //
s/ scope [^ ]+//
s/ src [^ ]+//
s/^/r /'
kernel() {
  printf '%s\n' 'link show' 'addr show' 'route show' 'netconf show' 'ntable show name arp_cache' |
    ip -4 -d -N -o -batch -
}
tools() {
  section kernel kernel
  # A legacy table that nobody uses is not listed, which leaves it asleep.
  [[ $legacy ]] && section rules-legacy "$legacy-save"
  [[ $nft ]] && section rules-nft "$nft-save"
}
# What changes by itself must not stay: counters, dates, the use of an ARP table.
steady() {
  local IFS=$'\n' line delay
  text=
  set -f
  for line in $1; do
    case $line in
      'inet arp_cache '*' dev '*)
        delay=${line##* proxy_delay }
        line=${line#* dev }
        line="d ${line%% *} ${delay%% *}"
        ;;
      :SNAT_FILTER\ * | '-A POSTROUTING '* | '-A FORWARD '* | '# Table '*) ;;
      'inet arp_cache '* | [:#-]* | COMMIT) continue ;;
      [A-Z]* | iptables*) line="! $line" ;;
    esac
    text+=$line$'\n'
  done
  set +f
}
# Sets `listed`.
listing() {
  local text value status
  text=$(tools)
  # For a short one the tool would cost more than it saves.
  if [[ ${#text} -gt 20000 ]] && has sed; then
    text=$(printf '%s' "$text" | sed -E "$slim")
  else
    steady "$text"
  fi
  # Neither has the gateway's chain: ask what the gateway's own scripts ask to choose.
  if [[ $legacy && $nft && $text != *:SNAT_FILTER\ * ]]; then
    text+=$'\n'$(section choice "$legacy" -w 5 -t nat -S INPUT 1)
  fi
  read -r value </proc/sys/net/ipv4/ip_forward
  status=$?
  printf -v listed '%s\n@@causeway begin forward\n%s\n@@causeway end %s' "$text" "$value" "$status"
}
