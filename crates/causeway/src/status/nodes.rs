//! Every node of the pods' network: what it has announced, and what is wrong with that.
//!
//! Each node judges all others for itself. Here they are judged as one would that has nothing in the network and goes
//! the way that most of them go.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Context;
use causeway_api::leases::{NETWORK_UNAVAILABLE, NodeObject, NodeSpec, node};
use causeway_core::leases::{Backend, Lease, Mac, Mode, Network, Node, Place, Refusal, admit};
use causeway_core::{Cidr, Family};
use k8s_openapi::api::core::v1;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::table;

/// Nodes of a page: they are large objects, and little of them is kept.
const PAGE: u32 = 500;

/// What is kept of a node that takes part in the network.
pub(super) struct Row {
    name: String,
    /// As its spec has them.
    subnets: Vec<String>,
    node: Node,
    /// What is said of its network: `yes`, or why not; nothing where nothing is said.
    network: Option<Result<(), String>>,
}

/// All nodes that take part; none where nodes may not be read.
pub(super) async fn list(client: &Client, prefix: &str) -> anyhow::Result<Vec<Row>> {
    let api: Api<v1::Node> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut rows = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Vec::new()),
            Err(error) => return Err(error).context("listing nodes"),
        };
        rows.extend(page.items.into_iter().filter_map(|object| row(prefix, object)));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(rows);
        }
    }
}

fn row(prefix: &str, object: v1::Node) -> Option<Row> {
    let name = object.name_any();
    let network = network(&object);
    let spec = object.spec.unwrap_or_default();
    let spec = NodeSpec { pod_cidrs: spec.pod_cidrs.unwrap_or_default(), pod_cidr: spec.pod_cidr };
    let mut subnets = spec.pod_cidrs.clone();
    if subnets.is_empty() {
        subnets.extend(spec.pod_cidr.clone());
    }
    let object = NodeObject { metadata: object.metadata, spec, ..NodeObject::default() };
    Some(Row { name, subnets, node: node(prefix, &object)?, network })
}

/// What is said of a node's network, if anything is.
fn network(object: &v1::Node) -> Option<Result<(), String>> {
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|it| it.type_ == NETWORK_UNAVAILABLE)?;
    if condition.status == "False" {
        return Some(Ok(()));
    }
    let words = [&condition.reason, &condition.message].map(|it| it.as_deref().filter(|it| !it.is_empty()));
    let words: Vec<&str> = words.into_iter().flatten().collect();
    Some(Err(if words.is_empty() { "no".into() } else { format!("no: {}", words.join(": ")) }))
}

/// Whether nothing is wrong with any.
pub(super) fn print(rows: &[Row]) -> anyhow::Result<bool> {
    if rows.is_empty() {
        return Ok(true);
    }
    let wrong = judge(rows);
    let mut table = table(&["NODE", "SUBNETS", "PUBLIC", "BACKEND", "NETWORK", "WHY"]);
    for row in rows {
        table.add_row(cells(row, wrong.get(row.name.as_str())));
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(wrong.is_empty() && rows.iter().all(|row| !matches!(row.network, Some(Err(_)))))
}

fn cells(row: &Row, wrong: Option<&Vec<String>>) -> [String; 6] {
    let leases = || row.node.leases.iter().flatten();
    let mut backends: Vec<String> = leases().map(|lease| backend(&lease.backend)).collect();
    backends.dedup();
    let network = match &row.network {
        None => "-".into(),
        Some(Ok(())) => "yes".into(),
        Some(Err(why)) => why.clone(),
    };
    [
        row.name.clone(),
        listed(row.subnets.clone()),
        listed(leases().map(|lease| lease.public.to_string()).collect()),
        listed(backends),
        network,
        wrong.map_or_else(|| "-".into(), |whys| whys.join("; ")),
    ]
}

fn listed(words: Vec<String>) -> String {
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

fn backend(backend: &Backend) -> String {
    match backend {
        Backend::Vxlan { vni, .. } => format!("vxlan (VNI {vni})"),
        Backend::HostGw | Backend::Other(_) => backend.name().to_owned(),
    }
}

/// What is wrong with nodes, by their names.
fn judge(rows: &[Row]) -> BTreeMap<&str, Vec<String>> {
    let mut wrong: BTreeMap<&str, Vec<String>> = BTreeMap::new();
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

fn leases(rows: &[Row], family: Family) -> impl Iterator<Item = (&Row, &Lease)> {
    rows.iter().filter_map(move |row| Some((row, row.node.lease(family)?)))
}

/// The way that most nodes go.
fn usual(rows: &[Row], family: Family) -> Option<Mode> {
    let mut counts: BTreeMap<Option<u32>, (usize, Mode)> = BTreeMap::new();
    for (_, lease) in leases(rows, family) {
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
