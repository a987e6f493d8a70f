//! Random gateways and random wishes, small enough that they collide all the time.
//!
//! A gateway is such as a kernel could hold: one route per range and metric, only on links that are up, and no
//! two links of one identity. A wish is such as `compile` could make: no two tunnels that collide.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use causeway_core::names::{HostAddr, Ipv4Cidr, ObjectKey};
use causeway_core::vpc::action::{LOOSE, SourceNat, clamp_spec, shared_clamp_spec};
use causeway_core::vpc::{
    EgressRange, Established, Have, Inbound, LEAVING_GROUP, LINK_GROUP, Link, LinkKind, Nat, NatRule,
    ROUTE_PROTOCOL, Refused, Route, Seat, TunnelKind, TunnelWant, Variant, Want,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const NAMES: [&str; 5] = ["ta", "tb", "tc", "other", "another"];

fn pick<T: Clone + std::fmt::Debug + 'static>(from: &[T]) -> impl Strategy<Value = T> + use<T> {
    select(from.to_vec())
}

fn owner() -> impl Strategy<Value = ObjectKey> {
    (pick(&["ns1", "ns2"]), pick(&NAMES))
        .prop_map(|(namespace, name)| ObjectKey::new(namespace, name).expect("a key"))
}

fn end() -> impl Strategy<Value = Ipv4Addr> {
    (1..4_u8).prop_map(|n| Ipv4Addr::new(172, 50, 16, n))
}

fn range() -> impl Strategy<Value = Ipv4Cidr> {
    (0..5_u8).prop_map(|n| format!("242.{n}.0.0/16").parse().expect("range"))
}

fn address() -> impl Strategy<Value = HostAddr> {
    (0..2_u8, 1..4_u8).prop_map(|(net, host)| format!("10.10{net}.0.{host}/24").parse().expect("address"))
}

fn egress() -> impl Strategy<Value = EgressRange> {
    (1..3_u8).prop_map(|n| EgressRange { first: [242, 0, 0, 1].into(), last: [242, 0, 0, n].into() })
}

fn tunnel_kind() -> impl Strategy<Value = TunnelKind> {
    let vxlan = (1..4_u32, pick(&[4789, 8472])).prop_map(|(vni, port)| TunnelKind::Vxlan { vni, port });
    prop_oneof![2 => vxlan, 1 => Just(TunnelKind::Gre)]
}

fn seat() -> impl Strategy<Value = Seat> {
    pick(&[Seat::Named, Seat::Main, Seat::Standby])
}

fn tunnel() -> impl Strategy<Value = (String, TunnelWant)> {
    let parts = (
        pick(&NAMES[..3]),
        pick(&["ns1", "ns2"]),
        tunnel_kind(),
        end(),
        address(),
        range(),
        egress(),
        seat(),
    );
    parts.prop_map(|(name, namespace, kind, remote, address, remote_range, egress, seat)| {
        let owner = ObjectKey::new(namespace, name).expect("a key");
        let local = Ipv4Addr::new(172, 50, 16, 1);
        let own = "242.9.0.0/16".parse().expect("range");
        (name.into(), TunnelWant { owner, kind, local, remote, address, remote_range, egress, own, seat })
    })
}

/// What a gateway should hold.
pub(crate) fn want() -> impl Strategy<Value = Want> {
    (vec(tunnel(), 0..4), range(), 1..3_u8, vec(owner(), 0..2)).prop_map(|(tunnels, own, via, frozen)| {
        let mut want = Want::default();
        let (mut identities, mut ranges) = (BTreeSet::new(), BTreeSet::from([own]));
        for (name, tunnel) in tunnels {
            let gre = matches!(tunnel.kind, TunnelKind::Gre).then_some(tunnel.remote);
            let name = name.parse().expect("name");
            if !want.tunnels.contains_key(&name)
                && identities.insert((tunnel.kind, gre))
                && ranges.insert(tunnel.remote_range)
            {
                want.tunnels.insert(name, tunnel);
            }
        }
        let inbound = Inbound { range: own, via: Ipv4Addr::new(10, 0, 1, via) };
        want.inbound = (!want.tunnels.is_empty()).then_some(inbound);
        let wanted = |key: &ObjectKey| want.tunnels.values().any(|tunnel| tunnel.owner == *key);
        // Of those that are wanted some were up before.
        let said = |key: &ObjectKey| (key.clone(), Established::default());
        want.established = frozen.iter().filter(|key| wanted(key)).map(said).collect();
        want.frozen = frozen.into_iter().filter(|key| !wanted(key)).collect();
        want
    })
}

fn link_kind() -> impl Strategy<Value = Option<LinkKind>> {
    let (local, remote) = (prop::option::weighted(0.9, end()), prop::option::weighted(0.9, end()));
    let kinds = (tunnel_kind(), local, remote, any::<bool>(), any::<bool>());
    let kind = kinds.prop_map(|(kind, local, remote, usual, keyed)| match kind {
        TunnelKind::Vxlan { vni, port } => {
            LinkKind::Vxlan { vni, port, local, remote, dev: usual.then(|| "net1".into()), odd: keyed }
        }
        TunnelKind::Gre => LinkKind::Gre { local, remote, ttl: if usual { 255 } else { 0 }, keyed },
    });
    prop::option::weighted(0.8, kind)
}

fn link() -> impl Strategy<Value = Link> {
    let alias = prop_oneof![
        1 => Just(None),
        1 => Just(Some("somebody's".to_owned())),
        4 => owner().prop_map(|owner| Some(format!("causeway:{owner}"))),
    ];
    let settings = (any::<bool>(), any::<bool>(), any::<bool>(), pick(&[0, 1, LOOSE]), pick(&[0, 800]));
    (
        pick(&[LINK_GROUP, LINK_GROUP, LINK_GROUP, LEAVING_GROUP, 0]),
        alias,
        link_kind(),
        vec(address(), 0..4),
        settings,
    )
        .prop_map(
            |(group, alias, kind, mut addresses, (up, proxy_arp, promotes, rp_filter, proxy_delay))| {
                let mut seen = BTreeSet::new();
                addresses.retain(|address| seen.insert(*address));
                let settings = Link { proxy_arp, promotes, rp_filter, proxy_delay, ..Link::default() };
                Link { group, alias, kind, up, addresses, ..settings }
            },
        )
}

/// What distinguishes two links of one kind for the kernel.
fn identity(kind: &LinkKind) -> String {
    match kind {
        LinkKind::Vxlan { vni, port, .. } => format!("vxlan {vni} {port}"),
        LinkKind::Gre { local, remote, keyed, .. } => format!("gre {local:?} {remote:?} {keyed}"),
    }
}

fn links() -> impl Strategy<Value = BTreeMap<String, Link>> {
    vec((pick(&NAMES), link()), 0..5).prop_map(|drawn| {
        let up = || Link { up: true, proxy_delay: 800, mtu: 1500, ..Link::default() };
        let mut links = BTreeMap::from([("eth0".to_owned(), up()), ("net1".to_owned(), up())]);
        let mut identities = BTreeSet::new();
        for (name, link) in drawn {
            let unique = link.kind.as_ref().is_none_or(|kind| identities.insert(identity(kind)));
            if unique {
                links.entry(name.to_owned()).or_insert(link);
            }
        }
        links
    })
}

fn route() -> impl Strategy<Value = Route> {
    let via = prop::option::of((1..3_u8).prop_map(|n| Ipv4Addr::new(10, 0, 1, n)));
    let dev = prop_oneof![pick(&NAMES), pick(&["eth0", "eth0", "net1"])];
    let parts = (range(), via, prop::option::weighted(0.9, dev), pick(&[ROUTE_PROTOCOL, ROUTE_PROTOCOL, 4]));
    (parts, pick(&[0, 0, 0, 5])).prop_map(|((range, via, dev, protocol), metric)| Route {
        range,
        via: via.filter(|_| dev == Some("eth0")),
        dev: dev.map(Into::into),
        protocol,
        metric,
    })
}

fn rule() -> impl Strategy<Value = NatRule> {
    let ours = (owner(), pick(&NAMES), range(), egress()).prop_map(|(owner, link, range, egress)| {
        let own = "242.9.0.0/16".parse().expect("range");
        let spec = SourceNat { owner: owner.clone(), link: link.into(), own, range, egress }.to_string();
        NatRule::Ours { owner, spec }
    });
    let odd = owner().prop_map(|owner| {
        let spec = format!("-o net1 -m comment --comment \"causeway:{owner}\" -j MASQUERADE");
        NatRule::Ours { owner, spec }
    });
    let foreign =
        pick(&["-j SNAT_FILTER", "-o net1 -j MASQUERADE"]).prop_map(|rule| NatRule::Foreign(rule.into()));
    prop_oneof![4 => ours, 1 => odd, 3 => foreign]
}

fn clamp() -> impl Strategy<Value = NatRule> {
    let ours = (owner(), pick(&NAMES)).prop_map(|(owner, link)| {
        let spec = clamp_spec(&owner, link);
        NatRule::Ours { owner, spec }
    });
    let foreign = Just(NatRule::Foreign("-p tcp -j TCPMSS --set-mss 1200".into()));
    let odd = Just(NatRule::Shared { spec: "-m comment --comment \"causeway:all\" -j ACCEPT".into() });
    let shared = Just(NatRule::Shared { spec: shared_clamp_spec() });
    prop_oneof![6 => ours, 2 => foreign, 3 => shared, 1 => odd]
}

fn nat() -> impl Strategy<Value = Nat> {
    let variant = pick(&[Variant::Legacy, Variant::Nft]);
    let active = (vec(rule(), 0..7), vec(clamp(), 0..4));
    let other = prop::option::of((vec(rule(), 0..4), vec(clamp(), 0..3)));
    (variant, active, other).prop_map(|(active, (rules, clamps), others)| {
        let other = if active == Variant::Nft { Variant::Legacy } else { Variant::Nft };
        let mut nat = Nat { active, ..Nat::default() };
        for (variant, rules, clamps) in
            [(active, rules, clamps)].into_iter().chain(others.map(|(rules, clamps)| (other, rules, clamps)))
        {
            nat.postrouting.insert(variant, rules);
            nat.forward.insert(variant, clamps);
        }
        nat
    })
}

/// What a gateway holds.
pub(crate) fn have() -> impl Strategy<Value = Have> {
    (links(), vec(route(), 0..8), nat(), any::<bool>()).prop_map(|(links, mut routes, nat, forwarding)| {
        let mut seen = BTreeSet::new();
        routes.retain(|route| {
            let possible = route.dev.as_ref().is_none_or(|dev| links.get(dev).is_some_and(|link| link.up));
            possible && seen.insert((route.range, route.metric))
        });
        Have { links, routes, nat, forwarding }
    })
}

/// What a gateway refused before, of what it should hold.
pub(crate) fn refused() -> impl Strategy<Value = Refused> {
    (vec(owner(), 0..3), any::<bool>())
        .prop_map(|(tunnels, shared_clamp)| Refused { tunnels: tunnels.into_iter().collect(), shared_clamp })
}

/// What a gateway holds that once was made to hold something else, then was damaged a little: nearer to life than
/// [`have`], in which hardly anything fits together.
pub(crate) fn drifted(have: Have, made: &Want, damage: &[usize]) -> Have {
    let mut have = made_to_hold(have, made);
    for hit in damage {
        match hit % 6 {
            0 if !have.routes.is_empty() => drop(have.routes.remove(hit / 6 % have.routes.len())),
            1 => {
                let name = have.links.keys().nth(hit / 6 % have.links.len()).cloned().unwrap_or_default();
                if have.links.get(&name).is_some_and(Link::is_ours) {
                    have.links.remove(&name);
                    have.routes.retain(|route| route.dev.as_ref() != Some(&name));
                }
            }
            2 => have.nat.postrouting.values_mut().for_each(|rules| {
                let count = rules.len().max(1);
                rules.rotate_left(hit / 6 % count);
            }),
            3 => have.links.values_mut().filter(|link| link.is_ours()).for_each(|link| link.alias = None),
            4 => {
                have.nat.postrouting.values_mut().for_each(|rules| rules.extend(rules.clone()));
                have.nat.forward.values_mut().for_each(|rules| rules.extend(rules.clone()));
            }
            _ => have.forwarding = false,
        }
    }
    have
}

fn made_to_hold(mut have: Have, want: &Want) -> Have {
    for step in causeway_core::vpc::plan(want, &have).steps {
        // Whether this works is another test's matter.
        let _ = causeway_core::vpc::model::apply(&mut have, &step.action);
    }
    have
}
