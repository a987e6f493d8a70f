//! An API server, objects in it, and the command beside it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use causeway_apiserver::{Config, Server};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// An API server with the definitions that it was given, and a folder for kubeconfigs.
pub(crate) struct Site {
    pub(crate) server: Server,
    client: Client,
    folder: TempDir,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Site {
    /// One whose context has this name.
    pub(crate) async fn named(name: &str, crds: Vec<CustomResourceDefinition>) -> Self {
        // Several tests of one process get here first; one provider is as good as another.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config { name: name.into(), ..Config::default() };
        let server = Server::start(config).await.expect("an API server");
        let config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
        let folder = tempfile::tempdir().expect("a folder");
        let site = Self { server, client, folder };
        site.write("config", &site.server.kubeconfig());
        for crd in crds {
            site.define(&crd).await;
        }
        for namespace in ["ns1", "ns2"] {
            let metadata = json!({ "name": namespace });
            site.put("", json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).await;
        }
        site
    }

    /// One with tunnels.
    pub(crate) async fn with_tunnels(name: &str) -> Self {
        Self::named(name, causeway_api::vpc::crds()).await
    }

    pub(crate) async fn define(&self, crd: &CustomResourceDefinition) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        api.create(&PostParams::default(), crd).await.expect("a definition");
    }

    /// A file in its folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder().join("config")
    }

    fn api(&self, namespace: &str, object: &Value) -> Api<DynamicObject> {
        let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let (group, version) = version.and_then(|it| it.split_once('/')).unwrap_or(("", "v1"));
        let gvk = GroupVersionKind::gvk(group, version, kind.expect("a kind"));
        let resource = ApiResource::from_gvk(&gvk);
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            _ => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// Creates an object and writes its status.
    pub(crate) async fn put(&self, namespace: &str, object: Value) {
        let (api, name) = (self.api(namespace, &object), object["metadata"]["name"].clone());
        let made = serde_json::from_value(object.clone()).expect("an object");
        api.create(&PostParams::default(), &made).await.expect("it is created");
        if let Some(status) = object.get("status") {
            let patch = Patch::Merge(json!({ "status": status }));
            let name = name.as_str().expect("a name");
            api.patch_status(name, &PatchParams::default(), &patch).await.expect("a status");
        }
    }

    /// Changes an object's status.
    pub(crate) async fn says(&self, namespace: &str, object: &Value, status: Value) {
        let (api, patch) = (self.api(namespace, object), Patch::Merge(json!({ "status": status })));
        let name = object["metadata"]["name"].as_str().expect("a name");
        api.patch_status(name, &PatchParams::default(), &patch).await.expect("a status");
    }

    /// The command with this site's folder for a home, in which there is no kubeconfig at the usual place.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command.args(args).env("HOME", self.folder()).env_remove("KUBECONFIG");
        command.env_remove("KUBERNETES_SERVICE_HOST").kill_on_drop(true).stdin(Stdio::null());
        command
    }

    /// Runs `causeway status` with this site's kubeconfig.
    pub(crate) async fn status(&self, args: &[&str]) -> Said {
        let mut command = self.command(&["status"]);
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(args);
        finish(command).await
    }

    /// The same with a variable `KUBECONFIG`.
    pub(crate) async fn status_with(&self, variable: impl Into<OsString>, args: &[&str]) -> Said {
        let mut command = self.command(&["status"]);
        command.env("KUBECONFIG", variable.into()).args(args);
        finish(command).await
    }
}

pub(crate) async fn finish(mut command: Command) -> Said {
    let output = command.output().await.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

impl Said {
    /// The cells of a row that begins so, in which two spaces or more part one from the next.
    #[track_caller]
    pub(crate) fn row(&self, first: &str) -> Vec<&str> {
        let row = self.out.lines().find(|line| line.split_whitespace().any(|word| word == first));
        let row = row.unwrap_or_else(|| panic!("{first} in: {self:?}"));
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    }

    /// The document that it printed.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A condition since a moment long ago.
pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": SINCE })
}

pub(crate) const SINCE: &str = "2025-01-02T03:04:05Z";

/// A tunnel that is up.
pub(crate) fn tunnel(name: &str) -> Value {
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel", "metadata": { "name": name },
        "spec": { "type": "vxlan", "interfaceAddr": "10.100.0.1/24", "clusterId": "cluster2",
                  "gatewayName": "gw9", "natGwDp": "gw1" },
        "status": {
            "initialized": true, "internalIp": "172.50.16.11", "remoteIp": "172.50.16.21",
            "interfaceAddr": "10.100.0.1/24", "type": "vxlan", "localGw": "gw1", "natGwDp": "gw1",
            "peer": "cluster2/gw9", "globalnetCIDR": "242.0.0.0/16", "remoteGlobalnetCIDR": "242.1.0.0/16",
            "globalEgressIP": ["242.0.0.1", "242.0.0.2"],
            "conditions": [condition("Ready", "True", "Up", "vxlan leads to 242.1.0.0/16 through gw1")],
        },
    })
}

/// One that is not.
pub(crate) fn down(name: &str) -> Value {
    let mut tunnel = tunnel(name);
    let message =
        "no record of cluster2/gw9 has arrived; are the names right, is the peer joined to the broker?";
    tunnel["status"] = json!({ "conditions": [condition("Ready", "False", "PeerUnknown", message)] });
    tunnel
}
