# Sections: a begin line, the output of one tool, an end line with the tool's exit status.
export LC_ALL=C
begin() { printf '@@causeway begin %s\n' "$1"; }
end() { printf '\n@@causeway end %s\n' "$1"; }
section() {
  begin "$1"
  shift
  "$@"
  end "$?"
}
has() { command -v "$1" >/dev/null; }
missing() {
  printf '@@causeway missing %s\n' "$1"
  exit 69
}
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
