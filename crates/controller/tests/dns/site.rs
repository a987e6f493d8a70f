//! A cluster with kube-ovn's objects in it, and the room of one replica.

use causeway_api::dns::{LooseForward, VpcDnsForward};
use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::dns::Dns;
use causeway_controller::events::{self, Announcer};
use causeway_controller::room::{self, House, Parts};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::events::Reporter;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{client, house, server, until, vpc::define};

pub(crate) const SYSTEM: &str = "kube-system";
pub(crate) const USUAL: &str = "vpc-dns-corefile";
pub(crate) const STOCK: &str =
    ".:53 {\n    errors\n    forward . /etc/resolv.conf {\n      prefer_udp\n    }\n    reload\n}\n";
pub(crate) const ROW: &str =
    "ip -4 route add 10.96.0.1 via 10.244.0.1 dev net1;ip -4 route add 218.2.2.2 via 10.244.0.1 dev net1;";
pub(crate) const ROUTE: &str = "ip -4 route add 10.96.0.10 via 10.244.0.1 dev net1;";
pub(crate) const LIST: &str = r#"[{"dst":"10.96.0.1/32","gw":"10.244.0.1"}]"#;
pub(crate) const ENTRY: &str = r#"{"dst":"10.96.0.10/32","gw":"10.244.0.1"}"#;
pub(crate) const ROUTES: &str = "ovn-nad.default.ovn.kubernetes.io/routes";
const RECORD: &str = "causeway/vpc-dns-route";

/// Which kube-ovn makes a Deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Up to 1.12.
    Script,
    /// From 1.13 on.
    Annotation,
}

pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

/// One replica; dropping it is as if it were killed.
pub(crate) struct Replica {
    pub(crate) house: House,
    _parts: Parts,
}

pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// A Deployment as kube-ovn makes it, with more in it than anybody here reads.
pub(crate) fn made(name: &str, form: Form) -> Value {
    let labels = json!({ "k8s-app": name });
    let mut annotations = json!({
        "k8s.v1.cni.cncf.io/networks": "default/ovn-nad",
        "ovn-nad.default.ovn.kubernetes.io/logical_switch": "ovn-default",
        "ovn.kubernetes.io/logical_switch": "vpc2-net1",
    });
    let mut pods = json!({
        "serviceAccountName": "vpc-dns",
        "containers": [{ "name": "coredns", "image": "coredns:1", "args": ["-conf", "/etc/coredns/Corefile"] }],
        "initContainers": [{ "name": "first", "image": "x:1", "command": ["sh", "-c", "true"] }],
    });
    match form {
        Form::Script => pods["initContainers"].as_array_mut().expect("a list").push(json!({
            "name": "init-route", "image": "docker.io/kubeovn/vpc-nat-gateway:v1.12.8", "command": ["sh", "-c", ROW],
            "securityContext": { "privileged": true }, "env": [{ "name": "A", "value": "1" }],
        })),
        Form::Annotation => annotations[ROUTES] = LIST.into(),
    }
    json!({
        "metadata": { "name": name, "labels": { "ovn.kubernetes.io/vpc-dns": "true" } },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels, "annotations": annotations }, "spec": pods },
        },
    })
}

impl Site {
    /// With a VPC `a` that has a DNS server `one`, and all that it needs.
    pub(crate) async fn new(form: Form) -> Self {
        let site = Self::bare().await;
        site.kube_dns("10.96.0.10").await;
        site.gateway("10.244.0.1").await;
        site.corefile(USUAL, STOCK).await;
        site.vpc_dns("one", json!({ "vpc": "a" }), true).await;
        site.make("vpc-dns-one", form).await;
        site
    }

    /// With definitions only.
    pub(crate) async fn bare() -> Self {
        let server = server().await;
        define(&server, causeway_api::dns::crds().into_iter().chain(causeway_api::vpc::foreign::crds()))
            .await;
        Self { client: client(&server, "somebody"), server }
    }

    /// Starts a replica.
    pub(crate) fn start(&self, identity: &str) -> Replica {
        let client = client(&self.server, identity);
        let (mut house, mut parts) = (house(&client, identity), Parts::new());
        let (announcer, line) = Announcer::new();
        house.announcer = announcer;
        let reporter = Reporter { controller: "causeway".into(), instance: Some(identity.into()) };
        let publish = events::publish(client, reporter, line, house.stop.clone());
        room::add_lasting_part(&mut parts, "events".into(), async move {
            publish.await;
            Ok(())
        });
        room::start(&Dns::new(&house), &house, &mut parts);
        Replica { house, _parts: parts }
    }

    pub(crate) fn forwards(&self) -> Api<LooseForward> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// The same, to write: with kind and version.
    fn untyped(&self) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<VpcDnsForward>(&());
        Api::namespaced_with(self.client.clone(), "default", &kind)
    }

    /// Creates a forward.
    pub(crate) async fn create(&self, metadata: Value, spec: Value) {
        let value = json!({
            "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcDnsForward", "metadata": metadata, "spec": spec,
        });
        self.untyped().create(&PostParams::default(), &object(value)).await.expect("created");
    }

    /// Gives a forward another spec.
    pub(crate) async fn respec(&self, name: &str, spec: Value) {
        let mut forward = self.untyped().get(name).await.expect("the forward");
        forward.data["spec"] = spec;
        self.untyped().replace(name, &PostParams::default(), &forward).await.expect("replaced");
    }

    pub(crate) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    fn kube_ovn(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("kubeovn.io", "v1", kind);
        Api::all_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
    }

    async fn put<K>(api: &Api<K>, value: Value)
    where
        K: kube::Resource + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
    {
        let name = value["metadata"]["name"].as_str().expect("a name").to_owned();
        if api.get_opt(&name).await.expect("an answer").is_some() {
            api.delete(&name, &DeleteParams::default()).await.expect("deleted");
        }
        api.create(&PostParams::default(), &object(value)).await.expect("created");
    }

    /// Makes kube-dns, or moves it.
    pub(crate) async fn kube_dns(&self, address: &str) {
        let services: Api<Service> = Api::namespaced(self.client.clone(), SYSTEM);
        let spec = json!({ "clusterIP": address, "ports": [{ "port": 53 }] });
        Self::put(&services, json!({ "metadata": { "name": "kube-dns" }, "spec": spec })).await;
    }

    /// Gives the default subnet this gateway.
    pub(crate) async fn gateway(&self, address: &str) {
        let value = json!({
            "apiVersion": "kubeovn.io/v1", "kind": "Subnet", "metadata": { "name": "ovn-default" },
            "spec": { "gateway": address },
        });
        Self::put(&self.kube_ovn("Subnet", "subnets"), value).await;
    }

    /// Makes a ConfigMap with a Corefile, or writes another text into it.
    pub(crate) async fn corefile(&self, name: &str, text: &str) {
        let api = self.config_maps();
        match api.get_opt(name).await.expect("an answer") {
            Some(mut map) => {
                map.data.get_or_insert_default().insert("Corefile".into(), text.into());
                api.replace(name, &PostParams::default(), &map).await.expect("replaced");
            }
            None => {
                let data = json!({ "Corefile": text, "other": "kept" });
                Self::put(&api, json!({ "metadata": { "name": name }, "data": data })).await;
            }
        }
    }

    pub(crate) async fn corefile_text(&self, name: &str) -> String {
        let map = self.config_maps().get(name).await.expect("the ConfigMap");
        let data = map.data.expect("data");
        assert_eq!(data["other"], "kept");
        data["Corefile"].clone()
    }

    /// Makes a `VpcDns`, or changes it.
    pub(crate) async fn vpc_dns(&self, name: &str, spec: Value, active: bool) {
        let api = self.kube_ovn("VpcDns", "vpc-dnses");
        let value = json!({ "apiVersion": "kubeovn.io/v1", "kind": "VpcDns", "metadata": { "name": name }, "spec": spec });
        match api.get_opt(name).await.expect("an answer") {
            Some(mut before) => {
                before.data["spec"] = spec;
                api.replace(name, &PostParams::default(), &before).await.expect("replaced");
            }
            None => drop(api.create(&PostParams::default(), &object(value)).await.expect("created")),
        }
        let status = Patch::Merge(json!({ "status": { "active": active } }));
        api.patch_status(name, &PatchParams::default(), &status).await.expect("patched");
    }

    pub(crate) async fn forget_vpc_dns(&self, name: &str) {
        let api = self.kube_ovn("VpcDns", "vpc-dnses");
        api.delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// kube-ovn makes a Deployment, or makes it anew: it keeps nothing of the one before, but for annotations, which
    /// some versions give to the pods.
    pub(crate) async fn make(&self, name: &str, form: Form) {
        let api = self.deployments();
        let Some(before) = api.get_opt(name).await.expect("an answer") else {
            api.create(&PostParams::default(), &object(made(name, form))).await.expect("created");
            return;
        };
        let mut anew = made(name, form);
        anew["metadata"]["resourceVersion"] = json!(before.metadata.resource_version);
        for (key, value) in before.metadata.annotations.iter().flatten().filter(|_| form == Form::Script) {
            anew["spec"]["template"]["metadata"]["annotations"][key] = json!(value);
        }
        api.replace(name, &PostParams::default(), &object(anew)).await.expect("replaced");
    }

    /// A Deployment without what a server adds.
    pub(crate) async fn deployment(&self, name: &str) -> Value {
        let deployment = self.deployments().get(name).await.expect("the Deployment");
        let annotations = deployment.metadata.annotations.clone().unwrap_or_default();
        json!({ "annotations": annotations, "labels": deployment.metadata.labels, "spec": deployment.spec })
    }

    /// The script of a Deployment's init container.
    pub(crate) async fn script(&self, name: &str) -> String {
        let deployment = self.deployment(name).await;
        let inits =
            deployment["spec"]["template"]["spec"]["initContainers"].as_array().expect("a list").clone();
        let init = inits.iter().find(|it| it["name"] == "init-route").expect("a container");
        init["command"][2].as_str().expect("a script").to_owned()
    }

    /// The routes of a Deployment's pods.
    pub(crate) async fn routes(&self, name: &str) -> Value {
        self.deployment(name).await["spec"]["template"]["metadata"]["annotations"][ROUTES].clone()
    }

    pub(crate) async fn has_record(&self, name: &str) -> bool {
        let deployment = self.deployment(name).await;
        let pods = &deployment["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(pods[RECORD], Value::Null, "its pods have no copy of it");
        deployment["annotations"][RECORD] != Value::Null
    }

    /// Declares a forward.
    pub(crate) async fn forward(&self, name: &str, vpc: &str) {
        self.create(json!({ "name": name }), json!({ "vpc": vpc })).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.forwards().delete(name, &DeleteParams::default()).await.expect("accepted");
    }

    pub(crate) async fn is_gone(&self, name: &str) {
        until("the forward is gone", || async {
            self.forwards().get_opt(name).await.expect("an answer").is_none()
        })
        .await;
    }

    /// What a forward's condition says.
    pub(crate) async fn condition(&self, name: &str, kind: &str) -> Option<(String, String, String)> {
        let forward = self.forwards().get_opt(name).await.expect("an answer")?;
        let conditions = forward.status().conditions;
        let found = conditions.into_iter().find(|it| it.type_ == kind)?;
        Some((found.status, found.reason, found.message))
    }

    /// Waits until a forward says why it is as it is.
    pub(crate) async fn says(&self, name: &str, reason: &str) {
        let what = format!("{name} says {reason}");
        until(&what, || async { self.condition(name, "Ready").await.is_some_and(|(_, it, _)| it == reason) })
            .await;
    }

    /// The reasons of all events about a forward.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = events.list(&ListParams::default()).await.expect("events");
        let about = |it: &&Event| it.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name);
        events.iter().filter(about).filter_map(|it| it.reason.clone()).collect()
    }

    /// How often something was patched, which only the room does.
    pub(crate) fn patches(&self, resource: &str) -> u64 {
        let all = self.server.requests().into_iter();
        let these = all.filter(|it| it.verb == "patch" && it.resource == resource && it.code == 200);
        these.filter(|it| it.subresource.is_empty() || resource == "vpcdnsforwards").map(|it| it.count).sum()
    }

    /// Refuses what a replica asks for.
    pub(crate) fn refuse(&self, resource: &str, code: u16) {
        let what = Match {
            verbs: vec!["patch".into()],
            resources: vec![resource.into()],
            user_agent: Some("controller".into()),
            ..Match::default()
        };
        let refuse = Switch::Refuse { code, percent: 100, retry_after_seconds: 0 };
        self.server.faults().set(vec![Fault::new(refuse).on(what)]).expect("a fault");
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        let forwards = self.forwards().list(&ListParams::default()).await.expect("forwards");
        forwards.iter().map(ResourceExt::name_any).collect()
    }
}

impl Replica {
    pub(crate) fn leads(&self) -> bool {
        self.house.metrics.encode().contains("causeway_leader{room=\"dns\"} 1")
    }
}
