//! Where a run should end: what is declared, worked out anew and not by what decides in the controller.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_core::vpc::exchange::ORIGIN;
use causeway_core::vpc::{Have, LAN_LINK, LinkKind, NatRule};
use serde_json::Value;

use crate::declared::{Declared, Gateway, ROUTER, Tunnel, globalnet};
use crate::site::{ENDS, Kind, RECORDS, Site, TUNNELS, TUNNELS_IN};
use crate::world::{World, id};

/// The first thing that is not as it should be, if any.
pub(crate) fn difference(world: &World) -> Option<String> {
    let declared = world.declared().clone();
    let tunnels = declared.tunnels.values();
    let wrong = |tunnel: &Tunnel| {
        let why = match tunnel.present {
            true => built(world, &declared, tunnel),
            false => gone(world, tunnel),
        };
        why.err().map(|why| format!("tunnel {} of {}: {why}", tunnel.name, id(tunnel.cluster)))
    };
    tunnels
        .into_iter()
        .find_map(wrong)
        .or_else(|| records(world, &declared).err())
        .or_else(|| bare(world, &declared))
}

fn check(holds: bool, why: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.into()) }
}

/// A declared tunnel is on its gateway, and its object says so.
fn built(world: &World, declared: &Declared, tunnel: &Tunnel) -> Result<(), String> {
    let (here, there) = (tunnel.cluster, 1 - tunnel.cluster);
    let gateway = declared.gateway(here, &tunnel.gateway).ok_or("no gateway")?;
    let peer = declared.gateway(there, &tunnel.peer).ok_or("no peer")?;
    let pod = world.pod(here, &gateway.pod()).ok_or("its gateway has no pod")?;
    holds(&pod.memory.have(), tunnel, gateway.external, peer.external)?;
    let object = world.clusters[here].get(TUNNELS, TUNNELS_IN, &tunnel.name).ok_or("there is no object")?;
    let status = &object["status"];
    check(status["remoteIp"] == peer.external.to_string(), format!("its peer is {}", status["remoteIp"]))?;
    check(status["localGw"] == gateway.name.as_str(), format!("it is on {}", status["localGw"]))?;
    let ready = condition(&object, "Ready");
    let expected = if declared.is_whole(tunnel) { "True" } else { "False" };
    check(ready["status"] == expected, format!("Ready is {ready}"))?;
    let generation = &object["metadata"]["generation"];
    check(status["observedGeneration"] == *generation, "its status is of an older spec")
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.cloned().unwrap_or_default()
}

/// What a gateway must hold for one tunnel.
fn holds(have: &Have, tunnel: &Tunnel, own: Ipv4Addr, peer: Ipv4Addr) -> Result<(), String> {
    let link = have.links.get(&tunnel.name).ok_or("there is no link")?;
    let owner = link.owner().map(|owner| owner.to_string());
    check(link.is_ours() && link.up && owner == Some(tunnel.key()), format!("its link is {link:?}"))?;
    let as_declared = match (&link.kind, tunnel.vni) {
        (Some(LinkKind::Vxlan { vni, local, remote, .. }), Some(wanted)) => {
            *vni == wanted && (*local, *remote) == (Some(own), Some(peer))
        }
        (Some(LinkKind::Gre { local, remote, .. }), None) => (*local, *remote) == (Some(own), Some(peer)),
        _ => false,
    };
    check(as_declared, format!("its link is {:?}", link.kind))?;
    let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
    check(addresses == [tunnel.address.as_str()], format!("its addresses are {addresses:?}"))?;
    let led = |range: String, via: Option<Ipv4Addr>, dev: &str| {
        let ways: Vec<_> = have.routes.iter().filter(|route| route.range.to_string() == range).collect();
        let right = |route: &&&causeway_core::vpc::Route| {
            route.is_ours() && route.via == via && route.dev.as_deref() == Some(dev)
        };
        check(
            ways.len() == 1 && ways.iter().filter(right).count() == 1,
            format!("{range} is led by {ways:?}"),
        )
    };
    led(globalnet(1 - tunnel.cluster), None, &tunnel.name)?;
    led(globalnet(tunnel.cluster), Some(ROUTER), LAN_LINK)?;
    check(have.forwarding, "nothing is forwarded")?;
    let rules = have.nat.postrouting.get(&have.nat.active).ok_or("there is no chain")?;
    let ours =
        rules.iter().filter(|rule| rule.owner().is_some_and(|owner| owner.to_string() == tunnel.key()));
    check(ours.count() == 1, format!("its rules are {rules:?}"))?;
    let first_foreign = rules.iter().position(|rule| matches!(rule, NatRule::Foreign(_)));
    let last_own = rules.iter().rposition(|rule| rule.owner().is_some());
    check(first_foreign.is_none_or(|foreign| last_own < Some(foreign)), format!("rules stand like {rules:?}"))
}

/// Of a tunnel that is not declared nothing is left.
fn gone(world: &World, tunnel: &Tunnel) -> Result<(), String> {
    let object = world.clusters[tunnel.cluster].get(TUNNELS, TUNNELS_IN, &tunnel.name);
    check(object.is_none(), "its object is still there")
}

/// Gateways hold tunnels that are declared, and no others.
fn bare(world: &World, declared: &Declared) -> Option<String> {
    for pod in world.pods() {
        let holding = pod.memory.have().holding();
        let on_it = |tunnel: &Tunnel| {
            let gateway = declared.gateway(tunnel.cluster, &tunnel.gateway);
            tunnel.cluster == pod.cluster && tunnel.present && gateway.is_some_and(|it| it.pod() == pod.name)
        };
        let wanted: Vec<String> = declared.tunnels.values().filter(|it| on_it(it)).map(Tunnel::key).collect();
        let held: Vec<String> = holding.owners.iter().map(ToString::to_string).collect();
        let nameless = !holding.unnamed.is_empty() || (wanted.is_empty() && holding.anything);
        if held != wanted || nameless {
            return Some(format!("{} of {} holds {holding:?}, not {wanted:?}", pod.name, id(pod.cluster)));
        }
    }
    None
}

/// Records and ends, by name: where from, which gateway, which address.
type Records = BTreeMap<String, (String, String)>;

fn found(site: &Site, kind: Kind, keep: impl Fn(&Value) -> bool) -> Records {
    let all = site.all(kind).into_iter().filter(keep);
    all.map(|object| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let gateway = text(&object["metadata"]["labels"]["localGateway"]);
        let cluster = text(&object["metadata"]["labels"]["localCluster"]);
        (
            format!("{cluster}/{gateway}"),
            (text(&object["spec"]["externalip"]), text(&object["spec"]["globalnetcidr"])),
        )
    })
    .collect()
}

fn expected(declared: &Declared, clusters: &[usize]) -> Records {
    let there = declared.gateways.values().filter(|it| it.present && clusters.contains(&it.cluster));
    let record = |it: &Gateway| {
        (format!("{}/{}", id(it.cluster), it.name), (it.external.to_string(), globalnet(it.cluster)))
    };
    there.map(record).collect()
}

/// Every gateway has its record at home, at the broker and in the other cluster, and every declared end one at the broker.
fn records(world: &World, declared: &Declared) -> Result<(), String> {
    let is_brought = |object: &Value| object["metadata"]["labels"].get(ORIGIN).is_some();
    let same = |what: &str, found: Records, expected: Records| {
        check(found == expected, format!("{what} are {found:?}, not {expected:?}"))
    };
    for cluster in 0..2 {
        let site = &world.clusters[cluster];
        let own = found(site, RECORDS, |object| !is_brought(object));
        same(&format!("records of {}", id(cluster)), own, expected(declared, &[cluster]))?;
        let brought = found(site, RECORDS, is_brought);
        same(&format!("records brought to {}", id(cluster)), brought, expected(declared, &[1 - cluster]))?;
    }
    same("copies at the broker", found(&world.broker, RECORDS, |_| true), expected(declared, &[0, 1]))?;
    let ends = world.broker.all(ENDS).len();
    let wanted = declared.tunnels.values().filter(|tunnel| tunnel.present).count();
    check(ends == wanted, format!("{ends} ends at the broker, not {wanted}"))
}
