//! Many tunnels on the gateways of cluster1's VPC, each to a cluster of its own, besides the one that carries the traffic.
//!
//! Those clusters are records at the broker, and one network namespace on the underlay has all their gateways: each answers
//! through its tunnel, also for every address of its range. What they know of us is fixed, but for where our frames come from:
//! that they learn, as the link of a real peer does.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context;
use causeway_api::vpc::VpcNatTunnel;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::addresses::{Gateway, SYSTEM, VPC, WORKLOADS};
use super::super::apply;
use super::super::netns::Namespace;
use super::super::site::Site;
use super::super::submariner::BROKER;
use super::Stage;
use super::seen;

/// Writes under way at once.
const HANDS: usize = 16;
const POLL: Duration = Duration::from_millis(250);
/// All that the other clusters have outside, and as global addresses.
const OUTSIDE: &str = "198.18.0.0/15";
const RANGES: &str = "243.0.0.0/8";

/// The other clusters; they answer until this is dropped.
pub(super) struct Crowd {
    count: u32,
    _peers: Namespace,
}

/// The so-manieth address behind a first one.
fn address(first: [u8; 4], offset: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::from(first).to_bits().saturating_add(offset))
}

fn outside(number: u32) -> Ipv4Addr {
    address([198, 18, 0, 0], number)
}

fn range(number: u32) -> String {
    format!("{}/24", address([243, 0, 0, 0], number * 256))
}

/// Our address in the tunnel, and the peer's.
fn inside(number: u32) -> [Ipv4Addr; 2] {
    [1, 2].map(|host| address([10, 128, 0, 0], number * 8 + host))
}

fn vni(number: u32) -> u32 {
    1_000 + number
}

fn record(number: u32) -> Value {
    let (id, address, range) = (format!("p{number}"), outside(number), range(number));
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {
            "name": format!("{VPC}.{id}"), "namespace": BROKER,
            "labels": {
                "localCluster": id, "localGateway": "gw1", "localVpc": VPC,
                "submariner-io/clusterID": id, "submariner-io/originatingNamespace": SYSTEM,
            },
        },
        "spec": {"externalip": address, "externalIp": address, "globalnetcidr": range, "globalNetCIDR": range},
    })
}

fn tunnel(number: u32) -> Value {
    let [ours, _] = inside(number);
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {
            "name": format!("t{number}"), "namespace": WORKLOADS, "labels": {"vid": vni(number).to_string()},
        },
        "spec": {
            "type": "vxlan", "interfaceAddr": format!("{ours}/29"),
            "remoteCluster": format!("p{number}"), "remoteVpc": VPC, "localVpc": VPC,
        },
    })
}

/// Lines for `ip -batch`: the peer's end of a tunnel to a gateway of ours.
fn far_end(number: u32, remote: Ipv4Addr) -> Vec<String> {
    let ([ours, theirs], own, link) = (inside(number), outside(number), format!("f{number}"));
    let [a, b, c, d] = ours.octets();
    let vni = vni(number);
    vec![
        format!("address add {own}/32 dev lo"),
        format!("link add {link} type vxlan local {own} remote {remote} id {vni} dstport 4789 dev net1"),
        format!("address add {theirs}/29 dev {link}"),
        format!("link set dev {link} up"),
        format!("neigh add {ours} lladdr 02:44:{a:02x}:{b:02x}:{c:02x}:{d:02x} nud permanent dev {link}"),
    ]
}

impl Crowd {
    /// Makes so many tunnels between cluster1 and others, and waits until all are up and a gateway stands by for each.
    pub(super) async fn raise(stage: &Stage<'_>, count: u32) -> anyhow::Result<Crowd> {
        let [near, _] = stage.pair()?;
        stage.progress.stage(&format!("making {count} more tunnels"));
        let fabric = near.fabric().context("there is no network yet")?;
        let peers = fabric.beside(&[OUTSIDE.parse()?]).await?;
        let mut lines = vec![format!("route add local {RANGES} dev lo")];
        let main = near.cluster.external(Gateway::Gw1);
        lines.extend((1..=count).flat_map(|number| far_end(number, main)));
        peers.ip(&lines).await?;
        put(stage.broker.client(), (1..=count).map(record).collect()).await?;
        lead(near, count).await?;
        put(&near.client, (1..=count).map(tunnel).collect()).await?;
        let crowd = Crowd { count, _peers: peers };
        crowd.settled(stage, near, Gateway::Gw2).await?;
        Ok(crowd)
    }

    /// Waits until every tunnel is up and a gateway stands by for it.
    pub(super) async fn settled(
        &self,
        stage: &Stage<'_>,
        site: &Site,
        gateway: Gateway,
    ) -> anyhow::Result<()> {
        let words = format!("gateway {} holds the tunnel too", gateway.name());
        let is_settled = |tunnel: &&VpcNatTunnel| {
            let says = |kind: &str| seen::condition(tunnel, kind).unwrap_or_default();
            says("Ready").0 == "True" && says("Failover").1.starts_with(&words)
        };
        let started = std::time::Instant::now();
        loop {
            let all = seen::tunnels(site).list(&ListParams::default()).await?;
            let mut rest = all.iter().filter(|tunnel| !is_settled(tunnel));
            let (first, more) = (rest.next(), rest.count());
            let Some(first) = first else { return Ok(()) };
            // A thousand take longer than one.
            if started.elapsed() > 5 * stage.patience {
                let says = ["Ready", "Failover"].map(|kind| seen::condition(first, kind));
                let (some, all) = (more + 1, self.count + 1);
                anyhow::bail!(
                    "{some} of {all} tunnels have no standby, or are down; {}: {says:?}",
                    first.name_any()
                );
            }
            sleep(POLL).await;
        }
    }
}

/// Leads the others' ranges to the main gateway, as the VPC's owner would.
async fn lead(site: &Site, count: u32) -> anyhow::Result<()> {
    let vpcs: Api<causeway_api::vpc::foreign::kube_ovn::Vpc> = Api::all(site.client.clone());
    let mut routes: Vec<Value> =
        vpcs.get(VPC).await?.spec.static_routes.iter().map(|route| json!(route)).collect();
    let hop = Gateway::Gw1.lan();
    routes.extend((1..=count).map(|it| json!({"cidr": range(it), "nextHopIP": hop, "policy": "policyDst"})));
    let patch = Patch::Merge(json!({"spec": {"staticRoutes": routes}}));
    vpcs.patch(VPC, &PatchParams::default(), &patch).await.map(drop).context("the VPC's routes")
}

async fn put(client: &Client, objects: Vec<Value>) -> anyhow::Result<()> {
    let put = |object| async { apply::one(client, object).await.map(drop) };
    stream::iter(objects).map(Ok).try_for_each_concurrent(HANDS, put).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::Ipv4Net;

    #[test]
    fn a_thousand_clusters_have_addresses_of_their_own() {
        let outside_net: Ipv4Net = OUTSIDE.parse().expect("a net");
        let ranges: Ipv4Net = RANGES.parse().expect("a net");
        for number in [1, 2, 999, 4_000] {
            assert!(outside_net.contains(&outside(number)));
            assert!(ranges.contains(&range(number).parse::<Ipv4Net>().expect("a range")));
            let [ours, theirs] = inside(number);
            assert_eq!(Ipv4Net::new(ours, 29).map(|net| net.contains(&theirs)), Ok(true));
        }
        assert_ne!(range(255), range(256));
    }
}
