//! What the definition accepts, refuses and shows, under the embedded API server.

use std::path::Path;

use causeway_api::networks::{LooseNetwork, Network, crds, parse};
use causeway_apiserver::{Config, Server};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// An API server with our definition; it runs while this is kept.
struct Cluster {
    _server: Server,
    client: Client,
}

impl Cluster {
    async fn start() -> Self {
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

    fn networks(&self) -> Api<LooseNetwork> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates an object as it was written; returns it as it is kept, or the reason that there is none.
    async fn create(&self, object: Value) -> Result<LooseNetwork, String> {
        let resource = ApiResource::erase::<Network>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &resource);
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        match api.create(&PostParams::default(), &object).await {
            Ok(kept) => Ok(self.networks().get(&kept.name_any()).await.expect("it is there")),
            Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message.clone()),
            Err(other) => panic!("{other}"),
        }
    }

    async fn with_spec(&self, spec: Value) -> Result<LooseNetwork, String> {
        let metadata = json!({ "generateName": "a-" });
        let object = json!({
            "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": metadata, "spec": spec,
        });
        self.create(object).await
    }
}

#[tokio::test]
async fn every_sample_is_accepted_and_understood() {
    let cluster = Cluster::start().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/networks");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the samples") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("text");
        assert!(text.starts_with("# "), "it begins with what it does");
        let sample: Value = serde_saphyr::from_str(&text).expect("YAML");
        let kept = cluster.create(sample.clone()).await.expect("accepted");
        assert_eq!(kept.spec, sample["spec"], "nothing of it is dropped");
        parse::network(&kept).expect("a key").spec.expect("understood");
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[tokio::test]
async fn what_no_cloud_could_make_is_refused_at_once() {
    let cluster = Cluster::start().await;
    let table = [
        (json!({}), "spec.cidr: Required"),
        (json!({ "cidr": 7 }), "spec.cidr"),
        (json!({ "cidr": "" }), "spec.cidr"),
        (json!({ "cidr": "1".repeat(50) }), "spec.cidr"),
        (
            json!({ "cidr": "10.0.0.0" }),
            "cidr is not a range of addresses, like 192.168.0.0/16 or fd00:7::/64",
        ),
        (json!({ "cidr": "10.0.0.1/24" }), "cidr has bits after its prefix; use the range it lies in"),
        (json!({ "cidr": "10.0.0.0/31" }), "use one from 8 to 30, for IPv6 from 16 to 126"),
        (json!({ "cidr": "127.0.0.0/16" }), "which no network can have"),
        (json!({ "cidr": "10.0.0.0/24", "gateway": 7 }), "spec.gateway"),
        (
            json!({ "cidr": "10.0.0.0/24", "gateway": "x" }),
            "gateway is not an address, like 192.168.0.1 or fd00:7::1",
        ),
        (
            json!({ "cidr": "10.0.0.0/24", "gateway": "fd00::1" }),
            "gateway is an address of another family than cidr",
        ),
        (json!({ "cidr": "10.0.0.0/24", "gateway": "10.0.1.1" }), "spec.gateway: Invalid value"),
        (json!({ "cidr": "10.0.0.0/24", "gateway": "10.0.1.1" }), "gateway is outside of cidr"),
        (json!({ "cidr": "10.0.0.0/24", "gateway": "10.0.0.0" }), "gateway is the first address of cidr"),
        (
            json!({ "cidr": "10.0.0.0/24", "gateway": "10.0.0.255" }),
            "gateway is the broadcast address of cidr",
        ),
    ];
    for (spec, words) in table {
        let Err(why) = cluster.with_spec(spec.clone()).await else { panic!("{spec} is accepted") };
        assert!(why.contains(words), "{spec}: {why}");
    }
    for spec in [
        json!({ "cidr": "10.0.0.0/24" }),
        json!({ "cidr": "10.0.0.0/24", "gateway": null }),
        json!({ "cidr": "fd00:7::/64", "gateway": "fd00:7::ffff" }),
    ] {
        cluster.with_spec(spec).await.expect("accepted");
    }
}

#[tokio::test]
async fn a_status_is_a_write_of_its_own() {
    let cluster = Cluster::start().await;
    let new = cluster.with_spec(json!({ "cidr": "10.0.0.0/24" })).await.expect("accepted");
    let (api, name) = (cluster.networks(), new.name_any());
    let mut status = parse::network(&new).expect("a key").status;
    status.network_id = Some("7a1c".into());
    status.observed_generation = Some(1);
    status.conditions.set("Ready", true, "Synced", "it is as declared".into(), 1);
    let body = parse::body(&status, Timestamp::from_second(60).expect("a time"));
    let patch = Patch::Merge(json!({ "status": body }));
    api.patch_status(&name, &PatchParams::default(), &patch).await.expect("written");
    let kept = api.get(&name).await.expect("there");
    let read = parse::network(&kept).expect("a key").status;
    assert_eq!((read.synced, read.network_id.as_deref()), (Some(60), Some("7a1c")));
    assert_eq!(kept.metadata.generation, Some(1), "a status is no news of the spec");
}

#[test]
fn the_definition_is_one_that_an_api_server_takes_and_people_can_read() {
    let [crd]: [CustomResourceDefinition; 1] = crds().try_into().expect("one");
    assert_eq!(crd.metadata.name.as_deref(), Some("networks.samplecrd.k8s.io"));
    let annotations = crd.metadata.annotations.expect("annotations");
    assert!(annotations["api-approved.kubernetes.io"].starts_with("unapproved, "), "its group asks for that");
    assert_eq!(crd.spec.names.categories, Some(vec!["causeway".to_owned()]));
    let version = &crd.spec.versions[0];
    assert!(version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some()));
    let columns: Vec<_> = version.additional_printer_columns.iter().flatten().collect();
    let names = |wide: bool| -> Vec<&str> {
        columns.iter().filter(|it| it.priority.is_some() == wide).map(|it| it.name.as_str()).collect()
    };
    assert_eq!(names(false), ["Ready", "CIDR", "Gateway", "Provider", "Network", "Age"]);
    assert_eq!(names(true), ["Reason", "Message"]);
    let schema = serde_json::to_value(version.schema.clone()).expect("plain data");
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["cidr"]));
    for field in ["cidr", "gateway"] {
        assert!(
            spec["properties"][field]["maxLength"].is_u64(),
            "rules about {field} cost what it may be long"
        );
        assert_eq!(spec["properties"][field]["nullable"], Value::Null);
    }
}
