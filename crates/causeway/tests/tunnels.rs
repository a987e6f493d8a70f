//! The life of a tunnel, from `kubectl apply` to `kubectl delete`.
#![cfg(feature = "sandbox")]

mod support;

use support::Sandbox;
use support::tunnels::join;

#[tokio::test]
async fn packets_cross_and_a_deleted_tunnel_leaves_nothing() {
    let Some(sandbox) = Sandbox::bare().await else { return };
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    one.comes_to_reach("242.1.1.20").await;
    one.reaches("242.1.1.20").await;
    let stream = one.stream("242.1.1.20").await;
    assert_eq!(one.echo("242.1.1.20", "hello").await.ok(), "hello\n");
    let count = stream.end().await;
    assert_eq!(count.lost(), 0, "{count:?}");
    eprintln!("{count:?} {:?} {:?}", one.marked("gw1").await, one.events("ns1", "vx0").await);
    one.delete("vx0").await;
    assert_eq!(one.marked("gw1").await, Vec::<String>::new());
}
