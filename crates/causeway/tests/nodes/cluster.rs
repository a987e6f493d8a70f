//! Three nodes on one switch, an API server that knows them, and a way to it from each of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_apiserver::{Config, Server};
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::agent::{Agent, Program, command};
use super::net::{Netns, prerequisites};
use super::ping;

/// How long anything may take that should take a second or two.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Waits until something is there; says at the deadline what was seen last.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(start.elapsed() < PATIENCE, "waited for: {what}\nlast seen: {seen}"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// How packets get from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    HostGw,
    Vxlan,
    /// vxlan with `DirectRouting`: nodes on one link need no tunnel.
    Direct,
}

impl Backend {
    /// flannel's `net-conf.json`.
    pub(crate) fn net_conf(self) -> String {
        let backend = match self {
            Self::HostGw => json!({ "Type": "host-gw" }),
            Self::Vxlan => json!({ "Type": "vxlan" }),
            Self::Direct => json!({ "Type": "vxlan", "DirectRouting": true }),
        };
        json!({ "Network": "10.244.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:10:244::/48",
                "Backend": backend })
        .to_string()
    }
}

/// A node, the agent on it, and a pod behind it.
pub(crate) struct Machine {
    // Before the namespaces that it works in.
    agent: Option<Agent>,
    relay: JoinHandle<()>,
    pub(crate) number: u8,
    pub(crate) node: Netns,
    pub(crate) pod: Netns,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

impl Machine {
    fn new(number: u8, switch: &Netns, server: SocketAddr) -> Self {
        let (node, pod) = (Netns::new(), Netns::new());
        cable(number, switch, &node);
        // As many a distribution and Docker leave it: only what somebody accepts is forwarded.
        node.sh("ip link set lo up
             echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
             iptables -P FORWARD DROP; ip6tables -P FORWARD DROP");
        let relay = relay(&node, server);
        Self { agent: None, relay, number, node, pod }
    }

    /// Wires the pod as the test needs it, without a plugin.
    fn wire_pod(&self) {
        let number = self.number;
        self.node.sh(&format!(
            "ip link add pod type veth peer name eth0 netns {}; ip link set pod up
             ip addr add 10.244.{number}.1/24 dev pod; ip addr add fd00:10:244:{number}::1/64 dev pod nodad",
            self.pod.pid()
        ));
        self.pod.sh(&format!(
            "ip link set lo up; ip link set eth0 up
             ip addr add 10.244.{number}.10/24 dev eth0; ip route add default via 10.244.{number}.1
             ip addr add fd00:10:244:{number}::10/64 dev eth0 nodad
             ip route add default via fd00:10:244:{number}::1"
        ));
    }

    pub(crate) fn name(&self) -> String {
        format!("node{}", self.number)
    }

    /// The pod's address in either family.
    pub(crate) fn addresses(&self) -> [String; 2] {
        [format!("10.244.{}.10", self.number), format!("fd00:10:244:{}::10", self.number)]
    }

    /// The routes to other nodes' pods, one per line.
    pub(crate) fn routes(&self) -> Vec<String> {
        let listed =
            self.node.sh("ip -4 route show root 10.244.0.0/16; ip -6 route show root fd00:10:244::/48");
        let routes = listed.lines().filter(|route| route.contains(" via "));
        routes.map(|route| route.trim().to_owned()).collect()
    }

    /// The tunnels' devices: name, index and Ethernet address.
    pub(crate) fn devices(&self) -> Vec<String> {
        let listed = self.node.sh("ip -o link show type vxlan");
        let device = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let mac = words.iter().position(|word| *word == "link/ether").map(|at| words[at + 1]);
            format!("{} {} {}", words[0], words[1], mac.expect("an Ethernet address"))
        };
        listed.lines().map(device).collect()
    }

    /// What the agent has said.
    pub(crate) fn log(&self) -> String {
        self.agent.as_ref().map(Agent::log).unwrap_or_default()
    }
}

/// Joins a node to the switch.
fn cable(number: u8, switch: &Netns, node: &Netns) {
    switch.sh(&format!(
        "ip link add port{number} type veth peer name eth0 netns {}; ip link set port{number} master br0 up",
        node.pid()
    ));
    node.sh(&format!(
        "ip link set eth0 address 02:00:00:00:ee:0{number} up
         ip addr add 192.168.7.{number}/24 dev eth0; ip addr add fd00:192:168::{number}/64 dev eth0 nodad"
    ));
}

/// Lets who is in the namespace reach the server as if it were in there too: on the same address and port, so that
/// its certificate fits.
pub(crate) fn relay(node: &Netns, server: SocketAddr) -> JoinHandle<()> {
    let inside = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    let listener = node.inside(move || std::net::TcpListener::bind(inside).expect("bound"));
    let listener = listener.join().expect("a listener");
    listener.set_nonblocking(true).expect("set");
    let listener = TcpListener::from_std(listener).expect("a listener");
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            connections.spawn(async move {
                let Ok(mut far) = TcpStream::connect(server).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    })
}

/// What a test has.
pub(crate) struct Cluster {
    // Before the switch: whoever goes first takes its cables along.
    pub(crate) machines: Vec<Machine>,
    switch: Netns,
    client: Client,
    server: Server,
    folder: TempDir,
}

impl Cluster {
    /// Three nodes with a pod each, and nobody who joins them yet.
    pub(crate) async fn new(backend: Backend) -> Self {
        let cluster = Self::without_pods(backend).await;
        for machine in &cluster.machines {
            machine.wire_pod();
        }
        cluster
    }

    /// The same, the pods being namespaces that nothing leads to.
    pub(crate) async fn without_pods(backend: Backend) -> Self {
        let more: [(&str, &[&str]); 2] = [("ping", &["-V"]), ("ip6tables", &["-V"])];
        assert_eq!(prerequisites(&more), None);
        // Several tests of one process get here first; one provider is as good as another.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::Builder::new().prefix("causeway-nodes-").tempdir().expect("a folder");
        let server = Server::start(Config::default()).await.expect("an API server");
        let config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
        std::fs::write(folder.path().join("net-conf.json"), backend.net_conf()).expect("written");
        let switch = Netns::new();
        switch.sh("ip link add br0 type bridge; ip link set br0 up");
        let machines = (1..=3).map(|number| Machine::new(number, &switch, server.address())).collect();
        let cluster = Self { machines, switch, client, server, folder };
        for machine in &cluster.machines {
            cluster.register(machine).await;
        }
        cluster
    }

    /// Takes a node's cable away and lays a new one: its link has the same name and addresses, and another index.
    pub(crate) fn lay_anew(&self, number: u8) {
        self.switch.sh(&format!("ip link del port{number}"));
        cable(number, &self.switch, &self.machines[usize::from(number) - 1].node);
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API server.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// What a kubelet and the controller manager write.
    async fn register(&self, machine: &Machine) {
        let kubeconfig = format!("{}.kubeconfig", machine.name());
        std::fs::write(self.folder.path().join(kubeconfig), self.server.kubeconfig_as(&machine.name()))
            .expect("written");
        self.register_as(machine.number, machine.number).await;
    }

    /// Creates the object of a node, with the part of the network that has this number.
    pub(crate) async fn register_as(&self, number: u8, part: u8) {
        let ranges = [format!("10.244.{part}.0/24"), format!("fd00:10:244:{part}::/64")];
        self.create(number, json!({ "podCIDR": ranges[0], "podCIDRs": ranges })).await;
    }

    /// The same without a part of the network.
    pub(crate) async fn register_without(&self, number: u8) {
        self.create(number, json!({})).await;
    }

    async fn create(&self, number: u8, spec: Value) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            // Every kubelet sets one; flanneld writes into the map that it expects to find.
            "metadata": { "name": format!("node{number}"), "annotations": { "node.alpha.kubernetes.io/ttl": "0" } },
            "spec": spec,
        });
        let node: Node = serde_json::from_value(node).expect("a node");
        self.nodes().create(&PostParams::default(), &node).await.expect("it is created");
    }

    /// What a node announces, but for what is not the agents'.
    pub(crate) async fn announced(&self, number: u8) -> Vec<String> {
        let node = self.nodes().get(&format!("node{number}")).await.expect("the node");
        let annotations = node.metadata.annotations.unwrap_or_default();
        let ours = annotations.iter().filter(|(key, _)| key.starts_with("flannel.alpha.coreos.com/"));
        ours.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Starts an agent on a node; the same command line for either.
    pub(crate) fn start(&mut self, number: u8, program: Program) {
        self.start_with(number, program, &[]);
    }

    /// The same with more flags.
    pub(crate) fn start_with(&mut self, number: u8, program: Program, more: &[&str]) {
        let folder = self.folder.path();
        let machine = &mut self.machines[usize::from(number) - 1];
        assert!(machine.agent.is_none(), "one agent per node");
        machine.agent = Some(Agent::start(program, folder, &machine.name(), &machine.node, more));
    }

    /// Runs our program on a node to its end, with more flags: its exit code and what it printed.
    pub(crate) fn run(&self, number: u8, more: &[&str]) -> (Option<i32>, String) {
        let machine = &self.machines[usize::from(number) - 1];
        let mut command = command(Program::Causeway, self.folder.path(), &machine.name(), &machine.node);
        let output = command.args(more).output().expect("nsenter starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Kills the agent of a node.
    pub(crate) fn kill(&mut self, number: u8) {
        drop(self.machines[usize::from(number) - 1].agent.take().expect("an agent"));
    }

    /// Ends the agent of a node as its pod's end does, and waits.
    pub(crate) async fn stop(&mut self, number: u8) {
        let machine = &mut self.machines[usize::from(number) - 1];
        machine.agent.take().expect("an agent").stop().await;
    }

    /// Waits until every pod reaches every other one, in both families.
    pub(crate) async fn everybody_is_reached(&self) {
        let mut pings = Vec::new();
        for (from, to) in self.machines.iter().flat_map(|from| self.machines.iter().map(move |to| (from, to)))
        {
            if from.number != to.number {
                pings.extend(to.addresses().map(|address| (&from.pod, address)));
            }
        }
        self.until("every pod reaches every other one", async || {
            let lost = ping::unreached(&pings);
            if lost.is_empty() { Ok(()) } else { Err(lost.join(", ")) }
        })
        .await;
    }

    /// As [`until`], and at the deadline the agents' logs are told.
    pub(crate) async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
        until(what, async || match look().await {
            Ok(found) => Ok(found),
            Err(seen) => Err(format!("{seen}\n{}", self.logs())),
        })
        .await
    }

    fn logs(&self) -> String {
        let log = |machine: &Machine| {
            let (log, routes) = (machine.log(), machine.routes().join("\n"));
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(15)..].join("\n");
            format!("--- {}\n{tail}\n{routes}", machine.name())
        };
        self.machines.iter().map(log).collect::<Vec<_>>().join("\n")
    }
}
