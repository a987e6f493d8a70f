//! What is waited for until the sandbox is up: packets, or the gateways of other clusters; and what tunnels say then.

use std::time::Duration;

use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use tokio::time::sleep;

use super::addresses::{Gateway, Role, SYSTEM};
use super::progress::Progress;
use super::proof::{Caller, Proof};
use super::report::{Report, TunnelReport};
use super::site::Site;
use super::start_time::{millis, since_process_start};

const POLL: Duration = Duration::from_millis(25);

/// Calls from cluster1's client until the far server answers, then proves it properly.
pub(super) async fn talk(
    sites: &[Site],
    far: usize,
    progress: &Progress,
    report: &mut Report,
) -> anyhow::Result<()> {
    progress.stage("waiting for the pods");
    let (near, far) = (&sites[0], &sites[far]);
    let (client, server) =
        tokio::join!(near.running.wait_for(Role::Client), far.running.wait_for(Role::Server));
    progress.stage("waiting for the first packet through the tunnel");
    let mut caller = Caller::new(&client.net.namespace, far.cluster.server_global()).await?;
    caller.first_answer().await?;
    report.first_packet_ms = Some(millis(since_process_start()));
    progress.done("the first packet came back");
    progress.stage("counting echoes and moving bytes");
    let seen = || server.echo.as_ref().map(super::echo::Echo::seen).unwrap_or_default();
    let proof: Proof = caller.prove(near.cluster.egress(), seen).await?;
    report.proof = Some(proof);
    Ok(())
}

/// Waits until every cluster holds the record of every gateway.
pub(super) async fn exchanged(sites: &[Site]) -> anyhow::Result<()> {
    let wanted: Vec<String> = sites
        .iter()
        .flat_map(|site| Gateway::ALL.map(|gateway| format!("{}-{}", gateway.name(), site.cluster)))
        .collect();
    for site in sites {
        let records =
            Api::<DynamicObject>::namespaced_with(site.client.clone(), SYSTEM, &ours("GatewayExIp"));
        loop {
            let held = records.list(&ListParams::default()).await?;
            let holds =
                |name: &String| held.items.iter().any(|item| item.metadata.name.as_ref() == Some(name));
            if wanted.iter().all(holds) {
                break;
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

/// What every tunnel of a cluster says of itself.
pub(super) async fn tunnels_of(site: &Site) -> Vec<TunnelReport> {
    let api = Api::<DynamicObject>::all_with(site.client.clone(), &ours("VpcNatTunnel"));
    let list = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let objects = list.iter().filter_map(|object| serde_json::to_value(object).ok());
    objects.map(|object| TunnelReport::read(&site.cluster.id(), &object)).collect()
}

fn ours(kind: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk("kubeovn.ustc.io", "v1", kind);
    ApiResource::from_gvk_with_plural(&gvk, &format!("{}s", kind.to_lowercase()))
}
