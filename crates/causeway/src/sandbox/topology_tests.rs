//! The topology proved by packets, with a tunnel made by hand: no Kubernetes, no controller.
//! What `connect` does here is what a gateway must hold for one tunnel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::addresses::{self, Cluster, Gateway, Role};
use super::echo::Echo;
use super::nat::{Choice, LOCK, Variant};
use super::proof::{Caller, Proof};
use super::tools;
use super::topology::{Fabric, PodNet, Underlay};

struct Site {
    fabric: Fabric,
    pods: BTreeMap<Role, PodNet>,
    echo: Echo,
}

async fn build(
    cluster: Cluster,
    underlay: Arc<Underlay>,
    variant: Variant,
    folder: &std::path::Path,
) -> Site {
    let folder = folder.join(cluster.id());
    let fabric = Fabric::create(cluster, underlay, variant, folder).await.expect("router");
    let mut pods = BTreeMap::new();
    for role in Role::ALL {
        pods.insert(role, fabric.plug(role).await.expect("pod"));
    }
    let echo = Echo::start(&pods[&Role::Server].namespace, cluster.server_global());
    let echo = echo.await.expect("echo service");
    Site { fabric, pods, echo }
}

async fn two_sites(choice: Choice) -> (Site, Site, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("temp folder");
    let lock = folder.path().join("lock");
    let variant = Variant::choose(choice, &lock).await.expect("iptables");
    let underlay = Arc::new(Underlay::create().await.expect("underlay"));
    let [one, two] = Cluster::first(2)[..] else { panic!("two clusters") };
    let (a, b) = tokio::join!(
        build(one, underlay.clone(), variant, folder.path()),
        build(two, underlay, variant, folder.path())
    );
    (a, b, folder)
}

/// Makes this end of the tunnel in a gateway, and leads the VPC's traffic there.
async fn connect(here: &Site, there: &Site, gateway: Gateway, address: &str, variant: Variant) {
    let (own, peer) = (here.fabric.cluster(), there.fabric.cluster());
    let pod = &here.pods[&Role::Gateway(gateway)];
    let (local, remote) = (own.external(gateway), peer.external(gateway));
    let far = peer.globalnet();
    pod.namespace
        .ip(&[
            format!("link add demo type vxlan id 100 local {local} remote {remote} dstport 4789 dev net1"),
            format!("address add {address} dev demo"),
            "link set dev demo up".into(),
            "ntable change name arp_cache dev demo proxy_delay 0".into(),
            format!("route add {} via {} dev eth0", own.globalnet(), addresses::ROUTER),
            format!("route add {far} dev demo"),
        ])
        .await
        .expect("tunnel");
    pod.namespace.sysctl(&[("ipv4/conf/demo/proxy_arp", "1")]).await.expect("proxy_arp");
    let egress = own.egress();
    let mut iptables = tools::command(iptables_of(variant));
    iptables.env(LOCK, pod.lock());
    iptables.args(["-t", "nat", "-I", "POSTROUTING", "1", "-d", &far.to_string(), "-j", "SNAT"]);
    iptables.args(["--to-source", &format!("{}-{}", egress[0], egress[7])]);
    pod.namespace.checked(iptables, "").await.expect("SNAT");
    let lead = format!("route replace {far} via {} proto static", gateway.lan());
    here.fabric.router().ip(&[lead]).await.expect("static route");
}

async fn ask(from: &Site, to: &Site) -> Proof {
    let client = &from.pods[&Role::Client].namespace;
    let target = to.fabric.cluster().server_global();
    let mut caller = Caller::new(client, target).await.expect("caller");
    let answer = timeout(Duration::from_secs(5), caller.first_answer()).await;
    answer.expect("an answer within 5 s").expect("sockets");
    let egress = from.fabric.cluster().egress();
    caller.prove(egress, || to.echo.seen()).await.expect("proof")
}

async fn both_ways(choice: Choice, gateway: Gateway) {
    let (a, b, folder) = two_sites(choice).await;
    let variant = Variant::choose(choice, &folder.path().join("lock")).await.expect("iptables");
    connect(&a, &b, gateway, "10.100.0.1/24", variant).await;
    connect(&b, &a, gateway, "10.100.0.2/24", variant).await;
    for (from, to) in [(&a, &b), (&b, &a)] {
        let proof = ask(from, to).await;
        assert!(proof.holds(), "{proof:?}");
    }
}

#[tokio::test]
async fn packets_cross_a_tunnel_and_carry_an_egress_address() {
    both_ways(Choice::Auto, Gateway::Gw1).await;
}

#[tokio::test]
async fn packets_cross_through_the_second_gateways_with_nft() {
    both_ways(Choice::Nft, Gateway::Gw2).await;
}

#[tokio::test]
async fn nothing_crosses_without_a_tunnel() {
    let (a, b, _folder) = two_sites(Choice::Auto).await;
    let client = &a.pods[&Role::Client].namespace;
    let mut caller = Caller::new(client, b.fabric.cluster().server_global()).await.expect("caller");
    let answer = timeout(Duration::from_millis(300), caller.first_answer()).await;
    assert!(answer.is_err(), "an answer without a tunnel");
    assert!(b.echo.seen().is_empty());
}

#[tokio::test]
async fn an_unplugged_pod_is_cut_off_and_its_place_is_free_again() {
    let (a, _b, _folder) = two_sites(Choice::Auto).await;
    let old = &a.pods[&Role::Gateway(Gateway::Gw1)];
    a.fabric.unplug(old).await.expect("unplug");
    let links = old.namespace.checked(ip_links(), "").await.expect("links");
    assert!(!links.contains("eth0") && !links.contains("net1"), "{links}");
    let new = a.fabric.plug(Role::Gateway(Gateway::Gw1)).await.expect("a new one");
    let links = new.namespace.checked(ip_links(), "").await.expect("links");
    assert!(links.contains("eth0") && links.contains("net1"), "{links}");
}

fn iptables_of(variant: Variant) -> &'static str {
    match variant {
        Variant::Legacy => "iptables-legacy",
        Variant::Nft => "iptables-nft",
    }
}

fn ip_links() -> Command {
    let mut ip = tools::command("ip");
    ip.args(["-o", "link"]);
    ip
}
