//! API servers that were given, by kubeconfig, in place of the embedded ones.
//!
//! A given server is a real one: it has RBAC, so the controllers get the accounts and the roles of
//! `deploy/*.yaml` ([`accounts`]); its own controller manager makes the StatefulSets' pods; and it looks for a
//! kubelet where the Node object says ([`stand_in`], [`bridge`]). What a sandbox puts there it takes away again,
//! and what an earlier one left is swept first ([`sweep`]).
//!
//! Invariant: only a server without nodes of its own is used. Where there are nodes there is somebody's cluster.

mod accounts;
mod bridge;
mod frames;
mod node;
mod stand_in;
mod sweep;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

pub(super) use node::{NODE_LABEL, keep_alive};
pub(super) use stand_in::StandIn;

use super::controllers::{Rooms, kubeconfig};
use super::submariner::BrokerAccess;

/// The account that `deploy/controller.yaml` makes.
const CONTROLLER: (&str, &str) = ("multi-vpc-system", "multi-vpc-controller-manager");

/// A real API server that a kubeconfig leads to.
pub(super) struct Given {
    pub(super) client: Client,
    pub(super) url: String,
    ca_pem: String,
    folder: PathBuf,
    name: String,
}

impl Given {
    /// Connects, puts the kubeconfig into the sandbox's folder under `name`, and clears what an earlier
    /// sandbox left.
    pub(super) async fn connect(name: &str, file: &Path, folder: &Path) -> anyhow::Result<Given> {
        let what = || format!("the API server of {name}, by {}", file.display());
        let read = Kubeconfig::read_from(file).with_context(what)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(read, &options).await.with_context(what)?;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let ca_pem = config.root_cert.iter().flatten().map(|der| pem(der)).collect();
        let client = Client::try_from(config).with_context(what)?;
        let given = Given { client, url, ca_pem, folder: folder.to_owned(), name: name.to_owned() };
        given.refuse_a_cluster_in_use().await.with_context(what)?;
        given.sweep().await.with_context(what)?;
        let file = file.canonicalize().with_context(what)?;
        std::os::unix::fs::symlink(file, kubeconfig(folder, name)).with_context(what)?;
        Ok(given)
    }

    async fn refuse_a_cluster_in_use(&self) -> anyhow::Result<()> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        match nodes.items.iter().find(|node| !node.labels().contains_key(NODE_LABEL)) {
            Some(node) => bail!(
                "it has a node {}: a sandbox fills a cluster with objects and takes them away again, so it \
                 wants one without nodes",
                node.name_any()
            ),
            None => Ok(()),
        }
    }

    /// Takes away all that a sandbox puts into a cluster.
    pub(super) async fn sweep(&self) -> anyhow::Result<()> {
        sweep::all(&self.client).await.context("clearing it")
    }

    /// Gives a member's controller its account and its rights, and writes the kubeconfig for it.
    pub(super) async fn admit_controller(&self, rooms: Rooms) -> anyhow::Result<()> {
        for manifest in [
            include_str!("../../../../../deploy/controller.yaml"),
            include_str!("../../../../../deploy/vpc.yaml"),
            include_str!("../../../../../deploy/submariner.yaml"),
            include_str!("../../../../../deploy/broker-secret.yaml"),
        ] {
            accounts::apply(&self.client, manifest).await?;
        }
        if rooms.dns {
            accounts::apply(&self.client, include_str!("../../../../../deploy/dns.yaml")).await?;
        }
        if rooms.rules {
            accounts::apply(&self.client, include_str!("../../../../../deploy/rules.yaml")).await?;
        }
        if rooms.networks {
            accounts::apply(&self.client, include_str!("../../../../../deploy/networks.yaml")).await?;
        }
        let token = accounts::token(&self.client, CONTROLLER).await?;
        let text = accounts::kubeconfig(&self.name, &self.url, &self.ca_pem, &token);
        std::fs::write(controller_kubeconfig(&self.folder, &self.name), text).context("its kubeconfig")
    }

    /// Gives the members the right to meet here.
    pub(super) async fn admit_members(&self) -> anyhow::Result<()> {
        accounts::apply(&self.client, include_str!("../../../../../deploy/broker.yaml")).await
    }

    /// What a member gets to know of this broker: Submariner makes an account for each.
    pub(super) async fn access(&self, member: &str, namespace: &str) -> anyhow::Result<BrokerAccess> {
        let name = format!("cluster-{member}");
        accounts::create(&self.client, namespace, &name).await?;
        let token = accounts::token(&self.client, (namespace, &name)).await?;
        let server = self.url.trim_start_matches("https://").to_owned();
        Ok(BrokerAccess { server, token, ca_pem: self.ca_pem.clone() })
    }
}

/// The kubeconfig of a cluster's controller, where that is another than people's.
pub(super) fn controller_kubeconfig(folder: &Path, cluster: &str) -> PathBuf {
    folder.join(format!("{cluster}.controller.kubeconfig"))
}

/// Where the controllers of given servers keep their lease: their account may not elsewhere.
pub(super) const LEASE_NAMESPACE: &str = CONTROLLER.0;

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
}
