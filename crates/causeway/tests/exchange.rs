//! How clusters learn of each other's gateways, and what happens when they cannot.

#[path = "exchange/contested.rs"]
mod contested;
#[path = "exchange/ids.rs"]
mod ids;
#[path = "exchange/known.rs"]
mod known;
#[path = "exchange/sources.rs"]
mod sources;
mod support;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use support::tunnels::{NS, apart_from_times, condition, join, vxlan};
use support::{Cluster, PATIENCE, Sandbox};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Where the members meet at the broker.
const MEETING: &str = "submariner-k8s-broker";
const SYSTEM: &str = "kube-system";
/// Where a pod has its address on the underlay.
const EXTERNAL: &str = "ovn-vpc-external-network.kube-system.kubernetes.io/ip_address";
/// The far server of cluster2.
const FAR: &str = "242.1.1.20";

/// Waits until a record says this address; `None` when it should be gone.
async fn says(cluster: &Cluster, namespace: &str, name: &str, address: Option<&str>) {
    let records = cluster.records(namespace);
    cluster
        .until(&format!("{namespace}/{name} says {address:?}"), PATIENCE, async || {
            let record = records.get_opt(name).await.map_err(|error| error.to_string())?;
            let now = record.map(|record| json!(record.spec)["externalip"].clone());
            if now == address.map(|address| json!(address)) { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
}

fn sets(cluster: &Cluster) -> Api<StatefulSet> {
    Api::namespaced(cluster.client.clone(), SYSTEM)
}

/// Takes a gateway out of a cluster; what is returned brings it back.
async fn remove_gateway(cluster: &Cluster, gateway: &str) -> StatefulSet {
    let name = format!("vpc-nat-gw-{gateway}");
    let mut set = sets(cluster).get(&name).await.expect("the gateway");
    sets(cluster).delete(&name, &DeleteParams::default()).await.expect("accepted");
    set.metadata.resource_version = None;
    set.metadata.uid = None;
    set.status = None;
    set
}

fn discoveries(cluster: &Cluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", "ServiceDiscovery");
    let resource = ApiResource::from_gvk_with_plural(&kind, "servicediscoveries");
    Api::namespaced_with(cluster.client.clone(), "submariner-operator", &resource)
}

/// The broker's address as a member sees it.
async fn broker_address(cluster: &Cluster) -> String {
    let discovery = discoveries(cluster).get("service-discovery").await.expect("coordinates");
    discovery.data["spec"]["brokerK8sApiServer"].as_str().expect("an address").to_owned()
}

async fn point_at(cluster: &Cluster, broker: &str) {
    let patch = Patch::Merge(json!({"spec": {"brokerK8sApiServer": broker}}));
    let patched = discoveries(cluster).patch("service-discovery", &PatchParams::default(), &patch).await;
    patched.expect("accepted");
}

/// A door in front of a server that can be shut: then connections end and new ones are refused.
struct Door {
    address: String,
    target: String,
    open: Option<AbortHandle>,
    tasks: JoinSet<()>,
}

impl Door {
    async fn to(target: &str) -> Door {
        let listener = Self::own_port().await;
        let address = listener.local_addr().expect("its address").to_string();
        let mut door = Door { address, target: target.into(), open: None, tasks: JoinSet::new() };
        door.serve(listener);
        door
    }

    /// A port below those that the kernel gives away: while the door is shut, nobody else may get it.
    async fn own_port() -> TcpListener {
        for port in 20_000..30_000 {
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
                return listener;
            }
        }
        panic!("no free port");
    }

    fn serve(&mut self, listener: TcpListener) {
        let target = self.target.clone();
        self.open = Some(self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((mut near, _)) = listener.accept().await else { continue };
                let target = target.clone();
                connections.spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(&target).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        }));
    }

    async fn shut(&mut self) {
        self.open.take().expect("it is open").abort();
        while self.tasks.join_next().await.is_some() {}
        assert!(TcpStream::connect(&self.address).await.is_err(), "the door is shut");
    }

    async fn reopen(&mut self) {
        let listener = TcpListener::bind(&self.address).await.expect("the same port");
        self.serve(listener);
    }
}

#[tokio::test]
async fn every_gateway_is_known_at_the_broker_and_in_every_other_cluster() {
    let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
    let broker = sandbox.broker().await;
    for number in 1..=3 {
        for gateway in 1..=2 {
            let address = format!("172.50.16.{number}{gateway}");
            says(&broker, MEETING, &format!("gw{gateway}.cluster{number}"), Some(&address)).await;
            for member in 1..=3 {
                let member = sandbox.cluster(member).await;
                says(&member, SYSTEM, &format!("gw{gateway}-cluster{number}"), Some(&address)).await;
            }
        }
    }
    let copy = broker.records(MEETING).get("gw1.cluster2").await.expect("the copy");
    assert_eq!(copy.labels()["submariner-io/clusterID"], "cluster2");
    assert_eq!(copy.labels()["submariner-io/originatingNamespace"], SYSTEM);
}

#[tokio::test]
async fn a_gateways_new_address_reaches_its_peers_tunnels() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "moving0", "gw1", 1).await;
    one.comes_to_reach(FAR).await;

    two.in_gateway("gw1", "ip addr add 172.50.16.29/24 dev net1").await.ok();
    let pods: Api<Pod> = Api::namespaced(two.client.clone(), SYSTEM);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {EXTERNAL: "172.50.16.29"}}}));
    pods.patch("vpc-nat-gw-gw1-0", &PatchParams::default(), &patch).await.expect("accepted");

    says(&sandbox.broker().await, MEETING, "gw1.cluster2", Some("172.50.16.29")).await;
    says(&one, SYSTEM, "gw1-cluster2", Some("172.50.16.29")).await;
    one.until("the tunnel leads to the new address", PATIENCE, async || {
        let link = one.link("gw1", "moving0").await.unwrap_or_default();
        let remote = link["linkinfo"]["info_data"]["remote"].clone();
        let reported = one.tunnel("moving0").await.status.unwrap_or_default().remote_ip;
        let both = remote == "172.50.16.29" && reported.as_deref() == Some("172.50.16.29");
        if both { Ok(()) } else { Err(format!("link {remote}, status {reported:?}")) }
    })
    .await;
    one.built("moving0").await;
    let moved = one.reports("moving0", "PeerMoved", "peer cluster2/gw1 changed its address").await;
    assert!(moved.note.ends_with("from 172.50.16.21 to 172.50.16.29"), "{moved:?}");
    one.comes_to_reach(FAR).await;
}

#[tokio::test]
async fn a_record_deleted_while_a_controller_was_away_goes_when_it_is_back() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    says(&one, SYSTEM, "gw2-cluster2", Some("172.50.16.22")).await;

    sandbox.hold(&one).await;
    remove_gateway(&two, "gw2").await;
    says(&sandbox.broker().await, MEETING, "gw2.cluster2", None).await;
    says(&one, SYSTEM, "gw2-cluster2", Some("172.50.16.22")).await;
    sandbox.release(&one).await;
    says(&one, SYSTEM, "gw2-cluster2", None).await;
    says(&one, SYSTEM, "gw1-cluster2", Some("172.50.16.21")).await;
}

#[tokio::test]
async fn a_gateway_removed_while_its_own_controller_was_away_is_taken_back_from_the_broker() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    says(&one, SYSTEM, "gw2-cluster2", Some("172.50.16.22")).await;

    sandbox.hold(&two).await;
    remove_gateway(&two, "gw2").await;
    let pods: Api<Pod> = Api::namespaced(two.client.clone(), SYSTEM);
    two.until("the gateway's pod is gone", PATIENCE, async || {
        let pod = pods.get_opt("vpc-nat-gw-gw2-0").await.expect("an answer");
        if pod.is_none() { Ok(()) } else { Err("it is there".to_owned()) }
    })
    .await;
    sandbox.let_go(&two);
    says(&two, SYSTEM, "gw2-cluster2", None).await;
    says(&sandbox.broker().await, MEETING, "gw2.cluster2", None).await;
    says(&one, SYSTEM, "gw2-cluster2", None).await;
}

#[tokio::test]
async fn tunnels_stay_up_while_the_broker_is_away_and_all_is_caught_up_when_it_is_back() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    let mut door = Door::to(&broker_address(&one).await).await;
    for member in [&one, &two] {
        point_at(member, &door.address).await;
    }
    join(&one, &two, "steady0", "gw1", 1).await;
    one.comes_to_reach(FAR).await;
    one.says(NS, "steady0", "PeerAgrees", "True", "Agreed", PATIENCE).await;
    let before = apart_from_times(&one.tunnel("steady0").await);

    door.shut().await;
    // What is done meanwhile: a tunnel is repaired, one is built, a gateway goes and another moves.
    one.in_gateway("gw1", "ip route del 242.1.0.0/16").await.ok();
    one.reports("steady0", "DriftRepaired", "route 242.1.0.0/16").await;
    one.create(&vxlan("fresh0", "gw2", "cluster2/gw1", "10.100.7.1/24")).await;
    one.built("fresh0").await;
    let gone = remove_gateway(&two, "gw2").await;
    says(&two, SYSTEM, "gw2-cluster2", None).await;
    // Controllers that start meanwhile do as much.
    sandbox.restart(&one, nix::sys::signal::Signal::SIGKILL).await;
    one.reaches(FAR).await;
    assert_eq!(apart_from_times(&one.tunnel("steady0").await), before, "nothing to say about it");
    says(&broker, MEETING, "gw2.cluster2", Some("172.50.16.22")).await;
    says(&one, SYSTEM, "gw2-cluster2", Some("172.50.16.22")).await;

    door.reopen().await;
    says(&broker, MEETING, "gw2.cluster2", None).await;
    says(&one, SYSTEM, "gw2-cluster2", None).await;
    sets(&two).create(&PostParams::default(), &gone).await.expect("accepted");
    says(&one, SYSTEM, "gw2-cluster2", Some("172.50.16.22")).await;
    one.reaches(FAR).await;
}

#[tokio::test]
async fn new_coordinates_of_the_broker_are_followed() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "steady0", "gw1", 1).await;
    let right = broker_address(&one).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let wrong = nobody.local_addr().expect("its address").to_string();
    drop(nobody);
    point_at(&one, &wrong).await;
    one.until("the controller is lost", PATIENCE, async || {
        let joined = one.log().matches("joining the exchange").count();
        if joined > 1 { Ok(()) } else { Err(format!("joined {joined} times")) }
    })
    .await;
    remove_gateway(&two, "gw2").await;
    says(&sandbox.broker().await, MEETING, "gw2.cluster2", None).await;
    one.built("steady0").await;
    says(&one, SYSTEM, "gw2-cluster2", Some("172.50.16.22")).await;
    point_at(&one, &right).await;
    says(&one, SYSTEM, "gw2-cluster2", None).await;
    one.built("steady0").await;
}

/// Puts a record at the broker as it is.
async fn plant(broker: &Cluster, name: &str, labels: Value, address: &str) {
    let range = if labels["localCluster"] == "b" { "242.8.0.0/16" } else { "242.9.0.0/16" };
    let record = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {"name": name, "namespace": MEETING, "labels": labels},
        "spec": {"externalip": address, "globalnetcidr": range},
    });
    broker.apply(&record.to_string()).await.ok();
}

/// The labels of a record that a cluster publishes of its gateway.
fn labels_of(cluster: &str, gateway: &str) -> Value {
    json!({
        "submariner-io/clusterID": cluster, "submariner-io/originatingNamespace": SYSTEM,
        "localCluster": cluster, "localGateway": gateway,
    })
}

#[tokio::test]
async fn two_members_whose_names_could_be_one_both_have_their_tunnels() {
    let sandbox = Sandbox::bare().await;
    let (one, broker) = (sandbox.cluster(1).await, sandbox.broker().await);
    let leads_to = async |gateway: &str, tunnel: &str, address: &str| {
        one.until(&format!("{tunnel} leads to {address}"), PATIENCE, async || {
            let link = one.link(gateway, tunnel).await.unwrap_or_default();
            let remote = link["linkinfo"]["info_data"]["remote"].clone();
            if remote == address { Ok(()) } else { Err(format!("{remote}")) }
        })
        .await;
    };
    plant(&broker, "gw1.a-b", labels_of("a-b", "gw1"), "172.50.16.41").await;
    one.create(&vxlan("first0", "gw1", "a-b/gw1", "10.100.1.1/24")).await;
    leads_to("gw1", "first0", "172.50.16.41").await;
    // What an earlier version would have brought under the name that the other one has.
    let earlier = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "GatewayExIp",
        "metadata": {"name": "gw2-a-b", "namespace": SYSTEM, "labels": labels_of("b", "gw2-a")},
        "spec": {"externalip": "172.50.16.52", "globalnetcidr": "242.8.0.0/16"},
    });
    one.apply(&earlier.to_string()).await.ok();
    plant(&broker, "gw1-a.b", labels_of("b", "gw1-a"), "172.50.16.51").await;
    plant(&broker, "gw2-a.b", labels_of("b", "gw2-a"), "172.50.16.52").await;
    one.create(&vxlan("second0", "gw2", "b/gw1-a", "10.100.2.1/24")).await;
    leads_to("gw2", "second0", "172.50.16.51").await;
    says(&one, SYSTEM, "gw1-a-b", Some("172.50.16.41")).await;
    says(&one, SYSTEM, "gw1--a-b", Some("172.50.16.51")).await;
    says(&one, SYSTEM, "gw2--a-b", Some("172.50.16.52")).await;
    says(&one, SYSTEM, "gw2-a-b", None).await;

    // Neither goes with the other, nor when the controller starts anew.
    plant(&broker, "gw1-a.b", labels_of("b", "gw1-a"), "172.50.16.53").await;
    leads_to("gw2", "second0", "172.50.16.53").await;
    sandbox.restart(&one, nix::sys::signal::Signal::SIGKILL).await;
    broker.kubectl(&["delete", "gwx", "-n", MEETING, "gw1.a-b"]).await.ok();
    one.goes_on("first0", "PeerUnknown").await;
    leads_to("gw2", "second0", "172.50.16.53").await;
    says(&one, SYSTEM, "gw1-a-b", None).await;
    says(&one, SYSTEM, "gw1--a-b", Some("172.50.16.53")).await;
}

#[tokio::test]
async fn a_namespace_of_the_broker_that_is_deleted_and_made_again_is_told_as_that_and_costs_nothing() {
    if support::real::folder().is_some() {
        // The real broker has no controller manager, so no namespace there ever ends.
        return;
    }
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "steady0", "gw1", 1).await;
    one.comes_to_reach(FAR).await;
    let held = one.marked("gw1").await;
    broker.kubectl(&["delete", "namespace", MEETING]).await.ok();
    let told = one.goes_on("steady0", "PeerUnknown").await;
    for words in
        ["the broker lost the record of gateway cluster2/gw1", "namespace is deleted", "stays as it is"]
    {
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(one.marked("gw1").await, held);
    one.reaches(FAR).await;
    broker.kubectl(&["create", "namespace", MEETING]).await.ok();
    one.says(NS, "steady0", "PeerAgrees", "True", "Agreed", PATIENCE).await;
    one.until("the peer is known again", PATIENCE, async || {
        let tunnel = one.tunnel("steady0").await;
        if condition(&tunnel, "LastKnown").is_none() { Ok(()) } else { Err(format!("{:?}", tunnel.status)) }
    })
    .await;
    one.reaches(FAR).await;
}

#[tokio::test]
async fn odd_records_at_the_broker_disturb_nothing_and_are_left_alone() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "steady0", "gw1", 1).await;
    let from = |origin: &str, cluster: &str, gateway: &str| {
        json!({
            "submariner-io/clusterID": origin, "submariner-io/originatingNamespace": SYSTEM,
            "localCluster": cluster, "localGateway": gateway,
        })
    };
    plant(&broker, "nodot", json!({}), "172.50.16.99").await;
    plant(&broker, "nodot-labelled", from("cluster9", "cluster9", "gwx"), "172.50.16.99").await;
    plant(&broker, "gw1.nolabels", json!({}), "172.50.16.99").await;
    plant(&broker, "gw1.cluster9", from("cluster9", "cluster9", "gw1"), "not an address").await;
    // Somebody else speaks for us, and for our peer.
    plant(&broker, "gwx.cluster1", from("cluster9", "cluster1", "gwx"), "172.50.16.99").await;
    plant(&broker, "gwy.cluster2", from("cluster9", "cluster2", "gwy"), "172.50.16.99").await;

    // Whatever is done about them was done before what came later.
    plant(&broker, "gw2.cluster9", from("cluster9", "cluster9", "gw2"), "172.50.16.92").await;
    for member in [&one, &two] {
        says(member, SYSTEM, "gw2-cluster9", Some("172.50.16.92")).await;
        for name in ["gwx-cluster1", "gwy-cluster2", "gwx.cluster1", "gwy.cluster2", "nodot"] {
            says(member, SYSTEM, name, None).await;
        }
        member.built("steady0").await;
        says(member, SYSTEM, "gw1-cluster1", Some("172.50.16.11")).await;
        says(member, SYSTEM, "gw1-cluster2", Some("172.50.16.21")).await;
    }
    let kept = broker.records(MEETING).list(&kube::api::ListParams::default()).await.expect("records");
    let kept: Vec<String> = kept.iter().map(ResourceExt::name_any).collect();
    for name in ["nodot", "nodot-labelled", "gw1.nolabels", "gw1.cluster9", "gwx.cluster1", "gwy.cluster2"] {
        assert!(kept.contains(&name.to_owned()), "{name} is gone: {kept:?}");
    }
    // A tunnel to a peer that makes no sense says so.
    one.create(&vxlan("odd0", "gw2", "cluster9/gw1", "10.100.8.1/24")).await;
    let sentence = one.down("odd0", "PeerInvalid").await;
    assert!(sentence.contains("not an address"), "{sentence}");
    one.reaches(FAR).await;
}

#[tokio::test]
async fn a_tunnel_whose_peer_vanished_keeps_its_link_and_says_so() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "lonely0", "gw1", 1).await;
    let held = one.marked("gw1").await;

    let gone = remove_gateway(&two, "gw1").await;
    let sentence = one.goes_on("lonely0", "PeerUnknown").await;
    assert!(sentence.contains("cluster2") && sentence.contains("gw1"), "{sentence}");
    assert!(one.reports("lonely0", "PeerUnknown", "cluster2").await.warning);
    assert_eq!(one.marked("gw1").await, held, "what it has stays");
    sandbox.restart(&one, nix::sys::signal::Signal::SIGKILL).await;
    assert_eq!(one.marked("gw1").await, held, "also when the controller starts without knowing the peer");

    sets(&two).create(&PostParams::default(), &gone).await.expect("accepted");
    one.built("lonely0").await;
    two.built("lonely0").await;
    one.comes_to_reach(FAR).await;
    one.delete("lonely0").await;
    one.is_clean("gw1").await;
}
