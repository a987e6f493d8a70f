//! The API servers of a run: two clusters and a broker, each a copy of one that has the definitions already.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use causeway_api::vpc::crds;
use causeway_api::vpc::foreign::kube_ovn;
use causeway_apiserver::Local;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::lever::Lever;

/// The namespace of the exchange.
pub(crate) const MEETING: &str = "submariner-k8s-broker";
/// Where gateways and their records are.
pub(crate) const SYSTEM: &str = "kube-system";
/// Where tunnels are.
pub(crate) const TUNNELS_IN: &str = "default";

/// A kind of objects: where they are asked for, and where they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    root: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) shelf: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $root:literal $plural:literal $shelf:literal;)*) => {
        $(pub(crate) const $name: Kind = Kind { root: $root, plural: $plural, shelf: $shelf };)*
        /// All that a run knows of.
        pub(crate) const KINDS: &[Kind] = &[$($name),*];
    };
}

kinds! {
    TUNNELS = "/apis/kubeovn.ustc.io/v1" "vpcnattunnels" "vpcnattunnels.kubeovn.ustc.io";
    RECORDS = "/apis/kubeovn.ustc.io/v1" "gatewayexips" "gatewayexips.kubeovn.ustc.io";
    ENDS = "/apis/kubeovn.ustc.io/v1" "tunnelends" "tunnelends.kubeovn.ustc.io";
    LEASES = "/apis/coordination.k8s.io/v1" "leases" "leases.coordination.k8s.io";
    PODS = "/api/v1" "pods" "pods.";
    NODES = "/api/v1" "nodes" "nodes.";
    NAMESPACES = "/api/v1" "namespaces" "namespaces.";
    SETS = "/apis/apps/v1" "statefulsets" "statefulsets.apps";
    VPCS = "/apis/kubeovn.io/v1" "vpcs" "vpcs.kubeovn.io";
    GATEWAYS = "/apis/kubeovn.io/v1" "vpc-nat-gateways" "vpc-nat-gateways.kubeovn.io";
    DEFINITIONS = "/apis/apiextensions.k8s.io/v1" "customresourcedefinitions" "customresourcedefinitions.apiextensions.k8s.io";
}

impl Kind {
    /// The path of all, or of one; an empty namespace is none.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        let inside = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let one = if name.is_empty() { String::new() } else { format!("/{name}") };
        format!("{}{inside}/{}{one}", self.root, self.plural)
    }
}

/// Whether a server can be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    #[default]
    Open,
    /// Nothing arrives, and nobody says so.
    Silent,
    /// Connections end, and new ones are refused.
    Refused,
}

/// A server, and whether it can be reached.
pub(crate) struct Site {
    serving: Mutex<(Arc<Local>, Router)>,
    pub(crate) reach: Lever<Reach>,
}

/// How a world's own actors change objects.
pub(crate) enum Change {
    Create(Value),
    Merge(Value),
    MergeStatus(Value),
    /// Asks for its deletion: a pod is on its way out until its kubelet says that it has ended.
    Delete,
    /// Says that it has ended.
    End,
}

impl Site {
    pub(crate) fn new(server: Local) -> Self {
        let router = server.router();
        Self { serving: Mutex::new((Arc::new(server), router)), reach: Lever::default() }
    }

    pub(crate) fn server(&self) -> Arc<Local> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(crate) fn router(&self) -> Router {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Puts another server in this one's place, as from a backup: its watches end.
    pub(crate) fn restore(&self, server: Local) {
        let router = server.router();
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = (Arc::new(server), router);
    }

    /// Changes an object as somebody whom no fault concerns; gives the code of the answer.
    pub(crate) async fn change(&self, kind: Kind, namespace: &str, name: &str, change: Change) -> u16 {
        let (method, path, content, body) = match change {
            Change::Create(body) => ("POST", kind.path(namespace, ""), "application/json", body),
            Change::Merge(body) => {
                ("PATCH", kind.path(namespace, name), "application/merge-patch+json", body)
            }
            Change::MergeStatus(body) => {
                let path = format!("{}/status", kind.path(namespace, name));
                ("PATCH", path, "application/merge-patch+json", body)
            }
            Change::Delete => ("DELETE", kind.path(namespace, name), "application/json", json!({})),
            Change::End => {
                let now = json!({ "gracePeriodSeconds": 0 });
                ("DELETE", kind.path(namespace, name), "application/json", now)
            }
        };
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content);
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let answer = self.router().oneshot(request).await.expect("it cannot fail");
        answer.status().as_u16()
    }

    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        self.server().get(kind.shelf, namespace, name)
    }

    pub(crate) fn all(&self, kind: Kind) -> Vec<Value> {
        let mut all = Vec::new();
        self.server().each(kind.shelf, |object| all.push(object.clone()));
        all
    }
}

/// The moment at which every run begins, but for how far clocks are apart.
pub(crate) fn epoch() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// Servers with definitions and namespaces. To make them takes longer than most runs, so it is done once.
struct Prepared {
    clusters: [Local; 2],
    broker: Local,
}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

fn prepared() -> &'static Prepared {
    PREPARED.get_or_init(|| {
        // On a thread of its own: whoever asks first is in a runtime already.
        let prepare = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.expect("a runtime").block_on(prepare())
        };
        std::thread::scope(|scope| scope.spawn(prepare).join()).expect("prepared servers")
    })
}

async fn prepare() -> Prepared {
    let foreign = [
        kube_ovn::Vpc::crd(),
        kube_ovn::Subnet::crd(),
        kube_ovn::VpcNatGateway::crd(),
        kube_ovn::IptablesEIP::crd(),
    ];
    let all: Vec<_> = crds().into_iter().chain(foreign).collect();
    let clusters = [defined(1, &all).await, defined(2, &all).await];
    Prepared { clusters, broker: defined(3, &crds()).await }
}

async fn defined<T: serde::Serialize>(seed: u64, definitions: &[T]) -> Local {
    let site = Site::new(Local::new(10_000, seed, epoch()));
    for definition in definitions {
        let body = serde_json::to_value(definition).expect("a definition");
        let code = site.change(DEFINITIONS, "", "", Change::Create(body)).await;
        assert_eq!(code, 201, "a definition is taken");
    }
    let meeting = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": MEETING } });
    assert_eq!(site.change(NAMESPACES, "", "", Change::Create(meeting)).await, 201, "a namespace");
    site.server().copy(seed, epoch())
}

/// The servers of a run. The clock of each is so many seconds ahead.
pub(crate) fn servers(seed: u64, ahead: [u64; 3]) -> ([Local; 2], Local) {
    let prepared = prepared();
    let at = |ahead: u64| epoch() + Duration::from_secs(ahead);
    let clusters = [
        prepared.clusters[0].copy(seed ^ 1, at(ahead[0])),
        prepared.clusters[1].copy(seed ^ 2, at(ahead[1])),
    ];
    (clusters, prepared.broker.copy(seed ^ 3, at(ahead[2])))
}

/// The body of an answer as a value.
pub(crate) async fn whole(body: Body) -> bytes::Bytes {
    body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}
