//! The machine of node 0: a namespace, a way to the API server, the agent's files, and a witness.

use std::time::Duration;

use anyhow::{Context, bail};
use causeway_core::leases::Mode;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::addresses;
use crate::agent::Agent;
use crate::namespace::Namespace;
use crate::objects;
use crate::relay::Relay;
use crate::server::Cluster;
use crate::witness::Witness;

const PATIENCE: Duration = Duration::from_secs(60);
/// After its announcement an agent has nothing left to do but what is done to it.
const QUIET: Duration = Duration::from_secs(1);

/// The machine; all of it ends with this value, and the agent has to have ended before.
pub(crate) struct Machine {
    pub(crate) witness: Witness,
    pub(crate) relay: Relay,
    namespace: Namespace,
    folder: TempDir,
}

impl Machine {
    pub(crate) fn new(cluster: &Cluster, mode: Mode) -> anyhow::Result<Machine> {
        let folder = tempfile::Builder::new().prefix("causeway-bench-").tempdir()?;
        let namespace = Namespace::create(folder.path())?;
        namespace.sh(&addresses::machine())?;
        let witness = Witness::in_namespace(&namespace)?;
        let relay = Relay::start(&namespace, cluster.address)?;
        std::fs::write(folder.path().join("kubeconfig"), &cluster.kubeconfig)?;
        let backend = json!({ "Type": mode.name() });
        let config = json!({ "Network": addresses::NETWORK, "Backend": backend });
        std::fs::write(folder.path().join("net-conf.json"), config.to_string())?;
        Ok(Machine { witness, relay, namespace, folder })
    }

    pub(crate) fn start_agent(&self) -> anyhow::Result<Agent> {
        Agent::start(&self.namespace, self.folder.path())
    }

    /// Starts it and waits until it has put, and said, all that it has to.
    pub(crate) async fn settled_agent(&mut self, cluster: &Cluster, peers: u32) -> anyhow::Result<Agent> {
        let agent = self.start_agent()?;
        let reached = tokio::task::block_in_place(|| self.witness.until_reached(1..=peers));
        reached.with_context(|| agent.last_lines())?;
        let deadline = Instant::now() + PATIENCE;
        let public = "flannel.alpha.coreos.com/public-ip";
        loop {
            let node = cluster.nodes().get(&objects::name(0)).await?;
            if node.metadata.annotations.is_some_and(|annotations| annotations.contains_key(public)) {
                break;
            }
            if Instant::now() > deadline {
                bail!("it says nothing of itself: {}", agent.last_lines());
            }
            sleep(Duration::from_millis(20)).await;
        }
        sleep(QUIET).await;
        Ok(agent)
    }
}
