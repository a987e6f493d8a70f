//! Tunnels between the VPCs of two clusters, and which gateways carry them.

use causeway_api::vpc::foreign::kube_ovn::Vpc;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, PATIENCE, gateway_pod};
use super::sandbox::Sandbox;
use super::tunnels::condition;

/// The VPC that every cluster of a sandbox has.
pub(crate) const VPC: &str = "test-vpc-1";
/// The tunnel.
pub(crate) const TUNNEL: &str = "demo";
/// A workload of the second cluster.
pub(crate) const SERVER: &str = "242.1.1.20";

/// A tunnel between the VPCs of two clusters.
pub(crate) fn by_vpc(there: &Cluster, host: u8) -> Value {
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {"name": TUNNEL, "namespace": "ns1"},
        "spec": {
            "type": "vxlan", "interfaceAddr": format!("10.100.0.{host}/24"),
            "remoteCluster": there.name, "remoteVpc": VPC, "localVpc": VPC,
        },
    })
}

/// Two clusters whose VPCs are joined, each with a standby.
pub(crate) async fn joined() -> (Sandbox, Cluster, Cluster) {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    one.create(&by_vpc(&two, 1)).await;
    two.create(&by_vpc(&one, 2)).await;
    for here in [&one, &two] {
        here.up(TUNNEL).await;
        here.stands_by("gw2").await;
    }
    (sandbox, one, two)
}

impl Cluster {
    /// Waits until a tunnel has a standby, which is the gateway given.
    pub(crate) async fn stands_by(&self, standby: &str) {
        self.until(&format!("{standby} of {} stands by", self.name), PATIENCE, async || {
            let tunnel = self.tunnel(TUNNEL).await;
            let said = condition(&tunnel, "Failover").map(|it| it.message.clone());
            let fits = |said: &String| said.starts_with(&format!("gateway {standby} holds the tunnel too"));
            if said.as_ref().is_some_and(fits) { Ok(()) } else { Err(format!("{said:?}")) }
        })
        .await;
    }

    /// Where the VPC leads.
    pub(crate) async fn next_hops(&self) -> Vec<String> {
        let vpcs: Api<Vpc> = Api::all(self.client.clone());
        let routes = vpcs.get(VPC).await.expect("the VPC").spec.static_routes;
        routes.into_iter().map(|route| route.next_hop_ip).collect()
    }

    /// Waits until the VPC leads to an address, and its record names a gateway.
    pub(crate) async fn led_to(&self, gateway: &str, hop: &str) {
        self.until(&format!("the VPC of {} leads to {gateway}", self.name), PATIENCE, async || {
            let record = self.records("kube-system").get_opt(&format!("{VPC}.{}", self.name)).await;
            let labels =
                record.expect("an answer").and_then(|record| record.metadata.labels).unwrap_or_default();
            let (hops, named) = (self.next_hops().await, labels.get("localGateway").cloned());
            let fits = hops == [hop] && named.as_deref() == Some(gateway);
            if fits { Ok(()) } else { Err(format!("{named:?} {hops:?}")) }
        })
        .await;
    }

    /// How many packets a gateway has sent into the tunnel.
    pub(crate) async fn sent_by(&self, gateway: &str) -> u64 {
        let listed = self.in_gateway(gateway, &format!("ip -s -j link show dev {TUNNEL}")).await;
        let listed: Value = serde_json::from_str(&listed.out).unwrap_or_default();
        listed[0]["stats64"]["tx"]["packets"].as_u64().unwrap_or_default()
    }

    pub(crate) async fn delete_pod(&self, gateway: &str) {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.client.clone(), "kube-system");
        pods.delete(&gateway_pod(gateway), &DeleteParams::default()).await.expect("it is accepted");
    }

    pub(crate) async fn annotate_vpc(&self, name: &str, value: &str) {
        let vpcs: Api<Vpc> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {name: value}}}));
        vpcs.patch(VPC, &PatchParams::default(), &patch).await.expect("it is accepted");
    }
}
