# Links, then their settings, then NAT, then links up and routes; then what came of it, and beside that flows.
allowed='^(ipv4/(ip_forward|conf/[A-Za-z0-9_.-]+/(proxy_arp|rp_filter|promote_secondaries))|ipv6/conf/[A-Za-z0-9_.-]+/disable_ipv6) [0-9]+$'
write() {
  number=0
  while IFS= read -r line; do
    number=$((number + 1))
    if [[ $line =~ $allowed && $line != */../* ]]; then
      # What a kernel does not speak need not be kept from speaking.
      [[ $line != ipv6/* || -e /proc/sys/net/${line% *} ]] || continue
      printf '%s\n' "${line#* }" >"/proc/sys/net/${line% *}" && continue
    fi
    printf 'Command failed -:%s\n' "$number"
  done
}
feed() {
  [[ $2 ]] && printf '%s' "$2" | section "$1" "${@:3}"
}
# Flows to a range that appear to come from elsewhere than they should are forgotten. The table is listed once: that walks
# through the whole machine's, 15 ms even if few flows are in it. It is brought down to pairs of ends, and a pair is looked
# up among the ranges, by as many sizes as there are: the tunnels' own packets are flows too, one for each, so comparing
# all of them with all ranges would take a thousand tunnels seconds.
number() {
  local IFS=.
  set -- $1
  n=$(($1 << 24 | $2 << 16 | $3 << 8 | $4))
}
flows_to() {
  if [[ $# -eq 1 ]] || { [[ $# -le 8 ]] && ! has awk; }; then
    for range; do bounded conntrack -L -d "$range"; done
  else
    bounded conntrack -L
  fi 2>/dev/null
}
# Where each flow is sent, and where its answers go. By a tool, for the shell reads a pipe byte by byte.
ends() {
  if has awk; then
    awk '{
      to = from = ""
      for (i = 1; i <= NF; i++) if ($i ~ /^dst=/) { from = substr($i, 5); if (to == "") to = from }
      if (to from ~ /^[0-9.]+$/ && !seen[to, from]++) print to, from
    }'
  else
    local -A seen
    while read -r flow; do
      to=${flow#*dst=} from=${flow##*dst=}
      to=${to%% *} from=${from%% *}
      [[ $to$from =~ ^[0-9.]+$ && ! ${seen[$to/$from]} ]] || continue
      seen[$to/$from]=1
      printf '%s %s\n' "$to" "$from"
    done
  fi
}
# Whether a flow to a range, whose answers go to `n`, is one to forget.
goes_astray() {
  local in=0 own=${owns[$1]}
  [[ $n -ge ${lows[$1]} && $n -le ${highs[$1]} ]] && in=1
  if [[ $own == - ]]; then
    [[ $in -eq 1 ]]
  else
    [[ $in -eq 0 && $((n >> ${own#* })) -ne $((${own% *} >> ${own#* })) ]]
  fi
}
forget() {
  local -A ranges lows highs owns gone
  local -a sizes
  while read -r range low high own; do
    size=$((32 - ${range#*/}))
    number "${range%/*}"
    key=$size/$((n >> size))
    sizes[size]=1 ranges[$key]=$range owns[$key]=-
    number "$low" && lows[$key]=$n
    number "$high" && highs[$key]=$n
    if [[ $own != - ]]; then
      number "${own%/*}"
      owns[$key]="$n $((32 - ${own#*/}))"
    fi
  done
  flows_to "${ranges[@]}" | ends | while read -r to from; do
    number "$to" && to=$n
    number "$from"
    for size in "${!sizes[@]}"; do
      key=$size/$((to >> size))
      [[ ${ranges[$key]} && ! ${gone[$key/$from]} ]] || continue
      goes_astray "$key" || continue
      gone[$key/$from]=1
      bounded conntrack -D -d "${ranges[$key]}" -q "$from" </dev/null
    done
  done
}
# A new link that could not be given its name: the link of that name, if there is one, is not ours. What is said of it fails.
spare() {
  local line name
  local -A ours theirs
  while read -r _ name _; do ours[${name%%[:@]*}_]=1; done <<<"$(ip -o link show group 1129797889; ip -o link show group 1129797891)"
  while IFS= read -r line; do
    name=${line##* }
    [[ $line != 'link set dev cw-'*' name '* || ${ours[${name}_]} ]] || theirs[${name}_]=1
  done <<<"$first"
  [[ $sysctls ]] && sysctls=$(while IFS= read -r line; do
    name=${line#ipv[46]/conf/}
    [[ ${theirs[${name%%/*}_]} ]] && line=not-ours
    printf '%s\n' "$line"
  done <<<"${sysctls%$'\n'}")$'\n'
  [[ $last ]] && last=$(while IFS= read -r line; do
    [[ "$line " =~ \ dev\ ([^ ]+)\  && ${theirs[${BASH_REMATCH[1]}_]} ]] && line='link show dev cw-not-ours'
    printf '%s\n' "$line"
  done <<<"${last%$'\n'}")$'\n'
}
# A link that leads to another peer has learnt where the one before was, and would send there for minutes.
unlearn() {
  local line mac link to rest
  local -A moved
  while IFS= read -r line; do
    [[ ! $line =~ ^link\ set\ dev\ ([^ ]+)\ type\ vxlan\ remote\ ([0-9.]+)$ ]] || moved[${BASH_REMATCH[1]}_]=${BASH_REMATCH[2]}
  done <<<"$first"
  [[ ${#moved[@]} -gt 0 ]] && has bridge || return
  bounded bridge fdb show | while read -r mac _ link _ to rest; do
    [[ ${moved[${link}_]} && $to != "${moved[${link}_]}" && $rest != *permanent* ]] || continue
    printf 'fdb del %s dev %s dst %s\n' "$mac" "$link" "$to"
  done | bounded bridge -force -batch - >/dev/null 2>&1
}
change() {
  local said
  said=$(feed ip-first "$first" ip -force -batch -)
  printf '%s\n' "$said"
  if [[ $said == *'Command failed'* ]]; then spare; fi
  unlearn
  feed sysctl "$sysctls" write
  feed restore-legacy "$legacy_rules" bounded "${legacy:-iptables-legacy}-restore" -w 5 --noflush
  feed restore-nft "$nft_rules" bounded "${nft:-iptables-nft}-restore" -w 5 --noflush
  feed ip-last "$last" ip -force -batch -
}
# A gateway without any flow is spared the walk.
has_flows() {
  local count=
  read -r count </proc/sys/net/netfilter/nf_conntrack_count
  [[ $count != 0 ]]
} 2>/dev/null
# One change at a time: a lock on the network namespace itself, which is there for every container of the gateway and
# needs no file. Tools inherit it, so it outlives a script that was killed for as long as its last tool runs. Where
# there is no flock a change of a moment ago may still be on its way.
lock() {
  exec 9</proc/self/ns/net
  has flock || return 0
  for tries in {1..50}; do
    flock -n 9
    # Any other status than 1 is that of a kernel that has no such lock.
    [[ $? -ne 1 ]] && return
    sleep 0.1
  done
  refuse 75 'another change of this gateway is still running; nothing was changed'
}
# A term older than the newest seen here is that of a former leader. The namespace remembers it, on a link that every
# one has; what else that link's alias says stays.
fence() {
  local said seen=0 alias=
  [[ $term != - ]] || return
  said=$(ip link show dev lo 2>&1) || refuse 71 "$said"
  [[ $said =~ $'\n    alias '([^$'\n']*) ]] && alias=${BASH_REMATCH[1]}
  [[ $alias =~ causeway-term:([0-9]{1,18})$ ]] && seen=$((10#${BASH_REMATCH[1]}))
  if [[ $term -lt $seen ]]; then
    printf '@@causeway superseded %s\n' "$seen"
    finish 0
  elif [[ $term -gt $seen ]]; then
    said=$(ip link set dev lo alias "${alias%causeway-term:*}causeway-term:$term" 2>&1) || refuse 71 "$said"
  fi
}
lock
fence
# Nothing is printed before the lock is free: whoever reads may have stopped reading.
changed=$(change)
if [[ $flows ]] && has conntrack && has_flows; then printf '%s' "$flows" | forget >/dev/null 2>&1 & fi
listing
wait
exec 9<&-
printf '%s\n' "$changed" "$listed"
finish 0
