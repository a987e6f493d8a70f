//! The rights that ship in `deploy/`, on a server that enforces them: enough, and none too many.
#![cfg(feature = "sandbox")]

#[path = "nodes/agent.rs"]
#[allow(dead_code, reason = "the tests of the agent use more of it")]
mod agent;
#[path = "nodes/cluster.rs"]
#[allow(dead_code, reason = "the tests of the agent use more of it")]
mod cluster;
#[path = "real_rights/dns.rs"]
mod dns;
#[path = "real_rights/members.rs"]
mod members;
#[path = "../../datapath/tests/lab/net.rs"]
#[allow(dead_code, reason = "the tests of the datapath use more of it")]
mod net;
#[path = "real_rights/networks.rs"]
mod networks;
#[path = "real_rights/node.rs"]
mod node;
#[path = "nodes/ping.rs"]
#[allow(dead_code, reason = "the tests of the agent use more of it")]
mod ping;
mod support;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use support::tunnels::{NS, join, vxlan};
use support::{Cluster, PATIENCE, Replica, Sandbox, real};

const SYSTEM: &str = "kube-system";
const MEETING: &str = "submariner-k8s-broker";
/// Where a pod has its address on the underlay.
const EXTERNAL: &str = "ovn-vpc-external-network.kube-system.kubernetes.io/ip_address";

const MEMBER: [(&str, &str); 4] = [
    ("controller.yaml", include_str!("../../../deploy/controller.yaml")),
    ("vpc.yaml", include_str!("../../../deploy/vpc.yaml")),
    ("submariner.yaml", include_str!("../../../deploy/submariner.yaml")),
    ("broker-secret.yaml", include_str!("../../../deploy/broker-secret.yaml")),
];
const RULES: [(&str, &str); 1] = [("rules.yaml", include_str!("../../../deploy/rules.yaml"))];
const BROKER: [(&str, &str); 1] = [("broker.yaml", include_str!("../../../deploy/broker.yaml"))];

/// One verb on one kind, in one namespace or (empty) everywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    file: &'static str,
    namespace: String,
    group: String,
    resource: String,
    verb: String,
}

fn words(value: &Value) -> Vec<String> {
    let words = value.as_array().into_iter().flatten();
    words.map(|word| word.as_str().expect("a word").to_owned()).collect()
}

/// Every right that manifests give. To list is needed where a server has no streaming lists; cluster1 has them.
fn granted(manifests: &[(&'static str, &str)]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for &(file, text) in manifests {
        let objects: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
        let roles =
            objects.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
        for (role, rule) in
            roles.flat_map(|role| role["rules"].as_array().into_iter().flatten().map(move |r| (role, r)))
        {
            let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            for group in words(&rule["apiGroups"]) {
                for resource in words(&rule["resources"]) {
                    for verb in words(&rule["verbs"]) {
                        let (namespace, group, resource) =
                            (namespace.clone(), group.clone(), resource.clone());
                        rights.insert(Right { file, namespace, group, resource, verb });
                    }
                }
            }
        }
    }
    rights
}

impl Right {
    /// Whether a request needs this right. An exec over a WebSocket is a get that also wants create.
    fn is_used_by(&self, request: &real::Request) -> bool {
        let verb = self.verb == request.verb
            || (self.resource == "pods/exec" && self.verb == "create" && request.verb == "get");
        let place = self.namespace.is_empty() || self.namespace == request.namespace;
        request.code != 403
            && verb
            && place
            && self.group == request.group
            && self.resource == request.resource
    }
}

/// What was asked of the servers since the test began.
struct Audit {
    skip: Vec<(&'static str, usize)>,
}

impl Audit {
    fn from_now() -> Audit {
        let folder = real::needed();
        let servers = ["cluster1", "cluster2", "broker"];
        Audit { skip: servers.map(|name| (name, real::audit(&folder, name).len())).to_vec() }
    }

    fn of(&self, servers: &[&str]) -> Vec<real::Request> {
        let wanted = self.skip.iter().filter(|(name, _)| servers.contains(name));
        wanted.flat_map(|(name, skip)| real::audit(&real::needed(), name).into_iter().skip(*skip)).collect()
    }

    /// What manifests give that nobody used on these servers.
    fn unused(&self, manifests: &[(&'static str, &str)], servers: &[&str]) -> Vec<Right> {
        let requests = self.of(servers);
        let is_used = |right: &Right| requests.iter().any(|request| right.is_used_by(request));
        granted(manifests).into_iter().filter(|right| !is_used(right)).collect()
    }

    /// What was asked for and not granted.
    fn refused(&self) -> Vec<real::Request> {
        let everywhere = self.of(&["cluster1", "cluster2", "broker"]);
        everywhere.into_iter().filter(|request| request.code == 403).collect()
    }
}

async fn record(cluster: &Cluster, namespace: &str, name: &str, address: Option<&str>) {
    let records = cluster.records(namespace);
    cluster
        .until(&format!("{namespace}/{name} says {address:?}"), PATIENCE, async || {
            let found = records.get_opt(name).await.map_err(|error| error.to_string())?;
            let now = found.map(|found| json!(found.spec)["externalip"].clone());
            if now == address.map(|address| json!(address)) { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
}

/// Waits until an id is claimed at the broker, or no more.
async fn claimed(broker: &Cluster, id: &str, wanted: bool) {
    let what = format!("somebody claims {id}: {wanted}");
    broker
        .until(&what, PATIENCE, async || {
            let names = broker.kubectl(&["get", "leases", "-n", MEETING, "-o", "name"]).await.ok();
            if names.contains(&format!(".{id}.")) == wanted { Ok(()) } else { Err(names) }
        })
        .await;
}

async fn patch_discovery(cluster: &Cluster, spec: Value) {
    let patch = json!({ "spec": spec }).to_string();
    let object = ["patch", "servicediscovery", "service-discovery", "-n", "submariner-operator"];
    cluster.kubectl(&[&object[..], &["--type=merge", "-p", &patch]].concat()).await.ok();
}

/// The same thing repaired twice is one event, counted.
async fn drift_twice(one: &Cluster) {
    for times in 1..=2 {
        one.in_gateway("gw1", "ip route del 242.1.0.0/16 dev used0").await.ok();
        one.until("the repair is reported", PATIENCE, async || {
            let events = one.events(NS, "used0").await;
            let counted: i32 = events
                .iter()
                .filter(|reported| reported.reason == "DriftRepaired")
                .map(|reported| reported.count)
                .sum();
            if counted >= times { Ok(()) } else { Err(format!("{events:?}")) }
        })
        .await;
    }
}

/// The other cluster's gateways move and go, and it goes by another id for a while.
async fn peer_changes(one: &Cluster, two: &Cluster, broker: &Cluster) {
    let pods: Api<Pod> = Api::namespaced(two.client.clone(), SYSTEM);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {EXTERNAL: "172.50.16.29"}}}));
    pods.patch("vpc-nat-gw-gw1-0", &PatchParams::default(), &patch).await.expect("accepted");
    record(one, SYSTEM, "gw1-cluster2", Some("172.50.16.29")).await;
    two.kubectl(&["delete", "sts", "-n", SYSTEM, "vpc-nat-gw-gw2"]).await.ok();
    record(one, SYSTEM, "gw2-cluster2", None).await;
    patch_discovery(two, json!({"clusterID": "cluster9"})).await;
    claimed(broker, "cluster9", true).await;
    patch_discovery(two, json!({"clusterID": "cluster2"})).await;
    claimed(broker, "cluster9", false).await;
    record(one, SYSTEM, "gw1-cluster2", Some("172.50.16.29")).await;
}

/// The VPC's main gateway is switched, and switched back: its routes follow, where a tunnel by VPC is.
async fn routes_follow(one: &Cluster) {
    let tunnel = json!({
        "apiVersion": "kubeovn.ustc.io/v1", "kind": "VpcNatTunnel",
        "metadata": {"name": "byvpc", "namespace": NS},
        "spec": {
            "type": "vxlan", "interfaceAddr": "10.100.9.1/24",
            "remoteCluster": "cluster2", "remoteVpc": "test-vpc-1", "localVpc": "test-vpc-1",
        },
    });
    one.create(&tunnel).await;
    for (gateway, hop) in [("gw2", "10.0.1.253"), ("gw1", "10.0.1.254")] {
        let wish = format!("causeway/switch-to={gateway}");
        one.kubectl(&["annotate", "--overwrite", "vpc", "test-vpc-1", &wish]).await.ok();
        one.until(&format!("the VPC leads to {gateway}"), PATIENCE, async || {
            let path = "-o=jsonpath={.spec.staticRoutes[*].nextHopIP}";
            let hops = one.kubectl(&["get", "vpc", "test-vpc-1", path]).await.ok();
            if hops == hop { Ok(()) } else { Err(hops) }
        })
        .await;
    }
    one.delete("byvpc").await;
}

/// The broker's coordinates come from a secret.
async fn by_secret(one: &Cluster) {
    let discovery =
        ["get", "servicediscovery", "service-discovery", "-n", "submariner-operator", "-o", "json"];
    let discovery: Value = serde_json::from_str(&one.kubectl(&discovery).await.ok()).expect("JSON");
    let spec = &discovery["spec"];
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "broker-access", "namespace": "submariner-operator"},
        "stringData": {"token": spec["brokerK8sApiServerToken"]},
        "data": {"ca.crt": spec["brokerK8sCA"]},
    });
    one.apply(&secret.to_string()).await.ok();
    patch_discovery(one, json!({"brokerK8sSecret": "broker-access", "brokerK8sApiServerToken": "stale"}))
        .await;
}

#[test]
fn a_right_that_nobody_used_is_found() {
    let asked = |verb: &str, namespace: &str, code: u64| real::Request {
        at: String::new(),
        credential: String::new(),
        account: "multi-vpc-system:multi-vpc-controller-manager".into(),
        verb: verb.into(),
        group: String::new(),
        resource: "pods".into(),
        namespace: namespace.into(),
        name: String::new(),
        code,
    };
    let rights = granted(&MEMBER);
    let list =
        rights.iter().find(|right| right.resource == "pods" && right.verb == "list").expect("it ships");
    assert!(list.is_used_by(&asked("list", SYSTEM, 200)));
    for other in [asked("get", SYSTEM, 200), asked("list", "ns1", 200), asked("list", SYSTEM, 403)] {
        assert!(!list.is_used_by(&other), "{other:?}");
    }
    assert!(rights.len() > 25, "{rights:#?}");
}

#[test]
fn what_every_room_shares_is_the_right_to_its_leaders_leases() {
    let shared = granted(&MEMBER[..1]);
    let shared: Vec<_> =
        shared.iter().map(|right| (&*right.namespace, &*right.resource, &*right.verb)).collect();
    assert_eq!(shared, ["create", "get", "update", "watch"].map(|verb| ("multi-vpc-system", "leases", verb)));
}

/// What `make deploy` writes.
fn deployed(enable: &str) -> Result<Vec<Value>, String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut make = std::process::Command::new("make");
    make.args(["-C", root, "deploy", "IMG=registry.example/causeway:1", &format!("ENABLE={enable}")]);
    let said = make.arg(format!("OUT={}", file.path().display())).output().expect("make runs");
    if !said.status.success() {
        return Err(String::from_utf8_lossy(&said.stderr).into_owned());
    }
    let text = std::fs::read_to_string(file.path()).expect("it is written");
    Ok(serde_saphyr::from_multiple(&text).expect("YAML"))
}

#[test]
fn what_is_deployed_enables_what_was_asked_for_and_has_its_rights() {
    let objects = deployed("vpc").expect("written");
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").expect("a Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/causeway:1");
    assert_eq!(container["args"], json!(["controller", "--enable=vpc"]));
    assert!(objects.iter().any(|object| object["metadata"]["name"] == "multi-vpc-gateways"));
    let objects = deployed("rules").expect("written");
    let names: Vec<_> = objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
    for name in ["causeway-rules", "trafficrouters.traffic.opensergo.io"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for name in ["multi-vpc-gateways", "opensergo-control-plane"] {
        assert!(!names.contains(&name), "{names:?}");
    }
    let refused = deployed("vpc,kitchen").expect_err("there is no such room");
    assert!(refused.contains("there is no deploy/kitchen.yaml"), "{refused}");
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn every_right_that_ships_is_used_and_none_is_missing() {
    let audit = Audit::from_now();
    let sandbox = Sandbox::bare().await;
    let (one, two, broker) = (sandbox.cluster(1).await, sandbox.cluster(2).await, sandbox.broker().await);
    one.controller().await;
    let standby = Replica::beside(&one, sandbox.folder(), "standby");
    standby.is_ready(&one).await;
    routes_follow(&one).await;
    join(&one, &two, "used0", "gw1", 1).await;
    drift_twice(&one).await;
    by_secret(&one).await;
    peer_changes(&one, &two, &broker).await;
    assert_eq!(standby.says_it_leads().await, Some(false), "so far it only waited");
    // Whoever leads next finds the claim and the lease of the one before.
    sandbox.hold_by(&one, nix::sys::signal::Signal::SIGTERM).await;
    one.until("the standby leads", PATIENCE, async || match standby.says_it_leads().await {
        Some(true) => Ok(()),
        other => Err(format!("{other:?}: {}", standby.tail())),
    })
    .await;
    one.delete("used0").await;
    sandbox.let_go(&one);
    one.until("every right has been used", PATIENCE, async || {
        let mut unused = audit.unused(&MEMBER, &["cluster1", "cluster2"]);
        unused.extend(audit.unused(&BROKER, &["broker"]));
        if unused.is_empty() { Ok(()) } else { Err(format!("granted and never used: {unused:#?}")) }
    })
    .await;
    let refused = audit.refused();
    assert!(refused.is_empty(), "asked for and not granted: {refused:#?}");
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn every_right_for_rules_is_used_and_none_is_missing() {
    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rules");
    let audit = Audit::from_now();
    let sandbox = Sandbox::start(&["--bare", "--rules"]).await;
    let one = sandbox.cluster(1).await;
    one.kubectl(&["apply", "-f", SAMPLES]).await.ok();
    // One that nobody can ask for is an event.
    let nobodys = json!({
        "apiVersion": "fault-tolerance.opensergo.io/v1alpha1", "kind": "RateLimitStrategy",
        "metadata": {"name": "nobodys", "namespace": "default"},
        "spec": {"metricType": "RequestAmount", "limitMode": "Local", "threshold": 1, "statDurationSeconds": 1},
    });
    one.apply(&nobodys.to_string()).await.ok();
    let unused = || {
        let mut unused = audit.unused(&RULES, &["cluster1", "cluster2"]);
        // The same news twice in a row, as of drift.
        unused.retain(|right| (&*right.resource, &*right.verb) != ("events", "patch"));
        unused
    };
    one.until("all but the end has been used", PATIENCE, async || {
        let unused = unused();
        if unused.iter().all(|right| right.verb == "delete") { Ok(()) } else { Err(format!("{unused:#?}")) }
    })
    .await;
    sandbox.hold_by(&one, nix::sys::signal::Signal::SIGTERM).await;
    one.until("every right has been used", PATIENCE, async || {
        let unused = unused();
        if unused.is_empty() { Ok(()) } else { Err(format!("granted and never used: {unused:#?}")) }
    })
    .await;
    sandbox.let_go(&one);
    let refused = audit.refused();
    assert!(refused.is_empty(), "asked for and not granted: {refused:#?}");
}

/// Takes a verb out of every rule about a resource.
fn without(rules: &mut Vec<PolicyRule>, resource: &str, verb: &str) {
    for rule in rules.iter_mut().filter(|rule| rule.resources.iter().flatten().any(|name| name == resource)) {
        rule.verbs.retain(|name| name != verb);
    }
    rules.retain(|rule| !rule.verbs.is_empty());
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn without_either_verb_of_exec_tunnels_say_that_commands_are_refused() {
    real::needed();
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let roles: Api<Role> = Api::namespaced(one.client.clone(), SYSTEM);
    let whole = roles.get("multi-vpc-gateways").await.expect("the role");
    for verb in ["get", "create"] {
        let mut role = roles.get("multi-vpc-gateways").await.expect("the role");
        without(role.rules.get_or_insert_default(), "pods/exec", verb);
        roles.replace("multi-vpc-gateways", &PostParams::default(), &role).await.expect("accepted");
        one.create(&vxlan("less0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
        one.down("less0", "ExecRefused").await;
        let mut role = roles.get("multi-vpc-gateways").await.expect("the role");
        role.rules.clone_from(&whole.rules);
        roles.replace("multi-vpc-gateways", &PostParams::default(), &role).await.expect("accepted");
        one.built("less0").await;
        one.delete("less0").await;
    }
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn without_the_right_to_write_statuses_a_tunnel_is_built_and_says_nothing() {
    let audit = Audit::from_now();
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let roles: Api<ClusterRole> = Api::all(one.client.clone());
    let name = "multi-vpc-controller-manager";
    let mut role = roles.get(name).await.expect("the role");
    let whole = role.rules.clone();
    without(role.rules.get_or_insert_default(), "vpcnattunnels/status", "patch");
    roles.replace(name, &PostParams::default(), &role).await.expect("accepted");
    one.create(&vxlan("less0", "gw1", "cluster2/gw1", "10.100.0.1/24")).await;
    one.until("the refusal is in the audit log", PATIENCE, async || {
        let refused = audit.of(&["cluster1"]).into_iter().filter(|request| request.code == 403);
        let refused: BTreeSet<String> =
            refused.map(|request| format!("{} {}", request.verb, request.resource)).collect();
        let only = BTreeSet::from(["patch vpcnattunnels/status".to_owned()]);
        if refused == only { Ok(()) } else { Err(format!("{refused:?}")) }
    })
    .await;
    assert!(one.tunnel("less0").await.status.is_none_or(|status| status.conditions.is_empty()));
    let mut role = roles.get(name).await.expect("the role");
    role.rules = whole;
    roles.replace(name, &PostParams::default(), &role).await.expect("accepted");
    one.built("less0").await;
}

/// What the server says to an exec before it would run anything: without an upgrade an admitted one is a bad
/// request.
async fn asks_to_exec(client: &Client, place: &str, container: &str) -> (u16, String) {
    let container = if container.is_empty() { String::new() } else { format!("&container={container}") };
    let path = format!("/api/v1/namespaces/{place}/exec?command=true&stdout=true{container}");
    let mut request = kube::core::Request::new("/").list(&ListParams::default()).expect("a request");
    *request.uri_mut() = path.parse().expect("a path");
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) => (status.code, status.message),
        other => panic!("neither refused nor incomplete: {other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn under_the_policy_commands_run_in_gateways_and_nowhere_else() {
    const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/exec-policy.yaml");
    const GATEWAY: &str = "kube-system/pods/vpc-nat-gw-gw1-0";
    const OTHER: &str = "kube-system/pods/coredns-0";
    real::needed();
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    let controller = one.as_the_controller().await;
    let other = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "coredns-0", "namespace": SYSTEM},
        "spec": {"nodeName": "cluster1-node1", "containers": [{"name": "vpc-nat-gw", "image": "x"}]},
    });
    one.apply(&other.to_string()).await.ok();
    // The role alone lets it in everywhere there; and nowhere else.
    assert_eq!(asks_to_exec(&controller, OTHER, "vpc-nat-gw").await.0, 400);
    assert_eq!(asks_to_exec(&controller, "ns1/pods/client", "workload").await.0, 403);

    one.kubectl(&["apply", "-f", POLICY]).await.ok();
    one.until("the policy is obeyed", PATIENCE, async || {
        let (code, words) = asks_to_exec(&controller, OTHER, "vpc-nat-gw").await;
        if code == 403 || code == 422 { Ok(()) } else { Err(words) }
    })
    .await;
    let (_, words) = asks_to_exec(&controller, OTHER, "vpc-nat-gw").await;
    assert!(words.contains("the controller runs commands only in gateways"), "{words}");
    for container in ["sidecar", ""] {
        let (code, words) = asks_to_exec(&controller, GATEWAY, container).await;
        assert!(code != 400 && words.contains("only in the container vpc-nat-gw"), "{code} {words}");
    }
    assert_eq!(asks_to_exec(&controller, GATEWAY, "vpc-nat-gw").await.0, 400, "this one is admitted");
    assert_eq!(
        asks_to_exec(&one.client, OTHER, "vpc-nat-gw").await.0,
        400,
        "others are none of its business"
    );
    join(&one, &two, "vx0", "gw1", 0).await;
    one.reaches("242.1.1.20").await;
    one.delete("vx0").await;
    one.kubectl(&["delete", "-f", POLICY]).await.ok();
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn a_real_server_takes_everything_that_ships() {
    real::needed();
    let sandbox = Sandbox::bare().await;
    let (one, broker) = (sandbox.cluster(1).await, sandbox.broker().await);
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    let file = |name: &str| format!("{deploy}/{name}");
    let member = MEMBER.map(|(name, _)| name);
    // A dry run makes no namespace for what comes after it in the same file.
    for name in ["opensergo-system", "kube-flannel"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        one.apply(&namespace.to_string()).await.ok();
    }
    let definitions = ["crds.yaml", "dns-crds.yaml", "rules-crds.yaml", "networks-crds.yaml"].into_iter();
    let others = [
        "exec-policy.yaml",
        "dns.yaml",
        "dns-policy.yaml",
        "rules.yaml",
        "rules-name.yaml",
        "networks.yaml",
        "networks-policy.yaml",
        "node-config.yaml",
        "node.yaml",
    ];
    for name in definitions.chain(others).chain(member) {
        one.kubectl(&["apply", "--dry-run=server", "-f", &file(name)]).await.ok();
    }
    for name in ["broker.yaml", "broker-policy.yaml"] {
        broker.kubectl(&["apply", "--dry-run=server", "-f", &file(name)]).await.ok();
    }
    // What is applied twice is unchanged the second time, also where the server fills in defaults.
    one.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file("crds.yaml")]).await.ok();
    let versions = async || {
        let all: Api<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        > = Api::all(one.client.clone());
        let all = all.list(&ListParams::default()).await.expect("definitions");
        all.iter().map(|crd| (crd.name_any(), crd.metadata.generation)).collect::<Vec<_>>()
    };
    let before = versions().await;
    one.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file("crds.yaml")]).await.ok();
    assert_eq!(versions().await, before);
}
