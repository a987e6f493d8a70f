//! The policy that holds each member of the exchange to what is its own, on a server that enforces it.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::support::tunnels::{NS, join};
use super::{Cluster, MEETING, PATIENCE, Sandbox, real};
use causeway_api::vpc::{GatewayExIp, TunnelEnd};

const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/broker-policy.yaml");

/// A client of the broker as one of its accounts.
async fn as_account(broker: &Cluster, account: &str) -> Client {
    let mut config = Kubeconfig::read_from(&broker.kubeconfig).expect("a kubeconfig");
    let user = config.auth_infos[0].auth_info.get_or_insert_default();
    user.impersonate = Some(format!("system:serviceaccount:{MEETING}:{account}"));
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{MEETING}")];
    user.impersonate_groups = Some(groups.into());
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
}

fn record(name: &str, origin: &str, cluster: &str) -> GatewayExIp {
    let labels = json!({"submariner-io/clusterID": origin, "localCluster": cluster, "localGateway": "gw9"});
    let metadata = json!({"name": name, "labels": labels});
    let spec = json!({"externalip": "172.50.16.99", "globalnetcidr": "242.9.0.0/16"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a record")
}

fn end(name: &str, origin: &str, cluster: &str) -> TunnelEnd {
    let labels = json!({"submariner-io/clusterID": origin, "causeway/peer-cluster": "cluster1"});
    let spec = json!({
        "cluster": cluster, "gateway": "gw9", "peerCluster": "cluster1", "peerGateway": "gw1", "tunnel": "ns1/x",
        "type": "gre", "interfaceAddr": "10.100.0.1/24",
    });
    let metadata = json!({"name": name, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an end")
}

fn claim(name: &str, labels: Value, holder: &str) -> Lease {
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 360});
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": spec}))
        .expect("a lease")
}

/// What the policy said, if it refused.
fn refusal<T>(answer: kube::Result<T>) -> Option<String> {
    match answer {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.message.contains("multi-vpc-members") => Some(status.message),
        Err(error) => panic!("neither accepted nor refused by the policy: {error}"),
    }
}

/// What one member may not do, to a fleet in which cluster1 and cluster2 exchange everything.
async fn attack(broker: &Cluster, evil: &Client) {
    let records: Api<GatewayExIp> = Api::namespaced(evil.clone(), MEETING);
    let (ends, leases) = (
        Api::<TunnelEnd>::namespaced(evil.clone(), MEETING),
        Api::<Lease>::namespaced(evil.clone(), MEETING),
    );
    let (post, merge, delete) = (PostParams::default(), PatchParams::default(), DeleteParams::default());
    for (what, record) in [
        ("in another's name", record("gw9.cluster2", "cluster2", "cluster2")),
        ("under another's name", record("gw9.cluster2", "evil", "evil")),
        ("about another's gateway", record("gw9.evil", "evil", "cluster2")),
        ("without a dot", record("gw9", "evil", "evil")),
    ] {
        assert!(refusal(records.create(&post, &record).await).is_some(), "a record {what}");
    }
    let mine = json!({"metadata": {"labels": {"submariner-io/clusterID": "evil", "localCluster": "evil"}}});
    let moved = json!({"spec": {"externalip": "172.50.16.99"}});
    for patch in [moved, mine] {
        let answer = records.patch("gw1.cluster2", &merge, &Patch::Merge(&patch)).await;
        assert!(refusal(answer).is_some(), "{patch}");
    }
    assert!(refusal(records.delete("gw1.cluster2", &delete).await).is_some());
    for (what, end) in [
        ("in another's name", end("ns1.x.cluster2", "cluster2", "cluster2")),
        ("under another's name", end("ns1.x.cluster2", "evil", "evil")),
        ("about another's tunnel", end("ns1.x.evil", "evil", "cluster2")),
    ] {
        assert!(refusal(ends.create(&post, &end).await).is_some(), "an end {what}");
    }
    assert!(refusal(ends.delete("ns1.held0.cluster2", &delete).await).is_some());
    let labelled = |id: &str| json!({"submariner-io/clusterID": id});
    for (what, lease) in [
        ("to another's id", claim("causeway.cluster2.u", labelled("cluster2"), "u")),
        ("to it under an odd name", claim("odd", labelled("cluster2"), "u")),
        ("to its own under another's name", claim("causeway.cluster2.u", labelled("evil"), "u")),
        ("without a label under another's name", claim("causeway.cluster2.u", json!({}), "u")),
    ] {
        assert!(refusal(leases.create(&post, &lease).await).is_some(), "a claim {what}");
    }
    let names = broker.kubectl(&["get", "leases", "-n", MEETING, "-o", "name"]).await.ok();
    let theirs = names.lines().find_map(|name| name.split_once('/')).expect("a claim").1;
    assert!(theirs.starts_with("causeway.cluster"), "{theirs}");
    assert!(refusal(leases.delete(theirs, &delete).await).is_some());
    // A Lease that is no claim may be anybody's, until somebody would make it one.
    leases.create(&post, &claim("plain", json!({}), "u")).await.expect("it is none");
    let mut turned = leases.get("plain").await.expect("it is there");
    turned.metadata.labels = Some([("submariner-io/clusterID".to_owned(), "cluster2".to_owned())].into());
    assert!(refusal(leases.replace("plain", &post, &turned).await).is_some());
    leases.delete("plain", &delete).await.expect("it is still none");
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn under_the_policy_a_member_writes_only_what_is_its_own() {
    real::needed();
    let sandbox = Sandbox::bare().await;
    let (one, two, broker) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.broker().await);
    broker.kubectl(&["apply", "-f", POLICY]).await.ok();
    // An account that all share is no member's.
    let shared: Api<GatewayExIp> = Api::namespaced(as_account(&broker, "shared").await, MEETING);
    broker
        .until("the policy is obeyed", PATIENCE, async || {
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            match refusal(shared.create(&dry, &record("gw9.evil", "evil", "evil")).await) {
                Some(words) if words.contains("account shared is no member") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;

    // Everything that members do still works: claims, records, ends; written, changed and removed.
    join(&one, &two, "held0", "gw1", 0).await;
    for cluster in [&one, &two] {
        cluster.says(NS, "held0", "PeerAgrees", "True", "Agreed", PATIENCE).await;
    }
    attack(&broker, &as_account(&broker, "cluster-evil").await).await;
    one.reaches("242.1.1.20").await;

    let own = as_account(&broker, "cluster-evil").await;
    let (records, ends) = (
        Api::<GatewayExIp>::namespaced(own.clone(), MEETING),
        Api::<TunnelEnd>::namespaced(own.clone(), MEETING),
    );
    let (post, delete) = (PostParams::default(), DeleteParams::default());
    records.create(&post, &record("gw9.evil", "evil", "evil")).await.expect("its own");
    let give_away = json!({"metadata": {"labels": {"submariner-io/clusterID": "cluster2"}}});
    let given = records.patch("gw9.evil", &PatchParams::default(), &Patch::Merge(&give_away)).await;
    assert!(refusal(given).is_some(), "nor may it be given away");
    records.delete("gw9.evil", &delete).await.expect("its own");
    ends.create(&post, &end("ns1.x.evil", "evil", "evil")).await.expect("its own");
    ends.delete("ns1.x.evil", &delete).await.expect("its own");

    one.delete("held0").await;
    broker
        .until("its end is gone", PATIENCE, async || {
            let names = broker.kubectl(&["get", "tunnelends", "-n", MEETING, "-o", "name"]).await.ok();
            if names.contains("ns1.held0.cluster1") { Err(names) } else { Ok(()) }
        })
        .await;
    broker.kubectl(&["delete", "-f", POLICY]).await.ok();
}
