//! What is up, for people and for programs.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use causeway_controller::words::describe;
use comfy_table::Table;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use serde::Serialize;
use serde_json::Value;

use super::controllers::kubeconfig;
use super::demo::Story;
use super::networks::NetworksReport;
use super::nodes::NodesReport;
use super::proof::Proof;
use super::rules::RulesReport;
use super::tools;

/// All there is to say once the sandbox is up, or did not come up.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Everything asked for works.
    pub(super) ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// From the process's start to the first packet that came back.
    pub(super) first_packet_ms: Option<u64>,
    /// From the process's start to this report.
    pub(super) elapsed_ms: u64,
    pub(super) folder: PathBuf,
    /// There will be something to try things on after this report.
    #[serde(skip)]
    pub(super) stays: bool,
    pub(super) clusters: Vec<ClusterReport>,
    pub(super) tunnels: Vec<TunnelReport>,
    pub(super) proof: Option<Proof>,
    /// What was broken, and what came of it, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) demo: Option<Story>,
    /// Empty when no rules were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rules: Vec<RulesReport>,
    /// Empty when no nodes were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nodes: Vec<NodesReport>,
    /// Empty when no networks were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) networks: Vec<NetworksReport>,
}

/// One cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterReport {
    pub(super) name: String,
    pub(super) server: String,
    pub(super) kubeconfig: PathBuf,
    pub(super) globalnet: String,
    pub(super) server_address: String,
    pub(super) gateways: Vec<GatewayReport>,
}

/// One of its gateways.
#[derive(Clone, Debug, Serialize)]
pub(super) struct GatewayReport {
    pub(super) name: String,
    /// Outside.
    pub(super) address: String,
}

/// One end of a tunnel, from the object's status.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TunnelReport {
    pub(super) cluster: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) gateway: String,
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) ready: bool,
    pub(super) message: String,
}

impl TunnelReport {
    /// Reads a `VpcNatTunnel`.
    pub(super) fn read(cluster: &str, object: &Value) -> TunnelReport {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
        TunnelReport {
            cluster: cluster.into(),
            name: format!("{}/{}", text("/metadata/namespace"), text("/metadata/name")),
            kind: text("/status/type").into(),
            gateway: text("/status/localGw").into(),
            local: text("/status/internalIp").into(),
            remote: text("/status/remoteIp").into(),
            ready: ready.is_some_and(|condition| condition["status"] == "True"),
            message: ready.and_then(|c| c["message"].as_str()).unwrap_or("no condition yet").into(),
        }
    }
}

impl Report {
    /// Nothing to say yet.
    pub(super) fn new(folder: &Path) -> Report {
        Report { folder: folder.to_owned(), ..Report::default() }
    }

    /// It did not even come up.
    pub(super) fn failed(folder: &Path, error: &anyhow::Error) -> Report {
        Report { reason: Some(describe(error.as_ref())), ..Report::new(folder) }
    }

    /// Takes in what a demonstration showed; it failed where traffic does not flow again.
    pub(super) fn take(&mut self, story: Story) {
        if !story.flows_again() {
            self.ready = false;
            self.reason = Some("traffic does not flow again".into());
        }
        self.demo = Some(story);
    }

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut clusters = table(&["CLUSTER", "API SERVER", "GLOBALNET", "SERVER", "GATEWAYS"]);
        for cluster in &self.clusters {
            let gateways = cluster.gateways.iter().map(|it| format!("{} {}", it.name, it.address));
            clusters.add_row([
                &cluster.name,
                &cluster.server,
                &cluster.globalnet,
                &cluster.server_address,
                &gateways.collect::<Vec<_>>().join(", "),
            ]);
        }
        let _ = writeln!(text, "{clusters}");
        if !self.tunnels.is_empty() {
            let _ = writeln!(text, "{}", self.tunnel_table());
        }
        if !self.rules.is_empty() {
            let _ = writeln!(text, "{}", self.rules_table());
        }
        for nodes in &self.nodes {
            let _ = writeln!(text, "{}", nodes.table());
        }
        if !self.networks.is_empty() {
            let _ = writeln!(text, "{}", NetworksReport::networks(&self.networks));
        }
        for reached in self.networks.iter().filter_map(NetworksReport::table) {
            let _ = writeln!(text, "{reached}");
        }
        // Sentences would make the table too wide for any screen.
        for t in self.tunnels.iter().filter(|tunnel| !tunnel.ready) {
            let _ = writeln!(text, "! {} {}: {}", t.cluster, t.name, t.message);
        }
        let counted = self.networks.iter().filter_map(NetworksReport::sentence);
        for sentence in self.nodes.iter().filter_map(NodesReport::sentence).chain(counted) {
            let _ = writeln!(text, "{sentence}");
        }
        let _ = writeln!(text, "{}", self.verdict());
        text.extend(self.demo.as_ref().map(Story::text));
        if self.stays {
            let _ = writeln!(text, "\n{}", self.what_next());
        }
        text
    }

    fn tunnel_table(&self) -> Table {
        let mut tunnels = table(&["CLUSTER", "TUNNEL", "TYPE", "GATEWAY", "FROM", "TO", "READY"]);
        for t in &self.tunnels {
            let ready = if t.ready { "yes" } else { "no" };
            tunnels.add_row([&t.cluster, &t.name, &t.kind, &t.gateway, &t.local, &t.remote, ready]);
        }
        tunnels
    }

    fn rules_table(&self) -> Table {
        let header =
            ["CLUSTER", "RULES AT", "CLIENTS AT", "DATA PLANE", "SUBSCRIBED", "SETS", "VERSION", "CHANGE"];
        let mut rules = table(&header);
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        for served in &self.rules {
            for seen in &served.subscribers {
                rules.add_row([
                    served.cluster.clone(),
                    served.address.clone(),
                    served.clients.clone(),
                    seen.name.clone(),
                    text(seen.subscribed_ms.map(|ms| format!("after {:.2} s", ms as f64 / 1000.0))),
                    seen.pushes.to_string(),
                    text(seen.version.map(|version| version.to_string())),
                    text(seen.change_ms.map(|ms| format!("{ms} ms"))),
                ]);
            }
        }
        rules
    }

    /// One sentence: what was proved, or why it was not.
    fn verdict(&self) -> String {
        if let Some(reason) = &self.reason {
            return format!("✘ not ready: {reason}");
        }
        let Some(proof) = &self.proof else {
            return "✔ ready: the controllers have exchanged their gateways; no tunnel was asked for".into();
        };
        let (target, sent, received) = (proof.target, proof.sent, proof.received);
        let sources: Vec<String> = proof.source_seen.iter().map(ToString::to_string).collect();
        format!(
            "{} client → {target}: {received} of {sent} echoes, {:.0} MiB there and back in {:.2} s, \
             seen there as {}; first packet after {:.2} s",
            if proof.holds() { '✔' } else { '✘' },
            proof.bytes as f64 / 1_048_576.0,
            proof.seconds,
            sources.join(", "),
            self.first_packet_ms.unwrap_or_default() as f64 / 1000.0,
        )
    }

    fn what_next(&self) -> String {
        let second = self.clusters.get(1).map(|cluster| cluster.server_address.clone());
        let target = self.proof.as_ref().map(|proof| proof.target.to_string()).or(second).unwrap_or_default();
        let config = kubeconfig(&self.folder, "cluster1");
        let names = self.clusters.iter().map(|cluster| cluster.name.as_str()).chain(["broker"]);
        let names: Vec<&str> = names.collect();
        let speak = if tools::exists("ping") {
            format!("kubectl exec -n ns1 client -- ping -c 3 {target}")
        } else {
            format!(
                "kubectl exec -n ns1 client -- bash -c 'exec 3<>/dev/tcp/{target}/7; echo hi >&3; head -1 <&3'"
            )
        };
        format!(
            "Kubeconfigs: {}/{{{}}}.kubeconfig\nTry in another terminal:\n  \
             export KUBECONFIG={}\n  \
             kubectl get vpcnattunnels,gatewayexips -A\n  \
             {speak}\n  \
             kubectl exec -n kube-system vpc-nat-gw-gw1-0 -- ip route{}{}{}",
            pasteable(&self.folder),
            names.join(","),
            pasteable(&config),
            self.rules.first().map(rules_next).unwrap_or_default(),
            self.nodes.first().map(NodesReport::next).unwrap_or_default(),
            self.networks.first().map(|networks| networks.next(&self.folder)).unwrap_or_default(),
        )
    }
}

/// A path as a shell takes it for one.
fn pasteable(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn rules_next(served: &RulesReport) -> String {
    format!(
        "\n  kubectl patch ratelimitstrategy rate-limit-foo --type merge -p '{{\"spec\": {{\"threshold\": 30}}}}'\n  \
         causeway rules watch --app foo --address {}\n  \
         causeway rules clients --address {}",
        served.address, served.clients
    )
}

/// An empty table.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(header.to_vec());
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tunnels_end_is_read_from_its_status() {
        let object = json!({
            "metadata": {"namespace": "ns1", "name": "demo"},
            "status": {
                "type": "vxlan", "localGw": "gw1", "internalIp": "172.50.16.11", "remoteIp": "172.50.16.21",
                "conditions": [{"type": "Ready", "status": "True", "message": "up"}],
            },
        });
        let report = TunnelReport::read("cluster1", &object);
        assert!(report.ready);
        assert_eq!((report.name.as_str(), report.remote.as_str()), ("ns1/demo", "172.50.16.21"));
        let fresh = TunnelReport::read("cluster1", &json!({"metadata": {"name": "demo"}}));
        assert!(!fresh.ready);
        assert_eq!(fresh.message, "no condition yet");
    }

    #[test]
    fn what_is_proposed_can_be_pasted() {
        let cluster = |name: &str| ClusterReport {
            name: name.into(),
            server: String::new(),
            kubeconfig: PathBuf::new(),
            globalnet: String::new(),
            server_address: "242.1.1.20".into(),
            gateways: Vec::new(),
        };
        let clusters = ["cluster1", "cluster2", "cluster3"].map(cluster).to_vec();
        let proposed = |folder: &str| {
            Report { clusters: clusters.clone(), ..Report::new(Path::new(folder)) }.what_next()
        };
        let plain = proposed("/tmp/demo");
        assert!(plain.contains("/tmp/demo/{cluster1,cluster2,cluster3,broker}.kubeconfig\n"), "{plain}");
        assert!(plain.contains("export KUBECONFIG=/tmp/demo/cluster1.kubeconfig\n"), "{plain}");
        let odd = proposed("/tmp/it's ü");
        assert!(odd.contains(r"export KUBECONFIG='/tmp/it'\''s ü/cluster1.kubeconfig'"), "{odd}");
    }

    #[test]
    fn traffic_that_does_not_flow_again_is_a_failure() {
        let mut report = Report { ready: true, ..Report::default() };
        report.take(Story::of_nothing());
        assert!(!report.ready);
        assert!(report.text().contains("✘ not ready: traffic does not flow again"), "{}", report.text());
    }

    #[test]
    fn programs_find_the_agreed_names() {
        let report = Report {
            ready: true,
            first_packet_ms: Some(900),
            tunnels: vec![TunnelReport::default()],
            proof: Some(Proof {
                target: [242, 1, 1, 20].into(),
                sent: 1,
                received: 1,
                bytes: 2,
                seconds: 0.5,
                source_seen: vec![[242, 0, 0, 3].into()],
                egress: vec![],
            }),
            ..Report::default()
        };
        let json = serde_json::to_value(&report).expect("serializable");
        assert_eq!(json["ready"], true);
        assert_eq!(json["firstPacketMs"], 900);
        assert_eq!(json["tunnels"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["proof"]["sourceSeen"][0], "242.0.0.3");
        assert!(json["proof"]["seconds"].is_number());
    }
}
