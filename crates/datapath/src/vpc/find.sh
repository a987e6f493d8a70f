# Which of the tools are there, and under which name.
has ip || missing ip
legacy=
nft=
has iptables-legacy && legacy=iptables-legacy
has iptables-nft && nft=iptables-nft
# A plain `iptables` is one of the two; before 1.8 it does not say which, and there was only one.
if [[ (! $legacy || ! $nft) ]] && has iptables; then
  case $(iptables -V 2>/dev/null) in
    *nf_tables*) nft=${nft:-iptables} ;;
    *) legacy=${legacy:-iptables} ;;
  esac
fi
[[ $legacy$nft ]] || missing iptables
