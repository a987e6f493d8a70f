//! `causeway rules watch`: a data plane that prints what it gets.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use causeway_controller::words::describe;
use causeway_core::rules::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::plane::{Arrival, Plane, Taken, Wanted};
use super::reach::Reach;
use super::text::plain;
use super::{Output, json as as_json, text};
use crate::clusters::OneCluster;

/// Print what a data plane of an app gets, now and with every change.
///
/// It is a data plane itself: while it runs it is counted in the status of the rules that it gets.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Whose rules: the value of their label `app`; `*` is all apps of the namespace.
    #[arg(long, value_name = "APP")]
    app: String,
    /// In which namespace.
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Of which kind, by its short or full name; may be repeated. Without it all six.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<Kind>,
    /// Only rules with this label; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Where a replica listens; without it a ready one is reached by port-forward.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    #[command(flatten)]
    cluster: OneCluster,
    /// Where the controller's pods are.
    #[arg(long, value_name = "NAME", default_value = "multi-vpc-system")]
    controller_namespace: String,
    /// At which port they listen.
    #[arg(long, value_name = "PORT", default_value_t = 10246)]
    port: u16,
    /// How to print: a line for each set and its rules below it, or an object for each set.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
    /// Exit when each kind was answered once: 0 with its rules, 1 if one was refused.
    #[arg(long)]
    once: bool,
}

/// How long a kind's first answer may take with --once.
const PATIENCE: Duration = Duration::from_secs(15);

fn kind(text: &str) -> Result<Kind, String> {
    let is = |kind: &Kind| kind.name() == text || kind.full_name() == text;
    let names = || Kind::ALL.map(Kind::name).join(", ");
    Kind::ALL.into_iter().find(is).ok_or_else(|| format!("there is no such kind; there are {}", names()))
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.into(), value.into())).ok_or_else(|| "use KEY=VALUE".into())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let reach = match &args.address {
        Some(address) => Reach::Address(address.clone()),
        None => {
            let client = args.cluster.client().await?;
            Reach::Pods(client, args.controller_namespace.clone(), args.port)
        }
    };
    let wanted = Wanted {
        namespace: args.namespace,
        app: args.app,
        kinds: if args.kind.is_empty() { Kind::ALL.into() } else { args.kind },
        labels: args.label,
        identifier: format!("causeway-rules-watch-{}", std::process::id()),
    };
    let kinds: BTreeSet<Kind> = wanted.kinds.iter().copied().collect();
    let mut plane = Plane::new(reach, wanted);
    plane.connect().await?;
    if args.once {
        return once(&mut plane, kinds, args.output).await;
    }
    loop {
        match plane.next().await {
            Ok(arrival) => print(&arrival, args.output)?,
            Err(error) => {
                note(&error);
                plane.reconnect(note).await;
            }
        }
    }
}

/// Why nothing comes at present.
fn note(error: &anyhow::Error) {
    let _ = writeln!(std::io::stderr(), "{} {}; connecting again", now(), describe(error.as_ref()));
}

async fn once(plane: &mut Plane, mut kinds: BTreeSet<Kind>, output: Output) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    while !kinds.is_empty() {
        let Ok(arrival) = timeout(PATIENCE, plane.next()).await else {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            bail!("no answer for {} within {} s", names.join(", "), PATIENCE.as_secs());
        };
        let arrival = arrival?;
        print(&arrival, output)?;
        if !matches!(arrival.taken, Taken::Rules(_)) {
            code = ExitCode::FAILURE;
        }
        match arrival.response.kind.parse::<Kind>() {
            Ok(kind) => drop(kinds.remove(&kind)),
            // It is about the whole request.
            Err(_) => return Ok(ExitCode::FAILURE),
        }
    }
    Ok(code)
}

fn now() -> String {
    Timestamp::now().strftime("%H:%M:%S%.3fZ").to_string()
}

fn print(arrival: &Arrival, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Text => in_words(arrival),
        Output::Json => format!("{}\n", object(arrival)),
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

fn in_words(arrival: &Arrival) -> String {
    let (response, (code, message)) = (&arrival.response, arrival.status());
    let kind = response.kind.rsplit('/').next().unwrap_or_default();
    let place = format!("{}/{}", response.namespace, response.app);
    let head = plain(&format!("{} {kind} {place}", now()));
    let version = arrival.version();
    match &arrival.taken {
        Taken::Rules(rules) => {
            let count = match rules.len() {
                0 => "no rule".into(),
                1 => "1 rule".into(),
                count => format!("{count} rules"),
            };
            let lines = rules.iter().flat_map(text::rule).map(|line| format!("  {line}\n"));
            format!("{head}: {count}, version {version}, code {code}\n{}", lines.collect::<String>())
        }
        Taken::Outdated(held) => {
            format!("{head}: version {version} dropped, since {held} is held; answered 4010\n")
        }
        Taken::Undecodable(why) => format!("{head}: version {version} refused: {}\n", plain(why)),
        Taken::Refusal => format!("{head}: nothing, code {code}: {}\n", plain(message)),
    }
}

fn object(arrival: &Arrival) -> Value {
    let (response, (code, message)) = (&arrival.response, arrival.status());
    let mut fields = json!({
        "time": Timestamp::now(),
        "kind": response.kind,
        "namespace": response.namespace,
        "app": response.app,
        "code": code,
        "message": message,
        "ack": response.ack,
        "responseId": response.response_id,
        "controlPlane": response.control_plane.as_ref().map(|it| it.identifier.as_str()),
    });
    if response.data_with_version.is_some() {
        fields["version"] = json!(arrival.version());
    }
    match &arrival.taken {
        Taken::Rules(rules) => fields["rules"] = rules.iter().map(as_json::rule).collect(),
        Taken::Outdated(held) => fields["outdated"] = json!({ "held": held }),
        Taken::Undecodable(why) => fields["undecodable"] = json!(why),
        Taken::Refusal => {}
    }
    fields
}
