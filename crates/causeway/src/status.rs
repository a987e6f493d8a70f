//! `causeway status`: every tunnel in one table, up or why not.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use causeway_api::vpc::VpcNatTunnel;
use comfy_table::{ContentArrangement, Table, presets};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

/// Show every tunnel of a cluster: up, or why not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The cluster; by default as kubectl chooses it.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

/// Exits with 1 when a tunnel is not up, so that scripts can ask.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = crate::controller::client(args.kubeconfig.as_deref()).await?;
    let tunnels = Api::<VpcNatTunnel>::all(client).list(&ListParams::default()).await;
    let tunnels = tunnels.context("listing tunnels (is the VpcNatTunnel definition installed?)")?;
    if tunnels.items.is_empty() {
        writeln!(std::io::stdout(), "no tunnels; samples/tunnel.yaml shows how to declare one")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["TUNNEL", "UP", "TYPE", "THROUGH", "TO", "SINCE", "WHY"]);
    let mut all_up = true;
    for tunnel in &tunnels.items {
        let row = row(tunnel);
        all_up &= row[1] == "yes";
        table.add_row(row);
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(if all_up { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
