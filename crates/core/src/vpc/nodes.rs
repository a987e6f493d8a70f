//! Nodes: whether they report, and when one that does not counts as lost.
//!
//! Kubernetes notices the silence of a kubelet (after `node-monitor-grace-period`, 40 to 50 s by default) and then
//! sets the node's Ready condition to Unknown; from that moment we count. A kubelet that says itself that it is
//! not ready reports, and what runs there may well be running.

use std::collections::BTreeMap;

use super::objects::NodeHealth;
use crate::room::Change;

/// What the Ready condition of a node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeReport {
    /// It is ready, or has not said anything yet.
    Ready,
    /// It says that it is not ready.
    NotReady,
    /// Nothing is heard of it.
    Silent {
        /// Since when, in seconds since 1970, where that is said.
        since: Option<i64>,
    },
}

/// How a node is, from what its Ready condition says. Times are seconds since 1970; a moment that is yet to come,
/// by another clock than ours, counts as now.
pub fn health(report: NodeReport, since: i64, now: i64, grace: i64) -> NodeHealth {
    match report {
        NodeReport::Ready => NodeHealth::Ready,
        NodeReport::NotReady => NodeHealth::NotReady,
        NodeReport::Silent { .. } if now.saturating_sub(since.min(now)) >= grace => NodeHealth::Lost,
        NodeReport::Silent { .. } => NodeHealth::NotReady,
    }
}

/// Follows nodes, and says when to look at the silent ones again.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    /// In seconds.
    grace: i64,
    /// The silent ones: since when, and whether that was long enough when last looked.
    silent: BTreeMap<String, (i64, NodeHealth)>,
}

impl Nodes {
    /// A node counts as lost when it has been silent for so many seconds.
    pub fn new(grace: i64) -> Self {
        Self { grace, silent: BTreeMap::new() }
    }

    /// What a change of reports says of the nodes' health. One that is gone is forgotten.
    pub fn take(&mut self, change: Change<String, NodeReport>, now: i64) -> Change<String, NodeHealth> {
        match change {
            Change::Put(name, report) => {
                let health = self.see(&name, report, now);
                Change::Put(name, health)
            }
            Change::Gone(name) => {
                self.silent.remove(&name);
                Change::Gone(name)
            }
            Change::Reset(reports) => {
                self.silent.retain(|name, _| reports.contains_key(name));
                let judged = reports.into_iter().map(|(name, report)| {
                    let health = self.see(&name, report, now);
                    (name, health)
                });
                Change::Reset(judged.collect())
            }
        }
    }

    fn see(&mut self, name: &str, report: NodeReport, now: i64) -> NodeHealth {
        let NodeReport::Silent { since } = report else {
            self.silent.remove(name);
            return health(report, now, now, self.grace);
        };
        let known = self.silent.get(name).map(|(since, _)| *since);
        let since = since.or(known).unwrap_or(now).min(now);
        let health = health(report, since, now, self.grace);
        self.silent.insert(name.to_owned(), (since, health));
        health
    }

    /// The nodes that have become lost by now, since they were last looked at.
    pub fn lost(&mut self, now: i64) -> Vec<String> {
        let grace = self.grace;
        let due = self.silent.iter_mut().filter_map(|(name, (since, last))| {
            let health = health(NodeReport::Silent { since: None }, *since, now, grace);
            let news = std::mem::replace(last, health) != health;
            news.then(|| name.clone())
        });
        due.collect()
    }

    /// When the next one becomes lost.
    pub fn next(&self) -> Option<i64> {
        let waiting = self.silent.values().filter(|(_, health)| *health != NodeHealth::Lost);
        waiting.map(|(since, _)| since.saturating_add(self.grace)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: NodeReport = NodeReport::Silent { since: Some(100) };

    #[test]
    fn a_node_is_lost_when_it_has_been_silent_for_long() {
        use NodeHealth::{Lost, NotReady, Ready};
        for (report, since, now, expected) in [
            (NodeReport::Ready, 0, 1000, Ready),
            (NodeReport::NotReady, 0, 1000, NotReady),
            (SILENT, 100, 100, NotReady),
            (SILENT, 100, 159, NotReady),
            (SILENT, 100, 160, Lost),
            (SILENT, 500, 100, NotReady),
            (SILENT, i64::MIN, i64::MAX, Lost),
        ] {
            assert_eq!(health(report, since, now, 60), expected, "{report:?} since {since} at {now}");
        }
    }

    fn put(nodes: &mut Nodes, report: NodeReport, now: i64) -> NodeHealth {
        match nodes.take(Change::Put("n1".into(), report), now) {
            Change::Put(_, health) => health,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_is_looked_at_again_when_it_is_due_and_said_once() {
        let mut nodes = Nodes::new(60);
        assert_eq!(put(&mut nodes, SILENT, 110), NodeHealth::NotReady);
        assert_eq!((nodes.next(), nodes.lost(159)), (Some(160), vec![]));
        assert_eq!(nodes.lost(160), ["n1"]);
        assert_eq!((nodes.next(), nodes.lost(161)), (None, vec![]));
    }

    #[test]
    fn a_lost_node_stays_lost_whatever_else_happens_to_it_until_it_reports() {
        let mut nodes = Nodes::new(60);
        put(&mut nodes, SILENT, 110);
        nodes.lost(160);
        assert_eq!(put(&mut nodes, SILENT, 170), NodeHealth::Lost, "a label was changed");
        let Change::Reset(listed) = nodes.take(Change::Reset([("n1".into(), SILENT)].into()), 180) else {
            panic!("a list stays a list")
        };
        assert_eq!(listed["n1"], NodeHealth::Lost, "all were listed anew");
        assert_eq!(put(&mut nodes, NodeReport::Ready, 190), NodeHealth::Ready);
        assert_eq!(nodes.next(), None);
    }

    #[test]
    fn one_that_does_not_say_since_when_is_silent_since_it_was_seen_so() {
        let mut nodes = Nodes::new(60);
        let silent = NodeReport::Silent { since: None };
        assert_eq!(put(&mut nodes, silent, 1000), NodeHealth::NotReady);
        assert_eq!(put(&mut nodes, silent, 1050), NodeHealth::NotReady);
        assert_eq!(put(&mut nodes, silent, 1060), NodeHealth::Lost);
    }

    #[test]
    fn a_node_that_is_gone_is_forgotten() {
        let mut nodes = Nodes::new(60);
        put(&mut nodes, SILENT, 110);
        nodes.take(Change::Gone("n1".into()), 120);
        assert_eq!((nodes.next(), nodes.lost(1000)), (None, vec![]));
        put(&mut nodes, SILENT, 110);
        nodes.take(Change::Reset(BTreeMap::new()), 120);
        assert_eq!((nodes.next(), nodes.lost(1000)), (None, vec![]));
    }
}
