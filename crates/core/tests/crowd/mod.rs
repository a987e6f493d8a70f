//! One gateway with many tunnels, each to a cluster of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use causeway_core::vpc::compile::{self, GatewayTask};
use causeway_core::vpc::exchange::{RECORD_NAMESPACE, Record};
use causeway_core::vpc::objects::{
    Ends, GatewayPod, Peer, PodRef, StaticRoute, TUNNEL_FINALIZER, Tunnel, TunnelSpec, Vpc, Workload,
};
use causeway_core::vpc::status::TunnelStatus;
use causeway_core::vpc::{Change, Event, Given, Outcome, Scope, State, TunnelKind, Visit};
use causeway_core::{GatewayName, Ipv4Cidr, ObjectKey};

fn parsed<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("a valid name")
}

pub(crate) fn key(n: usize) -> ObjectKey {
    parsed(&format!("ns1/t{n}"))
}

pub(crate) fn gateway(n: usize) -> GatewayName {
    parsed(&format!("gw{n}"))
}

pub(crate) fn peer(n: usize) -> Peer {
    Peer { cluster: parsed(&format!("c{n}")), gateway: parsed("gw1") }
}

fn range(n: usize) -> Ipv4Cidr {
    parsed(&format!("20.{}.{}.0/24", n / 256, n % 256))
}

/// A tunnel of gateway 1 to cluster `n`, with a VNI of its own.
pub(crate) fn tunnel(n: usize) -> Tunnel {
    let key = key(n);
    let kind = TunnelKind::Vxlan { vni: u32::try_from(n).expect("small") + 1, port: 4789 };
    let ends = Ends::ByGateway { gateway: gateway(1), peer: peer(n) };
    let link = parsed(&format!("t{n}"));
    Tunnel {
        key,
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        created: i64::try_from(n).expect("small"),
        deleting: false,
        finalizers: vec![TUNNEL_FINALIZER.into()],
        abandon: false,
        spec: Ok(TunnelSpec { link, kind, address: parsed("10.100.0.1/24"), ends }),
        status: TunnelStatus::default(),
    }
}

/// The record of cluster `n`.
pub(crate) fn record(n: usize) -> Record {
    let Peer { cluster, gateway } = peer(n);
    Record {
        key: parsed(&format!("{RECORD_NAMESPACE}/gw1-c{n}")),
        resource_version: "1".into(),
        external_ip: Ipv4Addr::from(0xac32_0000 + u32::try_from(n).expect("small")).to_string(),
        globalnet: range(n).to_string(),
        vpc: None,
        gateway: Some(gateway),
        origin: Some(cluster.clone()),
        cluster: Some(cluster),
        origin_namespace: Some(RECORD_NAMESPACE.into()),
        deleting: false,
        unreadable: None,
        lan: None,
        moving: Vec::new(),
        switched: None,
        switched_from: None,
    }
}

/// A static route of the VPC for cluster `n`.
pub(crate) fn route(n: usize) -> StaticRoute {
    StaticRoute { next_hop: [10, 0, 1, 254].into(), range: range(n) }
}

fn all<K: Ord, V>(pairs: impl Iterator<Item = (K, V)>) -> Change<K, V> {
    Change::Reset(pairs.collect())
}

/// A cluster with two gateways in VPC `v`, and records of `n` others; no tunnels yet.
pub(crate) fn cluster(n: usize) -> State {
    let mut state = State::new(Given::default());
    let gateways = || (1..=2).map(gateway);
    let workloads = gateways().map(|gateway| {
        (gateway.to_string(), Workload { gateway, ready: true, subnet: None, replicated: false })
    });
    let pods = gateways().map(|gateway| {
        let key: ObjectKey = parsed(&format!("kube-system/vpc-nat-gw-{gateway}-0"));
        let pod = GatewayPod {
            pod: PodRef { key: key.clone(), uid: "u1".into() },
            gateway,
            created: 1,
            phase: "Running".into(),
            ready: true,
            deleting: false,
            node: None,
            lan: Some([10, 0, 1, 254].into()),
            external: [("ovn-vpc-external-network.kube-system".to_string(), [172, 50, 16, 1].into())].into(),
            router: Some([10, 0, 1, 1].into()),
            vpc: Some("v".into()),
        };
        (key, pod)
    });
    for event in [
        Event::Identity(Some("us".parse())),
        Event::Globalnets(all([("us".to_string(), parsed("242.0.0.0/16"))].into_iter())),
        Event::Egress(vec![[242, 0, 0, 1].into()]),
        Event::Vpcs(all([("v".to_string(), vpc(n))].into_iter())),
        Event::StatefulSets(all(workloads)),
        Event::Pods(all(pods)),
        Event::Records(all((0..n).map(|n| (record(n).key, record(n))))),
    ] {
        state.apply(event);
    }
    state
}

/// A VPC that leads to the first of them.
pub(crate) fn vpc(n: usize) -> Vpc {
    Vpc { routes: (0..n).map(route).collect(), ..Vpc::default() }
}

/// The list of `n` tunnels.
pub(crate) fn list(n: usize) -> Event {
    Event::Tunnels(all((0..n).map(|n| (key(n), tunnel(n)))))
}

/// What a visit finds where everything works.
pub(crate) fn outcome(state: &State) -> Outcome {
    let GatewayTask { pod, want, .. } = compile::gateway(state, &gateway(1)).expect("a task");
    let tunnels: BTreeMap<_, _> =
        want.tunnels.values().map(|tunnel| (tunnel.owner.clone(), (tunnel.clone(), None))).collect();
    let mut visit = Visit { tunnels, ..Visit::default() };
    visit.holding.owners = visit.tunnels.keys().cloned().collect();
    visit.holding.anything = !visit.tunnels.is_empty();
    Outcome { pod_uid: pod.uid, revision: state.revision(), asked: 0, result: Ok(visit) }
}

/// The tunnels and the gateways among some scopes.
pub(crate) fn touched(scopes: &BTreeSet<Scope>) -> (Vec<&ObjectKey>, Vec<&GatewayName>) {
    let tunnels = scopes.iter().filter_map(|scope| match scope {
        Scope::Tunnel(key) => Some(key),
        _ => None,
    });
    let gateways = scopes.iter().filter_map(|scope| match scope {
        Scope::Gateway(name) => Some(name),
        _ => None,
    });
    (tunnels.collect(), gateways.collect())
}
