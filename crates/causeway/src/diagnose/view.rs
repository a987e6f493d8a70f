//! What was found out, for people and programs.

use causeway_core::Condition;
use causeway_core::vpc::objects::Tunnel;
use serde::Serialize;

use super::finding::{Finding, Hop, Verdict};
use crate::clusters::Trouble;
use crate::table::Table;

/// Everything. Names are stable: docs/operating.md has them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Document {
    /// Whether the exit code is 0.
    healthy: bool,
    tunnels: Vec<Diagnosis>,
    /// What else should be known.
    warnings: Vec<String>,
    /// Clusters that could not be asked.
    errors: Vec<Complaint>,
    /// What is said beside it, to whoever asked.
    #[serde(skip)]
    asides: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Complaint {
    cluster: Option<String>,
    message: String,
}

/// One tunnel.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    cluster: String,
    namespace: String,
    name: String,
    /// The hop that packets do not get past, if there is one.
    broken: Option<Hop>,
    /// All hops that were looked at, in order; none after a broken one.
    hops: Vec<Finding>,
    /// What the object says of itself.
    conditions: Vec<Said>,
    /// Whether its gateway could not be looked at, for want of rights.
    #[serde(skip)]
    blind: bool,
}

/// A condition.
#[derive(Debug, Serialize)]
struct Said {
    #[serde(rename = "type")]
    kind: String,
    status: &'static str,
    reason: String,
    message: String,
}

impl From<&Condition> for Said {
    fn from(condition: &Condition) -> Self {
        let Condition { kind, status, reason, message, .. } = condition.clone();
        Self { kind, status: status.as_str(), reason, message }
    }
}

impl Diagnosis {
    pub(super) fn new(cluster: &str, tunnel: &Tunnel, hops: Vec<Finding>) -> Self {
        let (namespace, name) = (tunnel.key.namespace().to_owned(), tunnel.key.name().to_owned());
        let conditions = tunnel.status.conditions.iter().map(Said::from).collect();
        Self::of(cluster, namespace, name, hops, conditions)
    }

    /// Of a tunnel that is not there.
    pub(super) fn missing(cluster: &str, namespace: &str, name: &str, there: &[String]) -> Self {
        let found = match there {
            [] => "there is no tunnel".to_owned(),
            there => format!("there is none of that name; there is: {}", there.join(", ")),
        };
        let hop = Finding::ok(Hop::Object, cluster, "a tunnel of that name", "");
        let hop = hop.broken(found, "check the name, the namespace (-n) and the context");
        Self::of(cluster, namespace.into(), name.into(), vec![hop], Vec::new())
    }

    fn of(cluster: &str, namespace: String, name: String, hops: Vec<Finding>, conditions: Vec<Said>) -> Self {
        let broken = hops.iter().find(|hop| hop.is_broken()).map(|hop| hop.hop);
        let is_blind = |hop: &Finding| {
            hop.hop == Hop::Gateway && hop.cluster == cluster && hop.verdict == Verdict::Unseen
        };
        let blind = hops.iter().any(is_blind);
        Self { cluster: cluster.into(), namespace, name, broken, hops, conditions, blind }
    }

    fn text(&self, columns: Option<usize>) -> String {
        let says: Vec<String> =
            self.conditions.iter().map(|it| format!("{}={} ({})", it.kind, it.status, it.reason)).collect();
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let mut text = format!("{place}{} in {}", self.name, self.cluster);
        if !says.is_empty() {
            text += &format!(": {}", says.join(", "));
        }
        let mut table = Table::new(["HOP", "CLUSTER", "OK", "EXPECTED", "FOUND"]);
        for Finding { hop, cluster, verdict, expected, found, .. } in &self.hops {
            table.push([hop.as_str(), cluster, verdict.as_str(), expected, found]);
        }
        text += &format!("\n\n{}\n", table.render(columns));
        let mut said = Table::default();
        for hop in self.hops.iter().filter(|hop| hop.remedy.is_some()) {
            let what = if hop.is_broken() { "broken at" } else { "unseen:" };
            let place = format!("{what} {} in {}", hop.hop.as_str(), hop.cluster);
            said.push([place, hop.remedy.clone().unwrap_or_default()]);
        }
        if self.broken.is_none() {
            said.push([
                "all is well",
                if self.blind { "as far as objects say" } else { "packets come back" },
            ]);
        }
        text + &said.render(columns)
    }
}

impl Document {
    pub(super) fn push(&mut self, diagnosis: Diagnosis) {
        self.tunnels.push(diagnosis);
    }

    /// What should be known although packets do not end at it.
    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// What whoever asked should know of the question.
    pub(super) fn put_aside(&mut self, aside: String) {
        self.asides.push(aside);
    }

    pub(super) fn asides(&self) -> impl Iterator<Item = String> {
        self.asides.iter().map(|aside| format!("note: {aside}"))
    }

    /// Why a cluster, or something of it, could not be seen.
    pub(super) fn complain(&mut self, cluster: Option<&str>, trouble: &Trouble) {
        self.errors.push(Complaint { cluster: cluster.map(str::to_owned), message: trouble.to_string() });
    }

    /// Takes stock.
    pub(super) fn done(mut self) -> Self {
        self.healthy = self.code() == 0;
        self
    }

    /// 1 where a hop is broken, else 2 where something could not be seen that would prove the opposite.
    pub(super) fn code(&self) -> u8 {
        if self.tunnels.iter().any(|tunnel| tunnel.broken.is_some()) {
            return 1;
        }
        let unseen = !self.errors.is_empty() || self.tunnels.iter().any(|tunnel| tunnel.blind);
        if unseen { 2 } else { 0 }
    }

    pub(super) fn complaints(&self) -> impl Iterator<Item = String> {
        self.errors.iter().map(|it| match &it.cluster {
            Some(cluster) => format!("error: {cluster}: {}", it.message),
            None => format!("error: {}", it.message),
        })
    }

    pub(super) fn text(&self, columns: Option<usize>) -> String {
        let mut parts: Vec<String> = self.tunnels.iter().map(|tunnel| tunnel.text(columns)).collect();
        if !self.warnings.is_empty() {
            parts.push(self.warnings.iter().fold(String::new(), |all, it| format!("{all}note: {it}\n")));
        }
        match parts.is_empty() && self.errors.is_empty() {
            true => "no tunnels; samples/tunnel.yaml shows how to declare one\n".into(),
            false => parts.join("\n"),
        }
    }
}
