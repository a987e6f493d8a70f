//! Every rule: accepted and distributed, or why not.

use causeway_api::rules::status;
use causeway_controller::found::Found;
use causeway_core::rules::object::APP;
use causeway_core::rules::status::{ACCEPTED, DISTRIBUTED};
use causeway_core::rules::{Kind, RuleStatus};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use super::item::{self, Item};
use super::known::{Name, name};
use super::view::{Column, Entry};

/// A rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Rule {
    #[serde(flatten)]
    item: Item,
    kind: &'static str,
    /// Whose data planes it is for.
    app: Option<String>,
    /// How many data planes run it.
    acked: u64,
    /// How many refused it.
    failed: u64,
    /// How many have not answered.
    pending: u64,
    /// Whether it was understood.
    accepted: Option<bool>,
    /// Whether all data planes that ask for it run it.
    distributed: Option<bool>,
}

pub(super) fn convert(kind: Kind) -> impl Fn(&Found<DynamicObject>) -> (Name, Option<Rule>) {
    move |object| (name(object), object.0.as_ref().ok().map(|object| rule(kind, object)))
}

fn rule(kind: Kind, object: &DynamicObject) -> Rule {
    let status = status::read(object.data.get("status").unwrap_or(&Value::Null));
    let holds = |kind: &str| status.conditions.get(kind).and_then(item::known);
    Rule {
        item: said(Item::of(object), &status),
        kind: kind.name(),
        app: object.labels().get(APP).cloned(),
        acked: status.total.acked.into(),
        failed: status.total.failed.into(),
        pending: status.total.pending.into(),
        accepted: holds(ACCEPTED),
        distributed: holds(DISTRIBUTED),
    }
}

/// What the first condition that is not as it should be says, else the last.
fn said(mut item: Item, status: &RuleStatus) -> Item {
    let Some(accepted) = status.conditions.get(ACCEPTED) else {
        item.message = Some("no word yet: no controller runs, or the stock definition is installed".into());
        return item;
    };
    let distributed = status.conditions.get(DISTRIBUTED).filter(|_| accepted.is_true());
    let last = distributed.unwrap_or(accepted);
    item = item.says(Some(last), None);
    // That nobody asks for it, or has not answered yet, is no fault.
    item.ready = item::known(accepted).map(|accepted| accepted && status.total.failed == 0);
    item
}

impl Entry for Rule {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("RULE", |it| it.item.full_name()),
        Column::new("KIND", |it| it.kind.into()),
        Column::new("APP", |it| it.app.clone().unwrap_or_default()),
        Column::new("READY", |it| it.item.readiness().into()),
        Column::new("ACKED", |it| it.acked.to_string()),
        Column::new("FAILED", |it| it.failed.to_string()),
        Column::new("PENDING", |it| it.pending.to_string()),
        Column::wide("ACCEPTED", |it| item::word(it.accepted).into()),
        Column::wide("DISTRIBUTED", |it| item::word(it.distributed).into()),
    ];

    fn item(&self) -> &Item {
        &self.item
    }

    fn item_mut(&mut self) -> &mut Item {
        &mut self.item
    }

    /// Where no status is kept nothing can be held against it.
    fn is_well(&self) -> bool {
        self.accepted.is_none_or(|accepted| accepted) && self.failed == 0
    }

    fn why(&self) -> String {
        let fine = self.item.ready == Some(true) && self.distributed == Some(true);
        if fine { String::new() } else { self.item.reasons() }
    }
}
