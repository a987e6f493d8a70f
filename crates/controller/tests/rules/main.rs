//! The room `rules` on a real API and real connections.

mod odd;
mod plane;
mod protocol;
mod statuses;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod versions;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_api::rules::resource;
use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::events::{Announcer, Line};
use causeway_controller::room::{self, House, Parts};
use causeway_controller::rules::{Options, Rules};
use causeway_core::rules::Kind;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// A cluster with the six kinds, and one replica.
struct Site {
    server: Server,
    client: Client,
}

impl Site {
    async fn start() -> Self {
        let site = Self::bare().await;
        for crd in causeway_api::rules::crds() {
            site.define(&crd).await;
        }
        site
    }

    /// Without the definitions.
    async fn bare() -> Self {
        let server = support::server().await;
        let client = support::client(&server, "somebody");
        Self { server, client }
    }

    async fn define(&self, crd: &CustomResourceDefinition) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        crds.create(&PostParams::default(), crd).await.expect("a definition");
        let name = crd.metadata.name.clone().expect("a name");
        let established = async || {
            let crd = crds.get(&name).await.expect("it is there");
            let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
            conditions.iter().any(|it| it.type_ == "Established" && it.status == "True")
        };
        support::until("the definition is established", established).await;
    }

    async fn undefine(&self, crd: &CustomResourceDefinition) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = crd.metadata.name.as_deref().expect("a name");
        crds.delete(name, &DeleteParams::default()).await.expect("deleted");
        let gone = async || crds.get_opt(name).await.expect("an answer").is_none();
        support::until("the definition is gone", gone).await;
    }

    async fn replica(&self, name: &str) -> Replica {
        self.replica_with(name, |_| {}).await
    }

    async fn replica_with(&self, name: &str, change: impl FnOnce(&mut Options)) -> Replica {
        let client = support::client(&self.server, name);
        let (announcer, announced) = Announcer::new();
        let (house, mut parts) = (House { announcer, ..support::house(&client, name) }, Parts::new());
        let mut options = Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: None,
            window: Duration::from_millis(20),
            stuck_after: Duration::from_secs(30),
            asks_within: Duration::from_secs(60),
            drain: Duration::from_millis(500),
            most_streams: 10_000,
            outdated_for: Duration::from_secs(1),
            on_demand: None,
            name: "osg-test".into(),
            clients: None,
        };
        change(&mut options);
        let room = Rules::new(options, &house);
        room::start(&room, &house, &mut parts);
        room.serve(&mut parts);
        let address =
            tokio::time::timeout(plane::PATIENCE, room.bound()).await.expect("it listens in time")[0];
        Replica { house, parts, address, room, announced: Some(announced) }
    }

    /// How many watches were opened on something.
    fn watches(&self, resource: &str) -> u64 {
        self.requests("watch", resource)
    }

    /// How often something was tried to be patched.
    fn patches(&self, resource: &str) -> u64 {
        self.requests("patch", resource)
    }

    fn requests(&self, verb: &str, resource: &str) -> u64 {
        let requests = self.server.requests();
        requests.iter().filter(|it| it.resource == resource && it.verb == verb).map(|it| it.count).sum()
    }

    /// Nothing that a replica asks of Leases is answered.
    fn freeze_leases(&self, user: &str) {
        let (user_agent, resources) = (Some(user.into()), vec!["leases".into()]);
        let leases = Match { user_agent, resources, ..Match::default() };
        self.server.faults().set(vec![Fault::new(Switch::Freeze).on(leases)]).expect("a fault");
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), support::LEASES)
    }

    fn clear_faults(&self) {
        self.server.faults().clear();
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &resource(kind))
    }

    /// A rate limit, which is the simplest rule.
    async fn limit(&self, name: &str, app: &str, threshold: i64) {
        let spec = json!({ "metricType": "RequestAmount", "limitMode": "Local", "threshold": threshold,
                           "statDurationSeconds": 1 });
        self.create(Kind::RateLimitStrategy, name, json!({ "app": app }), spec).await;
    }

    async fn create(&self, kind: Kind, name: &str, labels: Value, spec: Value) {
        let resource = resource(kind);
        let object = json!({ "apiVersion": resource.api_version, "kind": resource.kind,
                             "metadata": { "name": name, "labels": labels }, "spec": spec });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        self.api(kind).create(&PostParams::default(), &object).await.expect("created");
    }

    async fn patch(&self, kind: Kind, name: &str, patch: Value) {
        let patched = self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("patched");
    }

    /// Raises the cluster's number and changes nothing.
    async fn move_on(&self, limit: &str) {
        let now = format!("{:?}", std::time::Instant::now());
        self.patch(Kind::RateLimitStrategy, limit, json!({ "metadata": { "annotations": { "now": now } } }))
            .await;
    }

    async fn delete(&self, kind: Kind, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    async fn status(&self, kind: Kind, name: &str) -> Value {
        self.api(kind).get(name).await.expect("it is there").data["status"].clone()
    }
}

/// A replica of the controller.
struct Replica {
    house: House,
    parts: Parts,
    address: SocketAddr,
    room: Arc<Rules>,
    /// The events that it would publish.
    announced: Option<Line>,
}

impl Replica {
    /// A number that it counts.
    fn metric(&self, name: &str) -> u64 {
        let text = self.house.metrics.encode();
        let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }

    async fn stop(mut self) {
        self.house.stop.cancel();
        while let Some(ended) = self.parts.join_next().await {
            let (part, end) = ended.expect("no panic");
            assert!(end.is_ok(), "{part}: {end:?}");
        }
    }
}
