//! A real Neutron in place of bridges: is it there, and does it hold nothing of ours at the end?

use std::time::Duration;

use anyhow::Context;
use causeway_api::networks::LooseNetwork;
use causeway_controller::networks::neutron::{Neutron, config};
use causeway_controller::networks::provider::NetworkProvider;
use causeway_core::networks::{Home, Look};
use futures::future::join_all;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep, timeout};

/// How long the first answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How long the controllers may take to delete what they made; some hundred milliseconds each.
const CLEAN_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);

/// Asks it what the controllers will ask it, before anything is built.
pub(super) async fn check(url: &str) -> anyhow::Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let found = config::load(Some(url), None, &variable, &config::read_file);
    let neutron = found.and_then(Neutron::new).context("--neutron")?;
    let home = Home::new(Some("sandbox"), "sandbox");
    let why = match timeout(ANSWERS_WITHIN, neutron.look(&home, &Look::All)).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(trouble)) => trouble.to_string(),
        Err(_) => format!("no answer within {ANSWERS_WITHIN:?}"),
    };
    let base = url.trim_end_matches('/').trim_end_matches("/v2.0");
    anyhow::bail!(
        "no Neutron at {url} that can be used: {why}; check it with `curl {base}/v2.0/networks`, which must list its \
         networks without credentials (auth_strategy = noauth)"
    )
}

/// Deletes all networks of the clusters, and with them what they have in the cloud; says what of that is left.
pub(super) async fn clear(clients: Vec<Client>) -> Vec<String> {
    join_all(clients.into_iter().map(clear_one)).await.into_iter().flatten().collect()
}

async fn clear_one(client: Client) -> Vec<String> {
    let all = Api::<LooseNetwork>::all(client.clone());
    let deadline = Instant::now() + CLEAN_WITHIN;
    let mut left = Vec::new();
    loop {
        // A server that does not answer leaves what was known of it.
        if let Ok(found) = all.list(&ListParams::default()).await {
            let asked = found.items.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
            for network in asked {
                let api =
                    Api::<LooseNetwork>::namespaced(client.clone(), &network.namespace().unwrap_or_default());
                // Refused or gone: the next list says which.
                let _ = api.delete(&network.name_any(), &DeleteParams::default()).await;
            }
            left = found.items.iter().filter_map(|it| it.status().network_id).collect();
            if found.items.is_empty() {
                return Vec::new();
            }
        }
        if Instant::now() >= deadline {
            return left;
        }
        sleep(POLL).await;
    }
}
