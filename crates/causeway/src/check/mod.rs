//! `causeway check`: a real transfer between two clusters' workloads.
//!
//! Two pods that are there already speak: [`pods`] chooses them, constant scripts run in them, and [`result`] says what came of
//! it. Nothing is created.

mod listener;
mod pods;
mod result;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use causeway_controller::vpc::exec::PodExec;
use causeway_core::ObjectKey;
use causeway_datapath::Run;
use clap::ValueEnum;
use kube::api::ListParams;
use serde::Serialize;

use crate::clusters::{Cluster, Clusters, Listed, Trouble, list};
use crate::table::{self, Table, terminal};
use listener::{Listener, unrun};
use pods::Speaker;
use result::Report;

const CLIENT: &str = include_str!("client.sh");
/// The longest packet that is tried: that of an ordinary link.
const ETHERNET: u32 = 1500;

/// Transfer something between two clusters' workloads.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    clusters: Clusters,
    /// The pod of the first cluster that speaks first; without it the first of a VPC that runs.
    #[arg(long, value_name = "NAMESPACE/POD")]
    from: Option<ObjectKey>,
    /// The pod of the second cluster that is spoken to, or just an address; without it the first pod there with a global
    /// address (annotation submariner.io/globalIp).
    #[arg(long, value_name = "NAMESPACE/POD|ADDRESS")]
    to: Option<Target>,
    /// The address of the pod that is spoken to, as others reach it; without it its global address.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Ipv4Addr>,
    /// The port that it is to listen on; without it any.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Something listens on this port already and sends back what it gets: no command is run there.
    #[arg(long, value_name = "PORT", conflicts_with = "port")]
    echo_port: Option<u16>,
    /// How many megabytes to transfer.
    #[arg(long, value_name = "MB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    megabytes: u64,
    /// The longest that all of it may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Output,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// One object.
    Json,
}

/// What is spoken to.
#[derive(Debug, Clone)]
enum Target {
    Pod(ObjectKey),
    Address(Ipv4Addr),
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pod = || {
            text.parse()
                .map(Self::Pod)
                .map_err(|_| format!("`{text}` is neither NAMESPACE/POD nor an address"))
        };
        text.parse().map(Self::Address).or_else(|_| pod())
    }
}

/// Who spoke to whom, and what came of it.
#[derive(Debug, Serialize)]
struct Document {
    from: Place,
    to: Place,
    #[serde(flatten)]
    report: Report,
}

#[derive(Debug, Serialize)]
struct Place {
    cluster: Option<String>,
    pod: Option<String>,
    address: Option<Ipv4Addr>,
}

/// It could not be tried.
const UNTRIED: u8 = 2;

/// Exits with 0 if all arrived, with 1 if it did not, and with 2 if it could not be tried.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match check(&args).await {
        Ok(document) => {
            print(&document, args.output)?;
            let Report { healthy, faults, .. } = &document.report;
            let code = match (healthy, faults.is_empty()) {
                (true, _) => 0,
                (false, true) => UNTRIED,
                (false, false) => 1,
            };
            Ok(code.into())
        }
        Err(trouble) => {
            writeln!(io::stderr(), "error: {trouble}")?;
            Ok(UNTRIED.into())
        }
    }
}

async fn check(args: &Args) -> Result<Document, Trouble> {
    if let Some(name) = args.clusters.repeated() {
        return Err(one_and_the_same(&format!("{name} is given twice")));
    }
    let mut reached = args.clusters.reach().await?.into_iter();
    let (from_context, near) = reached.next().ok_or_else(|| Trouble::new("no cluster was given"))?;
    let near = near?;
    let other = reached.next();
    if let Some((_, Ok(far))) = &other
        && far.server == near.server
    {
        return Err(one_and_the_same(&format!("both lead to {}", near.server)));
    }
    let speaker = match &args.from {
        Some(pod) => pod.clone(),
        None => {
            let pods = speakers(&near).await?;
            let chosen = pods::first_speaker(&pods).ok_or_else(|| {
                Trouble::new("no pod of a VPC runs in the first cluster: name one with --from NAMESPACE/POD")
            })?;
            chosen.key.clone()
        }
    };
    let (to_context, far) = match other {
        Some((context, far)) => (context, Some(far?)),
        None => (None, None),
    };
    let (listener, address) = listener(args, far.as_ref()).await?;
    let bytes = args.megabytes * 1_000_000;
    let limit = Duration::from_secs(args.timeout);
    let listens = match (&listener, &far, args.echo_port) {
        (Some(pod), Some(far), None) => Some(Listener::start(far, pod, args.port, bytes).await?),
        _ => None,
    };
    let (port, echoes) = match (&listens, args.echo_port) {
        (Some(listens), _) => (listens.port, "no"),
        (None, Some(port)) => (port, "yes"),
        (None, None) => (0, "no"),
    };
    let input = format!("{address} {port} {bytes} {echoes} {ETHERNET}\n");
    let exec = PodExec::of(&near.client, &speaker, None, limit);
    let said = exec.run(&["bash", "-c", CLIENT, "causeway-check"], input.as_bytes()).await;
    let said = said.map_err(|error| unrun(&speaker, &error))?;
    drop(listens);
    if said.stdout.is_empty() {
        let why = String::from_utf8_lossy(&said.stderr).into_owned();
        return Err(Trouble::new(format!("pod {speaker} cannot run bash: {why}")));
    }
    let mut report = result::read(&String::from_utf8_lossy(&said.stdout), bytes, ETHERNET);
    if port == 0 {
        report.missing.push(
            "nothing was transferred: name a pod with --to, or a port that echoes with --echo-port".into(),
        );
        report.healthy = false;
    }
    Ok(Document {
        from: Place { cluster: from_context, pod: Some(speaker.to_string()), address: None },
        to: Place { cluster: to_context, pod: listener.map(|pod| pod.to_string()), address: Some(address) },
        report,
    })
}

fn one_and_the_same(how: &str) -> Trouble {
    Trouble::new(format!(
        "the two clusters are one and the same ({how}), and nothing would cross a tunnel: name two that differ"
    ))
}

/// The pod that is spoken to, if one was chosen, and its address.
async fn listener(args: &Args, far: Option<&Cluster>) -> Result<(Option<ObjectKey>, Ipv4Addr), Trouble> {
    let named = match &args.to {
        Some(Target::Address(address)) => return Ok((None, *address)),
        Some(Target::Pod(pod)) => Some(pod),
        None => None,
    };
    let far = far.ok_or_else(|| {
        Trouble::new(
            "name the second cluster (--kubeconfig twice, or --context a,b), or an address with --to",
        )
    })?;
    if let Some((pod, address)) = named.zip(args.address) {
        return Ok((Some(pod.clone()), address));
    }
    let pods = speakers(far).await?;
    let chosen = match named {
        Some(named) => pods.iter().find(|pod| pod.key == *named),
        None => pods::first_listener(&pods),
    };
    let chosen = chosen.ok_or_else(|| match named {
        Some(named) => Trouble::new(format!("pod {named} does not run in the second cluster")),
        None => Trouble::new(
            "no pod of the second cluster has a global address: name one with --to NAMESPACE/POD --address ADDRESS",
        ),
    })?;
    let address = args.address.or(chosen.global).ok_or_else(|| {
        Trouble::new(format!(
            "pod {} has no global address (annotation submariner.io/globalIp): give --address",
            chosen.key
        ))
    })?;
    Ok((Some(chosen.key.clone()), address))
}

async fn speakers(cluster: &Cluster) -> Result<Vec<Speaker>, Trouble> {
    let listed = list(&cluster.client, "/api/v1/pods", ListParams::default()).await;
    match listed.map_err(|error| Trouble::of_server(&error, &cluster.server))? {
        Listed::Objects(pods) => Ok(pods.iter().filter_map(Speaker::read).collect()),
        Listed::Missing => Ok(Vec::new()),
        Listed::Forbidden(why) => Err(Trouble::new(format!("pods may not be read: {why}"))),
    }
}

fn print(document: &Document, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Json => serde_json::to_string_pretty(document)? + "\n",
        Output::Text => document.text(terminal().map(|(columns, _)| columns)),
    };
    Ok(table::print(&text)?)
}

impl Document {
    fn text(&self, columns: Option<usize>) -> String {
        let Self { from, to, report } = self;
        let place = |place: &Place| {
            let address = place.address.map(|address| address.to_string());
            [place.cluster.clone(), place.pod.clone(), address]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut table = Table::new(["CHECK", "RESULT"]);
        if let Some(echo) = &report.echo {
            let time = echo.milliseconds.map(|it| format!(", {it} ms on average")).unwrap_or_default();
            table.push(["echo", &format!("{} of {} answered{time}", echo.received, echo.sent)]);
        }
        if let Some(longest) = report.longest_packet {
            table.push(["packets", &format!("up to {longest} bytes in one piece")]);
        }
        if let Some(transfer) = &report.transfer {
            let rate = transfer.bytes_per_second / 1e6;
            let how = if transfer.intact { "all as it was sent" } else { "NOT as it was sent" };
            let (bytes, seconds) = (transfer.bytes, transfer.seconds);
            table.push(["transfer", &format!("{bytes} bytes in {seconds:.2} s, {rate:.0} MB/s, {how}")]);
        }
        for fault in &report.faults {
            table.push(["FAULT", fault]);
        }
        for missing in &report.missing {
            table.push(["missing", missing]);
        }
        format!("from {} to {}\n\n{}", place(from), place(to), table.render(columns))
    }
}
