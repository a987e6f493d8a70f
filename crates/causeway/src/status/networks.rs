//! Every declared network: as declared in the cloud, or why not.

use std::io::Write;

use anyhow::Context;
use causeway_api::networks::{LooseNetwork, parse};
use causeway_core::networks::Network;
use causeway_core::networks::status::{CLEANUP_BLOCKED, READY};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};

use super::table;

/// All networks; nothing where the kind is not installed or may not be read.
pub(super) async fn list(client: &Client) -> anyhow::Result<Option<Vec<Network>>> {
    let api: Api<LooseNetwork> = Api::all(client.clone());
    match api.list(&ListParams::default()).await {
        Ok(listed) => Ok(Some(listed.iter().filter_map(parse::network).collect())),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(None),
        Err(error) => Err(error).context("listing networks"),
    }
}

/// Whether all are as declared.
pub(super) fn print(networks: &[Network]) -> anyhow::Result<bool> {
    if networks.is_empty() {
        return Ok(true);
    }
    let mut table = table(&["NETWORK", "READY", "CIDR", "GATEWAY", "PROVIDER", "ID", "SINCE", "WHY"]);
    for network in networks {
        table.add_row(row(network));
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(networks.iter().all(|network| network.status.conditions.is_true(READY)))
}

fn row(network: &Network) -> [String; 8] {
    let status = &network.status;
    let text = |field: Option<String>| field.unwrap_or_else(|| "-".into());
    let spec = network.spec.as_ref().ok();
    // Of one that is being deleted, what holds it says more than that it is.
    let blocked = status.conditions.get(CLEANUP_BLOCKED).filter(|blocked| blocked.is_true());
    let ready = status.conditions.get(READY);
    let since = ready.and_then(|ready| Timestamp::from_second(ready.since?).ok());
    [
        network.key.to_string(),
        ready.map_or_else(|| "no".into(), |ready| if ready.is_true() { "yes".into() } else { word(ready) }),
        text(spec.map(|spec| spec.cidr.to_string())),
        text(status.gateway.clone().or_else(|| spec.map(|spec| spec.gateway.to_string()))),
        text(status.provider.clone()),
        text(status.network_id.clone()),
        text(since.map(|since| since.to_string())),
        blocked.or(ready).map_or_else(
            || "not looked at yet: is a controller running?".into(),
            |condition| format!("{}: {}", condition.reason, condition.message),
        ),
    ]
}

/// `no`, or that nobody knows.
fn word(ready: &causeway_core::Condition) -> String {
    match ready.status {
        causeway_core::Truth::Unknown => "unknown".into(),
        causeway_core::Truth::True | causeway_core::Truth::False => "no".into(),
    }
}
