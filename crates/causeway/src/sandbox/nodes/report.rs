//! What was seen of the nodes, for people and for programs.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use causeway_datapath::leases::PROTOCOL;
use comfy_table::Table;
use ipnet::IpNet;
use serde::Serialize;

use super::super::matrix::Matrix;
use super::super::report::table;
use super::super::tools::user_namespace;

/// The nodes of one cluster: who reached whom, and when.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct NodesReport {
    pub(in super::super) cluster: String,
    pub(super) backend: String,
    /// Whether a pod that is reached is reached over IPv6 too.
    pub(super) ipv6: bool,
    pub(super) nodes: Vec<NodeReport>,
    /// From the process's start to the moment at which every pod had reached every other.
    pub(super) reached_ms: Option<u64>,
    pub(super) before: Option<Matrix>,
    /// How many routes of the first node were deleted while its agent was stopped.
    pub(super) flushed: usize,
    /// What was reached then.
    pub(super) broken: Option<Matrix>,
    /// From the moment at which the agent went on until every pod had reached every other.
    pub(super) repaired_ms: Option<f64>,
    pub(super) after: Option<Matrix>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeReport {
    pub(super) name: String,
    pub(super) address: IpAddr,
    pub(super) subnet: IpNet,
    pub(super) pod: IpAddr,
    /// Where the agent's pid is, and so the way into the node's network.
    pub(super) pid_file: PathBuf,
}

impl NodesReport {
    /// Who reached whom: a row for each pod that asked, a column for each that was asked.
    pub(in super::super) fn table(&self) -> Table {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let families = if self.ipv6 { ", IPv4 and IPv6" } else { "" };
        let title = format!("{}, {}{families}", self.cluster, self.backend);
        let header = [title.as_str(), "POD ON"].into_iter().chain(names.iter().copied());
        let mut all = table(&header.collect::<Vec<_>>());
        let moments = [("before", &self.before), ("broken", &self.broken), ("after", &self.after)];
        let taken = moments.into_iter().filter_map(|(moment, matrix)| Some((moment, matrix.as_ref()?)));
        for (moment, matrix) in taken {
            for (at, from) in names.iter().enumerate() {
                let moment = if at == 0 { moment } else { "" };
                let cells = names.iter().map(|to| cell(matrix, from, to));
                all.add_row([moment.to_owned(), (*from).to_owned()].into_iter().chain(cells));
            }
        }
        all
    }

    /// One sentence: what was broken and when it was mended.
    pub(in super::super) fn sentence(&self) -> Option<String> {
        let (first, took) = (self.nodes.first()?, self.repaired_ms?);
        let (cluster, name, routes) = (&self.cluster, &first.name, self.flushed);
        Some(format!(
            "✔ {cluster}: {name} lost its routes ({routes}); repaired {took} ms after its agent went on"
        ))
    }

    /// Something to try while the sandbox stays.
    pub(in super::super) fn next(&self) -> String {
        let Some(first) = self.nodes.first() else { return String::new() };
        let enter = format!("nsenter {}-n -t \"$(cat {})\"", user_namespace(), first.pid_file.display());
        format!(
            "\n  causeway status\n  kubectl get node {} -o yaml\n  {enter} ip route\n  {enter} ip route flush proto {PROTOCOL}",
            first.name
        )
    }
}

fn cell(matrix: &Matrix, from: &str, to: &str) -> String {
    if from == to {
        return "–".into();
    }
    match matrix.0.get(from).and_then(|row| row.get(to)).copied().flatten() {
        Some(took) => format!("{took:.2} ms"),
        None => "✘".into(),
    }
}

/// Milliseconds with one digit behind the point: more would pretend.
pub(super) fn tenths(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn node(name: &str) -> NodeReport {
        let (address, subnet) = (IpAddr::from([127, 0, 0, 1]), IpNet::default());
        NodeReport { name: name.into(), address, subnet, pod: address, pid_file: PathBuf::from("pid") }
    }

    fn matrix(back: Option<f64>) -> Matrix {
        let row = |to: &str, took| BTreeMap::from([(to.to_owned(), took)]);
        Matrix(BTreeMap::from([("a".into(), row("b", Some(0.25))), ("b".into(), row("a", back))]))
    }

    #[test]
    fn a_table_says_who_reached_whom_and_a_sentence_how_long_it_took() {
        let report = NodesReport {
            cluster: "cluster1".into(),
            backend: "host-gw".into(),
            ipv6: false,
            nodes: vec![node("a"), node("b")],
            before: Some(matrix(Some(0.5))),
            flushed: 1,
            broken: Some(matrix(None)),
            repaired_ms: Some(4.2),
            after: None,
            reached_ms: None,
        };
        let text = report.table().to_string();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .filter(|row: &Vec<_>| row.len() > 2)
            .collect();
        assert_eq!(rows[1], ["│", "before", "a", "–", "0.25", "ms", "│"], "{text}");
        assert_eq!(rows[4], ["│", "b", "✘", "–", "│"], "{text}");
        assert!(!text.contains("after"), "{text}");
        assert!(report.sentence().expect("it was mended").contains("repaired 4.2 ms after"));
        let json = serde_json::to_value(&report).expect("serializable");
        assert_eq!(
            (&json["before"]["a"]["b"], &json["broken"]["b"]["a"]),
            (&0.25.into(), &serde_json::Value::Null)
        );
    }
}
