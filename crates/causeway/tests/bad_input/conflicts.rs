//! Two tunnels that want the same thing, and foreign things where ours must go.

use super::support::gateway::ONE_TUNNEL;
use super::support::tunnels::{NS, in_namespace, join, vxlan, with_vni};
use super::support::{Cluster, PATIENCE, Sandbox};
use super::{FAR, reported, stays_calm, undisturbed};

#[tokio::test]
async fn of_two_tunnels_that_want_the_same_the_older_one_has_it_until_it_goes() {
    let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "older", "gw1", 0).await;
    let stream = one.stream(FAR).await;

    one.create(&with_vni(vxlan("same-vni", "gw1", "cluster3/gw1", "10.103.0.1/24"), 1000)).await;
    reported(&one, "same-vni", "VniConflict", &["VNI 1000 on port 4789", "ns1/older"]).await;
    one.create(&with_vni(vxlan("same-range", "gw1", "cluster2/gw2", "10.104.0.1/24"), 4)).await;
    reported(&one, "same-range", "RemoteRangeConflict", &["242.1.0.0/16", "ns1/older"]).await;
    one.kubectl(&["create", "namespace", "ns2"]).await.ok();
    let same_link = with_vni(vxlan("older", "gw1", "cluster3/gw2", "10.105.0.1/24"), 5);
    one.create(&in_namespace(same_link, "ns2")).await;
    let refused = one.says("ns2", "older", "Ready", "False", "LinkNameConflict", PATIENCE).await;
    let sentence = format!("{:?}", refused.status);
    assert!(sentence.contains("the link name older") && sentence.contains("ns1/older"), "{sentence}");
    assert!(one.reports_in("ns2", "older", "LinkNameConflict", "the link name older").await.warning);

    let marked = one.marked("gw1").await;
    assert_eq!(marked.len(), ONE_TUNNEL, "the older one's and nothing else: {marked:?}");
    stays_calm(&one).await;
    undisturbed(&one, "older").await;
    one.delete("same-vni").await;
    one.kubectl(&["delete", "namespace", "ns2", "--timeout=60s"]).await.ok();
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");

    one.delete("older").await;
    one.built("same-range").await;
    one.delete("same-range").await;
    one.is_clean("gw1").await;
}

/// The links of the second gateway, but for whether they are up: cables of a new sandbox come up when they like.
async fn links(one: &Cluster) -> Vec<String> {
    let listed = one.in_gateway("gw2", "ip -o link show").await.ok();
    let lasting = |line: &str| {
        let words = line.split_whitespace().filter(|word| !word.starts_with('<'));
        words.filter(|word| !["UP", "DOWN", "UNKNOWN"].contains(word)).collect::<Vec<_>>().join(" ")
    };
    listed.lines().map(lasting).collect()
}

#[tokio::test]
async fn a_foreign_link_or_route_in_the_way_is_named_left_alone_and_once_gone_the_tunnel_comes_up() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    let cases = [
        ("NameTaken", "link mine", "ip link add name mine type bridge", "ip link delete dev mine"),
        (
            "NameTaken",
            "link theirs",
            "ip link add name theirs type vxlan id 7 dstport 4789 dev net1",
            "ip link delete dev theirs",
        ),
        (
            "RouteTaken",
            "a route to 242.1.0.0/16",
            "ip route add 242.1.0.0/16 via 10.0.1.10",
            "ip route delete 242.1.0.0/16 via 10.0.1.10",
        ),
        (
            "RouteTaken",
            "a route to 242.0.0.0/16",
            "ip route add 242.0.0.0/16 via 10.0.1.10",
            "ip route delete 242.0.0.0/16 via 10.0.1.10",
        ),
    ];
    for (reason, words, block, unblock) in cases {
        one.in_gateway("gw2", block).await.ok();
        let links = links(&one).await;
        let routes = one.routes("gw2").await;
        one.create(&with_vni(vxlan("mine", "gw2", "cluster2/gw2", "10.107.0.1/24"), 7)).await;
        reported(&one, "mine", reason, &[words]).await;
        assert_eq!(self::links(&one).await, links, "nothing is half-built");
        assert_eq!(one.routes("gw2").await, routes, "nothing is half-built");
        assert!(one.marked("gw2").await.is_empty());
        one.in_gateway("gw2", unblock).await.ok();
        one.built("mine").await;
        one.kubectl(&["delete", "vnt", "-n", NS, "mine", "--timeout=60s"]).await.ok();
        assert!(one.marked("gw2").await.is_empty());
    }
    one.in_gateway("gw2", "ip link add name mine type bridge").await.ok();
    one.create(&with_vni(vxlan("mine", "gw2", "cluster2/gw2", "10.107.0.1/24"), 7)).await;
    one.down("mine", "NameTaken").await;
    stays_calm(&one).await;
    one.delete("mine").await;
    assert!(one.link("gw2", "mine").await.is_some(), "the foreign link is not ours to remove");
    undisturbed(&one, "vx0").await;
    one.reaches(FAR).await;
}
