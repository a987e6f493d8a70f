//! Every tunnel: up, or why not.

use causeway_api::condition;
use causeway_api::vpc::LooseTunnel;
use causeway_controller::found::Found;
use causeway_core::vpc::ends::{PEER_AGREES, SEVERAL_ENDS};
use causeway_core::vpc::status::{
    CLEANUP_BLOCKED, FAILOVER, LAST_KNOWN, READY, ROUTED, SEGMENT_SIZE, SWITCHED_PARTLY, UNDERLAY,
};
use causeway_core::{Conditions, Truth};
use serde::Serialize;
use serde_json::Value;

use super::item::Item;
use super::known::{Name, name};
use super::view::{Column, Entry};

/// A tunnel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tunnel {
    #[serde(flatten)]
    item: Item,
    #[serde(rename = "type")]
    kind: String,
    /// The VPC that it leads from, through whichever is the main gateway there; nothing where it names a gateway.
    vpc: Option<String>,
    /// The gateway of this cluster.
    gateway: Gateway,
    /// Those that hold it too and would take over.
    standbys: Vec<String>,
    /// The other end.
    peer: Peer,
    /// The address on the tunnel's link.
    interface_address: Option<String>,
    /// This cluster's range of global addresses.
    range: Option<String>,
    /// The addresses of that range that its traffic comes from.
    sources: Vec<String>,
    /// What people should know of a tunnel although it is up.
    warnings: Vec<Warning>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Gateway {
    name: Option<String>,
    /// Its address outside.
    address: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Peer {
    cluster: Option<String>,
    /// Its gateway's name; by VPC that VPC's.
    name: Option<String>,
    address: Option<String>,
    /// Its cluster's range of global addresses.
    range: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Warning {
    reason: String,
    message: String,
}

pub(super) fn convert(object: &Found<LooseTunnel>) -> (Name, Option<Tunnel>) {
    (name(object), object.0.as_ref().ok().map(tunnel))
}

fn tunnel(object: &LooseTunnel) -> Tunnel {
    let status = object.status();
    let conditions = condition::read(&status.conditions);
    let asked = |field: &str| object.spec.get(field).and_then(Value::as_str).map(str::to_owned);
    let (cluster, peer) = match status.peer.as_deref().and_then(|peer| peer.split_once('/')) {
        Some((cluster, peer)) => (Some(cluster.to_owned()), Some(peer.to_owned())),
        None => (None, None),
    };
    Tunnel {
        item: Item::of(object).says(conditions.get(READY), conditions.get(CLEANUP_BLOCKED)),
        kind: asked("type").unwrap_or_else(|| "gre".into()),
        vpc: asked("localVpc"),
        gateway: Gateway { name: asked("natGwDp").or(status.local_gw), address: status.internal_ip },
        standbys: status.standbys,
        peer: Peer {
            cluster: asked("clusterId").or_else(|| asked("remoteCluster")).or(cluster),
            name: asked("gatewayName").or_else(|| asked("remoteVpc")).or(peer),
            address: status.remote_ip,
            range: status.remote_globalnet_cidr,
        },
        interface_address: asked("interfaceAddr").or(status.interface_addr),
        range: status.globalnet_cidr,
        sources: status.global_egress_ip,
        warnings: warnings(&conditions),
    }
}

/// Conditions that say of a tunnel that is up why it may be of no use.
fn warnings(conditions: &Conditions) -> Vec<Warning> {
    let kinds = [PEER_AGREES, LAST_KNOWN, ROUTED, FAILOVER, SWITCHED_PARTLY, UNDERLAY, SEGMENT_SIZE];
    let all = kinds.into_iter().filter_map(|kind| Some((kind, conditions.get(kind)?)));
    let wrong = all.filter(|(kind, condition)| match *kind {
        LAST_KNOWN | SWITCHED_PARTLY => condition.is_true(),
        _ => condition.status == Truth::False || condition.reason == SEVERAL_ENDS,
    });
    wrong
        .map(|(_, condition)| condition)
        .map(|it| Warning { reason: it.reason.clone(), message: it.message.clone() })
        .collect()
}

impl Tunnel {
    /// The gateway that carries it, and who would take over.
    fn through(&self) -> String {
        let main = self.gateway.name.clone().unwrap_or_default();
        if self.standbys.is_empty() { main } else { format!("{main} (else {})", self.standbys.join(", ")) }
    }

    fn peer_name(&self) -> String {
        let parts = [&self.peer.cluster, &self.peer.name];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

impl Entry for Tunnel {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("TUNNEL", |it| it.item.full_name()),
        Column::new("UP", |it| it.item.readiness().into()),
        Column::new("TYPE", |it| it.kind.clone()),
        Column::new("THROUGH", Self::through),
        Column::new("TO", Self::peer_name),
        Column::wide("LOCAL", |it| it.gateway.address.clone().unwrap_or_default()),
        Column::wide("REMOTE", |it| it.peer.address.clone().unwrap_or_default()),
        Column::wide("RANGE", |it| it.peer.range.clone().unwrap_or_default()),
        Column::wide("LINK", |it| it.interface_address.clone().unwrap_or_default()),
        Column::wide("SOURCES", |it| ends(&it.sources)),
    ];

    fn item(&self) -> &Item {
        &self.item
    }

    fn item_mut(&mut self) -> &mut Item {
        &mut self.item
    }

    fn is_well(&self) -> bool {
        self.item.ready == Some(true)
    }

    /// Of one that is up what should be known; the rest is in the other columns.
    fn why(&self) -> String {
        let mut words = Vec::new();
        if self.item.ready != Some(true) {
            words.push(self.item.reasons());
        }
        words.extend(self.warnings.iter().map(|it| format!("{}: {}", it.reason, it.message)));
        words.join("; ")
    }
}

/// The first and the last of a row of addresses.
fn ends(addresses: &[String]) -> String {
    match addresses {
        [] => String::new(),
        [only] => only.clone(),
        [first, .., last] => format!("{first} to {last}"),
    }
}
