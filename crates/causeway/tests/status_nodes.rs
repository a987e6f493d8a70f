//! Nodes in `causeway status`: what each has announced, and what is wrong with that.
#![cfg(feature = "sandbox")]

use std::path::PathBuf;

use causeway_apiserver::{Config, Fault, Match, Server, Switch};
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

/// An API server without any of our definitions, and nodes.
struct Site {
    server: Server,
    nodes: Api<Node>,
    folder: TempDir,
}

/// A backend's annotations.
fn vxlan(vni: u32, mac: &str) -> [(&'static str, String); 2] {
    [("backend-type", "vxlan".into()), ("backend-data", json!({ "VNI": vni, "VtepMAC": mac }).to_string())]
}

fn host_gw() -> [(&'static str, String); 2] {
    [("backend-type", "host-gw".into()), ("backend-data", "null".into())]
}

impl Site {
    async fn new() -> Self {
        // Several tests of one process get here first; one provider is as good as another.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Server::start(Config::default()).await.expect("an API server");
        let config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).expect("written");
        Self { server, nodes: Api::all(client), folder }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Makes a node with these annotations, those of a node that takes part among them.
    async fn node(&self, name: &str, cidrs: &[&str], annotations: &[(&str, String)]) {
        let own = [("kube-subnet-manager", "true".to_owned())];
        let annotations: Map<String, Value> = own
            .iter()
            .chain(annotations)
            .map(|(name, value)| (format!("flannel.alpha.coreos.com/{name}"), json!(value)))
            .collect();
        let mut node = json!({ "apiVersion": "v1", "kind": "Node",
                               "metadata": { "name": name, "annotations": annotations } });
        if let Some(first) = cidrs.first() {
            node["spec"] = json!({ "podCIDR": first, "podCIDRs": cidrs });
        }
        let node = serde_json::from_value(node).expect("a node");
        self.nodes.create(&PostParams::default(), &node).await.expect("it is created");
    }

    /// Says of a node whether it is without a network.
    async fn condition(&self, name: &str, status: &str, reason: &str) {
        let condition = json!({ "type": NETWORK_UNAVAILABLE, "status": status, "reason": reason,
                                "message": "said so", "lastTransitionTime": "2026-11-17T04:33:44Z" });
        let patch = json!({ "status": { "conditions": [condition] } });
        let patch = kube::api::Patch::Strategic(&patch);
        self.nodes.patch_status(name, &Default::default(), &patch).await.expect("patched");
    }

    /// What `causeway status` prints, complaints included, and how it ends.
    async fn status(&self) -> (Option<i32>, String) {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_causeway"));
        let output = command.arg("status").arg("--kubeconfig").arg(self.kubeconfig()).output().await;
        let output = output.expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// The cells of a node's row, in which two spaces or more part one from the next.
    async fn row(&self, name: &str) -> Vec<String> {
        let (_, said) = self.status().await;
        let row = said.lines().find(|line| line.split_whitespace().next() == Some(name));
        let row = row.unwrap_or_else(|| panic!("{name} in: {said}")).trim();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    }
}

/// A backend and a public address.
fn at(backend: [(&'static str, String); 2], public: &str) -> Vec<(&'static str, String)> {
    backend.into_iter().chain([("public-ip", public.to_owned())]).collect()
}

#[tokio::test]
async fn nodes_of_the_network_are_shown_also_where_nothing_else_is_installed() {
    let site = Site::new().await;
    let (code, said) = site.status().await;
    assert_eq!(code, Some(2), "there is nothing to show: {said}");
    assert!(said.contains("VpcNatTunnel is not installed"), "{said}");

    let mut both = at(host_gw(), "192.168.7.1");
    both.push(("public-ipv6", "fd00:192:168::1".into()));
    site.node("worker1", &["10.244.1.0/24", "fd00:10:244:1::/64"], &both).await;
    site.node("worker2", &["10.244.2.0/24"], &at(host_gw(), "192.168.7.2")).await;
    site.condition("worker1", "False", "FlannelIsUp").await;
    let (code, said) = site.status().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("tunnel"), "{said}");
    let (subnets, publics) = ("10.244.1.0/24, fd00:10:244:1::/64", "192.168.7.1, fd00:192:168::1");
    let row = site.row("worker1").await;
    assert_eq!(row[..5], ["worker1", "yes", subnets, publics, "host-gw"]);
    assert_eq!(row[6], "-");
    assert_eq!(
        site.row("worker2").await,
        ["worker2", "unknown", "10.244.2.0/24", "192.168.7.2", "host-gw", "-", "-"],
        "that nothing is said of its network is no fault"
    );
    // Others take no part.
    let other = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "other" } });
    let other = serde_json::from_value(other).expect("a node");
    site.nodes.create(&PostParams::default(), &other).await.expect("it is created");
    let (code, said) = site.status().await;
    assert!(code == Some(0) && !said.contains("other"), "{said}");

    site.condition("worker2", "True", "NoRouteCreated").await;
    assert_eq!(site.status().await.0, Some(1));
    let row = site.row("worker2").await;
    assert_eq!((row[1].as_str(), row[6].as_str()), ("no", "NoRouteCreated: said so"));

    // Somebody who may not read nodes hears nothing of them.
    let nodes = Match { resources: vec!["nodes".into()], ..Match::default() };
    let refuse = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    site.server.faults().set(vec![Fault::new(refuse).on(nodes)]).expect("a fault");
    let (code, said) = site.status().await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("VpcNatTunnel is not installed") && !said.contains("worker"), "{said}");
}

#[tokio::test]
async fn whatever_is_wrong_with_a_node_is_said_and_counts() {
    let site = Site::new().await;
    let mac = |last: u8| format!("02:00:00:00:00:{last:02x}");
    for number in 1..=3 {
        let subnet = format!("10.244.{number}.0/24");
        let annotations = at(vxlan(1, &mac(number)), &format!("192.168.7.{number}"));
        site.node(&format!("worker{number}"), &[&subnet], &annotations).await;
    }
    assert_eq!(site.status().await.0, Some(0));
    assert_eq!(site.row("worker1").await[4], "vxlan (VNI 1)");
    let public = |last| format!("192.168.7.{last}");
    site.node("x-bare", &[], &at(vxlan(1, &mac(20)), &public(20))).await;
    site.node("x-silent", &["10.244.21.0/24"], &vxlan(1, &mac(21))).await;
    site.node("x-nonsense", &["10.244.22.0/24"], &at(vxlan(1, "x"), &public(22))).await;
    site.node("x-inside", &["10.244.2.128/25"], &at(vxlan(1, &mac(23)), &public(23))).await;
    site.node("x-twin", &["10.244.24.0/24"], &at(vxlan(1, &mac(3)), &public(24))).await;
    site.node("x-apart", &["10.244.25.0/24"], &at(host_gw(), &public(25))).await;
    site.node("x-vni", &["10.244.26.0/24"], &at(vxlan(7, &mac(26)), &public(26))).await;
    site.node("x-usurper", &["10.244.27.0/24"], &at(vxlan(1, &mac(27)), &public(1))).await;
    let whys = [
        ("x-bare", "no podCIDR: kube-controller-manager gives one"),
        ("x-silent", "no public address is announced"),
        ("x-nonsense", "annotation flannel.alpha.coreos.com/backend-data: VtepMAC: `x` is not the address"),
        ("x-inside", "its subnet 10.244.2.128/25 overlaps 10.244.2.0/24 of node worker2, which is older"),
        ("x-twin", "its VtepMAC 02:00:00:00:00:03 is that of node worker3, which is older"),
        ("x-apart", "its backend is `host-gw`, and that of most nodes is `vxlan`"),
        ("x-vni", "its VNI is 7, and that of most nodes is 1"),
        ("x-usurper", "its public address 192.168.7.1 is that of node worker1, which is older"),
    ];
    let (code, said) = site.status().await;
    assert_eq!(code, Some(1), "{said}");
    for (name, why) in whys {
        let row = site.row(name).await;
        assert!(row[6].starts_with(why), "{row:?}");
    }
    for number in 1..=3 {
        assert_eq!(site.row(&format!("worker{number}")).await[6], "-", "the older one is right");
    }
}
