//! The least that any controller must spend: the same links, routes and rules by bare commands, one batch per
//! gateway, nothing asked and nothing checked.

use std::time::{Duration, Instant};

use anyhow::bail;

use crate::cost;
use crate::gateways::Gateways;
use crate::shape::{self, OURS, PORT, Shape};

/// What the bare commands cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
}

/// Measures it for so many tunnels.
pub(crate) fn measure(shape: Shape, tunnels: usize) -> anyhow::Result<Floor> {
    let gateways = Gateways::create(shape.gateways)?;
    let script = |number| bare_commands(shape, tunnels, number);
    let scripts: Vec<String> = (1..=shape.gateways).map(script).collect();
    let (start, cpu) = (Instant::now(), cost::children()?);
    std::thread::scope(|scope| {
        let jobs = gateways.all().iter().zip(&scripts);
        let all: Vec<_> = jobs.map(|(gateway, script)| scope.spawn(move || gateway.sh(script))).collect();
        all.into_iter().try_for_each(|one| match one.join() {
            Ok(done) => done.map(drop),
            Err(_) => bail!("a thread panicked"),
        })
    })?;
    Ok(Floor { time: start.elapsed(), cpu: cost::children()? - cpu })
}

fn bare_commands(shape: Shape, tunnels: usize, gateway: usize) -> String {
    let (mut links, mut rules) = (String::new(), String::new());
    for tunnel in 0..tunnels {
        let (on, peer) = shape.ends(tunnel);
        if on != gateway {
            continue;
        }
        let (name, vni, range) = (shape::name(tunnel), shape::vni(tunnel), shape::range(peer));
        let (remote, interface) = (shape::peer_external(peer), shape::interface(peer, OURS));
        links += &format!(
            "link add {name} type vxlan remote {remote} id {vni} dstport {PORT} dev net1\n\
             address add {interface} dev {name}\nlink set dev {name} up\nroute add {range} dev {name}\n"
        );
        rules += &format!("-A POSTROUTING -d {range} -j SNAT --to-source 242.0.0.1-242.0.0.8\n");
    }
    format!(
        "set -e\nip -batch - <<END\n{links}END\nkind=nft\n\
         iptables-legacy -t nat -S SNAT_FILTER >/dev/null 2>&1 && kind=legacy\n\
         iptables-$kind-restore --noflush <<END\n*nat\n{rules}COMMIT\nEND\n"
    )
}
