//! Many clients at once: no write is lost, every watcher sees one and the same order without a gap, and
//! nobody waits for a watcher that does not read.

use futures::future::join_all;
use serde_json::json;

use crate::{
    harness::{MERGE, Read, Scene, config_map, eventually, scene},
    watch::Watch,
};

#[tokio::test]
async fn guarded_updates_never_lose_one_another() {
    scene(async |t: &Scene| {
        t.config_map("counter", "0").await;
        let path = t.core("configmaps/counter");
        let add_one = async || {
            eventually("the update wins", async || {
                let mut object = t.get(&path).await.expect(200);
                let count: u32 = object.text("/data/key").parse().unwrap();
                object["data"]["key"] = json!((count + 1).to_string());
                let answer = t.put(&path, object).await;
                assert!(matches!(answer.code, 200 | 409), "{answer:?}");
                (answer.code == 200).then_some(())
            })
            .await;
        };
        join_all((0..8).map(async |_| {
            for _ in 0..5 {
                add_one().await;
            }
        }))
        .await;
        assert_eq!(t.get(&path).await.expect(200)["data"]["key"], "40");
    })
    .await;
}

#[tokio::test]
async fn one_of_many_creators_of_a_name_succeeds() {
    scene(async |t: &Scene| {
        let path = t.core("configmaps");
        let codes =
            join_all((0..10).map(async |n: u32| t.post(&path, config_map("a", &n.to_string())).await.code))
                .await;
        assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1, "{codes:?}");
        assert_eq!(codes.iter().filter(|code| **code == 409).count(), 9, "{codes:?}");
    })
    .await;
}

#[tokio::test]
async fn watchers_see_parallel_writes_in_one_order_without_a_gap() {
    scene(async |t: &Scene| {
        let start = t.config_map("zero", "0").await;
        let path = t.core(&format!(
            "configmaps?watch=true&fieldSelector=metadata.name!%3Dkube-root-ca.crt&resourceVersion={}",
            start.version()
        ));
        let (mut one, mut two) = (Watch::of(t.get(&path)).await, Watch::of(t.get(&path)).await);
        join_all((0..10).map(async |n| {
            let name = format!("m{n}");
            t.config_map(&name, "0").await;
            for value in 1..10 {
                let change = json!({"data": {"key": value.to_string()}});
                t.patch(&t.core(&format!("configmaps/{name}")), MERGE, change).await.expect(200);
            }
        }))
        .await;
        let mut seen = std::collections::BTreeMap::<String, u32>::new();
        let mut newest = 0;
        for _ in 0..100 {
            let event = one.next().await.expect("the watch goes on");
            assert_eq!(two.next().await.as_ref(), Some(&event));
            let object = &event["object"];
            let version: u64 = object.version().parse().unwrap();
            assert!(version > newest, "{version} after {newest}");
            newest = version;
            let count = seen.entry(object.name().to_owned()).or_default();
            assert_eq!(object["data"]["key"], count.to_string());
            assert_eq!(event["type"], if *count == 0 { "ADDED" } else { "MODIFIED" });
            *count += 1;
        }
        assert_eq!(seen.values().sum::<u32>(), 100);
    })
    .await;
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_nobody_up_and_misses_nothing_before_its_end() {
    scene(async |t: &Scene| {
        let start = t.config_map("big", "0").await;
        let query = "configmaps?watch=true&fieldSelector=metadata.name%3Dbig";
        let path = t.core(&format!("{query}&resourceVersion={}", start.version()));
        let mut idle = Watch::of(t.get(&path)).await;
        let filler = "x".repeat(40_000);
        for n in 1..=300 {
            let change = json!({"data": {"key": n.to_string(), "filler": filler}});
            t.patch(&t.core("configmaps/big"), MERGE, change).await.expect(200);
        }
        let mut fresh = Watch::of(t.get(&t.core(query))).await;
        assert_eq!(fresh.expect("ADDED").await["data"]["key"], "300");
        let mut last = 0;
        while last < 300 {
            // A server may end a watch that falls behind; the client then starts again from a version.
            let Some(event) = idle.next().await else { break };
            if event["type"] == "ERROR" {
                break;
            }
            last += 1;
            assert_eq!(event["object"]["data"]["key"], last.to_string());
        }
        assert!(last > 0, "what was sent can be read");
    })
    .await;
}
