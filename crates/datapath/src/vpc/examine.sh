# Asks packets about one tunnel, changes nothing. One line of input: the tunnel's link, the peer's address outside, the size
# of an echo that fills a packet there, an address behind the peer that nobody need have, the VPC's router (or -), the address to
# ask for what lies behind the peer (or -), and whether that one is to answer itself.
read -r -t 5 link remote size anybody router beyond whole
# Two questions each: the first may have to wait for ARP.
ask() { section "$1" ping -n -c 2 -i 0.3 -W 1.5 "${@:2}"; }
pass_on() { while IFS= read -r line; do printf '%s\n' "$line"; done; }
# All at once, since silence takes two seconds; each answer is printed in one piece.
if has ping; then
  exec 3< <(ask outside "$remote") 4< <(ask full -M do -s "$size" "$remote") 5< <(ask gateway -t 1 "$anybody")
  exec 6< <([[ $beyond != - ]] && ask router -t 2 "$beyond") 7< <([[ $whole == yes ]] && ask target "$beyond")
  pass_on <&3
  pass_on <&4
  pass_on <&5
  pass_on <&6
  pass_on <&7
fi
# After the questions, so that it says what became of them.
[[ $router == - ]] || section way ip -4 -o route get "$anybody" from "$router" iif eth0
section neighbour ip -4 neigh show to "$anybody" dev "$link"
finish 0
