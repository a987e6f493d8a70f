//! Every tunnel: up, or why not.

use std::io::Write;

use causeway_api::vpc::VpcNatTunnel;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::table;

pub(super) async fn list(client: &Client) -> kube::Result<Vec<VpcNatTunnel>> {
    Ok(Api::<VpcNatTunnel>::all(client.clone()).list(&ListParams::default()).await?.items)
}

/// Whether all are up.
pub(super) fn print(tunnels: &[VpcNatTunnel]) -> anyhow::Result<bool> {
    if tunnels.is_empty() {
        writeln!(std::io::stdout(), "no tunnels; samples/tunnel.yaml shows how to declare one")?;
        return Ok(true);
    }
    let mut table = table(&["TUNNEL", "UP", "TYPE", "THROUGH", "TO", "SINCE", "WHY"]);
    let mut all_up = true;
    for tunnel in tunnels {
        let row = row(tunnel);
        all_up &= row[1] == "yes";
        table.add_row(row);
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(all_up)
}

fn row(tunnel: &VpcNatTunnel) -> [String; 7] {
    let status = tunnel.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let up = ready.is_some_and(|condition| condition.status == "True");
    let text = |field: Option<String>| field.unwrap_or_else(|| "-".into());
    let gateway = text(tunnel.spec.nat_gw_dp.clone().or(status.local_gw));
    let peer = text(status.peer);
    [
        format!("{}/{}", tunnel.namespace().unwrap_or_default(), tunnel.name_any()),
        if up { "yes" } else { "no" }.into(),
        format!("{:?}", tunnel.spec.kind).to_lowercase(),
        status.internal_ip.map_or(gateway.clone(), |ip| format!("{gateway} ({ip})")),
        status.remote_ip.map_or(peer.clone(), |ip| format!("{peer} ({ip})")),
        ready.map_or_else(|| "-".into(), |condition| condition.last_transition_time.0.to_string()),
        ready.map_or_else(
            || "not looked at yet: is a controller running?".into(),
            |condition| format!("{}: {}", condition.reason, condition.message),
        ),
    ]
}
