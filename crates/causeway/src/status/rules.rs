//! Every rule: accepted and distributed, or why not.

use std::io::Write;

use anyhow::Context;
use causeway_api::rules::{resource, status};
use causeway_core::Condition;
use causeway_core::rules::object::APP;
use causeway_core::rules::status::{ACCEPTED, DISTRIBUTED};
use causeway_core::rules::{Kind, RuleStatus};
use futures::future::try_join_all;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::table;

/// All rules of the kinds that are installed and may be read; nothing if there is no such kind.
pub(super) async fn list(client: &Client) -> anyhow::Result<Option<Vec<(Kind, DynamicObject)>>> {
    let of_kind = async |kind: Kind| {
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource(kind));
        match api.list(&ListParams::default()).await {
            Ok(listed) => Ok(Some(listed.items.into_iter().map(|object| (kind, object)).collect::<Vec<_>>())),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("listing {}", kind.plural())),
        }
    };
    let listed = try_join_all(Kind::ALL.map(of_kind)).await?;
    Ok(listed.iter().any(Option::is_some).then(|| listed.into_iter().flatten().flatten().collect()))
}

/// Whether all are accepted, and refused by nobody.
pub(super) fn print(rules: &[(Kind, DynamicObject)]) -> anyhow::Result<bool> {
    if rules.is_empty() {
        return Ok(true);
    }
    let header = ["KIND", "RULE", "APP", "ACKED", "FAILED", "PENDING", "ACCEPTED", "DISTRIBUTED"];
    let (mut table, mut all_well) = (table(&header), true);
    for (kind, object) in rules {
        let status = status::read(object.data.get("status").unwrap_or(&Value::Null));
        all_well &= is_well(&status);
        table.add_row(rule_row(*kind, object, &status));
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(all_well)
}

fn is_well(status: &RuleStatus) -> bool {
    status.conditions.get(ACCEPTED).is_none_or(Condition::is_true) && status.total.failed == 0
}

fn rule_row(kind: Kind, object: &DynamicObject, status: &RuleStatus) -> [String; 8] {
    let total = &status.total;
    [
        kind.name().into(),
        format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any()),
        object.labels().get(APP).map_or("-", String::as_str).to_owned(),
        total.acked.to_string(),
        total.failed.to_string(),
        total.pending.to_string(),
        truth(status, ACCEPTED),
        truth(status, DISTRIBUTED),
    ]
}

/// `yes`, or why not.
fn truth(status: &RuleStatus, condition: &str) -> String {
    match status.conditions.get(condition) {
        None => "no word yet: no controller runs, or the stock definition is installed".into(),
        Some(condition) if condition.is_true() => "yes".into(),
        Some(condition) => format!("{}: {}", condition.reason, condition.message),
    }
}
