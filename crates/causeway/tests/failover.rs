//! A VPC's main gateway is lost, in every way that there is, while packets cross: who forwards before and after is read from
//! the links' own counters.

mod support;

use std::time::Duration;

use support::PATIENCE;
use support::packets::RATE;
use support::vpcs::{SERVER, TUNNEL, joined};

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
