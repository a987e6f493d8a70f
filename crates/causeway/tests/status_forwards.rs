//! Forwards of names in `causeway status`: in force, or why not.
#![cfg(feature = "sandbox")]

use causeway_api::dns::{LooseForward, VpcDnsForward, crds};
use causeway_apiserver::{Config, Fault, Match, Server, Switch};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;

/// An API server with just the definition of forwards.
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
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in crds() {
            api.create(&PostParams::default(), &crd).await.expect("a definition");
        }
        Self { server, client, folder }
    }

    async fn forward(&self, name: &str, vpc: &str) {
        let api: Api<VpcDnsForward> = Api::namespaced(self.client.clone(), "default");
        let spec = serde_json::from_value(json!({ "vpc": vpc })).expect("a spec");
        api.create(&PostParams::default(), &VpcDnsForward::new(name, spec)).await.expect("it is created");
    }

    /// Says of a forward how far it got.
    async fn says(&self, name: &str, fields: Value, conditions: &[(&str, &str, &str)]) {
        let conditions = conditions.iter().map(|(kind, status, reason)| {
            json!({ "type": kind, "status": status, "reason": reason, "message": "said so",
                    "lastTransitionTime": "2025-11-17T04:33:44Z" })
        });
        let mut status = fields;
        status["conditions"] = conditions.collect();
        let api: Api<LooseForward> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
    }

    /// What `causeway status` prints, complaints included, and how it ends.
    async fn status(&self, flags: &[&str]) -> (Option<i32>, String) {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_causeway"));
        let kubeconfig = self.folder.path().join("kubeconfig");
        let output = command.arg("status").arg("--kubeconfig").arg(kubeconfig).args(flags).output().await;
        let output = output.expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// The cells of a forward's row, in which two spaces or more part one from the next.
    async fn row(&self, name: &str, flags: &[&str]) -> Vec<String> {
        let (_, said) = self.status(flags).await;
        let row = said.lines().find(|line| line.split_whitespace().next() == Some(name));
        let row = row.unwrap_or_else(|| panic!("{name} in: {said}")).trim();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn forwards_are_shown_with_where_they_lead_and_why_they_do_not() {
    let site = Site::new().await;
    let (code, said) = site.status(&[]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "there is nothing to show, and nothing wrong");
    site.forward("dns-1", "a").await;
    assert_eq!(site.status(&[]).await.0, Some(1));
    let why = "not looked at yet: is a controller running?";
    assert_eq!(site.row("default/dns-1", &[]).await, ["default/dns-1", "no", "a", "-", "-", why]);

    let done = json!({ "vpc": "a", "vpcDns": "one", "kubeDns": "10.96.0.10", "gateway": "10.244.0.1",
                       "corefiles": ["vpc-dns-corefile"] });
    site.says("dns-1", done.clone(), &[("Ready", "True", "Forwarding")]).await;
    let (code, said) = site.status(&[]).await;
    assert_eq!(code, Some(0), "{said}");
    let row = site.row("default/dns-1", &["-o", "wide"]).await;
    let expected = ["default/dns-1", "yes", "a", "10.96.0.10", "one", "10.244.0.1", "vpc-dns-corefile"];
    assert_eq!(row[..7], expected);
    let (_, json) = site.status(&["-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["forwards"][0]["server"], "10.96.0.10");
    assert_eq!((&json["forwards"][0]["ready"], &json["ready"]), (&json!(true), &json!(true)));

    site.says("dns-1", done.clone(), &[("Ready", "False", "ForeignBlock")]).await;
    assert_eq!(site.status(&[]).await.0, Some(1));
    assert_eq!(site.row("default/dns-1", &[]).await[5], "ForeignBlock: said so");
    let blocked = [("Ready", "False", "Deleting"), ("CleanupBlocked", "True", "Forbidden")];
    site.says("dns-1", done, &blocked).await;
    assert_eq!(site.row("default/dns-1", &[]).await[5], "Forbidden: said so", "what holds it");

    // Somebody who may not read forwards hears nothing of them.
    let forwards = Match { resources: vec!["vpcdnsforwards".into()], ..Match::default() };
    let refuse = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    site.server.faults().set(vec![Fault::new(refuse).on(forwards)]).expect("a fault");
    let (_, said) = site.status(&[]).await;
    assert!(!said.contains("default/dns-1"), "{said}");
}
