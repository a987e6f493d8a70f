//! `causeway status`: every tunnel in one table, up or why not; every rule, every declared network and every node of the
//! pods' network in others.

mod networks;
mod nodes;
mod rules;
mod tunnels;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use causeway_api::leases::DEFAULT_PREFIX;
use comfy_table::{ContentArrangement, Table, presets};

/// Show every tunnel, rule, network and node of a cluster: all is well, or what is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The cluster; by default as kubectl chooses it.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// What the names of nodes' annotations begin with.
    #[arg(long, value_name = "PREFIX", env = "FLANNELD_KUBE_ANNOTATION_PREFIX", default_value = DEFAULT_PREFIX)]
    kube_annotation_prefix: String,
}

/// Exits with 1 when a tunnel is not up, a rule is not accepted or refused by a data plane, a network is not as declared, or
/// something is wrong with a node, so that scripts can ask.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = crate::controller::client(args.kubeconfig.as_deref()).await?;
    let prefix = args.kube_annotation_prefix.trim_end_matches('/');
    let (tunnels, rules, networks, nodes) = tokio::join!(
        tunnels::list(&client),
        rules::list(&client),
        networks::list(&client),
        nodes::list(&client, prefix)
    );
    let others = matches!(rules, Ok(Some(_)))
        || matches!(networks, Ok(Some(_)))
        || nodes.as_ref().is_ok_and(|nodes| !nodes.is_empty());
    let mut all_well = true;
    match tunnels {
        Ok(tunnels) => all_well &= tunnels::print(&tunnels)?,
        // Where there are only rules, networks or nodes, there is nothing to say of tunnels.
        Err(kube::Error::Api(status)) if status.code == 404 && others => {}
        Err(error) => {
            return Err(error).context("listing tunnels (is the VpcNatTunnel definition installed?)");
        }
    }
    all_well &= rules::print(&rules?.unwrap_or_default())?;
    all_well &= networks::print(&networks?.unwrap_or_default())?;
    all_well &= nodes::print(&nodes?)?;
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.to_vec());
    table
}
