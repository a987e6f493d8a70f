//! `causeway diagnose`: walks a packet's way through a tunnel and names the first hop that it does not get past.
//!
//! ```text
//! objects ─▶ the controller's own state ─▶ what the gateway should hold ─┐
//! gateway ─▶ what it holds; packets ─▶ who answered ────────────────────┴─▶ facts ─▶ walk ─▶ a finding per hop
//! ```
//!
//! [`crate::look`] reads a cluster, [`site`] its gateways; [`walk`] and [`hops`], which decide, are given [`facts`] and nothing else.

mod asked;
mod facts;
mod finding;
mod hops;
mod reasons;
mod said;
mod site;
mod standby;
mod view;
mod walk;
#[cfg(test)]
mod walk_tests;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;

use causeway_core::vpc::objects::{self, Tunnel};
use causeway_datapath::vpc::Beyond;
use clap::ValueEnum;
use futures::StreamExt;
use futures::future::join_all;
use jiff::Timestamp;

use crate::clusters::{Cluster, Clusters, Reached, Trouble};
use crate::look;
use crate::table::{print, terminal};
use facts::{Facts, Far, Leader};
use site::Site;
use view::{Diagnosis, Document};

/// How many tunnels are walked at once.
const AT_ONCE: usize = 8;

/// Walk a packet's way through a tunnel and name the first hop that it does not get past.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tunnel, NAME or NAMESPACE/NAME; without it all of the first cluster.
    tunnel: Option<String>,
    #[command(flatten)]
    clusters: Clusters,
    /// Only tunnels of this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Tunnels of all namespaces, as without it.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// An address behind the peer that should answer pings; of several tunnels those that do not lead to it are walked without.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Ipv4Addr>,
    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: Output,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for each tunnel.
    Text,
    /// One object.
    Json,
}

/// Nothing, or not enough, could be seen.
const UNSEEN: u8 = 2;

/// Exits with 0 if all is well, with 1 if a hop is broken, and with 2 if that could not be seen.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_meant = asked::name(args.tunnel.as_deref(), args.namespace.as_deref());
    let reached = match is_meant {
        Ok(()) => args.clusters.reach().await,
        Err(trouble) => Err(trouble),
    };
    let reached = match reached {
        Ok(reached) => reached,
        Err(trouble) => {
            writeln!(io::stderr(), "error: {trouble}")?;
            return Ok(UNSEEN.into());
        }
    };
    let document = diagnose(&args, reached).await;
    let text = match args.output {
        Output::Json => serde_json::to_string_pretty(&document)? + "\n",
        Output::Text => document.text(terminal().map(|(columns, _)| columns)),
    };
    print(&text)?;
    for line in document.asides().chain(document.complaints()) {
        writeln!(io::stderr(), "{line}")?;
    }
    Ok(document.code().into())
}

/// The same as a document, for whoever gathers: all tunnels of the first cluster.
pub(crate) async fn document(reached: Reached) -> serde_json::Result<serde_json::Value> {
    let clusters = Clusters::default();
    let (namespace, all_namespaces, to, output) = (None, true, None, Output::Json);
    let args = Args { tunnel: None, clusters, namespace, all_namespaces, to, output };
    serde_json::to_value(diagnose(&args, reached).await)
}

async fn diagnose(args: &Args, reached: Reached) -> Document {
    let mut document = Document::default();
    let mut sites = Vec::new();
    for (at, (context, seen)) in join_all(reached.into_iter().map(see)).await.into_iter().enumerate() {
        match seen {
            Ok((cluster, seen)) => sites.push((at, Site::new(context, cluster, seen))),
            Err(trouble) => document.complain(context.as_deref(), &trouble),
        }
    }
    let Some((0, near)) = sites.first() else { return document.done() };
    let others: Vec<&Site> = sites.iter().skip(1).map(|(_, site)| site).collect();
    for why in &near.seen.forbidden {
        document.complain(Some(&near.name), &Trouble::new(format!("something may not be read: {why}")));
    }
    if !near.seen.has_tunnels {
        let why = "the definition of VpcNatTunnel is not installed; `causeway crds | kubectl apply -f -` installs it";
        document.complain(Some(&near.name), &Trouble::new(why));
    }
    if !near.seen.has_tunnels || !near.seen.may_see_tunnels {
        return document.done();
    }
    for (_, site) in &sites {
        if let Leader::Nobody(why) = &site.seen.leader {
            document.warn(format!("{}: {why}; meanwhile nothing is put right there", site.name));
        }
    }
    let all: Vec<&Tunnel> = near.seen.state.tunnels().collect();
    let chosen: Vec<&Tunnel> = all.iter().filter(|tunnel| args.means(tunnel)).copied().collect();
    if let (Some(name), []) = (&args.tunnel, chosen.as_slice()) {
        let names: Vec<String> = all.iter().map(|tunnel| tunnel.key.to_string()).collect();
        let (namespace, name) = args.named(name);
        document.push(Diagnosis::missing(&near.name, namespace.unwrap_or_default(), name, &names));
    }
    if let Some(target) = args.to {
        let ranges: Vec<_> = chosen.iter().map(|it| (it.key.clone(), near.range_behind(it))).collect();
        match asked::elsewhere(target, &ranges) {
            Ok(asides) => asides.into_iter().for_each(|aside| document.put_aside(aside)),
            Err(trouble) => {
                document.complain(Some(&near.name), &trouble);
                return document.done();
            }
        }
    }
    let walks = chosen.into_iter().map(|tunnel| follow(near, &others, tunnel, args.to));
    let mut walks = futures::stream::iter(walks).buffered(AT_ONCE);
    while let Some((diagnosis, notes)) = walks.next().await {
        document.push(diagnosis);
        notes.into_iter().for_each(|note| document.warn(note));
    }
    drop(walks);
    document.done()
}

impl Args {
    fn named<'a>(&'a self, text: &'a str) -> (Option<&'a str>, &'a str) {
        match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (self.namespace.as_deref(), text),
        }
    }

    fn means(&self, tunnel: &Tunnel) -> bool {
        let (namespace, name) = match &self.tunnel {
            Some(text) => self.named(text),
            None => (self.namespace.as_deref(), tunnel.key.name()),
        };
        tunnel.key.name() == name && namespace.is_none_or(|it| it == tunnel.key.namespace())
    }
}

type Looked = (Option<String>, Result<(Cluster, look::Seen), Trouble>);

async fn see((context, cluster): (Option<String>, Result<Cluster, Trouble>)) -> Looked {
    let seen = async {
        let cluster = cluster?;
        let seen = look::look(&cluster.client).await;
        let seen = seen.map_err(|error| Trouble::of_server(&error, &cluster.server))?;
        Ok((cluster, seen))
    };
    (context, seen.await)
}

/// Looks at both ends of a tunnel at once, and walks.
async fn follow(
    near: &Site,
    others: &[&Site],
    tunnel: &Tunnel,
    target: Option<Ipv4Addr>,
) -> (Diagnosis, Vec<String>) {
    let beyond = target.map_or(Beyond::Router, Beyond::Target);
    let (end, far) = tokio::join!(near.end(tunnel, beyond), other_end(near, others, tunnel));
    let is_behind =
        |target: &Ipv4Addr| end.want.as_ref().is_none_or(|want| want.tunnel.remote_range.contains(*target));
    let now = Timestamp::now().as_second();
    let facts = Facts { target: target.filter(is_behind), near: end, far, now };
    let notes = standby::notes(near, &facts.near).await;
    (Diagnosis::new(&near.name, tunnel, walk::walk(&facts)), notes)
}

async fn other_end(near: &Site, others: &[&Site], tunnel: &Tunnel) -> Far {
    let Ok(ends) = tunnel.spec.as_ref().map(|spec| &spec.ends) else {
        return Far::NotGiven;
    };
    let peer = ends.far();
    let is_peers = |site: &&&Site| site.seen.state.cluster() == Some(peer.cluster());
    let (Some(site), Some(own)) = (others.iter().find(is_peers), near.seen.state.cluster()) else {
        return Far::NotGiven;
    };
    let to = objects::Far::at(own.clone(), ends.near());
    match site.tunnel_between(&peer.place(), &to) {
        Some(tunnel) => Far::Seen(Box::new(site.end(tunnel, Beyond::Nothing).await)),
        None => Far::NoneBack { cluster: site.name.clone(), to },
    }
}
