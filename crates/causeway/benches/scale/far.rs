//! The other ends of tunnels: for each gateway one network namespace, in which everything is that its peers have, and one
//! behind that.
//!
//! ```text
//!  gateway: t0 … t999, net1 172.50.16.1 ── net1-far 172.50.0.1, the peers' addresses on lo; f0 … f999, hosts on lo
//!                                              into ── vpc: has all other addresses of the peers' ranges
//! ```
//!
//! A far end answers as a real peer's gateway does: ARP for its inner address and, by proxy and at once, for its whole range;
//! echoes to the former and to a host of the latter. The rest of its range it passes on to what lies behind, which answers.
//! Peers are behind a router, so that the gateway has one neighbour outside; what the far ends know of the gateway is fixed.
//! Neighbours that are learnt share one table with all others of the machine, and its size is not for a benchmark to change.

use std::fmt::Write;
use std::ops::Range;

use anyhow::Context;

use crate::gateways::Gateways;
use crate::namespace::Namespace;
use crate::shape::{self, FAR, OURS, OURS_TOO, PEERS, PORT, ROUTER, Shape};

/// Tables are counted from here, one for each far end: its answers leave by its own link.
const FIRST_TABLE: usize = 1_000;
/// Between the far ends and what lies behind them.
const FRONT: &str = "10.64.0.1";
const BEHIND: &str = "10.64.0.2";

/// Puts a new namespace at the other end of a gateway's way out, and another behind that.
pub(crate) fn behind(gateway: &Namespace, far: Namespace, vpc: Namespace) -> anyhow::Result<[Namespace; 2]> {
    gateway.sh(&format!("ip link set dev net1-far netns {}", far.pid()))?;
    let ways: String = PEERS.iter().map(|range| format!("route add {range} via {BEHIND}\n")).collect();
    far.sh(&format!(
        "set -e
        cd /proc/sys/net/ipv4
        echo 0 >conf/all/rp_filter
        echo 0 >conf/default/rp_filter
        echo 1 >ip_forward
        echo 1 >conf/default/proxy_arp
        ip -batch - <<END
link set dev lo up
address add {ROUTER}/16 dev net1-far
link set dev net1-far up
link add name into type veth peer name back netns {}
address add {FRONT}/30 dev into
link set dev into up
{ways}END
",
        vpc.pid()
    ))?;
    let all: String = PEERS.iter().map(|range| format!("route add local {range} dev lo\n")).collect();
    vpc.sh(&format!(
        "ip -batch - <<END
link set dev lo up
address add {BEHIND}/30 dev back
link set dev back up
route add default via {FRONT}
{all}END
"
    ))?;
    Ok([far, vpc])
}

impl Gateways {
    /// Makes the other ends of tunnels.
    pub(crate) fn raise(&self, shape: Shape, tunnels: Range<usize>) -> anyhow::Result<()> {
        for (far, number) in self.far().iter().zip(1..) {
            let here = tunnels.clone().filter(|tunnel| shape.ends(*tunnel).0 == number);
            let lines: String = here.map(|tunnel| far_end(shape, tunnel)).collect();
            far.sh(&format!("ip -batch - <<END\n{lines}END\n"))?;
        }
        Ok(())
    }

    /// Asks the other end of a tunnel that is up by both of its addresses, and what lies behind it.
    pub(crate) fn ask(&self, shape: Shape, tunnel: usize) -> anyhow::Result<()> {
        let (gateway, peer) = shape.ends(tunnel);
        let Some(gateway) = self.get(gateway) else { return Ok(()) };
        for address in [shape::inner(peer, FAR), shape::peer_host(peer, 1), shape::peer_host(peer, 2)] {
            let link = shape::name(tunnel);
            let asked = gateway.sh(&format!("ping -n -c 1 -W 5 -I {link} {address}"));
            asked.with_context(|| format!("{address}, the other end of {link}, does not answer"))?;
        }
        Ok(())
    }

    /// Has the far end of one tunnel alone answer from its range, as it is where every peer is a machine of its own: else each
    /// packet pays for the tables of all.
    pub(crate) fn answer_alone(&self, shape: Shape, tunnel: usize) -> anyhow::Result<()> {
        let (gateway, _) = shape.ends(tunnel);
        let rule = rule(shape, tunnel);
        let script =
            format!("ip rule flush\nip -batch - <<END\nrule add lookup main pref 32766\n{rule}END\n");
        self.far().get(gateway - 1).map_or(Ok(()), |far| far.sh(&script).map(drop))
    }
}

fn far_end(shape: Shape, tunnel: usize) -> String {
    let (gateway, peer) = shape.ends(tunnel);
    let (link, vni, table) = (shape::far_name(tunnel), shape::vni(tunnel), FIRST_TABLE + tunnel);
    let (own, host) = (shape::peer_external(peer), shape::peer_host(peer, 1));
    let (remote, mac) = (shape::external(gateway), shape::mac(gateway));
    let mut lines = format!(
        "address replace {own}/32 dev lo\naddress replace {host}/32 dev lo\n\
         link add {link} type vxlan local {own} remote {remote} id {vni} dstport {PORT} dev net1-far\n\
         ntable change name arp_cache dev {link} proxy_delay 0\n\
         address add {} dev {link}\nlink set dev {link} up\n",
        shape::interface(peer, FAR)
    );
    for end in [OURS, OURS_TOO] {
        let ours = shape::inner(peer, end);
        // Nothing can fail in writing to a text.
        let _ = writeln!(lines, "neigh add {ours} lladdr {mac} nud permanent dev {link}");
    }
    let ours = shape::inner(peer, OURS);
    lines + &format!("route add default via {ours} dev {link} table {table}\n{}", rule(shape, tunnel))
}

fn rule(shape: Shape, tunnel: usize) -> String {
    format!("rule add from {} lookup {}\n", shape::range(shape.ends(tunnel).1), FIRST_TABLE + tunnel)
}
