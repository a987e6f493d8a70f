//! What the controller writes into a `Vpc` moves a real OVN router's next hop, and nothing else: `make ovn`.
//!
//! The sandbox's clusters have the controllers and gateways; beside them an OVN of this test's own follows cluster1's `Vpc`
//! as kube-ovn would have it. Rows are compared with their ids: one that was deleted and put back as it was is another one.
#![cfg(feature = "sandbox")]

#[path = "ovn/database.rs"]
mod database;
#[path = "ovn/kube_ovn.rs"]
mod kube_ovn;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway_api::vpc::foreign::kube_ovn::Vpc;
use database::{Ovn, Rows};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube_ovn::KubeOvn;
use serde_json::{Value, json};
use support::tunnels::condition;
use support::{Cluster, PATIENCE, Sandbox, gateway_pod};

const VPC: &str = "test-vpc-1";
const TUNNEL: &str = "demo";
/// What the tunnel leads to, and the gateways' addresses in the VPC.
const RANGE: &str = "242.1.0.0/16";
const GW1: &str = "10.0.1.254";
const GW2: &str = "10.0.1.253";

/// What else the VPC's owner has: the way out and a rule by source over the main gateway, a range that both gateways share,
/// one that some host serves, and the tunnel's own range in another table.
fn routes() -> Value {
    let plain = |range: &str, hop: &str| json!({"cidr": range, "nextHopIP": hop, "policy": "policyDst"});
    let shared = |hop: &str| {
        let mut route = plain("10.60.0.0/16", hop);
        route["ecmpMode"] = json!("ecmp_symmetric_reply");
        route
    };
    json!([
        plain("0.0.0.0/0", GW1),
        {"cidr": "10.0.1.128/26", "nextHopIP": GW1, "policy": "policySrc"},
        plain(RANGE, GW1),
        shared(GW1),
        shared(GW2),
        plain("10.70.0.0/16", "10.0.1.77"),
        {"cidr": RANGE, "nextHopIP": "10.0.1.77", "policy": "policyDst", "routeTable": "apart"},
    ])
}

/// Two clusters whose VPCs are joined, the first with an OVN that holds its routes.
struct Site {
    ovn: Arc<Ovn>,
    kube_ovn: KubeOvn,
    one: Cluster,
    _sandbox: Sandbox,
}

impl Site {
    async fn set_up() -> Site {
        let sandbox = Sandbox::bare().await;
        let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
        let vpcs: Api<Vpc> = Api::all(one.client.clone());
        let patch = Patch::Merge(json!({"spec": {"staticRoutes": routes()}}));
        vpcs.patch(VPC, &PatchParams::default(), &patch).await.expect("it is accepted");
        let ovn = Arc::new(Ovn::start().await);
        let port = ["lrp-add", VPC, "lan", "02:00:00:00:00:01", "10.0.1.1/24"];
        ovn.nbctl(&[&["lr-add", VPC, "--"], &port[..]].concat()).await;
        let kube_ovn = KubeOvn::start(one.client.clone(), VPC, ovn.clone());
        one.create(&by_vpc(&two, 1)).await;
        two.create(&by_vpc(&one, 2)).await;
        let site = Site { ovn, kube_ovn, one, _sandbox: sandbox };
        site.one.up(TUNNEL).await;
        site.settled(GW1, "gw2").await;
        site
    }

    /// Waits until the tunnel's range leads to an address in OVN, and the other gateway stands by.
    async fn settled(&self, hop: &str, standby: &str) {
        self.one
            .until(&format!("{RANGE} leads to {hop} in OVN"), PATIENCE, async || {
                let held = self.ovn.nbctl(&["lr-route-list", VPC]).await;
                let tunnel = self.one.tunnel(TUNNEL).await;
                let said = condition(&tunnel, "Failover").map(|it| it.message.clone()).unwrap_or_default();
                let leads = |line: &str| line.split_whitespace().take(2).eq([RANGE, hop]);
                let stands_by = said.starts_with(&format!("gateway {standby} holds the tunnel too"));
                // The one in the other table, too, is there by then.
                let there = held.lines().filter(|line| line.contains(RANGE)).count() == 2;
                if held.lines().any(leads) && there && stands_by {
                    Ok(())
                } else {
                    Err(format!("{said}\n{held}"))
                }
            })
            .await;
    }

    async fn seen(&self) -> (Rows, BTreeSet<String>) {
        (self.ovn.rows().await, self.ovn.flows().await)
    }

    async fn end(self) {
        self.kube_ovn.end().await;
        Arc::into_inner(self.ovn).expect("nobody else has it").end().await;
    }
}

fn by_vpc(there: &Cluster, host: u8) -> Value {
    json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {"name": TUNNEL, "namespace": "ns1"},
        "spec": {
            "type": "vxlan", "interfaceAddr": format!("10.100.0.{host}/24"),
            "remoteCluster": there.name, "remoteVpc": VPC, "localVpc": VPC,
        },
    })
}

/// What was deleted and added to move the route of a range from the first gateway to the second.
fn moved(policy: &str, range: &str) -> [String; 2] {
    let what = |verb: &str, hop: &str| format!("--route-table= --policy={policy} {verb} {VPC} {range} {hop}");
    [what("lr-route-del", GW1), format!("--may-exist {}", what("lr-route-add", GW2))]
}

/// The rows that differ, by what they say: those that are gone and those that are new.
fn difference(before: &Rows, after: &Rows) -> (Vec<String>, Vec<String>) {
    let only_in = |one: &Rows, other: &Rows| {
        let differs = one.iter().filter(|(id, row)| other.get(*id) != Some(row));
        let mut rows: Vec<String> = differs.map(|((table, _), row)| format!("{table} {row}")).collect();
        rows.sort();
        rows
    };
    (only_in(before, after), only_in(after, before))
}

/// Asserts that just the routes of these ranges led to the first gateway and lead to the second one now, in the northbound
/// database and in the flows that came of it.
fn only_these_moved(before: (Rows, BTreeSet<String>), after: (Rows, BTreeSet<String>), ranges: &[&str]) {
    let (gone, new) = difference(&before.0, &after.0);
    assert_eq!(gone.len(), ranges.len(), "{gone:#?}");
    for (row, range) in gone.iter().zip(ranges) {
        assert!(row.starts_with("Logical_Router_Static_Route "), "{row}");
        assert!(row.contains(&format!("\"ip_prefix\":\"{range}\"")), "{row}");
    }
    let to_second = |row: &String| row.replace(GW1, GW2);
    assert_eq!(gone.iter().map(to_second).collect::<Vec<_>>(), new, "only the next hop is another one");
    let [gone, new]: [BTreeSet<String>; 2] =
        [&before.1 - &after.1, &after.1 - &before.1].map(|flows| flows.into_iter().collect());
    assert_eq!(gone.len(), ranges.len(), "{gone:#?}");
    assert!(gone.iter().all(|flow| flow.contains(&format!("reg0 = {GW1};"))), "{gone:#?}");
    assert_eq!(gone.iter().map(to_second).collect::<BTreeSet<_>>(), new);
}

#[tokio::test]
#[ignore = "needs OVN: make ovn"]
async fn a_switch_on_purpose_moves_the_tunnels_next_hop_in_ovn_and_nothing_else() {
    let site = Site::set_up().await;
    let before = site.seen().await;
    site.kube_ovn.changes();
    let vpcs: Api<Vpc> = Api::all(site.one.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"causeway/switch-to": "gw2"}}}));
    vpcs.patch(VPC, &PatchParams::default(), &patch).await.expect("it is accepted");
    site.settled(GW2, "gw1").await;
    assert_eq!(site.kube_ovn.changes(), moved("dst-ip", RANGE), "once, and never two next hops at a time");
    only_these_moved(before, site.seen().await, &[RANGE]);
    site.end().await;
}

#[tokio::test]
#[ignore = "needs OVN: make ovn"]
async fn a_lost_gateways_next_hops_move_in_ovn_and_shared_and_others_routes_stay() {
    let site = Site::set_up().await;
    let before = site.seen().await;
    site.kube_ovn.changes();
    let pods: Api<Pod> = Api::namespaced(site.one.client.clone(), "kube-system");
    pods.delete(&gateway_pod("gw1"), &DeleteParams::default()).await.expect("it is accepted");
    site.settled(GW2, "gw1").await;
    // All that led to nobody else than the lost gateway, the tunnel's or not, in one version of the object: deletions in
    // the order in which the router has them, then additions in the object's.
    let [out, source, tunnel] = [("dst-ip", "0.0.0.0/0"), ("src-ip", "10.0.1.128/26"), ("dst-ip", RANGE)]
        .map(|(policy, range)| moved(policy, range));
    let gone = [&out, &tunnel, &source].map(|[delete, _]| delete.clone());
    let new = [&out, &source, &tunnel].map(|[_, add]| add.clone());
    assert_eq!(site.kube_ovn.changes(), [gone, new].concat());
    only_these_moved(before, site.seen().await, &["0.0.0.0/0", "10.0.1.128/26", RANGE]);
    site.end().await;
}
