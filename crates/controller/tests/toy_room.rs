//! A room in a hundred lines, on the public types alone: each ConfigMap with a label becomes a file on every
//! replica, and the leader says on the ConfigMap that it did.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_controller::election::{Term, Times};
use causeway_controller::follow::Watch;
use causeway_controller::queue::Next;
use causeway_controller::room::{self, Desk, Duty, House, Parts, Room, Who};
use causeway_controller::sources::Sources;
use causeway_controller::write::{guarded, patching};
use causeway_controller::{clock::Clock, events::Announcer, health::Readiness, metrics::Metrics};
use causeway_core::room::{Change, State};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PostParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use support::{client, server, until};
use tokio_util::sync::CancellationToken;

/// A text, the version it was seen in, and whether it says that it was written.
type Text = (String, String, bool);

#[derive(Default)]
struct Texts(BTreeMap<String, Text>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    File(String),
    Mark(String),
}

impl State for Texts {
    type Event = Change<String, Text>;
    type Scope = Scope;

    fn apply(&mut self, event: Self::Event) -> BTreeSet<Scope> {
        let changed = event.carry_out(&mut self.0).into_iter();
        changed.flat_map(|(name, ..)| [Scope::File(name.clone()), Scope::Mark(name)]).collect()
    }

    fn everything(&self) -> BTreeSet<Scope> {
        self.0.keys().flat_map(|name| [Scope::File(name.clone()), Scope::Mark(name.clone())]).collect()
    }
}

struct Files {
    desk: Desk<Texts>,
    api: Api<ConfigMap>,
    client: Client,
    folder: PathBuf,
}

impl Room for Files {
    const NAME: &'static str = "files";
    const LEASE: &'static str = "causeway-files";
    type State = Texts;

    fn desk(&self) -> &Desk<Texts> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>) {
        let text = |object: &DeserializeGuard<ConfigMap>| {
            let map = object.0.as_ref().ok();
            let data = map.and_then(|map| map.data.as_ref()?.get("text").cloned()).unwrap_or_default();
            let marked = object.annotations().contains_key("written");
            (object.name_any(), Some((data, object.resource_version().unwrap_or_default(), marked)))
        };
        let all = Api::namespaced(self.client.clone(), "default");
        sources.watch("configmaps", Watch::new(all).labels("file"), text, |change| change);
    }

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope {
            Scope::File(_) => ("file", 0),
            Scope::Mark(_) => ("mark", 1),
        }
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        let (Scope::File(name) | Scope::Mark(name)) = &scope;
        let text = self.desk.state().0.get(name).cloned();
        let path = self.folder.join(name);
        match (&scope, text) {
            (Scope::File(_), Some((text, ..))) => drop(tokio::fs::write(path, text).await),
            (Scope::File(_), None) => drop(tokio::fs::remove_file(path).await),
            (Scope::Mark(_), Some((_, version, false))) => {
                let mark = json!({ "resourceVersion": version, "annotations": { "written": "true" } });
                let patch = Patch::Merge(json!({ "metadata": mark }));
                return guarded(&term, "mark", self.api.patch(name, &patching(), &patch))
                    .await
                    .err()
                    .unwrap_or(Next::Done);
            }
            (Scope::Mark(_), _) => {}
        }
        Next::Done
    }
}

fn open(client: Client, folder: PathBuf, house: &House, parts: &mut Parts) {
    let duty = |name, who| Duty { name, who, workers: 4 };
    let duties = [duty("files", Who::EveryReplica), duty("marks", Who::Leader)];
    let api = Api::namespaced(client.clone(), "default");
    let desk = Desk::new::<Files>(Texts::default(), &duties);
    room::start(&Arc::new(Files { desk, api, client, folder }), house, parts);
}

/// One replica: everything that a process of its own would have.
struct Replica {
    house: House,
    folder: tempfile::TempDir,
    parts: Parts,
}

impl Replica {
    fn start(client: &Client, identity: &str) -> Self {
        let (announcer, _) = Announcer::new();
        let house = House {
            client: client.clone(),
            identity: identity.into(),
            lease_namespace: Some("default".into()),
            lease_times: Times::default(),
            clock: Clock::System,
            seed: 1,
            metrics: Arc::new(Metrics::default()),
            readiness: Readiness::default(),
            announcer,
            stop: CancellationToken::new(),
        };
        let (folder, mut parts) = (tempfile::tempdir().expect("a folder"), Parts::new());
        open(client.clone(), folder.path().into(), &house, &mut parts);
        Self { house, folder, parts }
    }

    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join(name)).ok()
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

    let silent = causeway_apiserver::Fault::new(causeway_apiserver::Switch::Freeze);
    let of_a = causeway_apiserver::Match {
        user_agent: Some("a".into()),
        resources: vec!["leases".into()],
        ..causeway_apiserver::Match::default()
    };
    server.faults().set(vec![silent.on(of_a)]).expect("a fault");
    until("b leads", || async { b.leads() }).await;
    assert!(!a.leads(), "a knows that it does not");
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
