//! Every node of the pods' network: what it has announced, and what is wrong with that.
//!
//! Each node judges all others for itself. Here they are judged as one would that has nothing in the network and goes
//! the way that most of them go.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use causeway_api::leases::{NETWORK_UNAVAILABLE, NodeObject, NodeSpec, node};
use causeway_controller::found::Found;
use causeway_core::leases::{self, Backend, Lease, Mac, Mode, Network, Place, Refusal, admit};
use causeway_core::{Cidr, Family};
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use serde::Serialize;

use super::item::Item;
use super::known::{Name, name};
use super::view::{Column, Entry};

/// What is kept of a node that takes part in the network.
#[derive(Debug, Clone)]
pub(super) struct Node {
    name: String,
    /// As its spec has them.
    subnets: Vec<String>,
    node: leases::Node,
    /// What is said of its network, if anything is.
    network: Option<Said>,
}

/// What a node's condition says of its network.
#[derive(Debug, Clone)]
struct Said {
    is_up: bool,
    reason: Option<String>,
    message: Option<String>,
    since: Option<Timestamp>,
}

/// A node and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    item: Item,
    /// Its parts of the pods' network.
    subnets: Vec<String>,
    /// Where it is reached.
    addresses: Vec<String>,
    /// How it is reached, the same for both families as a rule.
    backends: Vec<Way>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Way {
    #[serde(rename = "type")]
    kind: String,
    /// Where it is VXLAN.
    vni: Option<u32>,
}

pub(super) fn convert(prefix: &str) -> impl Fn(&Found<v1::Node>) -> (Name, Option<Node>) + use<> {
    let prefix = prefix.to_owned();
    move |object| (name(object), object.0.as_ref().ok().and_then(|object| kept(&prefix, object)))
}

fn kept(prefix: &str, object: &v1::Node) -> Option<Node> {
    let spec = object.spec.clone().unwrap_or_default();
    let spec = NodeSpec { pod_cidrs: spec.pod_cidrs.unwrap_or_default(), pod_cidr: spec.pod_cidr };
    let mut subnets = spec.pod_cidrs.clone();
    if subnets.is_empty() {
        subnets.extend(spec.pod_cidr.clone());
    }
    let read = NodeObject { metadata: object.metadata.clone(), spec, ..NodeObject::default() };
    Some(Node { name: object.name_any(), subnets, node: node(prefix, &read)?, network: network(object) })
}

/// What is said of a node's network, if anything is.
fn network(object: &v1::Node) -> Option<Said> {
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|it| it.type_ == NETWORK_UNAVAILABLE)?;
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Some(Said {
        is_up: condition.status == "False",
        reason: text(&condition.reason),
        message: text(&condition.message),
        since: condition.last_transition_time.as_ref().map(|time| time.0),
    })
}

/// All nodes of a cluster, each judged beside the others.
pub(super) fn shown(nodes: &[&Node]) -> Vec<Shown> {
    let wrong = judge(nodes);
    nodes.iter().map(|node| show(node, wrong.get(node.name.as_str()))).collect()
}

fn show(row: &Node, wrong: Option<&Vec<String>>) -> Shown {
    let leases = || row.node.leases.iter().flatten();
    let mut backends: Vec<Way> = leases().map(|lease| way(&lease.backend)).collect();
    backends.dedup();
    let mut item = Item { name: row.name.clone(), ..Item::default() };
    if let Some(said) = row.network.clone() {
        (item.ready, item.reason, item.message) = (Some(said.is_up), said.reason, said.message);
        item.since = said.since;
    }
    if let Some(whys) = wrong {
        // What it says of itself is left where it is no praise.
        let own = item.message.take().filter(|_| item.ready == Some(false));
        item.reason = item.reason.take().filter(|_| item.ready == Some(false));
        let all: Vec<&str> = own.iter().chain(whys).map(String::as_str).collect();
        (item.ready, item.message) = (Some(false), Some(all.join("; ")));
    }
    Shown {
        item,
        subnets: row.subnets.clone(),
        addresses: leases().map(|lease| lease.public.to_string()).collect(),
        backends,
    }
}

fn way(backend: &Backend) -> Way {
    let vni = match backend {
        Backend::Vxlan { vni, .. } => Some(*vni),
        Backend::HostGw | Backend::Other(_) => None,
    };
    Way { kind: backend.name().to_owned(), vni }
}

impl Way {
    fn words(&self) -> String {
        match self.vni {
            Some(vni) => format!("{} (VNI {vni})", self.kind),
            None => self.kind.clone(),
        }
    }
}

impl Entry for Shown {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("NODE", |it| it.item.full_name()),
        Column::new("READY", |it| it.item.readiness().into()),
        Column::new("SUBNETS", |it| it.subnets.join(", ")),
        Column::new("PUBLIC", |it| it.addresses.join(", ")),
        Column::new("BACKEND", |it| it.backends.iter().map(Way::words).collect::<Vec<_>>().join(", ")),
    ];

    fn item(&self) -> &Item {
        &self.item
    }

    fn item_mut(&mut self) -> &mut Item {
        &mut self.item
    }

    /// That nothing is said of its network is no fault.
    fn is_well(&self) -> bool {
        self.item.ready != Some(false)
    }

    fn why(&self) -> String {
        if self.item.ready == Some(false) { self.item.reasons() } else { String::new() }
    }
}

/// What is wrong with nodes, by their names.
fn judge<'a>(rows: &[&'a Node]) -> BTreeMap<&'a str, Vec<String>> {
    let mut wrong: BTreeMap<&'a str, Vec<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.node.leases.is_empty()) {
        let why = if row.subnets.is_empty() {
            "no podCIDR: kube-controller-manager gives one with --allocate-node-cidrs"
        } else {
            "no public address is announced: does an agent run there?"
        };
        wrong.entry(&row.name).or_default().push(why.to_owned());
    }
    for family in Family::ALL {
        let mut say = |name, why: String| {
            let whys = wrong.entry(name).or_default();
            if !whys.contains(&why) {
                whys.push(why);
            }
        };
        let usual = usual(rows, family);
        let network = Network { range: everything(family), mode: usual.unwrap_or(Mode::HostGw) };
        let nodes = rows.iter().map(|row| (row.name.as_str(), &row.node));
        for (name, refusal) in admit(&network, &nobody(family), nodes).refused {
            say(name, words(&refusal, usual));
        }
    }
    wrong
}

/// A refusal as somebody who is no node would put it.
fn words(refusal: &Refusal, usual: Option<Mode>) -> String {
    match (refusal, usual) {
        (Refusal::OtherBackend(theirs, _), None) => {
            format!("its backend is `{theirs}`, which causeway node does not have")
        }
        (Refusal::OtherBackend(theirs, usual), Some(_)) => {
            format!("its backend is `{theirs}`, and that of most nodes is `{usual}`")
        }
        (Refusal::OtherVni(theirs, usual), _) => {
            format!("its VNI is {theirs}, and that of most nodes is {usual}")
        }
        (refusal, _) => refusal.to_string(),
    }
}

fn leases<'a>(rows: &[&'a Node], family: Family) -> impl Iterator<Item = &'a Lease> {
    rows.iter().filter_map(move |row| row.node.lease(family))
}

/// The way that most nodes go.
fn usual(rows: &[&Node], family: Family) -> Option<Mode> {
    let mut counts: BTreeMap<Option<u32>, (usize, Mode)> = BTreeMap::new();
    for lease in leases(rows, family) {
        let (vni, mode) = match lease.backend {
            Backend::HostGw => (None, Mode::HostGw),
            Backend::Vxlan { vni, .. } => (Some(vni), Mode::Vxlan { vni, port: 0, direct: false }),
            Backend::Other(_) => continue,
        };
        counts.entry(vni).or_insert((0, mode)).0 += 1;
    }
    counts.into_values().max_by_key(|(count, _)| *count).map(|(_, mode)| mode)
}

/// All addresses of a family: which of them the network has is known to its nodes only.
fn everything(family: Family) -> Cidr {
    let alone = nobody(family).subnet;
    alone.covering().last().unwrap_or(alone)
}

/// The place of one that has no part in the network, and that nobody can claim.
fn nobody(family: Family) -> Place {
    let (last, none): (IpAddr, IpAddr) = match family {
        Family::V4 => (Ipv4Addr::BROADCAST.into(), Ipv4Addr::UNSPECIFIED.into()),
        Family::V6 => (Ipv6Addr::from(u128::MAX).into(), Ipv6Addr::UNSPECIFIED.into()),
    };
    let (subnet, mac) = (Cidr::alone(last), Mac::default());
    Place { subnet, public: none, local: none, link: 0, mtu: 0, neighbours: Vec::new(), mac }
}
