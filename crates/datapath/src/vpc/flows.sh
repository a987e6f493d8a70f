# Lists what connection tracking knows of flows to some ranges, or takes such flows over from another gateway.
#
# The first line of the input is `list` and ranges, or `take`; flows follow, one in a line, as arguments of `conntrack`. The
# tool loads them all at once and gives up at the first that it has already: then each has its own. It cannot tell the
# window of a TCP connection, so the kernel must not insist on it.
has conntrack || missing conntrack
bounded() {
  if has timeout; then timeout -s KILL 20 "$@"; else "$@"; fi
}
read -r verb ranges <<<"$input"
case $verb in
  list)
    begin flows
    set -- $ranges
    if [[ $# -le 8 ]]; then
      for range; do bounded conntrack -L -d "$range" -o save 2>/dev/null; done
    else
      bounded conntrack -L -o save 2>/dev/null
    fi
    end "$?"
    ;;
  take)
    flows=${input#*$'\n'}
    begin taken
    { echo 1 >/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal; } 2>/dev/null
    if ! said=$(printf '%s' "$flows" | bounded conntrack -R - 2>&1); then
      [[ $said != *[Ii]'nvalid option'* && $said != *'unrecognized option'* ]] || { printf '%s\n' "$said"; end 1; finish 0; }
      while read -r flow; do
        [[ ! $flow ]] || bounded conntrack $flow >/dev/null 2>&1 </dev/null
      done <<<"$flows"
    fi
    end 0
    ;;
esac
finish 0
