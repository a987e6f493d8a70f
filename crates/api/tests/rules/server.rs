//! An API server with our definitions.

use causeway_api::rules::{crds, resource};
use causeway_apiserver::{Config, Server};
use causeway_core::rules::Kind;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};

/// It runs while this is kept.
pub(crate) struct Cluster {
    _server: Server,
    pub(crate) client: Client,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server =
            Server::start(Config { seed: Some(1), ..Config::default() }).await.expect("an API server");
        let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a configuration");
        let client = Client::try_from(config).expect("a client");
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        for crd in crds() {
            definitions
                .create(&PostParams::default(), &crd)
                .await
                .expect("a definition that can be installed");
        }
        Self { _server: server, client }
    }

    pub(crate) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &resource(kind))
    }

    /// Creates an object with a spec; returns the spec as it is kept, or the reason that there is no object.
    pub(crate) async fn keep(&self, kind: Kind, spec: &Value) -> Result<Value, String> {
        let api = resource(kind);
        let object = json!({
            "apiVersion": api.api_version, "kind": api.kind, "metadata": { "generateName": "a-" }, "spec": spec,
        });
        self.create(kind, object).await.map(|object| object.data["spec"].clone())
    }

    pub(crate) async fn create(&self, kind: Kind, object: Value) -> Result<DynamicObject, String> {
        let object = serde_json::from_value(object).expect("an object");
        match self.api(kind).create(&PostParams::default(), &object).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message.clone()),
            Err(other) => panic!("{kind}: {other}"),
        }
    }
}
