//! A status write never causes work: over an idle minute nothing is asked for but what a clock asks for.

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::api::ListParams;
use kube::{Api, ResourceExt};
use support::tunnels::{NS, apart_from_times, join};
use support::{Cluster, Controller, PATIENCE, Sandbox};

const MINUTE: Duration = Duration::from_secs(60);

/// What tunnels say, the versions of all else that a controller writes, and the number of events.
async fn versions(cluster: &Cluster) -> Vec<String> {
    let all = ListParams::default();
    let tunnels = cluster.tunnels(NS).list(&all).await.expect("tunnels");
    let records =
        Api::<causeway_api::vpc::GatewayExIp>::all(cluster.client.clone()).list(&all).await.expect("records");
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(cluster.client.clone());
    let mut lines = vec![format!("{} events", events.list(&all).await.expect("events").items.len())];
    lines.extend(tunnels.iter().map(apart_from_times));
    lines.extend(records.iter().map(|r| format!("{} {:?}", r.name_any(), r.resource_version())));
    lines
}

/// Waits until a controller has nothing left to do: no command runs for a while but by the timer.
async fn settles(cluster: &Cluster, controller: &Controller) {
    let mut last = (u64::MAX, Instant::now());
    cluster
        .until("the controller is at rest", PATIENCE, async || {
            let now = controller.execs("observe").await;
            if now != last.0 {
                last = (now, Instant::now());
            }
            if last.1.elapsed() > Duration::from_secs(5) { Ok(()) } else { Err(format!("{now} looks")) }
        })
        .await;
}

/// What was asked for between two counts.
fn difference(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = |(what, count): (&String, &u64)| (what.clone(), count - before.get(what).unwrap_or(&0));
    after.iter().map(since).filter(|(_, count)| *count > 0).collect()
}

#[tokio::test]
async fn an_idle_minute_brings_nothing_but_lease_renewals_and_resyncs() {
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let broker = sandbox.broker().await;
    join(&one, &two, "idle0", "gw1", 1).await;
    let members = [(&one, one.controller().await), (&two, two.controller().await)];
    for (cluster, controller) in &members {
        settles(cluster, controller).await;
    }

    let all = [&one, &two, &broker];
    let mut before = Vec::new();
    for cluster in all {
        before.push((versions(cluster).await, cluster.requests().await));
    }
    let mut commands = Vec::new();
    for (_, controller) in &members {
        commands.push((controller.execs("observe").await, controller.execs("apply").await));
    }
    let start = Instant::now();
    tokio::time::sleep(MINUTE).await;

    for ((cluster, controller), (looks, changes)) in members.iter().zip(commands) {
        assert_eq!(controller.execs("apply").await, changes, "{}: nothing is to be changed", cluster.name);
        assert_eq!(controller.execs("monitor").await, 2, "{}: both monitors stay open", cluster.name);
        assert_eq!(
            controller.execs("observe").await,
            looks,
            "{}: the monitors say all is well",
            cluster.name
        );
    }
    for (cluster, (_, before)) in all.into_iter().zip(&before) {
        let asked = difference(before, &cluster.requests().await);
        let renewals = start.elapsed().as_secs() / 5 + 2;
        let expected = |what: &str, count: u64| match what {
            // Every 5 s; claims at the broker every 2 minutes.
            "update leases" if cluster.name != "broker" => (1..=renewals).contains(&count),
            "get leases" | "update leases" => count <= 2,
            // The exchange compares everything every 2 minutes; at the broker two members do.
            "list gatewayexips" | "watch gatewayexips" => count <= 2,
            // Where other tests begin or end, an answer takes thrice as long or a third, and that is shown.
            "patch vpcnattunnels status" => count <= 2,
            _ => false,
        };
        let odd: Vec<_> = asked.iter().filter(|(what, count)| !expected(what, **count)).collect();
        assert!(odd.is_empty(), "{} within {:?}: {odd:?} of {asked:?}", cluster.name, start.elapsed());
    }
    for (cluster, (before, _)) in all.into_iter().zip(&before) {
        assert_eq!(&versions(cluster).await, before, "{}", cluster.name);
    }
}
