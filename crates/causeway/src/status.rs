//! `causeway status`: every tunnel in one table, up or why not, and every rule in another.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use causeway_api::rules::{resource, status};
use causeway_api::vpc::VpcNatTunnel;
use causeway_core::Condition;
use causeway_core::rules::object::APP;
use causeway_core::rules::status::{ACCEPTED, DISTRIBUTED};
use causeway_core::rules::{Kind, RuleStatus};
use comfy_table::{ContentArrangement, Table, presets};
use futures::future::try_join_all;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

/// Show every tunnel and every rule of a cluster: up and distributed, or why not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The cluster; by default as kubectl chooses it.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

/// Exits with 1 when a tunnel is not up, or a rule is not accepted or refused by a data plane, so that scripts can ask.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = crate::controller::client(args.kubeconfig.as_deref()).await?;
    let (tunnels, rules) = tokio::join!(tunnels(&client), rules(&client));
    let mut all_well = true;
    match tunnels {
        Ok(tunnels) => all_well &= print_tunnels(&tunnels)?,
        // Where there are only rules, there is nothing to say of tunnels.
        Err(kube::Error::Api(status)) if status.code == 404 && matches!(rules, Ok(Some(_))) => {}
        Err(error) => {
            return Err(error).context("listing tunnels (is the VpcNatTunnel definition installed?)");
        }
    }
    all_well &= print_rules(&rules?.unwrap_or_default())?;
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.to_vec());
    table
}

async fn tunnels(client: &Client) -> kube::Result<Vec<VpcNatTunnel>> {
    Ok(Api::<VpcNatTunnel>::all(client.clone()).list(&ListParams::default()).await?.items)
}

/// Whether all are up.
fn print_tunnels(tunnels: &[VpcNatTunnel]) -> anyhow::Result<bool> {
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

/// All rules of the kinds that are installed and may be read; nothing if there is no such kind.
async fn rules(client: &Client) -> anyhow::Result<Option<Vec<(Kind, DynamicObject)>>> {
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
fn print_rules(rules: &[(Kind, DynamicObject)]) -> anyhow::Result<bool> {
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
