//! Several tunnels of one gateway: what they share goes with the last.

use super::support::Sandbox;
use super::support::packets::RATE;
use super::support::tunnels::join;

const INBOUND: &str = "242.0.0.0/16 via 10.0.1.1 dev eth0 proto 157";

#[tokio::test]
async fn a_tunnel_forwards_on_while_its_neighbour_comes_and_goes_and_the_last_takes_the_shared_route() {
    let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
    let (one, two, three) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.cluster(3).await);
    join(&one, &three, "to-three", "gw1", 3).await;
    let stream = one.stream("242.2.1.20").await;
    join(&one, &two, "to-two", "gw1", 2).await;
    one.reaches("242.1.1.20").await;
    let table = one.kubectl(&["get", "vnt", "-n", "ns1", "--no-headers"]).await.ok();
    assert_eq!(table.lines().filter(|line| line.contains("True")).count(), 2, "{table}");

    one.delete("to-two").await;
    let marked = one.marked("gw1").await;
    assert!(!marked.iter().any(|thing| thing.contains("to-two")), "{marked:?}");
    assert!(marked.contains(&INBOUND.into()), "the neighbour needs it: {marked:?}");
    one.reaches("242.2.1.20").await;
    let count = stream.end().await;
    assert!(count.sent > RATE / 2, "the stream ran all the while: {count:?}");
    assert_eq!(count.lost(), 0, "{count:?}");

    one.delete("to-three").await;
    assert_eq!(one.marked("gw1").await, Vec::<String>::new(), "the last takes the shared route along");
}
