//! A VPC's main gateway is lost, in every way that there is, while packets cross: who forwards before and after is read from
//! the links' own counters.

mod support;

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::packets::RATE;
use support::vpcs::{SERVER, TUNNEL, VPC, joined};
use support::{Cluster, PATIENCE, gateway_pod};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

/// A gateway's workload.
fn sets(cluster: &Cluster) -> Api<StatefulSet> {
    Api::namespaced(cluster.client.clone(), "kube-system")
}

impl Cluster {
    /// How many replicas a gateway should have.
    async fn scale(&self, gateway: &str, replicas: u8) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let name = format!("vpc-nat-gw-{gateway}");
        sets(self).patch(&name, &PatchParams::default(), &patch).await.expect("it is accepted");
        self.until(&format!("{gateway} has {replicas} replicas"), PATIENCE, async || {
            let status = sets(self).get(&name).await.expect("the set").status.unwrap_or_default();
            let available = status.available_replicas.unwrap_or_default();
            if available == i32::from(replicas) { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    }

    /// Deletes a gateway, workload and pod; gives what it takes to make it again.
    async fn delete_gateway(&self, gateway: &str) -> StatefulSet {
        let name = format!("vpc-nat-gw-{gateway}");
        let mut set = sets(self).get(&name).await.expect("the set");
        sets(self).delete(&name, &DeleteParams::default()).await.expect("it is accepted");
        set.metadata = ObjectMeta {
            name: set.metadata.name,
            namespace: set.metadata.namespace,
            labels: set.metadata.labels,
            ..ObjectMeta::default()
        };
        set.status = None;
        set
    }

    /// The gateway that the VPC's record names.
    async fn main(&self) -> Option<String> {
        let record =
            self.records("kube-system").get_opt(&format!("{VPC}.{}", self.name)).await.expect("an answer")?;
        record.metadata.labels.unwrap_or_default().remove("localGateway")
    }

    /// Whether only one of the gateways sends into the tunnel while packets cross.
    async fn only_sends(&self, gateway: &str) {
        let other = if gateway == "gw1" { "gw2" } else { "gw1" };
        let before = (self.sent_by(gateway).await, self.sent_if_running(other).await);
        self.reaches(SERVER).await;
        let after = (self.sent_by(gateway).await, self.sent_if_running(other).await);
        assert!(after.0 >= before.0 + 3, "{gateway} carries the packets: {before:?} {after:?}");
        assert!(after.1 <= before.1, "{other} sends nothing: {before:?} {after:?}");
    }

    async fn sent_if_running(&self, gateway: &str) -> u64 {
        let listed = self
            .kubectl(&[
                "exec",
                "-n",
                "kube-system",
                &gateway_pod(gateway),
                "--",
                "ip",
                "-s",
                "-j",
                "link",
                "show",
                "dev",
                TUNNEL,
            ])
            .await;
        let listed: Value = serde_json::from_str(&listed.out).unwrap_or_default();
        listed[0]["stats64"]["tx"]["packets"].as_u64().unwrap_or_default()
    }
}

#[tokio::test]
async fn add_b_down_a_restart_a_delete_a_what_happens_to_a_standby_is_noticed_by_no_packet() {
    let (_sandbox, one, _two) = joined().await;
    let stream = one.stream(SERVER).await;
    // Restart (a).
    one.delete_pod("gw2").await;
    one.until("it was replaced", PATIENCE, async || {
        if one.marked_if_running("gw2").await.is_empty() {
            Err(String::from("nothing is there yet"))
        } else {
            Ok(())
        }
    })
    .await;
    one.stands_by("gw2").await;
    // Down (a).
    one.scale("gw2", 0).await;
    one.says("ns1", TUNNEL, "Failover", "False", "NoStandby", PATIENCE).await;
    one.scale("gw2", 1).await;
    one.stands_by("gw2").await;
    // Delete (a), and add (b).
    let set = one.delete_gateway("gw2").await;
    one.says("ns1", TUNNEL, "Failover", "False", "NoStandby", PATIENCE).await;
    sets(&one).create(&PostParams::default(), &set).await.expect("it is accepted");
    one.stands_by("gw2").await;
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
    assert_eq!(
        (one.main().await.as_deref(), one.next_hops().await),
        (Some("gw1"), vec!["10.0.1.254".to_string()])
    );
    one.only_sends("gw1").await;
}

#[tokio::test]
async fn add_a_add_c_down_c_restart_b_delete_c_a_single_gateway_keeps_its_place_until_it_is_deleted() {
    let (_sandbox, one, two) = joined().await;
    let standby = one.delete_gateway("gw2").await;
    one.says("ns1", TUNNEL, "Failover", "False", "NoStandby", PATIENCE).await;
    // Restart (b): what it lost is built again.
    one.delete_pod("gw1").await;
    one.comes_to_reach(SERVER).await;
    assert_eq!(
        (one.main().await.as_deref(), one.next_hops().await),
        (Some("gw1"), vec!["10.0.1.254".to_string()])
    );
    // Down (c): nobody could do better.
    one.scale("gw1", 0).await;
    one.down(TUNNEL, "GatewayNotRunning").await;
    assert_eq!(one.main().await.as_deref(), Some("gw1"));
    // Add (a): it comes back under another address, and its record follows.
    one.scale("gw1", 1).await;
    one.up(TUNNEL).await;
    two.comes_to_reach("242.0.1.20").await;
    // Delete (c).
    let main = one.delete_gateway("gw1").await;
    one.until("the VPC's record is gone, here and there", PATIENCE, async || {
        let there =
            two.records("kube-system").get_opt(&format!("{VPC}.{}", one.name)).await.expect("an answer");
        if one.main().await.is_none() && there.is_none() { Ok(()) } else { Err(String::from("it is there")) }
    })
    .await;
    one.down(TUNNEL, "VpcWithoutGateway").await;
    // Add (c): the VPC's routes still lead to the first; so it is the main one, whoever comes first by name or time.
    sets(&one).create(&PostParams::default(), &standby).await.expect("it is accepted");
    sets(&one).create(&PostParams::default(), &main).await.expect("it is accepted");
    one.comes_to_reach(SERVER).await;
    one.stands_by(if one.main().await.as_deref() == Some("gw1") { "gw2" } else { "gw1" }).await;
}

#[tokio::test]
async fn delete_b_a_main_gateway_that_is_deleted_is_followed_by_its_standby() {
    let (_sandbox, one, _two) = joined().await;
    one.comes_to_reach(SERVER).await;
    one.delete_gateway("gw1").await;
    one.led_to("gw2", "10.0.1.253").await;
    one.comes_to_reach(SERVER).await;
    one.only_sends("gw2").await;
}

#[tokio::test]
async fn a_gateway_that_flaps_is_left_once_and_never_gone_back_to() {
    let (_sandbox, one, _two) = joined().await;
    one.comes_to_reach(SERVER).await;
    for _ in 0..10 {
        one.delete_pod("gw1").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    one.led_to("gw2", "10.0.1.253").await;
    one.stands_by("gw1").await;
    one.only_sends("gw2").await;
    let moves =
        one.events("ns1", TUNNEL).await.into_iter().filter(|event| event.reason == "Failover").count();
    assert_eq!(moves, 1, "it was left once");
}

#[tokio::test]
async fn a_standby_holds_everything_and_sends_nothing() {
    let (_sandbox, one, _two) = joined().await;
    let stream = one.stream(SERVER).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (main, standby) = (one.sent_by("gw1").await, one.sent_by("gw2").await);
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
    assert!(main >= u64::from(RATE), "the main gateway carries all: {main}");
    assert_eq!(standby, 0, "not even a question of its own");
    let routes = one.routes("gw2").await;
    assert!(routes.contains(&format!("242.1.0.0/16 dev {TUNNEL} proto 157")), "{routes:?}");
    let rules = one.postrouting("gw2").await;
    assert!(rules.iter().any(|rule| rule.contains("causeway:ns1/demo")), "{rules:?}");
}

#[tokio::test]
async fn down_b_the_standby_takes_over_and_the_lost_one_comes_back_to_stand_by() {
    let (_sandbox, one, two) = joined().await;
    let stream = one.stream(SERVER).await;
    one.delete_pod("gw1").await;
    one.led_to("gw2", "10.0.1.253").await;
    one.stands_by("gw1").await;
    one.reports(TUNNEL, "Failover", "gateway gw2 of VPC test-vpc-1 takes over from gw1").await;
    two.until("the peer leads to the new main gateway", PATIENCE, async || {
        let status = two.tunnel(TUNNEL).await.status.unwrap_or_default();
        if status.remote_ip.as_deref() == Some("172.50.16.12") { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    let before = (one.sent_by("gw1").await, one.sent_by("gw2").await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = (one.sent_by("gw1").await, one.sent_by("gw2").await);
    let count = stream.end().await;
    assert_eq!(before.0, after.0, "the one that came back sends nothing");
    assert!(after.1 > before.1 + u64::from(RATE / 2), "the new one sends all");
    // The stream's own flow is known to the lost gateway alone: it goes on because its source is translated alike.
    assert!(count.lost() < RATE, "less than a second: {count:?}");
    one.reaches(SERVER).await;
    two.reaches("242.0.1.20").await;
    assert_eq!(one.tunnel(TUNNEL).await.status.unwrap_or_default().local_gw.as_deref(), Some("gw2"));
}

#[tokio::test]
async fn both_sides_fail_over_at_the_same_moment() {
    let (_sandbox, one, two) = joined().await;
    one.comes_to_reach(SERVER).await;
    tokio::join!(one.delete_pod("gw1"), two.delete_pod("gw1"));
    one.led_to("gw2", "10.0.1.253").await;
    two.led_to("gw2", "10.0.1.253").await;
    one.comes_to_reach(SERVER).await;
    two.comes_to_reach("242.0.1.20").await;
    for here in [&one, &two] {
        here.up(TUNNEL).await;
        here.stands_by("gw1").await;
    }
}

#[tokio::test]
async fn a_switch_on_purpose_loses_no_packet() {
    let (_sandbox, one, two) = joined().await;
    let streams = (one.stream(SERVER).await, two.stream("242.0.1.20").await);
    one.annotate_vpc("causeway/switch-to", "gw2").await;
    one.led_to("gw2", "10.0.1.253").await;
    one.stands_by("gw1").await;
    one.reaches(SERVER).await;
    let counts = (streams.0.end().await, streams.1.end().await);
    assert_eq!((counts.0.lost(), counts.1.lost()), (0, 0), "{counts:?}");
}

#[tokio::test]
async fn a_connection_lives_on_through_a_switch_on_purpose() {
    let (_sandbox, one, _two) = joined().await;
    one.comes_to_reach(SERVER).await;
    let script = format!(
        "exec 3<>/dev/tcp/{SERVER}/7; while read -r line; do echo \"$line\" >&3; read -r -t 20 back <&3; echo \"$back\"; done"
    );
    let mut process = one.start("ns1", "client", &["bash", "-c", &script]).await;
    let mut input = process.stdin().expect("stdin");
    let mut lines = tokio::io::BufReader::new(process.stdout().expect("stdout")).lines();
    let mut says = async |text: &str| {
        input.write_all(format!("{text}\n").as_bytes()).await.expect("it runs");
        tokio::time::timeout(PATIENCE, lines.next_line()).await.ok().and_then(Result::ok).flatten()
    };
    assert_eq!(says("before").await.as_deref(), Some("before"));
    one.annotate_vpc("causeway/switch-to", "gw2").await;
    one.led_to("gw2", "10.0.1.253").await;
    one.stands_by("gw1").await;
    assert_eq!(
        says("after").await.as_deref(),
        Some("after"),
        "through the other gateway, on the same connection"
    );
    assert!(one.sent_by("gw2").await > 0);
}

#[tokio::test]
async fn a_gateway_that_dies_in_silence_is_missed_by_its_standby_and_not_trusted_before_it_is_heard() {
    let (_sandbox, one, _two) = joined().await;
    let stream = one.stream(SERVER).await;
    // Its pod says for most of a minute that it is ready.
    one.in_gateway("gw1", "ip link set eth0 down; ip link set net1 down").await.ok();
    one.led_to("gw2", "10.0.1.253").await;
    one.comes_to_reach(SERVER).await;
    let count = stream.end().await;
    assert!(count.lost() < 10 * RATE, "within seconds, not a minute: {count:?}");
    one.says("ns1", TUNNEL, "Failover", "False", "NoStandby", PATIENCE).await;
    one.in_gateway(
        "gw1",
        "ip link set eth0 up; ip link set net1 up; ip route add default via 172.50.16.1 dev net1",
    )
    .await
    .ok();
    one.stands_by("gw1").await;
    assert_eq!(one.next_hops().await, ["10.0.1.253"], "it never takes back what it lost");
}

#[tokio::test]
async fn a_main_gateway_that_loses_either_link_is_lost_and_a_standby_that_loses_its_own_says_nothing() {
    let (_sandbox, one, _two) = joined().await;
    one.comes_to_reach(SERVER).await;
    // Whoever cannot hear anybody does not say that somebody is silent.
    one.in_gateway("gw2", "ip link set eth0 down").await.ok();
    let stream = one.stream(SERVER).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let count = stream.end().await;
    assert_eq!((one.next_hops().await, count.lost()), (vec!["10.0.1.254".to_string()], 0), "{count:?}");
    one.in_gateway("gw2", "ip link set eth0 up").await.ok();
    one.stands_by("gw2").await;
    one.in_gateway("gw1", "ip link set net1 down").await.ok();
    one.led_to("gw2", "10.0.1.253").await;
    one.comes_to_reach(SERVER).await;
}
