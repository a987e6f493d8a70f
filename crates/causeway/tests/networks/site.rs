//! A cluster of a test's own: an embedded API server, and a proxy in front of the Neutron that all tests share.

use std::time::Instant;

use causeway_api::networks::{LooseNetwork, Network, crds};
use causeway_apiserver::{Config, Server};
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::cloud::{Api, Neutron, PATIENCE, Proxy, Request, Settings};

/// How often something is looked at that is waited for.
const POLL: std::time::Duration = std::time::Duration::from_millis(40);

/// The Neutron that most tests share. Everybody is an administrator there.
pub(crate) async fn neutron() -> &'static Neutron {
    static NEUTRON: OnceCell<Neutron> = OnceCell::const_new();
    NEUTRON.get_or_init(|| Neutron::start(Settings::default())).await
}

/// A cluster, and its way to a cloud.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) folder: TempDir,
    /// Between its controllers and Neutron.
    pub(crate) proxy: Proxy,
    /// Neutron, past the proxy.
    pub(crate) cloud: Api,
    /// The uid of its `kube-system`.
    pub(crate) uid: String,
}

/// What a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Site {
    /// A new cluster on the Neutron that all share.
    pub(crate) async fn new() -> Self {
        let neutron = neutron().await;
        Self::at(&neutron.url(), neutron.api()).await
    }

    /// A new cluster whose Neutron is at a URL; tests look at it through the API given.
    pub(crate) async fn at(url: &str, cloud: Api) -> Self {
        // Several tests of one process get here first; one provider is as good as another.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Server::start(Config::default()).await.expect("an API server");
        let config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).expect("written");
        let definitions: kube::Api<CustomResourceDefinition> = kube::Api::all(client.clone());
        for crd in crds() {
            definitions.create(&PostParams::default(), &crd).await.expect("a definition");
        }
        let namespaces: kube::Api<Namespace> = kube::Api::all(client.clone());
        let uid = namespaces.get("kube-system").await.expect("a namespace").uid().expect("a uid");
        Self { server, client, folder, proxy: Proxy::start(url).await, cloud, uid }
    }

    pub(crate) fn networks(&self) -> kube::Api<LooseNetwork> {
        self.networks_in("default")
    }

    pub(crate) fn networks_in(&self, namespace: &str) -> kube::Api<LooseNetwork> {
        kube::Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates an object as `kubectl create` would.
    pub(crate) async fn try_create_object(
        &self,
        namespace: &str,
        metadata: Value,
        spec: Value,
    ) -> Result<DynamicObject, kube::Error> {
        let kind = ApiResource::erase::<Network>(&());
        let object = json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let api: kube::Api<DynamicObject> = kube::Api::namespaced_with(self.client.clone(), namespace, &kind);
        api.create(&PostParams::default(), &object).await
    }

    /// The same with nothing but a name.
    pub(crate) async fn try_create(&self, name: &str, spec: Value) -> Result<DynamicObject, kube::Error> {
        self.try_create_object("default", json!({ "name": name }), spec).await
    }

    /// Creates a network of a range, whose gateway is its first address.
    pub(crate) async fn create(&self, name: &str, cidr: &str) {
        self.try_create(name, json!({ "cidr": cidr })).await.expect("it is created");
    }

    /// The same with an annotation.
    pub(crate) async fn create_with(&self, name: &str, cidr: &str, annotation: &str, value: &str) {
        let metadata = json!({ "name": name, "annotations": { annotation: value } });
        let made = self.try_create_object("default", metadata, json!({ "cidr": cidr })).await;
        made.expect("it is created");
    }

    /// A merge patch of the object.
    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let patched = self.networks().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("it is patched");
    }

    /// Puts an annotation on it.
    pub(crate) async fn annotate(&self, name: &str, annotation: &str, value: &str) {
        self.patch(name, json!({ "metadata": { "annotations": { annotation: value } } })).await;
    }

    /// Asks for its deletion.
    pub(crate) async fn delete(&self, name: &str) {
        self.networks().delete(name, &DeleteParams::default()).await.expect("it is there");
    }

    pub(crate) async fn get(&self, name: &str) -> Option<LooseNetwork> {
        self.networks().get_opt(name).await.expect("an answer")
    }

    /// The object's status.
    pub(crate) async fn status(&self, name: &str) -> Value {
        self.get(name).await.map(|object| object.status).unwrap_or_default()
    }

    /// Waits until a condition has a status and a reason; gives its message.
    #[track_caller]
    pub(crate) fn says(
        &self,
        name: &str,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> impl Future<Output = String> {
        let what = format!("{name} says {kind}={status} ({reason})");
        let (name, kind) = (name.to_owned(), kind.to_owned());
        let (status, reason) = (status.to_owned(), reason.to_owned());
        self.until(what, async move || {
            let object = self.get(&name).await.ok_or("it is not there")?;
            let generation = object.metadata.generation;
            let seen = condition(&object.status, &kind);
            let is_current = object.status["observedGeneration"].as_i64() == generation;
            match seen {
                Some(said) if is_current && said.status == status && said.reason == reason => {
                    Ok(said.message)
                }
                seen => Err(format!("{seen:?}")),
            }
        })
    }

    /// Waits until it is as declared; gives its status.
    #[track_caller]
    pub(crate) fn ready(&self, name: &str) -> impl Future<Output = Value> {
        let said = self.says(name, "Ready", "True", "Synced");
        let name = name.to_owned();
        async move {
            said.await;
            self.status(&name).await
        }
    }

    /// Waits until the controller has looked at the whole cloud: what it knows of it is not older than this call.
    #[track_caller]
    pub(crate) fn looked_at(&self) -> impl Future<Output = ()> {
        let since = Instant::now();
        self.until("the cloud is looked at", async move || {
            let requests = self.proxy.requests();
            let begins = |it: &&Request| {
                let is_list =
                    it.path.starts_with("/v2.0/networks?") && it.path.contains("tags=causeway-home");
                is_list && it.at > since
            };
            // The second begins when the first is taken in.
            match requests.iter().filter(begins).count() {
                0 | 1 => Err("not yet".to_owned()),
                _ => Ok(()),
            }
        })
    }

    /// Waits until the object is gone.
    #[track_caller]
    pub(crate) fn gone(&self, name: &str) -> impl Future<Output = ()> {
        let what = format!("{name} is gone");
        let name = name.to_owned();
        self.until(what, async move || match self.get(&name).await {
            None => Ok(()),
            Some(object) => Err(format!("{:?} {}", object.metadata.finalizers, object.status)),
        })
    }

    /// Waits for an event about an object; gives its note.
    #[track_caller]
    pub(crate) fn event(&self, name: &str, reason: &str, words: &str) -> impl Future<Output = String> {
        let what = format!("the event {reason} about {name} with {words:?}");
        let (name, reason, words) = (name.to_owned(), reason.to_owned(), words.to_owned());
        self.until(what, async move || {
            let all = self.events(&name).await;
            let found = all.iter().find(|(its, note)| *its == reason && note.contains(&words));
            found.map(|(_, note)| note.clone()).ok_or_else(|| format!("{all:?}"))
        })
    }

    /// Reasons and notes of all events about an object.
    pub(crate) async fn events(&self, name: &str) -> Vec<(String, String)> {
        let events: kube::Api<Event> = kube::Api::namespaced(self.client.clone(), "default");
        let all = events.list(&ListParams::default()).await.expect("events");
        let about = all.items.into_iter().filter(|it| it.involved_object.name.as_deref() == Some(name));
        about.map(|it| (it.reason.unwrap_or_default(), it.message.unwrap_or_default())).collect()
    }

    /// What all networks say that this cluster made, tagged or not.
    pub(crate) fn mark(&self) -> String {
        format!("Made by Causeway for cluster {}", self.uid)
    }

    /// All `networks` or `subnets` in Neutron that this cluster made or has taken over.
    pub(crate) async fn made(&self, what: &str) -> Vec<Value> {
        let mark = self.mark().replace(' ', "%20");
        let mut all = self.cloud.list(&format!("{what}?description={mark}")).await;
        for tagged in self.cloud.list(&format!("{what}?tags=causeway-home={}", self.uid)).await {
            if !all.iter().any(|it| it["id"] == tagged["id"]) {
                all.push(tagged);
            }
        }
        all
    }

    /// Those networks and subnets of it that have an object's name.
    pub(crate) async fn made_for(&self, name: &str) -> (Vec<Value>, Vec<Value>) {
        let name = json!(format!("default/{name}"));
        let named = |all: Vec<Value>| all.into_iter().filter(|it| it["name"] == name).collect();
        (named(self.made("networks").await), named(self.made("subnets").await))
    }

    /// Asserts that Neutron has one network and one subnet for an object, finished, and no other.
    #[track_caller]
    pub(crate) fn has_exactly_one(&self, name: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        let name = name.to_owned();
        async move {
            let (networks, subnets) = self.made_for(&name).await;
            let status = self.status(&name).await;
            assert_eq!(
                (networks.len(), subnets.len()),
                (1, 1),
                "{place}: {name}: {networks:#?} {subnets:#?}"
            );
            assert_eq!(networks[0]["subnets"], json!([subnets[0]["id"]]), "{place}");
            assert_eq!(status["networkId"], networks[0]["id"], "{place}");
            assert_eq!(status["subnetId"], subnets[0]["id"], "{place}");
            for it in [&networks[0], &subnets[0]] {
                assert_eq!(it["tags"].as_array().map(Vec::len), Some(4), "{place}: {it}");
            }
        }
    }

    /// Asserts that Neutron has nothing of an object's.
    #[track_caller]
    pub(crate) fn has_none(&self, name: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        let name = name.to_owned();
        async move {
            let (networks, subnets) = self.made_for(&name).await;
            assert!(networks.is_empty() && subnets.is_empty(), "{place}: {name}: {networks:#?} {subnets:#?}");
        }
    }

    /// Looks until `look` gives a value; at the deadline says what was awaited, what was seen last, and what the
    /// controllers logged.
    #[track_caller]
    pub(crate) fn until<T>(
        &self,
        what: impl Into<String>,
        look: impl AsyncFnMut() -> Result<T, String>,
    ) -> impl Future<Output = T> {
        let place = std::panic::Location::caller();
        let (what, mut look) = (what.into(), look);
        async move {
            let deadline = Instant::now() + PATIENCE;
            loop {
                match look().await {
                    Ok(value) => return value,
                    Err(seen) if Instant::now() > deadline => panic!(
                        "{place}: waited {PATIENCE:?} for: {what}\nlast seen: {seen}\n{}",
                        super::controller::tails(self.folder.path())
                    ),
                    Err(_) => tokio::time::sleep(POLL).await,
                }
            }
        }
    }
}

/// What a status says under a condition.
pub(crate) fn condition(status: &Value, kind: &str) -> Option<Said> {
    let all = status["conditions"].as_array()?;
    let found = all.iter().find(|condition| condition["type"] == kind)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some(Said { status: text("status"), reason: text("reason"), message: text("message") })
}

/// A field of what Neutron answered, as text.
#[track_caller]
pub(crate) fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_else(|| panic!("{field} in {object}")).to_owned()
}
