//! One cluster of the sandbox, driven through its API as a user would, without controllers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, DynamicObject, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, ResourceExt, api::ApiResource};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::addresses::{Cluster, Gateway, Role};
use super::controllers::{Rooms, kubeconfig};
use super::nat::{Choice, Variant};
use super::site::{Site, Source, Tasks};
use super::submariner::BrokerAccess;
use super::topology::{Fabric, Underlay};
use super::{faults, tools, views};

const GATEWAY: Role = Role::Gateway(Gateway::Gw1);

struct Bench {
    site: Site,
    /// A client as users have it: only this one can exec.
    client: Client,
    fabric: Arc<Fabric>,
    _tasks: Tasks,
    _folder: TempDir,
}

impl Bench {
    /// A cluster with all its pods running.
    async fn up() -> Bench {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().expect("temp folder");
        let clusters = Cluster::first(2);
        let mark = folder.path().to_string_lossy().into_owned();
        let kubelet = std::path::Path::new("none");
        let site =
            Site::start(clusters[0], &Source::Embedded, &mark, folder.path(), kubelet, Rooms::default());
        let mut site = site.await.expect("API server");
        let underlay = Arc::new(Underlay::create().await.expect("underlay"));
        let variant = Variant::choose(Choice::Auto, &folder.path().join("lock")).await.expect("iptables");
        let pods = folder.path().join("pods");
        let fabric = Fabric::create(clusters[0], underlay, variant, pods).await.expect("router");
        let (fabric, mut tasks) = (Arc::new(fabric), Tasks::new());
        site.play(fabric.clone(), &mut tasks);
        let broker = BrokerAccess { server: "127.0.0.1:1".into(), token: "t".into(), ca_pem: "pem".into() };
        site.populate(&[(clusters[1], Gateway::Gw1)], &broker).await.expect("objects");
        let file = Kubeconfig::read_from(kubeconfig(folder.path(), "cluster1")).expect("kubeconfig");
        let config = Config::from_custom_kubeconfig(file, &Default::default()).await.expect("usable");
        let client = Client::try_from(config).expect("a client");
        let bench = Bench { site, client, fabric, _tasks: tasks, _folder: folder };
        for role in Role::ALL {
            eventually("all pods ready", || async { bench.ready(role).await }).await;
        }
        bench
    }

    fn pods(&self, role: Role) -> Api<Pod> {
        Api::namespaced(self.client.clone(), role.namespace())
    }

    fn sets(&self) -> Api<StatefulSet> {
        Api::namespaced(self.client.clone(), "kube-system")
    }

    async fn pod(&self, role: Role) -> Option<Pod> {
        self.pods(role).get_opt(&role.pod()).await.expect("the API answers")
    }

    async fn ready(&self, role: Role) -> bool {
        let conditions = self.pod(role).await.and_then(|pod| pod.status?.conditions);
        conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
    }

    async fn annotate(&self, role: Role, key: &str, value: Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.pods(role).patch(&role.pod(), &PatchParams::default(), &patch).await.expect("annotated");
    }

    async fn scale(&self, replicas: i32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let name = Gateway::Gw1.workload();
        self.sets().patch_scale(&name, &PatchParams::default(), &patch).await.expect("scaled");
    }

    async fn available_replicas(&self) -> i32 {
        let set = self.sets().get(&Gateway::Gw1.workload()).await.expect("the set");
        set.status.and_then(|status| status.available_replicas).unwrap_or_default()
    }

    async fn start(&self, role: Role, argv: &[&str], how: AttachParams) -> kube::Result<AttachedProcess> {
        self.pods(role).exec(&role.pod(), argv.iter().copied(), &how).await
    }

    /// Runs a command to its end: stdout, stderr, and what the status says.
    async fn exec(&self, role: Role, argv: &[&str], stdin: &str) -> (String, String, String) {
        let how = AttachParams::default().stdin(true).stdout(true).stderr(true);
        let mut process = self.start(role, argv, how).await.expect("exec");
        let mut input = process.stdin().expect("stdin");
        input.write_all(stdin.as_bytes()).await.expect("written");
        input.shutdown().await.expect("closed");
        drop(input);
        let (mut out, mut err) = (String::new(), String::new());
        let (mut from_out, mut from_err) = (process.stdout().expect("out"), process.stderr().expect("err"));
        let status = process.take_status().expect("status");
        let all = async {
            let read = tokio::join!(from_out.read_to_string(&mut out), from_err.read_to_string(&mut err));
            read.0.and(read.1).expect("text");
            status.await
        };
        let status = timeout(Duration::from_secs(60), all).await.expect("an end within a minute");
        let status = serde_json::to_value(status).expect("a status");
        let code = status.pointer("/details/causes/0/message").and_then(Value::as_str);
        (out, err, code.or(status["status"].as_str()).unwrap_or_default().to_owned())
    }
}

async fn eventually<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !check().await {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

fn alive(pid: &str) -> bool {
    // A killed process may stay for a moment until it is reaped.
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_goes_and_comes_back_empty_with_its_stateful_set() {
    let bench = Bench::up().await;
    eventually("the set counts its pod", || async { bench.available_replicas().await == 1 }).await;
    let before = bench.pod(GATEWAY).await.and_then(|pod| pod.uid()).expect("a pod");
    let (_, err, _) = bench.exec(GATEWAY, &["ip", "link", "add", "name", "mine", "type", "bridge"], "").await;
    assert_eq!(err, "");
    bench.scale(0).await;
    eventually("the pod is gone", || async { bench.pod(GATEWAY).await.is_none() }).await;
    eventually("the set says so", || async { bench.available_replicas().await == 0 }).await;
    eventually("its namespace is gone", || async { bench.site.running.get(GATEWAY).is_none() }).await;
    bench.scale(1).await;
    eventually("a new pod is ready", || async { bench.ready(GATEWAY).await }).await;
    let after = bench.pod(GATEWAY).await.and_then(|pod| pod.uid()).expect("a pod");
    assert_ne!(before, after);
    let (links, ..) = bench.exec(GATEWAY, &["ip", "-o", "link"], "").await;
    assert!(links.contains("net1") && !links.contains("mine"), "{links}");
    eventually("the set counts it", || async { bench.available_replicas().await == 1 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_pod_is_replaced_and_a_rebooted_one_keeps_its_name_and_uid() {
    let bench = Bench::up().await;
    for role in [GATEWAY, Role::Client] {
        let before = bench.pod(role).await.and_then(|pod| pod.uid()).expect("a pod");
        bench.pods(role).delete(&role.pod(), &Default::default()).await.expect("deleted");
        let replaced = || async {
            let now = bench.pod(role).await.and_then(|pod| pod.uid());
            now.is_some_and(|uid| uid != before) && bench.ready(role).await
        };
        eventually("a new pod is ready", replaced).await;
    }
    let before = bench.pod(GATEWAY).await.expect("a pod");
    bench.exec(GATEWAY, &["ip", "link", "add", "name", "mine", "type", "bridge"], "").await;
    bench.annotate(GATEWAY, views::REBOOT, json!("1")).await;
    let rebooted = || async {
        let pod = bench.pod(GATEWAY).await.expect("still there");
        super::pod_status::restarts(&pod) == 1 && pod.uid() == before.uid()
    };
    eventually("it restarted", rebooted).await;
    let (links, ..) = bench.exec(GATEWAY, &["ip", "-o", "link"], "").await;
    assert!(links.contains("eth0") && !links.contains("mine"), "{links}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_router_follows_the_vpc() {
    let bench = Bench::up().await;
    let kind = GroupVersionKind::gvk("kubeovn.io", "v1", "Vpc");
    let resource = ApiResource::from_gvk_with_plural(&kind, "vpcs");
    let vpcs = Api::<DynamicObject>::all_with(bench.client.clone(), &resource);
    let routed = |via: &'static str| {
        let fabric = bench.fabric.clone();
        move || {
            let fabric = fabric.clone();
            async move {
                let mut show = tools::command("ip");
                show.args(["route", "show", "proto", "static"]);
                let routes = fabric.router().checked(show, "").await.expect("routes");
                if via.is_empty() { routes.trim().is_empty() } else { routes.contains(via) }
            }
        }
    };
    eventually("the owner's route", routed("242.1.0.0/16 via 10.0.1.254")).await;
    let moved = json!({"spec": {"staticRoutes": [{"cidr": "242.1.0.0/16", "nextHopIP": "10.0.1.253"}]}});
    vpcs.patch("test-vpc-1", &PatchParams::default(), &Patch::Merge(moved)).await.expect("patched");
    eventually("the moved route", routed("242.1.0.0/16 via 10.0.1.253")).await;
    let none = json!({"spec": {"staticRoutes": null}});
    vpcs.patch("test-vpc-1", &PatchParams::default(), &Patch::Merge(none)).await.expect("patched");
    eventually("no route", routed("")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_in_its_pods_namespace_with_its_input_and_its_exit_status() {
    let bench = Bench::up().await;
    let (out, err, end) = bench.exec(GATEWAY, &["ip", "-o", "-4", "address", "show", "net1"], "").await;
    assert!(out.contains("172.50.16.11/24"), "{out} {err}");
    assert_eq!(end, "Success");
    let script = "cat; echo oops >&2; exit 7";
    let result = bench.exec(Role::Client, &["bash", "-c", script], "hello").await;
    assert_eq!(result, ("hello".into(), "oops\n".into(), "7".into()));
    let (out, ..) =
        bench.exec(GATEWAY, &["bash", "-c", "iptables-legacy -t nat -S || iptables-nft -t nat -S"], "").await;
    assert!(out.contains("-A POSTROUTING -j SNAT_FILTER"), "{out}");
    let (.., end) = bench.exec(GATEWAY, &["no-such-tool"], "").await;
    assert_ne!(end, "Success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_switched_by_annotation() {
    let bench = Bench::up().await;
    bench.annotate(GATEWAY, faults::ANNOTATION, json!("refuse")).await;
    let refused = bench.start(GATEWAY, &["true"], AttachParams::default()).await;
    assert!(refused.is_err(), "exec was let through");
    bench.annotate(GATEWAY, faults::ANNOTATION, json!("without:iptables")).await;
    let (out, ..) = bench.exec(GATEWAY, &["bash", "-c", "type -P iptables iptables-nft ip"], "").await;
    assert!(out.contains("/ip\n") && !out.contains("iptables\n"), "{out}");
    bench.annotate(GATEWAY, faults::ANNOTATION, json!("slow:300")).await;
    let start = Instant::now();
    bench.exec(GATEWAY, &["true"], "").await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    bench.annotate(GATEWAY, faults::ANNOTATION, json!("hang")).await;
    let mut process = bench.start(GATEWAY, &["true"], AttachParams::default()).await.expect("accepted");
    let status = process.take_status().expect("status");
    assert!(timeout(Duration::from_millis(500), status).await.is_err(), "it answered");
    process.abort();
    bench.annotate(GATEWAY, faults::ANNOTATION, Value::Null).await;
    assert_eq!(bench.exec(GATEWAY, &["true"], "").await.2, "Success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_started_goes_with_its_caller_or_its_pod() {
    let bench = Bench::up().await;
    let script = "sleep 300 & setsid sleep 300 & echo $$ $!; wait";
    for stop in ["caller", "pod"] {
        let how = AttachParams::default().stderr(false);
        let mut process = bench.start(GATEWAY, &["bash", "-c", script], how).await.expect("exec");
        let mut line = [0; 64];
        let length = process.stdout().expect("stdout").read(&mut line).await.expect("pids");
        let pids = String::from_utf8_lossy(&line[..length]).into_owned();
        assert!(pids.split_whitespace().all(alive), "{pids}");
        match stop {
            "caller" => process.abort(),
            _ => {
                bench.pods(GATEWAY).delete(&GATEWAY.pod(), &Default::default()).await.expect("deleted");
            }
        }
        eventually(stop, || async { !pids.split_whitespace().any(alive) }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_is_a_terminal() {
    let bench = Bench::up().await;
    let how = AttachParams::interactive_tty();
    let mut process = bench.start(Role::Client, &["bash", "--norc"], how).await.expect("exec");
    let mut size = process.terminal_size().expect("a size");
    futures::SinkExt::send(&mut size, kube::api::TerminalSize { width: 101, height: 41 })
        .await
        .expect("sent");
    let mut input = process.stdin().expect("stdin");
    let typed = b"tty; until [[ $(stty size) == '41 101' ]]; do sleep 0.05; done; stty size; exit 3\n";
    input.write_all(typed).await.expect("typed");
    let mut shown = String::new();
    let mut screen = process.stdout().expect("stdout");
    let read = timeout(Duration::from_secs(60), screen.read_to_string(&mut shown)).await;
    read.expect("the shell ends").expect("text");
    assert!(shown.contains("/dev/pts/") && shown.contains("\n41 101"), "{shown}");
}
