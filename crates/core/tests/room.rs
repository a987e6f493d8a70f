//! The room's promises under random events: whatever `compile` says differently after an event is among
//! the scopes that the event touched, and little else is; what is kept equals what would be worked out from
//! nothing; and the same knowledge gives the same answer however it arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use causeway_core::vpc::ends::{End, Says};
use causeway_core::vpc::exchange::{self, RECORD_NAMESPACE, Record, RecordTask};
use causeway_core::vpc::mains::{self, Moving};
use causeway_core::vpc::member::{Member, MembershipTask, Renewal, membership};
use causeway_core::vpc::naming::{copy_name, home_name, vpc_home_name, vpc_name};
use causeway_core::vpc::objects::{
    Eip, Ends, Far, GatewayPod, ListedRoute, NodeHealth, Peer, Place, PodRef, StaticRoute, Subnet, Switch,
    TUNNEL_FINALIZER, Tunnel, TunnelSpec, Vpc, VpcGateway, Workload,
};
use causeway_core::vpc::published::{EndTask, publish};
use causeway_core::vpc::status::{TunnelStatus, TunnelTask};
use causeway_core::vpc::{
    Answer, Change, Event, Given, Near, Outcome, Probed, Scope, State, Trouble, TunnelKind, Visit, compile,
    status,
};
use causeway_core::{GatewayName, ObjectKey};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn name<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("a valid name")
}

fn any_gateway() -> impl Strategy<Value = GatewayName> {
    select(vec!["gw1", "gw1-a"]).prop_map(name)
}

fn any_tunnel_key() -> impl Strategy<Value = ObjectKey> {
    (select(vec!["ns1", "ns2"]), select(vec!["t1", "t2", "t3"]))
        .prop_map(|(ns, n)| ObjectKey::new(ns, n).expect("a key"))
}

fn any_peer() -> impl Strategy<Value = Peer> {
    (select(vec!["a-c1", "c3"]), select(vec!["gw1", "gw1-a"]))
        .prop_map(|(cluster, gateway)| Peer { cluster: name(cluster), gateway: name(gateway) })
}

fn any_ends() -> impl Strategy<Value = Ends> {
    prop_oneof![
        9 => (any_gateway(), any_peer()).prop_map(|(gateway, peer)| Ends::ByGateway { gateway, peer }),
        4 => select(vec!["v", "v", "w"]).prop_map(|local| Ends::ByVpc { local: local.into(), cluster: name("a-c1"), remote: "w".into() }),
    ]
}

fn any_kind() -> impl Strategy<Value = TunnelKind> {
    prop_oneof![Just(TunnelKind::Gre), (1..3u32).prop_map(|vni| TunnelKind::Vxlan { vni, port: 4789 })]
}

prop_compose! {
    fn any_tunnel()(
        key in any_tunnel_key(), kind in any_kind(), ends in any_ends(), host in 1..3u8, valid in prop::bool::weighted(0.9),
        created in 0..3i64, deleting in prop::bool::weighted(0.2), held in any::<bool>(), version in 0..3u8, on_second in any::<bool>(),
        was_up in any::<bool>(), octet in any_octet(),
    ) -> (ObjectKey, Tunnel) {
        let address = name(&format!("10.100.0.{host}/24"));
        let spec = TunnelSpec { link: name(key.name()), kind, address, ends };
        let mut tunnel = Tunnel {
            key: key.clone(), uid: "u".into(), resource_version: version.to_string(), generation: 1, created, deleting,
            finalizers: held.then(|| TUNNEL_FINALIZER.to_string()).into_iter().collect(), abandon: false,
            spec: if valid { Ok(spec) } else { Err("no sense".into()) }, status: Default::default(),
        };
        tunnel.status.gateway = on_second.then(|| "gw1-a".into());
        if was_up {
            tunnel.status = TunnelStatus {
                initialized: true,
                gateway: Some(if on_second { "gw1-a" } else { "gw1" }.into()),
                peer: Some(if octet % 2 == 0 { "c2/gw1" } else { "c3/gw1-a" }.into()),
                remote_ip: Some(format!("172.50.16.{octet}")),
                remote_globalnet: Some(format!("242.{}.0.0/16", octet % 3)),
                globalnet: Some("242.0.0.0/16".into()),
                egress: vec!["242.0.0.1".into()],
                ..TunnelStatus::default()
            };
        }
        (key, tunnel)
    }
}

fn record_of(peer: &Peer, namespace: &str, name: &str, octet: u8, origin: bool) -> Record {
    Record {
        key: ObjectKey::new(namespace, name).expect("a key"),
        resource_version: octet.to_string(),
        external_ip: format!("172.50.16.{octet}"),
        globalnet: format!("242.{}.0.0/16", octet % 3),
        vpc: Some("v".into()),
        gateway: Some(peer.gateway.clone()),
        cluster: Some(peer.cluster.clone()),
        origin: origin.then(|| peer.cluster.clone()),
        origin_namespace: origin.then(|| RECORD_NAMESPACE.into()),
        deleting: false,
        unreadable: None,
        lan: None,
        moving: Vec::new(),
        switched: None,
        switched_from: None,
    }
}

/// The record of a VPC: our own, with what it remembers, or another cluster's, here or at the broker.
fn any_vpc_record(at_broker: bool) -> impl Strategy<Value = (ObjectKey, Record)> {
    let moving = prop::option::of((0..3u8, any::<bool>()));
    (any_member(), any_octet(), moving, any::<bool>(), any::<bool>()).prop_map(
        move |(peer, octet, moving, later, switched)| {
            let vpc = if peer.cluster.as_str() == "c1" { "v" } else { "w" };
            let ours = peer.cluster.as_str() == "c1" && !at_broker;
            let called = if ours || at_broker {
                vpc_name(vpc, &peer.cluster)
            } else {
                vpc_home_name(vpc, &peer.cluster)
            };
            let namespace = if at_broker { "broker" } else { RECORD_NAMESPACE };
            let mut record = record_of(&peer, namespace, &called, octet, !ours);
            record.vpc = Some(vpc.into());
            if ours {
                record.lan = later.then(|| Ipv4Addr::new(10, 0, 1, octet % 3));
                let moving = moving.map(|(octet, all)| Moving { from: Ipv4Addr::new(10, 0, 1, octet), all });
                record.moving = moving.into_iter().collect();
                record.switched = switched.then(|| if later { "gw1-a all" } else { "gw1-a" }.into());
                record.switched_from = switched.then(|| Ipv4Addr::new(10, 0, 1, octet % 3));
            }
            (record.key.clone(), record)
        },
    )
}

/// What a record of our own is called, and what was brought here used to be.
fn plain(peer: &Peer) -> String {
    format!("{}-{}", peer.gateway, peer.cluster)
}

/// What is brought here is called.
fn home(peer: &Peer) -> String {
    home_name(Some(&name("c1")), peer)
}

fn any_member() -> impl Strategy<Value = Peer> {
    (select(vec!["c1", "a-c1", "c3"]), select(vec!["gw1", "gw1-a"]))
        .prop_map(|(cluster, gateway)| Peer { cluster: name(cluster), gateway: name(gateway) })
}

/// Often that of a pod of ours, as when a record was written under a wrong id.
fn any_octet() -> impl Strategy<Value = u8> {
    prop_oneof![0..6u8, 11..13u8]
}

fn any_record() -> impl Strategy<Value = (ObjectKey, Record)> {
    let namespace = select(vec![RECORD_NAMESPACE, RECORD_NAMESPACE, "a-team"]);
    let (imported, broken) = (prop::bool::weighted(0.9), prop::bool::weighted(0.1));
    (any_member(), any_octet(), namespace, imported, broken, any::<bool>()).prop_map(
        |(peer, octet, namespace, imported, broken, earlier)| {
            let imported = imported && peer.cluster.as_str() != "c1";
            let called = if imported && !earlier { home(&peer) } else { plain(&peer) };
            let mut record = record_of(&peer, namespace, &called, octet, imported);
            record.unreadable = broken.then(|| "no sense".into());
            (record.key.clone(), record)
        },
    )
}

fn any_copy() -> impl Strategy<Value = (String, Record)> {
    (any_member(), any_octet(), prop::bool::weighted(0.1)).prop_map(|(peer, octet, broken)| {
        let mut record = record_of(&peer, "broker", &copy_name(&peer), octet, true);
        record.unreadable = broken.then(|| "no sense".into());
        (record.key.name().into(), record)
    })
}

prop_compose! {
    fn any_pod()(
        gateway in any_gateway(), nth in 0..2u8, uid in 0..2u8, running in prop::bool::weighted(0.8), complete in prop::bool::weighted(0.9),
        ready in prop::bool::weighted(0.8), deleting in prop::bool::weighted(0.1), created in 0..2i64,
    ) -> (ObjectKey, GatewayPod) {
        let key = ObjectKey::new("kube-system", &format!("vpc-nat-gw-{gateway}-{nth}")).expect("a key");
        let octet = if gateway.as_str() == "gw1" { 11 } else { 12 };
        let external = [("ovn-vpc-external-network.kube-system".to_string(), Ipv4Addr::new(172, 50, 16, octet + 10 * nth))];
        let pod = GatewayPod {
            pod: PodRef { key: key.clone(), uid: format!("{gateway}-{nth}-{uid}") }, gateway, created, ready, deleting,
            phase: if running { "Running" } else { "Pending" }.into(), node: Some(format!("n{nth}")),
            lan: Some(Ipv4Addr::new(10, 0, 1, 254)), router: Some(Ipv4Addr::new(10, 0, 1, 1)),
            external: if complete { external.into() } else { BTreeMap::new() }, vpc: Some("v".into()),
        };
        (key, pod)
    }
}

fn any_change<K: Ord + Clone + std::fmt::Debug + 'static, V: Clone + std::fmt::Debug + 'static>(
    pair: impl Strategy<Value = (K, V)> + 'static,
) -> impl Strategy<Value = Change<K, V>> {
    let pair = pair.boxed();
    prop_oneof![
        4 => pair.clone().prop_map(|(key, value)| Change::Put(key, value)),
        2 => pair.clone().prop_map(|(key, _)| Change::Gone(key)),
        1 => vec(pair, 0..4).prop_map(|pairs| Change::Reset(pairs.into_iter().collect())),
    ]
}

/// An end at the broker: of our own tunnels, or of another cluster's that lead here.
fn any_end(theirs: bool) -> impl Strategy<Value = (String, End)> {
    let places = (any_gateway(), any_peer(), prop::bool::weighted(0.3));
    let places = places.prop_map(|(gateway, peer, by_vpc)| match by_vpc {
        true => (Place::Vpc("v".into()), Far::Vpc { cluster: name("a-c1"), vpc: "w".into() }),
        false => (Place::Gateway(gateway), Far::Gateway(peer)),
    });
    let tunnel = (any_tunnel_key(), places, any_kind());
    (tunnel, 1..3_u8, 0..2_u32, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        move |((tunnel, (place, peer), kind), host, mtu, deleting, misnamed)| {
            let own = Far::at(name("c1"), place);
            let (on, to) = if theirs { (peer, own) } else { (own, peer) };
            let says = Says { kind, mtu: Some(1449 + mtu), address: name(&format!("10.100.0.{host}/24")) };
            let name_at_home = if misnamed { "odd" } else { tunnel.name() };
            let called = format!("{}.{name_at_home}.{}", tunnel.namespace(), on.cluster());
            let end = End {
                name: called.clone(),
                resource_version: host.to_string(),
                deleting,
                on,
                to,
                tunnel,
                says,
            };
            (called, end)
        },
    )
}

/// A visit is honest: what was wanted is there, or all failed. One that was begun may end later.
#[derive(Debug, Clone)]
enum Happening {
    Event(Box<Event>),
    Visit(GatewayName, bool),
    Begin(GatewayName),
    End,
    Sweep(GatewayName, bool),
    Probe(GatewayName, Near, Option<bool>, bool),
}

/// What happens, and the visit that is under way.
#[derive(Default)]
struct Course {
    under_way: Option<Event>,
}

impl Course {
    fn event(&mut self, state: &State, happening: Happening) -> Option<Event> {
        match happening {
            Happening::Event(event) => Some(*event),
            Happening::Visit(gateway, fine) => visit(state, &gateway, fine),
            Happening::Begin(gateway) => {
                self.under_way = visit(state, &gateway, true);
                None
            }
            Happening::End => self.under_way.take(),
            Happening::Probe(gateway, near, far, astray) => {
                let pod_uid = compile::gateway(state, &gateway)?.pod.uid;
                let astray = astray.then(|| "net1".to_string());
                let answer = |link: &str| Answer { link: link.into(), near, far, astray: astray.clone() };
                let answers = ["t1", "t2", "t3"].map(answer).into();
                Some(Event::Probed(gateway, Probed { pod_uid, asked: 0, answers }))
            }
            Happening::Sweep(gateway, fine) => {
                let pod = compile::gateway(state, &gateway)?.sweep.into_iter().next()?;
                let result = if fine { Ok(Visit::default()) } else { Err(Trouble::ExecTimedOut(10)) };
                Some(Event::Outcome(
                    gateway,
                    Outcome { pod_uid: pod.uid, revision: state.revision(), asked: 0, result },
                ))
            }
        }
    }
}

fn event(event: impl Strategy<Value = Event>) -> impl Strategy<Value = Happening> {
    event.prop_map(|event| Happening::Event(Box::new(event)))
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let named =
        |value: BoxedStrategy<VpcGateway>| (select(vec!["gw1", "gw1-a"]).prop_map(String::from), value);
    let workload = (any_gateway(), any::<bool>())
        .prop_map(|(gateway, ready)| {
            (gateway.to_string(), Workload { gateway, ready, subnet: Some("s".into()), replicated: false })
        })
        .boxed();
    let vpc_gateway = named(
        (0..3u8)
            .prop_map(|octet| VpcGateway {
                vpc: Some("v".into()),
                lan: Some(Ipv4Addr::new(10, 0, 1, octet)),
                external_subnets: vec!["x".into()],
                no_default_eip: octet == 2,
                replicated: octet == 1,
            })
            .boxed(),
    );
    let subnet = any::<bool>()
        .prop_map(|named| ("x".to_string(), Subnet { provider: named.then(|| "p".into()), vpc: None }));
    let vpc = (0..3u8, 0..4u8, any::<bool>()).prop_map(|(octet, wish, all)| {
        let (range, next_hop) = (name("242.0.0.0/8"), Ipv4Addr::new(10, 0, 1, octet));
        let namespaces = (octet == 0).then(|| "ns1".to_string()).into_iter().collect();
        let listed = ListedRoute { range: Some(range), next_hop: Some(next_hop), shared: wish == 3 };
        let routes = BTreeSet::from([StaticRoute { range, next_hop }]);
        let to = ["gw1", "gw1-a"].get(usize::from(wish)).map(|text| (*text).to_string());
        let switch = to.map(|text| Switch { to: name(&text), text, all });
        let resource_version = format!("{octet}{wish}");
        (
            "v".to_string(),
            Vpc { routes, listed: vec![listed], namespaces, resource_version, switch, annotated: all },
        )
    });
    let node = select(vec![NodeHealth::Ready, NodeHealth::NotReady, NodeHealth::Lost])
        .prop_map(|h| ("n1".to_string(), h));
    let globalnet = (select(vec!["c1", "c1", "a-c1", "c3"]), select(vec!["242.0.0.0/16", "242.1.0.0/16"]))
        .prop_map(|(cluster, range)| (cluster.to_string(), name(range)));
    let eip = (any_gateway(), 0..2i64).prop_map(|(gateway, created)| {
        (format!("eip{created}"), Eip { gateway, address: Ipv4Addr::new(172, 50, 16, 101), created })
    });
    let member = (select(vec!["c1", "a-c1"]), select(vec!["uid0", "uid1", "uid2"]), 0..3i64, 0..3i64)
        .prop_map(|(cluster, uid, renewed, read)| {
            let member = Member { cluster: name(cluster), uid: uid.into() };
            (member.name(), Renewal { member, renewed: 10 * renewed, lasts: 10, read: 10 * read })
        });
    prop_oneof![
        2 => event(any_change(any_end(false)).prop_map(Event::OwnEnds)),
        3 => event(any_change(any_end(true)).prop_map(Event::PeerEnds)),
        1 => Just(Happening::Event(Box::new(Event::NoEnds))),
        8 => event(any_change(any_tunnel()).prop_map(Event::Tunnels)),
        3 => event(any_change(any_record()).prop_map(Event::Records)),
        2 => event(any_change(any_vpc_record(false)).prop_map(Event::Records)),
        2 => event(any_change(any_vpc_record(true).prop_map(|(key, record)| (key.name().to_owned(), record))).prop_map(Event::Copies)),
        1 => (any_gateway(), any::<bool>()).prop_map(|(by, listens)| Happening::Event(Box::new(Event::Listening(by, listens)))),
        2 => (any_gateway(), any_gateway(), any::<bool>()).prop_map(|(of, by, silent)| Happening::Event(Box::new(Event::Silence { of, by, silent }))),
        3 => event(any_change(any_copy()).prop_map(Event::Copies)),
        3 => event(any_change(any_pod()).prop_map(Event::Pods)),
        2 => event(any_change(workload.clone()).prop_map(Event::StatefulSets)),
        1 => event(any_change(workload).prop_map(Event::Deployments)),
        1 => event(any_change(vpc_gateway).prop_map(Event::VpcGateways)),
        1 => event(any_change(eip).prop_map(Event::Eips)),
        3 => event(any_change(member).prop_map(Event::Members)),
        1 => Just(Happening::Event(Box::new(Event::NoMembers))),
        1 => event(any_change(subnet).prop_map(Event::Subnets)),
        1 => event(any_change(vpc).prop_map(Event::Vpcs)),
        1 => event(any_change(node).prop_map(Event::Nodes)),
        1 => event(any_change(globalnet).prop_map(Event::Globalnets)),
        1 => event(prop::option::weighted(0.9, select(vec!["c1", "c1", "a-c1", "not an id"])).prop_map(|id| Event::Identity(id.map(str::parse)))),
        1 => event(vec(1..9u8, 0..8).prop_map(|octets| Event::Egress(octets.into_iter().map(|o| Ipv4Addr::new(242, 0, 0, o)).collect()))),
        1 => event(select(vec!["broker", "elsewhere"]).prop_map(|n| Event::Joining(n.into()))),
        1 => event(select(vec!["uid0", "uid1"]).prop_map(|uid| Event::Uid(uid.into()))),
        5 => (any_gateway(), prop::bool::weighted(0.8)).prop_map(|(gateway, fine)| Happening::Visit(gateway, fine)),
        1 => any_gateway().prop_map(Happening::Begin),
        1 => Just(Happening::End),
        2 => (any_gateway(), prop::bool::weighted(0.7)).prop_map(|(gateway, fine)| Happening::Sweep(gateway, fine)),
        5 => (any_gateway(), any_near(), any::<Option<bool>>(), prop::bool::weighted(0.1))
            .prop_map(|(gateway, near, far, astray)| Happening::Probe(gateway, near, far, astray)),
    ]
}

fn any_near() -> impl Strategy<Value = Near> {
    prop_oneof![4 => Just(Near::Answered(Some(900))), 3 => Just(Near::Silent), 1 => Just(Near::NotAsked)]
}

fn visit(state: &State, gateway: &GatewayName, fine: bool) -> Option<Event> {
    let task = compile::gateway(state, gateway)?;
    let tunnels: BTreeMap<_, _> =
        task.want.tunnels.values().map(|want| (want.owner.clone(), (want.clone(), None))).collect();
    let mut seen = Visit { tunnels, ..Visit::default() };
    seen.mtus = seen.tunnels.keys().map(|key| (key.clone(), 1450)).collect();
    seen.holding.owners = seen.tunnels.keys().cloned().collect();
    seen.holding.anything = !seen.tunnels.is_empty();
    let result = if fine { Ok(seen) } else { Err(Trouble::ExecTimedOut(10)) };
    let outcome = Outcome { pod_uid: task.pod.uid, revision: state.revision(), asked: 0, result };
    Some(Event::Outcome(gateway.clone(), outcome))
}

/// Everything that `compile` has to say, by scope.
#[derive(Debug, PartialEq)]
enum Said {
    Vpc(mains::Step),
    Watch(Option<compile::WatchTask>),
    Gateway(Option<compile::GatewayTask>),
    Tunnel(Option<Box<TunnelTask>>),
    Record(RecordTask),
    Membership(MembershipTask),
    End(EndTask),
}

fn all_said(state: &State) -> BTreeMap<Scope, Said> {
    let gateways = ["gw1", "gw1-a"].map(name::<GatewayName>);
    let mut said = BTreeMap::from([(Scope::Membership, Said::Membership(membership(state)))]);
    for gateway in gateways {
        said.insert(Scope::Gateway(gateway.clone()), Said::Gateway(compile::gateway(state, &gateway)));
        said.insert(Scope::Watch(gateway.clone()), Said::Watch(compile::watch(state, &gateway)));
        said.insert(Scope::Record(gateway.clone()), Said::Record(exchange::own_record(state, &gateway)));
        for cluster in ["c1", "a-c1", "c3"] {
            let peer = Peer { cluster: name(cluster), gateway: gateway.clone() };
            let copy = copy_name(&peer);
            said.insert(Scope::Export(copy.clone()), Said::Record(exchange::export(state, &copy)));
            for called in [plain(&peer), home(&peer), home_name(Some(&name("a-c1")), &peer)] {
                let key = ObjectKey::new(RECORD_NAMESPACE, &called).expect("a key");
                let task = exchange::import(state, &key);
                said.insert(Scope::Import(peer.cluster.clone(), key), Said::Record(task));
            }
        }
    }
    for (vpc, cluster) in
        ["v", "w"].iter().flat_map(|vpc| ["c1", "a-c1", "c3"].map(|cluster| (*vpc, cluster)))
    {
        said.insert(Scope::Vpc(vpc.into()), Said::Vpc(mains::step(state, vpc)));
        let (copy, home) = (vpc_name(vpc, &name(cluster)), vpc_home_name(vpc, &name(cluster)));
        said.insert(Scope::Export(copy.clone()), Said::Record(exchange::export(state, &copy)));
        for called in [copy, home] {
            let key = ObjectKey::new(RECORD_NAMESPACE, &called).expect("a key");
            let task = exchange::import(state, &key);
            said.insert(Scope::Import(name(cluster), key), Said::Record(task));
        }
    }
    for (namespace, tunnel) in ["ns1", "ns2"].iter().flat_map(|ns| ["t1", "t2", "t3"].map(|t| (*ns, t))) {
        let key = ObjectKey::new(namespace, tunnel).expect("a key");
        said.insert(Scope::Tunnel(key.clone()), Said::Tunnel(status::tunnel(state, &key).map(Box::new)));
        for cluster in ["c1", "a-c1"] {
            let end = format!("{namespace}.{tunnel}.{cluster}");
            said.insert(Scope::End(end.clone()), Said::End(publish(state, &end)));
        }
    }
    said
}

/// Whether a scope is touched. In whose line an import waits is another matter.
fn is_touched(touched: &BTreeSet<Scope>, scope: &Scope) -> bool {
    let same = |other: &Scope| match (other, scope) {
        (Scope::Import(_, other), Scope::Import(_, key)) => other == key,
        _ => other == scope,
    };
    touched.iter().any(same)
}

/// Whether a tunnel leads to the gateway of a record.
fn leads_to(state: &State, tunnel: &ObjectKey, record: &ObjectKey) -> bool {
    let spec = state.tunnel(tunnel).and_then(|tunnel| tunnel.spec.as_ref().ok());
    match spec.map(|spec| &spec.ends) {
        Some(Ends::ByGateway { peer, .. }) => [plain(peer), home(peer)].contains(&record.name().to_owned()),
        Some(Ends::ByVpc { .. }) | None => false,
    }
}

/// Whether a record is this cluster's own, of the gateway that a tunnel is built on: what is published
/// decides which of two pods serves, and so moves what is built.
fn speaks_for(state: &State, tunnel: &ObjectKey, record: &ObjectKey) -> bool {
    let spec = state.tunnel(tunnel).and_then(|tunnel| tunnel.spec.as_ref().ok());
    match (spec.map(|spec| &spec.ends), state.cluster()) {
        (Some(Ends::ByGateway { gateway, .. }), Some(own)) => record.name() == format!("{gateway}-{own}"),
        _ => false,
    }
}

/// Nothing to do is as good as gone: a scope that has nothing to say any more needs no visit for it.
fn is_silent(said: &Said) -> bool {
    matches!(
        said,
        Said::Tunnel(None)
            | Said::Record(RecordTask::Nothing)
            | Said::Vpc(mains::Step::Nothing)
            | Said::End(EndTask::Nothing)
    )
}

/// That a pod was swept needs no visit either.
fn is_swept(before: &Said, after: &Said) -> bool {
    let (Said::Gateway(Some(before)), Said::Gateway(Some(after))) = (before, after) else { return false };
    let same = (&before.pod, &before.want) == (&after.pod, &after.want);
    same && after.sweep.iter().all(|pod| before.sweep.contains(pod))
}

fn pod(nth: u8, created: i64) -> (ObjectKey, GatewayPod) {
    let key = ObjectKey::new("kube-system", &format!("vpc-nat-gw-gw1-a-{nth}")).expect("a key");
    let external = Ipv4Addr::new(172, 50, 16, 12 + 10 * nth);
    let pod = GatewayPod {
        pod: PodRef { key: key.clone(), uid: format!("gw1-a-{nth}") },
        gateway: name("gw1-a"),
        created,
        phase: "Running".into(),
        ready: true,
        deleting: false,
        node: Some(format!("n{nth}")),
        lan: Some(Ipv4Addr::new(10, 0, 1, 254)),
        router: Some(Ipv4Addr::new(10, 0, 1, 1)),
        external: [("ovn-vpc-external-network.kube-system".to_string(), external)].into(),
        vpc: Some("v".into()),
    };
    (key, pod)
}

#[test]
fn our_own_record_concerns_the_tunnels_of_its_gateway_only_where_it_moves_them() {
    let key = ObjectKey::new("ns1", "t1").expect("a key");
    let peer = Peer { cluster: name("a-c1"), gateway: name("gw1") };
    let tunnel = Tunnel {
        key: key.clone(),
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        created: 0,
        deleting: false,
        finalizers: Default::default(),
        abandon: false,
        spec: Ok(TunnelSpec {
            link: name("t1"),
            kind: TunnelKind::Gre,
            address: name("10.100.0.1/24"),
            ends: Ends::ByGateway { gateway: name("gw1-a"), peer },
        }),
        status: Default::default(),
    };
    let mut state = State::new(Given { restrict_namespaces: true, ..Given::default() });
    state.apply(Event::Identity(Some("c1".parse())));
    state.apply(Event::Tunnels(Change::Put(key.clone(), tunnel)));
    // The older pod serves as long as nothing is published.
    state.apply(Event::Pods(Change::Reset([pod(0, 1), pod(1, 0)].into())));
    let own = Peer { cluster: name("c1"), gateway: name("gw1-a") };
    let mut publish = |octet: u8| {
        let record = record_of(&own, RECORD_NAMESPACE, &plain(&own), octet, false);
        let touched: BTreeSet<Scope> = state.apply(Event::Records(Change::Put(record.key.clone(), record)));
        touched.contains(&Scope::Tunnel(key.clone()))
    };
    assert!(!publish(22), "what serves already is published: no news for the tunnel");
    assert!(publish(12), "the other pod is published: the tunnel moves to it");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn what_compile_says_differently_was_touched(happenings in vec(any_happening(), 1..60), limit in 1..3_usize) {
        let given = Given { records_per_member: Some(limit), restrict_namespaces: true, ..Given::default() };
        let mut state = State::new(given);
        let mut course = Course::default();
        let mut before = all_said(&state);
        for happening in happenings {
            let Some(event) = course.event(&state, happening) else { continue };
            let touched: BTreeSet<Scope> = state.apply(event.clone());
            prop_assert!(state.is_consistent(), "{event:?}");
            let after = all_said(&state);
            for (scope, said) in &after {
                if before[scope] != *said && !is_silent(said) && !is_swept(&before[scope], said) {
                    prop_assert!(is_touched(&touched, scope), "{event:?}\nchanged {scope:?}\nfrom {:?}\nto {said:?}", before[scope]);
                }
            }
            before = after;
        }
    }

    #[test]
    fn an_event_touches_no_tunnels_but_those_it_concerns(happenings in vec(any_happening(), 1..60)) {
        let mut state = State::new(Given { restrict_namespaces: true, ..Given::default() });
        let mut course = Course::default();
        for happening in happenings {
            let Some(event) = course.event(&state, happening) else { continue };
            let before = all_said(&state);
            let earlier = state.clone();
            let touched: BTreeSet<Scope> = state.apply(event.clone());
            let after = all_said(&state);
            let leaves = |key: &ObjectKey| {
                [&earlier, &state].iter().any(|state| state.tunnel(key).is_some_and(|tunnel| tunnel.deleting))
            };
            // Whatever happens on one gateway of its VPC, or changes who is the main one, concerns one by VPC.
            let by_vpc = |key: &ObjectKey| {
                let ends = |state: &State| Some(state.tunnel(key)?.spec.as_ref().ok()?.ends.clone());
                [&earlier, &state].iter().any(|state| matches!(ends(state), Some(Ends::ByVpc { .. })))
            };
            let concerned = |scope: &Scope, key: &ObjectKey| match &event {
                _ if by_vpc(key) => true,
                Event::Tunnels(Change::Put(own, _) | Change::Gone(own)) => own == key || before[scope] != after[scope],
                Event::Records(Change::Put(record, _) | Change::Gone(record)) => {
                    leads_to(&state, key, record) || speaks_for(&state, key, record) || before[scope] != after[scope]
                }
                Event::Outcome(gateway, new) => {
                    let serves = |state: &State| state.outcome(gateway).filter(|outcome| outcome.pod_uid == new.pod_uid).cloned();
                    let part = |outcome: Option<Outcome>| outcome.map(|outcome| format!("{:?}", outcome.of(key)));
                    leaves(key) || serves(&state).is_none() || part(serves(&earlier)) != part(serves(&state))
                }
                _ => true,
            };
            for scope in &touched {
                if let Scope::Tunnel(key) = scope {
                    prop_assert!(concerned(scope, key), "{event:?}\ntouched {scope:?}, to which it is no news");
                }
            }
        }
    }

    #[test]
    fn a_full_list_says_what_single_events_said(tunnels in vec(any_tunnel(), 0..6), pods in vec(any_pod(), 0..3), records in vec(any_record(), 0..4)) {
        let mut one_by_one = State::new(Given { restrict_namespaces: true, ..Given::default() });
        let mut at_once = State::new(Given { restrict_namespaces: true, ..Given::default() });
        for state in [&mut one_by_one, &mut at_once] {
            state.apply(Event::Identity(Some("c1".parse())));
            state.apply(Event::Tunnels(Change::Reset(BTreeMap::new())));
        }
        // As a server numbers them; late news of an earlier version is no news.
        let numbered = |((key, tunnel), version): ((ObjectKey, Tunnel), u32)| {
            (key, Tunnel { resource_version: version.to_string(), ..tunnel })
        };
        let tunnels: Vec<_> = tunnels.into_iter().zip(1..).map(numbered).collect();
        for (key, tunnel) in tunnels.clone() { one_by_one.apply(Event::Tunnels(Change::Put(key, tunnel))); }
        for (key, pod) in pods.clone() { one_by_one.apply(Event::Pods(Change::Put(key, pod))); }
        for (key, record) in records.clone() { one_by_one.apply(Event::Records(Change::Put(key, record))); }
        at_once.apply(Event::Records(Change::Reset(records.into_iter().collect())));
        at_once.apply(Event::Pods(Change::Reset(pods.into_iter().collect())));
        at_once.apply(Event::Tunnels(Change::Reset(tunnels.into_iter().collect())));
        prop_assert_eq!(all_said(&one_by_one), all_said(&at_once));
    }
}
