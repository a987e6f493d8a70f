//! The floor: nothing but the two POSTs that every network takes, by a client that does not ask or mark anything.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures::StreamExt;
use serde_json::json;

use crate::AT_ONCE;
use crate::cloud::Api;

/// How long it takes to make so many networks with a subnet each.
pub(crate) async fn measure(url: &str, networks: usize) -> anyhow::Result<Duration> {
    let api = Api::new(format!("{url}/v2.0"));
    let begun = Instant::now();
    let all = futures::stream::iter(0..networks).map(|number| make(api.clone(), number));
    let failed = all.buffer_unordered(AT_ONCE).filter(|made| std::future::ready(!made)).count().await;
    ensure!(failed == 0, "{failed} of {networks} could not be made");
    Ok(begun.elapsed())
}

async fn make(api: Api, number: usize) -> bool {
    let network = json!({ "network": { "name": format!("floor-{number}") } });
    let network = api.post("networks", network).await;
    let subnet = json!({
        "subnet": { "network_id": network.body["network"]["id"], "ip_version": 4, "cidr": "10.0.0.0/24" },
    });
    network.status == 201 && api.post("subnets", subnet).await.status == 201
}
