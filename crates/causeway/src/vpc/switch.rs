//! `causeway vpc switch`: a wish on the Vpc's object, and a wait until it is granted.

use std::io::Write;
use std::time::Duration;

use causeway_api::vpc::foreign::kube_ovn::Vpc;
use causeway_api::vpc::{GatewayExIp, SWITCH_TO, parse};
use causeway_core::vpc::exchange::{RECORD_NAMESPACE, Record};
use causeway_core::vpc::naming::vpc_name;
use causeway_core::vpc::overview::Overview;
use causeway_core::vpc::status::FAILOVER;
use causeway_core::{GatewayName, ObjectKey};
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::progress::{self, Progress};
use super::view::{self, Document, leading_to, moved, warnings};
use super::{Output, Stop, see, tied};
use crate::clusters::{Cluster, OneCluster, Trouble};
use crate::controller::duration;
use crate::look::Leader;
use crate::table::{print, terminal};

/// How often it is looked how far it got.
const POLL: Duration = Duration::from_millis(200);
/// How often it is looked why it waits.
const WHY: u32 = 5;

/// Make another gateway of a VPC the main one, without losing a packet.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The VPC.
    vpc: String,
    /// The gateway that should be its main one.
    gateway: GatewayName,
    #[command(flatten)]
    cluster: OneCluster,
    /// All routes that lead to the present one, and not only those of the tunnels' ranges. EIPs, and the floating IPs and SNATs
    /// on them, stay where they are: a default route that leaves them cuts the internet off.
    #[arg(long)]
    all: bool,
    /// How long to wait until it is done.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Output,
}

/// Whose switch it is, and how to ask about it.
struct Wish<'a> {
    args: &'a Args,
    cluster: Cluster,
    known: Overview,
    records: Api<GatewayExIp>,
    record: String,
}

pub(super) async fn run(args: &Args) -> Result<u8, Stop> {
    let cluster = args.cluster.reach().await?;
    let seen = see(&cluster).await?;
    if let Some(why) = seen.state.refuses_switch(&args.vpc, &args.gateway) {
        return Err(Trouble::new(why).into());
    }
    if let Leader::Nobody(why) = &seen.leader {
        return Err(Trouble::new(format!("{why}: nobody would carry the switch out; start it first")).into());
    }
    let Some(id) = seen.state.cluster() else {
        let why =
            "this cluster's id is not known: neither Submariner's ServiceDiscovery nor any record says it";
        return Err(Trouble::new(why).into());
    };
    let records = Api::namespaced(cluster.client.clone(), RECORD_NAMESPACE);
    let record = vpc_name(&args.vpc, id);
    let wish = Wish { args, known: seen.state.overview(&args.vpc), cluster, records, record };
    let document = wish.carry_out().await?;
    let text = match args.output {
        Output::Json => serde_json::to_string_pretty(&document)? + "\n",
        Output::Text => document.text(&wish.known, terminal().map(|(columns, _)| columns)),
    };
    print(&text)?;
    Ok(document.code())
}

impl Wish<'_> {
    async fn carry_out(&self) -> Result<Document, Stop> {
        let (vpc, to) = (&self.args.vpc, &self.args.gateway);
        let before = self.object().await?;
        let from = self.known.main.as_ref().filter(|main| *main != to);
        let is_main = from.is_none() && self.known.main.is_some() && self.known.moving.is_empty();
        let rest = self.known.stayed.as_ref().is_some_and(|stayed| !stayed.routes.is_empty());
        let mut document = Document { vpc: vpc.clone(), gateway: to.to_string(), ..Document::default() };
        let from = match from {
            Some(from) => Some(from.clone()),
            None => self.known.stayed.as_ref().and_then(|stayed| stayed.from.clone()),
        };
        if is_main && !(self.args.all && rest) {
            document.switched = true;
            document.message = format!("{to} is the main gateway of VPC {vpc} already");
        } else {
            let progress = self.ask_and_wait().await?;
            (document.switched, document.message) = self.outcome(&progress, from.as_ref());
        }
        let after = self.object().await?;
        document.moved = moved(&before, &after);
        if let Some(from) = &from {
            document.from = Some(from.to_string());
            document.stayed = self.stayed(&after, from, &mut document.warnings).await?;
            if document.switched {
                document.warnings.extend(warnings(&document.stayed, vpc, to, self.args.all));
            }
        }
        Ok(document)
    }

    /// Puts the wish on the object, and waits until it is granted and nothing is left to be moved.
    async fn ask_and_wait(&self) -> Result<Progress, Stop> {
        let Args { vpc, gateway, all, timeout, .. } = self.args;
        let extent = if *all { " all" } else { "" };
        let wish = format!("{gateway}{extent} {}", Timestamp::now());
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { SWITCH_TO: wish } } }));
        let vpcs: Api<Vpc> = Api::all(self.cluster.client.clone());
        vpcs.patch(vpc, &PatchParams::default(), &patch).await.map_err(|error| self.trouble(&error))?;
        self.say(&format!("asked for {gateway} as the main gateway of VPC {vpc}"))?;
        let deadline = Instant::now() + *timeout;
        let (mut last, mut why) = (Progress::Asked, None);
        for turn in 1.. {
            let record = self.records.get_opt(&self.record).await.map_err(|error| self.trouble(&error))?;
            let record: Option<Record> = record.as_ref().and_then(parse::record);
            let now = progress::of(record.as_ref(), &wish, gateway);
            if now == Progress::Moving && last != now {
                self.say(&format!("{gateway} is the main gateway; routes are being moved"))?;
            }
            if now == Progress::Asked && turn % WHY == 0 {
                let waits = self.waits_for().await.map_err(|error| self.trouble(&error))?;
                if waits.is_some() && waits != why {
                    self.say(&format!("it waits: {}", waits.as_deref().unwrap_or_default()))?;
                    why = waits;
                }
            }
            last = now;
            if !matches!(last, Progress::Asked | Progress::Moving) || Instant::now() >= deadline {
                break;
            }
            sleep(POLL).await;
        }
        Ok(last)
    }

    /// Whether it was done, and in which words that is said.
    fn outcome(&self, progress: &Progress, from: Option<&GatewayName>) -> (bool, String) {
        let Args { vpc, gateway, timeout, .. } = self.args;
        let limit = timeout.as_secs();
        match progress {
            Progress::Done => {
                let from = from.map(|from| format!("; {from} was")).unwrap_or_default();
                (true, format!("{gateway} is the main gateway of VPC {vpc} now{from}"))
            }
            Progress::Moving => (
                false,
                format!(
                    "{gateway} is the main gateway of VPC {vpc}, but not all routes follow within {limit} s"
                ),
            ),
            Progress::Asked => (
                false,
                format!(
                    "{gateway} is not the main gateway of VPC {vpc} within {limit} s; the wish stands and is granted when it can \
                     be, unless it is taken back: kubectl annotate vpc {vpc} {SWITCH_TO}-"
                ),
            ),
            Progress::Overtaken(by) => {
                let by = by.as_ref().map_or_else(|| "nobody".into(), ToString::to_string);
                (
                    false,
                    format!(
                        "{gateway} was made the main gateway of VPC {vpc}, and {by} is since: see the tunnels' events"
                    ),
                )
            }
        }
    }

    /// What the controller says it waits for, on a tunnel of the VPC.
    async fn waits_for(&self) -> kube::Result<Option<String>> {
        const WAITS: &str = "the switch that is asked for waits: ";
        let Some(key) = self.known.tunnels.first() else { return Ok(None) };
        let tunnels: Api<causeway_api::vpc::LooseTunnel> =
            Api::namespaced(self.cluster.client.clone(), ObjectKey::namespace(key));
        let tunnel = tunnels.get_opt(key.name()).await?;
        let tunnel = tunnel.as_ref().and_then(parse::loose_tunnel);
        let said = tunnel.and_then(|tunnel| Some(tunnel.status.conditions.get(FAILOVER)?.message.clone()));
        Ok(said.and_then(|said| said.split_once(WAITS).map(|(_, why)| why.to_owned())))
    }

    /// What stayed with the gateway that was the main one.
    async fn stayed(
        &self,
        after: &Vpc,
        from: &GatewayName,
        unread: &mut Vec<String>,
    ) -> Result<view::Stayed, Stop> {
        let lan = self.known.gateway(from).and_then(|gateway| gateway.lan);
        let own = self.known.gateway(from).and_then(|gateway| gateway.external).map(|it| it.to_string());
        let tied = tied::to(&self.cluster.client, from, own.as_deref()).await;
        let (objects, forbidden) = tied.map_err(|error| self.trouble(&error))?;
        unread.extend(forbidden);
        Ok(view::Stayed { routes: leading_to(after, lan), objects })
    }

    async fn object(&self) -> Result<Vpc, Stop> {
        let vpcs: Api<Vpc> = Api::all(self.cluster.client.clone());
        Ok(vpcs.get(&self.args.vpc).await.map_err(|error| self.trouble(&error))?)
    }

    fn trouble(&self, error: &kube::Error) -> Trouble {
        Trouble::of_server(error, &self.cluster.server)
    }

    /// Says how far it got to whoever waits.
    fn say(&self, what: &str) -> std::io::Result<()> {
        writeln!(std::io::stderr(), "{what}")
    }
}
