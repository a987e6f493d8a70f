//! `causeway vpc status`: the main gateway of every VPC, and who would take over.

use std::collections::BTreeSet;

use causeway_core::vpc::State;
use causeway_core::vpc::overview::Overview;
use causeway_core::vpc::status::FAILOVER;
use serde::Serialize;

use super::{Output, Stop, see};
use crate::clusters::{OneCluster, Trouble};
use crate::look::Leader;
use crate::table::{Table, print, terminal};

/// Show the main gateway of every VPC, and who would take over.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The VPC; without it all that have gateways.
    vpc: Option<String>,
    #[command(flatten)]
    cluster: OneCluster,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Output,
}

/// Everything. Names are stable: docs/operating.md has them.
#[derive(Debug, Serialize)]
struct Document {
    /// Whether the exit code is 0.
    ready: bool,
    vpcs: Vec<Entry>,
    warnings: Vec<String>,
}

/// A VPC.
#[derive(Debug, PartialEq, Serialize)]
struct Entry {
    name: String,
    /// Whether its tunnels have a main gateway that works, and nothing is on its way.
    ready: bool,
    main: Option<String>,
    standbys: Vec<String>,
    /// Tunnels that follow its main gateway.
    tunnels: usize,
    /// What should be known, in sentences.
    messages: Vec<String>,
}

pub(super) async fn run(args: &Args) -> Result<u8, Stop> {
    let cluster = args.cluster.reach().await?;
    let seen = see(&cluster).await?;
    let names = seen.state.vpc_names();
    let chosen: BTreeSet<&String> = match &args.vpc {
        Some(vpc) if !names.contains(vpc) => {
            let there = names.iter().cloned().collect::<Vec<_>>().join(", ");
            let there = if there.is_empty() { "none".into() } else { there };
            return Err(
                Trouble::new(format!("no gateway is of VPC {vpc}; there are gateways of: {there}")).into()
            );
        }
        Some(vpc) => BTreeSet::from([vpc]),
        None => names.iter().collect(),
    };
    let vpcs: Vec<Entry> =
        chosen.into_iter().map(|vpc| entry(&seen.state, &seen.state.overview(vpc))).collect();
    let warnings = match &seen.leader {
        Leader::Nobody(why) => vec![format!("{why}; meanwhile nobody takes over")],
        Leader::Leads | Leader::Unknown => Vec::new(),
    };
    let document = Document { ready: vpcs.iter().all(|vpc| vpc.ready), vpcs, warnings };
    let text = match args.output {
        Output::Json => serde_json::to_string_pretty(&document)? + "\n",
        Output::Text => document.text(terminal().map(|(columns, _)| columns)),
    };
    print(&text)?;
    Ok(u8::from(!document.ready))
}

/// What is said of a VPC.
fn entry(state: &State, known: &Overview) -> Entry {
    let mut messages = Vec::new();
    let main = known.main.as_ref();
    let followed = !known.tunnels.is_empty();
    let unfit = match main {
        None => Some("no record names its main gateway yet".to_owned()),
        Some(main) => match known.gateway(main) {
            None => Some(format!("gateway {main}, which its record names, is gone")),
            Some(gateway) => gateway.unfit.clone(),
        },
    };
    messages.extend(unfit.clone().filter(|_| followed));
    let moving: Vec<String> = known.moving.iter().map(|moving| moving.from.to_string()).collect();
    if !moving.is_empty() {
        messages.push(format!("routes that lead to {} are still to be moved", moving.join(", ")));
    }
    // What tunnels say of it is the same for most of them.
    let said = known.tunnels.iter().filter_map(|key| state.tunnel(key)?.status.conditions.get(FAILOVER));
    let said: BTreeSet<&str> = said
        .filter(|it| !it.is_true() || it.message.contains("waits: "))
        .map(|it| it.message.as_str())
        .collect();
    if said.is_empty() && followed && known.standbys().next().is_none() {
        messages.push("no other gateway is ready to take over".into());
    }
    messages.extend(said.into_iter().map(str::to_owned));
    messages.extend(known.stayed.as_ref().map(|stayed| stayed.sentence(&known.vpc)));
    Entry {
        name: known.vpc.clone(),
        ready: !followed || unfit.is_none() && moving.is_empty(),
        main: main.map(ToString::to_string),
        standbys: known.standbys().map(ToString::to_string).collect(),
        tunnels: known.tunnels.len(),
        messages,
    }
}

impl Document {
    fn text(&self, columns: Option<usize>) -> String {
        let mut table = Table::new(["VPC", "MAIN", "STANDBY", "TUNNELS", "WHY"]);
        for Entry { name, main, standbys, tunnels, messages, .. } in &self.vpcs {
            let main = main.clone().unwrap_or_default();
            table.push([name, &main, &standbys.join(","), &tunnels.to_string(), &messages.join("; ")]);
        }
        let mut text = match table.is_empty() {
            true => "no gateway is of any VPC\n".to_owned(),
            false => table.render(columns),
        };
        self.warnings.iter().for_each(|warning| text += &format!("\nnote: {warning}\n"));
        text
    }
}
