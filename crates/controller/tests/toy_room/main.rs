//! The toy room `files` in two replicas: what it needs of a process, and what it may rely on.

mod files;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use causeway_apiserver::{Fault, Match, Switch};
use causeway_controller::room::{self, House, Parts};
use files::Files;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use support::{client, house, server, until};

/// One replica: everything that a process of its own would have.
struct Replica {
    house: House,
    folder: tempfile::TempDir,
    parts: Parts,
}

impl Replica {
    fn start(client: &Client, identity: &str) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), client, identity)
    }

    fn start_in(folder: tempfile::TempDir, client: &Client, identity: &str) -> Self {
        let (house, mut parts) = (house(client, identity), Parts::new());
        room::start(&Files::new(client.clone(), folder.path().into()), &house, &mut parts);
        Self { house, folder, parts }
    }

    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(name)).ok()
    }

    /// Whether nothing waits for a leader.
    fn is_idle(&self) -> bool {
        self.house.metrics.encode().contains("causeway_queue_length{room=\"files\",duty=\"marks\"} 0")
    }

    fn leads(&self) -> bool {
        self.house.metrics.encode().contains("causeway_leader{room=\"files\"} 1")
    }
}

async fn put(maps: &Api<ConfigMap>, name: &str, text: &str) {
    let map = json!({ "metadata": { "name": name, "labels": { "file": "" } }, "data": { "text": text } });
    let map: ConfigMap = serde_json::from_value(map).expect("a ConfigMap");
    maps.create(&PostParams::default(), &map).await.expect("created");
}

#[tokio::test(start_paused = true)]
async fn every_replica_has_the_files_and_one_of_them_marks_and_a_lost_lease_ends_only_the_marking() {
    let server = server().await;
    let (a_client, b_client) = (client(&server, "a"), client(&server, "b"));
    let maps: Api<ConfigMap> = Api::namespaced(client(&server, "somebody"), "default");
    put(&maps, "one", "1").await;
    let a = Replica::start(&a_client, "a");
    until("a leads", || async { a.leads() }).await;
    let mut b = Replica::start(&b_client, "b");
    until("both have the file", || async { [&a, &b].iter().all(|r| r.file("one").as_deref() == Some("1")) })
        .await;
    let marked =
        async |name: &str| maps.get(name).await.is_ok_and(|map| map.annotations().contains_key("written"));
    until("it is marked", || marked("one")).await;
    assert!(a.leads() && !b.leads());
    assert!(b.is_idle(), "a standby keeps no list of what a leader would do");

    let leases_of_a =
        Match { user_agent: Some("a".into()), resources: vec!["leases".into()], ..Match::default() };
    server.faults().set(vec![Fault::new(Switch::Freeze).on(leases_of_a)]).expect("a fault");
    until("b leads", || async { b.leads() }).await;
    assert!(!a.leads(), "a has stopped before that");
    put(&maps, "two", "2").await;
    until("a goes on serving", || async { a.file("two").as_deref() == Some("2") }).await;
    until("b marks", || marked("two")).await;

    server.faults().clear();
    let start = tokio::time::Instant::now();
    b.house.stop.cancel();
    until("a leads again", || async { a.leads() }).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    while let Some(ended) = b.parts.join_next().await {
        let (part, end) = ended.expect("no panic");
        assert!(end.is_ok(), "{part}: {end:?}");
    }
    maps.delete("one", &DeleteParams::default()).await.expect("deleted");
    until("its file goes", || async { a.file("one").is_none() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_file_whose_object_went_while_the_replica_was_away_goes_when_it_is_back() {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server, "somebody"), "default");
    put(&maps, "kept", "1").await;
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["kept", "stale"] {
        std::fs::write(folder.path().join(name), "0").expect("written");
    }
    let a = Replica::start_in(folder, &client(&server, "a"), "a");
    until("only the other one is there", || async {
        a.file("stale").is_none() && a.file("kept").as_deref() == Some("1")
    })
    .await;
}
