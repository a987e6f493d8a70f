//! Networks in `causeway status`: as declared, or why not.
#![cfg(feature = "sandbox")]

use causeway_api::networks::{LooseNetwork, Network, crds};
use causeway_apiserver::{Config, Fault, Match, Server, Switch};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;

/// An API server without any of our definitions.
struct Site {
    server: Server,
    client: Client,
    folder: TempDir,
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
        Self { server, client, folder }
    }

    async fn define(&self, crd: CustomResourceDefinition) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &crd).await.expect("a definition");
    }

    async fn network(&self, name: &str, cidr: &str) {
        let api: Api<Network> = Api::namespaced(self.client.clone(), "default");
        let spec = serde_json::from_value(json!({ "cidr": cidr })).expect("a spec");
        api.create(&PostParams::default(), &Network::new(name, spec)).await.expect("it is created");
    }

    /// Says of a network how far it got.
    async fn says(&self, name: &str, fields: Value, conditions: &[(&str, &str, &str)]) {
        let conditions = conditions.iter().map(|(kind, status, reason)| {
            json!({ "type": kind, "status": status, "reason": reason, "message": "said so",
                    "lastTransitionTime": "2025-11-17T04:33:44Z" })
        });
        let mut status = fields;
        status["conditions"] = conditions.collect();
        let api: Api<LooseNetwork> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
    }

    /// What `causeway status` prints, complaints included, and how it ends.
    async fn status(&self) -> (Option<i32>, String) {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_causeway"));
        let kubeconfig = self.folder.path().join("kubeconfig");
        let output = command.arg("status").arg("--kubeconfig").arg(kubeconfig).output().await;
        let output = output.expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// The cells of a network's row, in which two spaces or more part one from the next.
    async fn row(&self, name: &str) -> Vec<String> {
        let (_, said) = self.status().await;
        let row = said.lines().find(|line| line.split_whitespace().next() == Some(name));
        let row = row.unwrap_or_else(|| panic!("{name} in: {said}")).trim();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn networks_are_shown_also_where_nothing_else_is_installed() {
    let site = Site::new().await;
    for crd in crds() {
        site.define(crd).await;
    }
    let (code, said) = site.status().await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "there is nothing to show, and nothing wrong");

    site.network("a", "10.8.0.0/24").await;
    assert_eq!(site.status().await.0, Some(1));
    let why = "not looked at yet: is a controller running?";
    assert_eq!(site.row("default/a").await, ["default/a", "no", "10.8.0.0/24", "10.8.0.1", "-", why]);

    let made = json!({ "provider": "neutron", "networkId": "7a1c", "gateway": "10.8.0.1" });
    site.says("a", made.clone(), &[("Ready", "True", "Synced")]).await;
    let (code, said) = site.status().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("tunnel"), "{said}");
    let row = site.row("default/a").await;
    assert_eq!(row[..4], ["default/a", "yes", "10.8.0.0/24", "10.8.0.1"]);
    assert_eq!(row[5], "-", "{row:?}");

    site.says("a", made.clone(), &[("Ready", "Unknown", "CloudUnreachable")]).await;
    assert_eq!(site.status().await.0, Some(1));
    assert_eq!(site.row("default/a").await[1], "unknown");
    let blocked = [("Ready", "False", "Deleting"), ("CleanupBlocked", "True", "InUse")];
    site.says("a", made, &blocked).await;
    let row = site.row("default/a").await;
    assert_eq!((row[1].as_str(), row[5].as_str()), ("no", "InUse: said so"), "what holds it");

    // Somebody who may not read networks hears nothing of them.
    let networks = Match { resources: vec!["networks".into()], ..Match::default() };
    let refuse = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    site.server.faults().set(vec![Fault::new(refuse).on(networks)]).expect("a fault");
    let (code, said) = site.status().await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("VpcNatTunnel is not installed") && !said.contains("default/a"), "{said}");
}

#[tokio::test]
async fn without_the_definition_nothing_is_said_of_networks() {
    let site = Site::new().await;
    for crd in causeway_api::vpc::crds() {
        site.define(crd).await;
    }
    let (code, said) = site.status().await;
    assert_eq!((code, said.trim()), (Some(0), "no tunnels; samples/tunnel.yaml shows how to declare one"));
}
