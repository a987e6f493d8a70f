//! What a packet pays for its gateway's other tunnels: the same traffic through a gateway with one tunnel and
//! through one with a thousand, by turns.
//!
//! ```text
//!  near ── eth0 [gateway: route, SNAT, segment size] t0 … t999 ── net1 ── far: the other ends
//! ```
//!
//! The tunnel that is used is the one whose rule is last, so a new flow is compared with all the others first.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;

use crate::gateways::Gateways;
use crate::namespace::Namespace;
use crate::shape::{self, Shape};
use crate::stage::Stage;
use crate::table::{Grid, middle};
use crate::traffic::Ends;

const MANY: usize = 1_000;
const ROUNDS: u16 = 5;
/// New flows in each round.
const FLOWS: u16 = 1_000;

/// A gateway with tunnels, and both ends of one of them.
struct Path {
    tunnels: usize,
    near: Namespace,
    /// The far end of the tunnel.
    link: String,
    far_address: Ipv4Addr,
    /// Rules that every packet is compared with.
    clamps: usize,
    gateways: Arc<Gateways>,
    bulk: Vec<f64>,
    small: Vec<f64>,
    flows: Vec<f64>,
}

/// Measures and prints.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut paths = Vec::new();
    for tunnels in [1, MANY] {
        paths.push(Path::lay(tunnels).await.with_context(|| format!("a gateway with {tunnels} tunnels"))?);
    }
    for round in 0..ROUNDS {
        for path in &mut paths {
            path.measure(round)?;
        }
    }
    print(&paths)
}

impl Path {
    async fn lay(tunnels: usize) -> anyhow::Result<Path> {
        let gateways = Gateways::create(1)?;
        let gateway = &gateways.all()[0];
        let near = Namespace::create(gateways.folder())?;
        gateway.sh(&format!("ip link set dev eth0-far netns {}", near.pid()))?;
        let (host, lan) = (shape::inside(1, 10), shape::lan(1));
        near.sh(&format!(
            "ip -batch - <<END\nlink set dev lo up\naddress add {host}/24 dev eth0-far\n\
             link set dev eth0-far up\nroute add default via {lan}\nEND\n"
        ))?;
        let shape = Shape { gateways: 1, peers: tunnels };
        let mut stage = Stage::set(gateways, shape).await?;
        stage.build(tunnels).await?;
        // What was built stays, and nobody looks at it while packets are counted.
        let gateways = stage.end().await?;
        let peer = last_peer(&gateways.all()[0], tunnels)?;
        let clamps = gateways.all()[0].sh(
            "{ iptables-legacy -t mangle -S FORWARD; iptables-nft -t mangle -S FORWARD; } 2>/dev/null \
             | grep -c causeway; true",
        )?;
        gateways.answer_alone(shape, peer - 1)?;
        let path = Path {
            tunnels,
            near,
            link: shape::far_name(peer - 1),
            far_address: shape::peer_host(peer, 1),
            clamps: clamps.trim().parse()?,
            gateways,
            bulk: Vec::new(),
            small: Vec::new(),
            flows: Vec::new(),
        };
        path.ends().meet()?;
        Ok(path)
    }

    fn ends(&self) -> Ends<'_> {
        Ends { near: &self.near, far: &self.gateways.far()[0], far_address: self.far_address }
    }

    fn measure(&mut self, round: u16) -> anyhow::Result<()> {
        self.bulk.push(self.ends().bulk()?);
        self.small.push(self.ends().small(&self.link)?);
        let first = 10_000 + round * FLOWS;
        self.flows.push(self.ends().new_flows(first..first + FLOWS)?.as_secs_f64());
        Ok(())
    }
}

/// The peer whose rule a new flow meets last.
fn last_peer(gateway: &Namespace, peers: usize) -> anyhow::Result<usize> {
    let rules = gateway
        .sh("{ iptables-legacy -t nat -S POSTROUTING; iptables-nft -t nat -S POSTROUTING; } 2>/dev/null \
         | grep causeway:")?;
    let last = rules.lines().last().context("no rule")?;
    let named = |peer: &usize| last.contains(&format!(" {} ", shape::range(*peer)));
    (1..=peers).find(named).with_context(|| format!("whose rule is {last}?"))
}

fn print(paths: &[Path]) -> anyhow::Result<()> {
    let mut grid = Grid::new([
        "TUNNELS",
        "RULES per packet",
        "TCP Gbit/s",
        "SMALL PACKETS k/s",
        "PACKET µs",
        "NEW FLOW µs",
    ]);
    for path in paths {
        let small = middle(&path.small);
        grid.row([
            path.tunnels.to_string(),
            path.clamps.to_string(),
            format!("{:.2}", middle(&path.bulk) / 1e9),
            format!("{:.0}", small / 1e3),
            format!("{:.2}", 1e6 / small),
            format!("{:.0}", middle(&path.flows) * 1e6),
        ]);
    }
    grid.print(&format!(
        "Packets through a gateway, the middle of {ROUNDS} rounds by turns (own sender and receiver)"
    ))?;
    if let [one, many] = paths {
        let part = |of: fn(&Path) -> f64| 100.0 * (of(many) / of(one) - 1.0);
        let (bulk, small) = (part(|path| middle(&path.bulk)), part(|path| middle(&path.small)));
        let flow = (middle(&many.flows) - middle(&one.flows)) * 1e6;
        writeln!(
            std::io::stdout().lock(),
            "through {MANY} tunnels' gateway: TCP {bulk:+.1} %, small packets {small:+.1} %, a new flow {flow:+.1} µs"
        )?;
    }
    Ok(())
}
