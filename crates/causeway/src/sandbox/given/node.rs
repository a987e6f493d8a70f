//! The node that a real cluster sees: a Lease says that it is alive, as the kubelet's does.

use std::time::Duration;

use causeway_controller::words::describe;
use kube::Client;
use serde_json::json;
use tokio::time::interval;

use super::super::addresses::Cluster;
use super::super::{apply, pod_status};

/// Marks a node as a sandbox's own.
pub(in super::super) const NODE_LABEL: &str = "sandbox.causeway/node";

/// As often as a kubelet does. The controller manager gives a node fifty seconds.
const RENEW: Duration = Duration::from_secs(10);

/// Renews the node's lease until dropped. A server that is away for a while is no reason to end.
pub(in super::super) async fn keep_alive(client: Client, cluster: Cluster) -> anyhow::Result<()> {
    let mut ticks = interval(RENEW);
    loop {
        ticks.tick().await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": cluster.node(), "namespace": "kube-node-lease"},
            "spec": {
                "holderIdentity": cluster.node(), "leaseDurationSeconds": 40, "renewTime": pod_status::now(),
            },
        });
        if let Err(error) = apply::one(&client, lease).await {
            tracing::warn!(%cluster, error = describe(error.as_ref()), "the node's lease; trying again");
        }
    }
}
