//! `causeway rules clients`: asks every replica who is connected to it.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_controller::rules::clients::{Answer, Client, Connected, PATH, Subscription};
use causeway_controller::words::describe;
use futures::future::join_all;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use kube::ResourceExt;
use serde_json::json;
use tokio::time::timeout;

use super::Output;
use super::reach::{self, Line, heeding};
use super::text::plain;
use crate::clusters::OneCluster;
use crate::table::{Table, terminal};

/// Show which data planes are connected, to what, at which version, and what they answered last.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: OneCluster,
    /// Where the controller's pods are; each is asked by port-forward.
    #[arg(long, value_name = "NAME", default_value = "multi-vpc-system")]
    namespace: String,
    /// At which port they can be asked (their --rules-clients-listen).
    #[arg(long, value_name = "PORT", default_value_t = 10249)]
    port: u16,
    /// Ask the replica on this machine that can be asked here, and no other.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// How to print: a table with a row for each subscription, or one document.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// The longest that a replica's whole answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// A replica that was asked, and what came of it.
type Asked = (String, anyhow::Result<Connected>);

/// Exits with 1 when a replica did not answer.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let asked = match &args.address {
        Some(address) => {
            let connected = bounded(async { ask(reach::to_address(address).await?).await }).await?;
            vec![(address.clone(), Ok(connected))]
        }
        None => ask_pods(&args).await?,
    };
    match args.output {
        Output::Text => print_table(&asked)?,
        Output::Json => {
            let replicas: Vec<&Connected> = asked.iter().filter_map(|(_, it)| it.as_ref().ok()).collect();
            let silent = asked.iter().filter_map(|(name, it)| Some((name, it.as_ref().err()?)));
            let silent: Vec<_> =
                silent.map(|(pod, error)| json!({ "pod": pod, "error": describe(error.as_ref()) })).collect();
            let document = json!({ "replicas": replicas, "silent": silent });
            writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&document)?)?;
        }
    }
    for (name, error) in asked.iter().filter_map(|(name, it)| Some((name, it.as_ref().err()?))) {
        writeln!(std::io::stderr(), "error: {name}: {}", describe(error.as_ref()))?;
    }
    let all = asked.iter().all(|(_, it)| it.is_ok());
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn ask_pods(args: &Args) -> anyhow::Result<Vec<Asked>> {
    let client = args.cluster.client().await?;
    let pods = reach::pods(&client, &args.namespace).await?;
    let ask_pod = async |pod: String| {
        let asked = async { ask(reach::to_pod(&client, &args.namespace, &pod, args.port).await?).await };
        let answer = bounded(asked).await;
        (pod, answer)
    };
    Ok(join_all(pods.iter().map(|pod| ask_pod(pod.name_any()))).await)
}

async fn bounded(asked: impl Future<Output = anyhow::Result<Connected>>) -> anyhow::Result<Connected> {
    timeout(PATIENCE, asked).await.with_context(|| format!("no answer within {} s", PATIENCE.as_secs()))?
}

async fn ask(line: Line) -> anyhow::Result<Connected> {
    let (io, last_word) = line.split();
    let asked = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await?;
        let request = Request::get(PATH).header(header::HOST, "localhost").body(Empty::<Bytes>::new())?;
        let whole = async {
            let response = sender.send_request(request).await?;
            if response.status() != StatusCode::OK {
                bail!("it answered {}", response.status());
            }
            Ok(response.into_body().collect().await?.to_bytes())
        };
        tokio::pin!(whole);
        tokio::select! {
            whole = &mut whole => whole,
            ended = connection => {
                ended?;
                // It may have said all before it ended.
                whole.await
            }
        }
    };
    let odd = "it does not answer as a --rules-clients-listen does";
    let bytes = heeding(async { asked.await.context(odd) }, last_word).await?;
    serde_json::from_slice(&bytes).context(odd)
}

fn print_table(asked: &[Asked]) -> anyhow::Result<()> {
    let mut table = Table::new(["REPLICA", "CLIENT", "SINCE", "KIND", "FOR", "SENT", "ANSWER"]);
    let mut stdout = std::io::stdout().lock();
    let connected = asked.iter().filter_map(|(_, it)| it.as_ref().ok());
    for Connected { replica, clients } in connected {
        if clients.is_empty() {
            writeln!(stdout, "no data plane is connected to {}", plain(replica))?;
        }
        clients.iter().flat_map(|client| rows(replica, client)).for_each(|row| table.push(row));
    }
    if !table.is_empty() {
        stdout.write_all(table.render(terminal().map(|(columns, _)| columns)).as_bytes())?;
    }
    Ok(())
}

fn rows(replica: &str, client: &Client) -> Vec<[String; 7]> {
    let address = client.address.map_or_else(|| "-".into(), |address| address.to_string());
    let name = match client.identifier.as_str() {
        "" => address,
        identifier => format!("{identifier} ({address})"),
    };
    let name = match client.stuck_seconds {
        Some(seconds) => format!("{name}, takes nothing for {seconds} s"),
        None => name,
    };
    let since = client.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let row = |rest: [String; 4]| {
        let [kind, place, sent, answer] = rest;
        [replica.to_owned(), name.clone(), since.clone(), kind, place, sent, answer]
    };
    if client.subscriptions.is_empty() {
        return vec![row(["-".into(), "-".into(), "-".into(), "-".into()])];
    }
    client.subscriptions.iter().map(|subscription| row(cells(subscription))).collect()
}

fn cells(subscription: &Subscription) -> [String; 4] {
    let Subscription { kind, namespace, app, labels, sent, answer } = subscription;
    let labels: String = labels.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let sent = sent.map_or_else(|| "-".into(), |version| version.to_string());
    let answer = answer.as_ref().map_or_else(|| "none".into(), |answer| said(answer, subscription.sent));
    [kind.clone(), format!("{namespace}/{app}{labels}"), sent, answer]
}

fn said(Answer { said, version, at, code, message }: &Answer, sent: Option<i64>) -> String {
    let to = if sent == Some(*version) { String::new() } else { format!(" {version}") };
    let why = match (code, message) {
        (Some(code), Some(message)) => format!(" with {code}: {message}"),
        _ => String::new(),
    };
    format!("{said}{to} at {}{why}", at.strftime("%H:%M:%SZ"))
}
