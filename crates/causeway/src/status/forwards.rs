//! Every forward of names: in force, or why not.

use causeway_api::dns::{LooseForward, parse};
use causeway_controller::found::Found;
use causeway_core::dns::Forward as Declared;
use causeway_core::dns::status::{CLEANUP_BLOCKED, READY};
use serde::Serialize;

use super::item::Item;
use super::known::{Name, name};
use super::view::{Column, Entry};

/// A forward of names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Forward {
    #[serde(flatten)]
    item: Item,
    vpc: Option<String>,
    /// The `VpcDns` that forwards.
    vpc_dns: Option<String>,
    /// Where it asks.
    server: Option<String>,
    /// The gateway on the way there.
    gateway: Option<String>,
    /// The ConfigMaps whose Corefile may have a block because of it.
    corefiles: Vec<String>,
}

pub(super) fn convert(object: &Found<LooseForward>) -> (Name, Option<Forward>) {
    let forward = object.0.as_ref().ok().and_then(|object| Some(forward(object, parse::forward(object)?)));
    (name(object), forward)
}

fn forward(object: &LooseForward, declared: Declared) -> Forward {
    let status = declared.status;
    let conditions = &status.conditions;
    Forward {
        item: Item::of(object).says(conditions.get(READY), conditions.get(CLEANUP_BLOCKED)),
        vpc: declared.vpc.ok().or(status.vpc),
        vpc_dns: status.vpc_dns,
        server: status.kube_dns,
        gateway: status.gateway,
        corefiles: status.corefiles.into_iter().collect(),
    }
}

impl Entry for Forward {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("FORWARD", |it| it.item.full_name()),
        Column::new("READY", |it| it.item.readiness().into()),
        Column::new("VPC", |it| it.vpc.clone().unwrap_or_default()),
        Column::new("SERVER", |it| it.server.clone().unwrap_or_default()),
        Column::wide("VPCDNS", |it| it.vpc_dns.clone().unwrap_or_default()),
        Column::wide("THROUGH", |it| it.gateway.clone().unwrap_or_default()),
        Column::wide("COREFILES", |it| it.corefiles.join(" ")),
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
