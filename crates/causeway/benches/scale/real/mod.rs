//! A real API server, by kubeconfig, in place of the embedded one.
//!
//! ```text
//!  kube-apiserver ──exec──▶ causeway-kubelet ──Unix socket──▶ this process ─▶ nsenter ─▶ namespaces
//! ```
//!
//! The controller runs there as it is deployed: with the account, the rights and the lease of
//! `deploy/*.yaml`. What a run puts there is labelled and taken away, before and after.

#[path = "../../../src/sandbox/given/accounts.rs"]
#[allow(dead_code, reason = "the sandbox uses all of it")]
mod accounts;
#[path = "../../../src/sandbox/given/bridge.rs"]
#[allow(unused_imports, dead_code, reason = "its tests run in the sandbox")]
mod bridge;
#[path = "../../../src/sandbox/given/frames.rs"]
#[allow(unused_imports, dead_code, reason = "its tests run in the sandbox")]
mod frames;
mod kubelet;
mod requests;
mod sweep;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use causeway_apiserver::{Exec, RequestCount};
use causeway_controller::client::connect;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::ListParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

use self::kubelet::Kubelet;
use crate::apply;
use crate::objects::{self, LABEL, SYSTEM};

/// Names the kubeconfig of an administrator.
const GIVEN: &str = "BENCH_KUBECONFIG";
/// The account that `deploy/controller.yaml` makes; its lease is in the same namespace.
const CONTROLLER: (&str, &str) = ("multi-vpc-system", "multi-vpc-controller-manager");

/// Where `deploy/submariner.yaml` has its rights.
const OPERATOR: &str = "submariner-operator";

/// The file that leads to a real server, if one shall be used.
pub(crate) fn given() -> Option<PathBuf> {
    std::env::var_os(GIVEN).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// A real server that is ours for the time being.
pub(crate) struct Real {
    pub(crate) client: Client,
    /// For the controller.
    pub(crate) kubeconfig: PathBuf,
    kubelet: Kubelet,
}

impl Real {
    /// Connects, takes away what an earlier run left, and makes the controller's account. Files go to the folder.
    pub(crate) async fn prepare(file: &Path, exec: Arc<dyn Exec>, folder: &Path) -> anyhow::Result<Real> {
        let mut read = Kubeconfig::read_from(file)?;
        let config = Config::from_custom_kubeconfig(read.clone(), &KubeConfigOptions::default()).await?;
        // The library's own connections would add the wait for an acknowledgement to every write of ours.
        let client = connect(config)?;
        refuse_a_cluster_in_use(&client).await?;
        sweep::all(&client).await.context("clearing it")?;
        // Without a broker by flag it is looked for where Submariner says.
        apply::one(&client, objects::namespace(OPERATOR)).await?;
        for manifest in [
            include_str!("../../../../../deploy/controller.yaml"),
            include_str!("../../../../../deploy/vpc.yaml"),
            include_str!("../../../../../deploy/submariner.yaml"),
        ] {
            accounts::apply(&client, manifest).await?;
        }
        // Where there is no controller manager nobody else makes it, and no pod can be made without it.
        accounts::create(&client, SYSTEM, "default").await?;
        let token = accounts::token(&client, CONTROLLER).await?;
        for user in &mut read.auth_infos {
            user.auth_info = Some(AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() });
        }
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_string(&read)?)?;
        let kubelet = Kubelet::start(exec, folder).await?;
        Ok(Real { client, kubeconfig, kubelet })
    }

    /// Where the controller keeps its lease.
    pub(crate) fn lease_namespace() -> &'static str {
        CONTROLLER.0
    }

    /// Where the API server finds the kubelet.
    pub(crate) fn kubelet_port(&self) -> u16 {
        self.kubelet.port
    }

    /// What was asked of the server so far, as far as a controller asks for it.
    pub(crate) async fn requests(&self) -> anyhow::Result<Vec<RequestCount>> {
        requests::read(&self.client).await
    }

    /// Takes everything away.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.kubelet.end().await?;
        sweep::all(&self.client).await.context("clearing it")
    }
}

async fn refuse_a_cluster_in_use(client: &Client) -> anyhow::Result<()> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    if let Some(node) = nodes.items.iter().find(|node| !node.labels().contains_key(LABEL)) {
        bail!("it has a node {}: a benchmark wants an API server that nobody uses", node.name_any());
    }
    // One of the first things that it makes, and nobody else does.
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    ensure!(
        accounts.get_opt("default").await?.is_none(),
        "a kube-controller-manager is at work there, which would replace the gateways' pods by its own"
    );
    Ok(())
}
