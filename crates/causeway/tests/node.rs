//! `causeway node` on three nodes with a pod each: packets in both families, whatever happens to kernels, nodes and agents.
#![cfg(feature = "sandbox")]

#[path = "nodes/agent.rs"]
#[allow(dead_code, reason = "the tests beside flannel use more of it")]
mod agent;
#[path = "nodes/cluster.rs"]
#[allow(dead_code, reason = "the tests beside flannel use more of it")]
mod cluster;
#[path = "../../datapath/tests/lab/net.rs"]
#[allow(dead_code, reason = "the tests of the datapath use more of it")]
mod net;
#[path = "nodes/ping.rs"]
#[allow(dead_code, reason = "the tests beside flannel use more of it")]
mod ping;

#[path = "nodes/claims.rs"]
mod claims;
#[path = "nodes/lives.rs"]
mod lives;
#[path = "nodes/repairs.rs"]
mod repairs;

use agent::Program;
use cluster::{Backend, Cluster, Machine};

/// The routes to the two other nodes in either family are there, and ours.
fn all_ours(machine: &Machine) -> Result<(), String> {
    let routes = machine.routes();
    let ours = |route: &String| format!("{route} ").contains(" proto 158 ");
    if routes.len() == 4 && routes.iter().all(ours) { Ok(()) } else { Err(routes.join("\n")) }
}

/// Three nodes with an agent of ours each, whose pods reach each other.
async fn joined(backend: Backend) -> Cluster {
    let mut cluster = Cluster::new(backend).await;
    for number in 1..=3 {
        // Nothing waits for the timer.
        cluster.start_with(number, Program::Causeway, &["--healthz-port=8080", "--check-every=1h"]);
    }
    cluster.everybody_is_reached().await;
    for machine in &cluster.machines {
        cluster.until("all routes are ours", async || all_ours(machine)).await;
    }
    cluster
}
