//! What is known of all clusters as people and programs get it.

use jiff::Timestamp;
use serde::Serialize;

use super::age::age;
use super::forwards::Forward;
use super::item::Item;
use super::known::{Known, Picture};
use super::networks::Network;
use super::nodes::{self, Shown};
use super::rules::Rule;
use super::tunnels::Tunnel;
use crate::clusters::Trouble;
use crate::table::Table;

/// An object as it is shown.
pub(super) trait Entry: Serialize + Clone + PartialEq + 'static {
    /// Its columns; since when, and why, follow.
    const COLUMNS: &'static [Column<Self>];

    fn item(&self) -> &Item;

    fn item_mut(&mut self) -> &mut Item;

    /// Whether nobody need do anything.
    fn is_well(&self) -> bool;

    /// Why it is not as it should be, and nothing that another column says.
    fn why(&self) -> String;
}

/// A column of a table.
pub(super) struct Column<T> {
    title: &'static str,
    /// Whether it is only in wide tables.
    wide: bool,
    cell: fn(&T) -> String,
}

impl<T> Column<T> {
    pub(super) const fn new(title: &'static str, cell: fn(&T) -> String) -> Self {
        Self { title, wide: false, cell }
    }

    pub(super) const fn wide(title: &'static str, cell: fn(&T) -> String) -> Self {
        Self { title, wide: true, cell }
    }
}

/// Everything, for programs. Names are stable: docs/operating.md has them.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Document {
    /// Whether nobody need do anything.
    ready: bool,
    tunnels: Vec<Tunnel>,
    forwards: Vec<Forward>,
    rules: Vec<Rule>,
    networks: Vec<Network>,
    nodes: Vec<Shown>,
    /// Clusters of which something could not be seen.
    errors: Vec<Complaint>,
    /// Whether there could be tunnels somewhere.
    #[serde(skip)]
    has_tunnels_defined: bool,
}

/// Why a cluster cannot be seen.
#[derive(Debug, PartialEq, Serialize)]
struct Complaint {
    cluster: Option<String>,
    message: String,
}

/// How a table looks.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    pub(super) wide: bool,
    /// Whether clusters are named.
    pub(super) clusters: bool,
    /// The terminal's, if it is one.
    pub(super) columns: Option<usize>,
    pub(super) namespace: Option<String>,
    /// Whether more follows.
    pub(super) watching: bool,
}

impl Document {
    /// Adds a cluster.
    pub(super) fn add(&mut self, cluster: Option<&str>, picture: &Picture) {
        let named = |mut item: Item| {
            item.cluster = cluster.map(str::to_owned);
            item
        };
        add(&mut self.tunnels, picture.tunnels.objects(), named);
        add(&mut self.forwards, picture.forwards.objects(), named);
        add(&mut self.rules, picture.rules.values().flat_map(Known::objects), named);
        add(&mut self.networks, picture.networks.objects(), named);
        let nodes: Vec<_> = picture.nodes.objects().collect();
        add(&mut self.nodes, nodes::shown(&nodes).iter(), named);
        self.has_tunnels_defined |= picture.tunnels.is_installed();
    }

    /// Adds why a cluster, or something of it, cannot be seen.
    pub(super) fn complain(&mut self, cluster: Option<&str>, trouble: &Trouble) {
        self.errors.push(Complaint { cluster: cluster.map(str::to_owned), message: trouble.to_string() });
    }

    /// Takes stock.
    pub(super) fn done(mut self) -> Self {
        self.ready = self.errors.is_empty()
            && self.tunnels.iter().all(Entry::is_well)
            && self.forwards.iter().all(Entry::is_well)
            && self.rules.iter().all(Entry::is_well)
            && self.networks.iter().all(Entry::is_well)
            && self.nodes.iter().all(Entry::is_well);
        self
    }

    /// 2 where something could not be seen, 1 where something is wrong.
    pub(super) fn code(&self) -> u8 {
        match (self.errors.is_empty(), self.ready) {
            (false, _) => 2,
            (true, false) => 1,
            (true, true) => 0,
        }
    }

    /// A line for each cluster that could not be seen.
    pub(super) fn complaints(&self, clusters: bool) -> impl Iterator<Item = String> {
        self.errors.iter().map(move |it| match &it.cluster {
            Some(cluster) if clusters => format!("error: {cluster}: {}", it.message),
            _ => format!("error: {}", it.message),
        })
    }

    /// For people.
    pub(super) fn tables(&self, look: &Look, now: Timestamp) -> String {
        let tables = [
            table(&self.tunnels, look, now),
            table(&self.forwards, look, now),
            table(&self.rules, look, now),
            table(&self.networks, look, now),
            table(&self.nodes, look, now),
        ];
        let mut parts: Vec<String> =
            tables.iter().filter(|table| !table.is_empty()).map(|table| table.render(look.columns)).collect();
        if self.tunnels.is_empty() && self.has_tunnels_defined {
            let place = look.namespace.as_ref().map(|it| format!(" in namespace {it}")).unwrap_or_default();
            parts.insert(0, format!("no tunnels{place}; samples/tunnel.yaml shows how to declare one\n"));
        }
        parts.join("\n")
    }
}

fn add<'a, T: Entry>(all: &mut Vec<T>, objects: impl Iterator<Item = &'a T>, named: impl Fn(Item) -> Item) {
    for object in objects {
        let mut object = object.clone();
        let item = std::mem::take(object.item_mut());
        *object.item_mut() = named(item);
        all.push(object);
    }
}

fn table<T: Entry>(entries: &[T], look: &Look, now: Timestamp) -> Table {
    let columns = || T::COLUMNS.iter().filter(|column| look.wide || !column.wide);
    let cluster = look.clusters.then_some("CLUSTER");
    let mut table =
        Table::new(cluster.into_iter().chain(columns().map(|it| it.title)).chain(["SINCE", "WHY"]));
    for entry in entries {
        let item = entry.item();
        let cluster = look.clusters.then(|| item.cluster.clone().unwrap_or_default());
        let since = item.since.map(|since| age(since, now)).unwrap_or_default();
        let cells = columns().map(|column| (column.cell)(entry));
        table.push(cluster.into_iter().chain(cells).chain([since, entry.why()]));
    }
    table
}
