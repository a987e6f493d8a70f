//! The node agent with what `deploy/node.yaml` gives it and no more: its rights on a server that enforces them, its
//! capabilities on a kernel that does.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::cluster::relay;
use super::net::{Netns, prerequisites};
use super::support::{Cluster, PATIENCE, Sandbox};
use super::{Audit, granted, words};

const NODE: [(&str, &str); 1] = [("node.yaml", include_str!("../../../../deploy/node.yaml"))];
const CONFIG: &str = include_str!("../../../../deploy/node-config.yaml");
const NAMESPACE: &str = "kube-flannel";
/// Where the other node's pods are.
const OTHER: &str = "10.244.2.0/24";

fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).expect("YAML")
}

fn find(objects: &[Value], kind: &str) -> Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("a {kind}")).clone()
}

/// The agent's container, as it ships.
fn container() -> Value {
    find(&objects(NODE[0].1), "DaemonSet")["spec"]["template"]["spec"]["containers"][0].clone()
}

/// What `make deploy-node` writes.
fn written(variables: &[&str]) -> Vec<Value> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut make = Command::new("make");
    make.args(["-C", root, "deploy-node", &format!("NODE_OUT={}", file.path().display())]).args(variables);
    let said = make.output().expect("make runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    objects(&std::fs::read_to_string(file.path()).expect("it is written"))
}

#[test]
fn what_is_deployed_on_nodes_is_neither_privileged_nor_entitled_to_more_than_this() {
    let objects = written(&["NODE_IMG=registry.example/node:1", "NODE_NAMESPACE=kube-system"]);
    let daemons = find(&objects, "DaemonSet");
    let pod = &daemons["spec"]["template"]["spec"];
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        assert_eq!(container["image"], "registry.example/node:1");
        let context = &container["securityContext"];
        assert_eq!(
            (&context["privileged"], &context["capabilities"]["drop"]),
            (&Value::Null, &json!(["ALL"]))
        );
    }
    assert_eq!(container()["securityContext"]["capabilities"]["add"], json!(["NET_ADMIN", "NET_RAW"]));
    assert_eq!(pod["nodeSelector"]["causeway/node"], "true", "it goes only where it is asked for");
    let places: Vec<_> = objects.iter().map(|object| &object["metadata"]["namespace"]).collect();
    assert_eq!(places, [&json!("kube-system"), &Value::Null, &Value::Null, &json!("kube-system")]);
    assert_eq!(find(&objects, "ClusterRoleBinding")["subjects"][0]["namespace"], "kube-system");
    // Taking it away takes neither flannel's namespace nor its configuration.
    let kinds: Vec<_> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"]);
    let rights: Vec<_> =
        granted(&NODE).into_iter().map(|it| format!("{} {}", it.verb, it.resource)).collect();
    let expected = ["list nodes", "watch nodes", "patch nodes/status", "create events", "patch events"];
    assert_eq!(rights, expected);
}

/// A node whose agent runs in a network namespace. Dropping it kills it.
struct Agent {
    child: Child,
    relay: JoinHandle<()>,
    node: Netns,
    folder: TempDir,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.relay.abort();
    }
}

impl Agent {
    /// Starts it with the shipped arguments, account and capabilities; only its files are elsewhere.
    async fn start(cluster: &Cluster) -> Self {
        let folder = tempfile::Builder::new().prefix("causeway-node-").tempdir().expect("a folder");
        let admin = std::fs::read_to_string(&cluster.kubeconfig).expect("a kubeconfig");
        let token = cluster.kubectl(&["create", "token", "causeway-node", "-n", NAMESPACE]).await.ok();
        let own: Vec<&str> = admin.split_inclusive("token: ").collect();
        let [before, after] = own[..] else { panic!("one token: {admin}") };
        let rest = after.split_once('}').expect("the token's end").1;
        std::fs::write(folder.path().join("kubeconfig"), format!("{before}{}}}{rest}", token.trim()))
            .expect("written");
        let server = before.split("https://").nth(1).and_then(|rest| rest.split('"').next());
        let server = server.expect("the server's address").parse().expect("an address");
        let config = find(&objects(CONFIG), "ConfigMap")["data"]["net-conf.json"].clone();
        let config = config.as_str().expect("a text").replace("vxlan", "host-gw");
        std::fs::write(folder.path().join("net-conf.json"), config).expect("written");
        let node = Netns::new();
        node.sh("set -e; echo 1 > /proc/sys/net/ipv4/ip_forward
                 ip link set lo up; ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up
                 ip addr add 192.168.7.1/24 dev eth0; ip route add default via 192.168.7.254
                 iptables -P FORWARD DROP");
        let relay = relay(&node, server);
        let child = start(&node, folder.path());
        Self { child, relay, node, folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until the kernel has the way to the other node.
    async fn has_the_way(&self, cluster: &Cluster) {
        cluster
            .until("the way to the other node is there", PATIENCE, async || {
                let route = self.node.sh(&format!("ip route show {OTHER} proto 158"));
                if route.contains("via 192.168.7.2 dev eth0") { Ok(()) } else { Err(self.log()) }
            })
            .await;
    }
}

fn start(node: &Netns, folder: &Path) -> Child {
    let container = container();
    let capabilities = words(&container["securityContext"]["capabilities"]["add"]);
    let set: String = capabilities.iter().map(|name| format!(",+{}", name.to_lowercase())).collect();
    let log = File::create(folder.join("log")).expect("a log");
    let mut command = Command::new("nsenter");
    command.args(["-t", &node.pid().to_string(), "-n", "setpriv", "--no-new-privs"]);
    command.args([format!("--bounding-set=-all{set}"), format!("--inh-caps=-all{set}")]);
    command.arg(env!("CARGO_BIN_EXE_causeway")).args(words(&container["args"]));
    command.env_remove("KUBECONFIG").env("NODE_NAME", "node1");
    for (name, file) in [
        ("KUBECONFIG_FILE", "kubeconfig"),
        ("NET_CONFIG_PATH", "net-conf.json"),
        ("SUBNET_FILE", "subnet.env"),
    ] {
        command.env(format!("FLANNELD_{name}"), folder.join(file));
    }
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
    command.spawn().expect("nsenter starts")
}

/// What the agent answers where the probes of its pod ask.
fn asks(node: &Netns, path: &'static str) -> String {
    let probe = container()["readinessProbe"]["httpGet"].clone();
    let address = format!("{}:{}", probe["host"].as_str().expect("an address"), probe["port"]);
    let answer = node.inside(move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    });
    answer.join().expect("an answer").unwrap_or_else(|error| error.to_string())
}

/// Two nodes, the second of which is somebody else's business. The sandbox takes both away.
async fn register(cluster: &Cluster) {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let announced = [
        ("kube-subnet-manager", "true"),
        ("backend-type", "host-gw"),
        ("backend-data", "null"),
        ("public-ip", "192.168.7.2"),
    ];
    for number in 1..=2 {
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("node{number}"), "labels": { "sandbox.causeway/node": "true" }, "annotations": {} },
            "spec": { "podCIDR": format!("10.244.{number}.0/24"), "podCIDRs": [format!("10.244.{number}.0/24")] },
        });
        for (name, value) in announced.iter().filter(|_| number == 2) {
            node["metadata"]["annotations"][format!("flannel.alpha.coreos.com/{name}")] = json!(value);
        }
        let node = serde_json::from_value(node).expect("a node");
        nodes.create(&PostParams::default(), &node).await.expect("it is created");
    }
}

/// How often a repair was told of the first node.
async fn repairs(cluster: &Cluster) -> i32 {
    let events: Api<Event> = Api::all(cluster.client.clone());
    let all = events.list(&ListParams::default()).await.expect("events");
    let about = |event: &&Event| {
        event.reason.as_deref() == Some("Repaired")
            && event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some("node1"))
    };
    all.iter().filter(about).map(|event| event.series.as_ref().map_or(1, |series| series.count)).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs real API servers: make real"]
async fn every_right_of_the_node_agent_is_used_and_none_is_missing() {
    assert_eq!(prerequisites(&[("setpriv", &["--version"])]), None);
    let audit = Audit::from_now();
    let sandbox = Sandbox::bare().await;
    // One server has streaming lists, the other has not.
    for cluster in [sandbox.cluster(1).await, sandbox.cluster(2).await] {
        cluster.apply(CONFIG).await.ok();
        cluster.apply(NODE[0].1).await.ok();
        register(&cluster).await;
        let agent = Agent::start(&cluster).await;
        cluster
            .until("the agent is ready", PATIENCE, async || {
                let answer = asks(&agent.node, "/readyz");
                if answer.contains(" 200 ") { Ok(()) } else { Err(format!("{answer}\n{}", agent.log())) }
            })
            .await;
        assert!(asks(&agent.node, "/healthz").contains(" 200 "));
        agent.has_the_way(&cluster).await;
        cluster
            .until("its rules are there", PATIENCE, async || {
                let rules = agent.node.sh("iptables -S FORWARD; nft list ruleset");
                let there =
                    rules.contains("causeway: pods of 10.244.0.0/16") && rules.contains("table ip causeway");
                if there { Ok(()) } else { Err(agent.log()) }
            })
            .await;
        // The same thing repaired twice is one event, counted.
        for times in 1..=2 {
            agent.node.sh(&format!("ip route del {OTHER}"));
            agent.has_the_way(&cluster).await;
            cluster
                .until("the repair is told", PATIENCE, async || {
                    let told = repairs(&cluster).await;
                    if told >= times { Ok(()) } else { Err(format!("{told}: {}", agent.log())) }
                })
                .await;
        }
        let status = cluster.causeway(&["status"]).await.ok();
        assert!(status.contains("node1") && status.contains("192.168.7.1"), "{status}");
        cluster.kubectl(&["delete", "daemonset", "-n", NAMESPACE, "causeway-node"]).await.ok();
    }
    let one = sandbox.cluster(1).await;
    one.until("every right has been used", PATIENCE, async || {
        let unused = audit.unused(&NODE, &["cluster1", "cluster2"]);
        if unused.is_empty() { Ok(()) } else { Err(format!("granted and never used: {unused:#?}")) }
    })
    .await;
    let refused = audit.refused();
    assert!(refused.is_empty(), "asked for and not granted: {refused:#?}");
}
