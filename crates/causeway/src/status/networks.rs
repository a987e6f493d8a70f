//! Every declared network: as declared in the cloud, or why not.

use causeway_api::networks::{LooseNetwork, parse};
use causeway_controller::found::Found;
use causeway_core::networks::Network as Declared;
use causeway_core::networks::status::{CLEANUP_BLOCKED, READY};
use serde::Serialize;

use super::item::Item;
use super::known::{Name, name};
use super::view::{Column, Entry};

/// A declared network.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Network {
    #[serde(flatten)]
    item: Item,
    cidr: Option<String>,
    /// Its own gateway's address.
    gateway: Option<String>,
    /// Which kind of cloud it is in.
    provider: Option<String>,
    /// The cloud's name for it.
    network_id: Option<String>,
    /// The same of its subnet.
    subnet_id: Option<String>,
}

pub(super) fn convert(object: &Found<LooseNetwork>) -> (Name, Option<Network>) {
    let network = object.0.as_ref().ok().and_then(|object| Some(network(object, &parse::network(object)?)));
    (name(object), network)
}

fn network(object: &LooseNetwork, declared: &Declared) -> Network {
    let (spec, status) = (declared.spec.as_ref().ok(), &declared.status);
    let conditions = &status.conditions;
    Network {
        item: Item::of(object).says(conditions.get(READY), conditions.get(CLEANUP_BLOCKED)),
        cidr: spec.map(|spec| spec.cidr.to_string()),
        gateway: status.gateway.clone().or_else(|| spec.map(|spec| spec.gateway.to_string())),
        provider: status.provider.clone(),
        network_id: status.network_id.clone(),
        subnet_id: status.subnet_id.clone(),
    }
}

impl Entry for Network {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("NETWORK", |it| it.item.full_name()),
        Column::new("READY", |it| it.item.readiness().into()),
        Column::new("CIDR", |it| it.cidr.clone().unwrap_or_default()),
        Column::new("GATEWAY", |it| it.gateway.clone().unwrap_or_default()),
        Column::wide("PROVIDER", |it| it.provider.clone().unwrap_or_default()),
        Column::wide("ID", |it| it.network_id.clone().unwrap_or_default()),
        Column::wide("SUBNET", |it| it.subnet_id.clone().unwrap_or_default()),
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

    fn why(&self) -> String {
        if self.item.ready == Some(true) { String::new() } else { self.item.reasons() }
    }
}
