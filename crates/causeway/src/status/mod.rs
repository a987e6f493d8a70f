//! `causeway status`: every tunnel, forward of names, rule, declared network and node of the pods' network, in tables or as one document.
//!
//! [`known`] asks a cluster, or [`watch`] follows it; each kind's file says what is kept of its objects and which columns it
//! has; [`view`] puts all clusters together for people and programs.

mod age;
mod forwards;
mod item;
mod known;
mod networks;
mod nodes;
mod rules;
mod tunnels;
mod view;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use causeway_api::leases::DEFAULT_PREFIX;
use causeway_core::ObjectKey;
use clap::ValueEnum;
use futures::future::join_all;
use jiff::Timestamp;

use crate::clusters::{self, Cluster, Reached, Trouble};
use crate::table::terminal;
use known::{Picture, Scope};
use view::{Document, Look};
use watch::{Site, Watches};

/// Show every tunnel, forward, rule, network and node of a cluster: all is well, or what is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kubeconfig, or several (a,b or repeated), of each of which the current context is meant. Without it kubectl's rules
    /// hold: the files that the variable KUBECONFIG lists, merged, else ~/.kube/config, else the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Vec<PathBuf>,
    /// Its context, or several (a,b or repeated), whose clusters are then named in a column; without it the current one.
    #[arg(long, value_name = "NAME,…")]
    context: Vec<String>,
    /// The clusters of all its contexts; those that have nothing of Causeway's are left out.
    #[arg(long, conflicts_with = "context")]
    all_contexts: bool,
    /// Only what is in this namespace. Nodes are in none.
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,
    /// All namespaces, as without it.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Output,
    /// Show it again whenever something changes, until Ctrl-C; in a pipe one after the other.
    #[arg(short, long)]
    watch: bool,
    /// What the names of nodes' annotations begin with.
    #[arg(long, value_name = "PREFIX", env = "FLANNELD_KUBE_ANNOTATION_PREFIX", default_value = DEFAULT_PREFIX)]
    kube_annotation_prefix: String,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables of a few columns.
    Table,
    /// Tables with all columns.
    Wide,
    /// One object; with --watch one in each line.
    Json,
}

/// A cluster could not be asked.
const UNSEEN: u8 = 2;

fn namespace(text: &str) -> Result<String, String> {
    ObjectKey::new(text, "any").map(|key| key.namespace().to_owned()).map_err(|error| error.to_string())
}

/// Exits with 1 when a tunnel is not up, a forward is not ready, a rule is not accepted or refused by a data plane, a network is not as declared, or
/// something is wrong with a node, so that scripts can ask; with 2 when that is not known.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let reached = match clusters::reach(&args.kubeconfig, &args.context, args.all_contexts).await {
        Ok(reached) => reached,
        Err(trouble) => {
            writeln!(io::stderr(), "error: {trouble}")?;
            return Ok(UNSEEN.into());
        }
    };
    match show(&args, reached).await {
        Ok(code) => Ok(code.into()),
        // Whoever reads has read enough.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
    }
}

async fn show(args: &Args, reached: Reached) -> anyhow::Result<u8> {
    let prefix = args.kube_annotation_prefix.trim_end_matches('/').to_owned();
    let scope = Scope { namespace: args.namespace.clone(), prefix };
    let look = Look {
        wide: args.output == Output::Wide,
        clusters: reached.len() > 1,
        columns: terminal().map(|(columns, _)| columns),
        namespace: args.namespace.clone(),
        watching: args.watch,
    };
    let mut seen =
        join_all(reached.into_iter().map(|(context, cluster)| see(context, cluster, &scope))).await;
    if args.all_contexts {
        leave_out_strangers(&mut seen)?;
    }
    let mut watches = Watches::new();
    let mut sites = Vec::new();
    for Seen { context, cluster, picture } in seen {
        let site = Site::new(context, picture);
        if let Some(cluster) = cluster.filter(|_| args.watch) {
            watches.add(&site, &cluster, &scope);
        }
        sites.push(site);
    }
    if args.watch && !sites.iter().all(|site| site.has_trouble()) {
        return watches.show(&sites, args.output, look).await;
    }
    let document = watch::document(&sites);
    print(&document, args.output, &look, false)?;
    Ok(document.code())
}

#[cfg(feature = "diagnose")]
/// The same as a document, for whoever gathers.
pub(crate) async fn document(reached: Reached) -> serde_json::Result<serde_json::Value> {
    let scope = Scope { namespace: None, prefix: DEFAULT_PREFIX.into() };
    let seen = join_all(reached.into_iter().map(|(context, cluster)| see(context, cluster, &scope))).await;
    let sites: Vec<_> = seen.into_iter().map(|seen| Site::new(seen.context, seen.picture)).collect();
    serde_json::to_value(watch::document(&sites))
}

/// What a first look at a cluster gave.
struct Seen {
    context: Option<String>,
    cluster: Option<Cluster>,
    picture: Result<Picture, Trouble>,
}

async fn see(context: Option<String>, cluster: Result<Cluster, Trouble>, scope: &Scope) -> Seen {
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(trouble) => return Seen { context, cluster: None, picture: Err(trouble) },
    };
    let read = Picture::read(&cluster.client, scope).await;
    let picture = read.map_err(|error| {
        let trouble = Trouble::of_server(&error, &cluster.server);
        let everywhere = scope.namespace.is_none();
        match error {
            kube::Error::Api(status) if status.code == 403 && everywhere => {
                Trouble::new(format!("{trouble}; -n NAME asks for one namespace"))
            }
            _ => trouble,
        }
    });
    Seen { context, cluster: Some(cluster), picture }
}

/// Of all clusters that somebody has, those that have nothing of ours are no fault, unless that is all of them.
fn leave_out_strangers(seen: &mut Vec<Seen>) -> io::Result<()> {
    let is_stranger = |seen: &Seen| seen.picture.as_ref().is_ok_and(|picture| !picture.is_of_ours());
    if seen.iter().all(is_stranger) {
        return Ok(());
    }
    let strangers: Vec<String> =
        seen.iter().filter(|it| is_stranger(it)).filter_map(|it| it.context.clone()).collect();
    if !strangers.is_empty() {
        writeln!(io::stderr(), "left out, since nothing of Causeway's is there: {}", strangers.join(", "))?;
    }
    seen.retain(|it| !is_stranger(it));
    Ok(())
}

/// Prints everything once; what could not be seen is said on stderr.
fn print(document: &Document, output: Output, look: &Look, again: bool) -> anyhow::Result<()> {
    let text = match output {
        Output::Json if look.watching => serde_json::to_string(document)? + "\n",
        Output::Json => serde_json::to_string_pretty(document)? + "\n",
        Output::Table | Output::Wide => document.tables(look, Timestamp::now()),
    };
    let mut stdout = io::stdout().lock();
    if again && output != Output::Json {
        stdout.write_all(b"\n")?;
    }
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    for line in document.complaints(look.clusters) {
        writeln!(io::stderr(), "{line}")?;
    }
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.downcast_ref::<io::Error>().is_some_and(kind)
}
