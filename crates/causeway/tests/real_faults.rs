//! What becomes of packets when parts of a real control plane are killed, frozen, or answer with refusals:
//! nothing. And when the part is back, the controllers catch up.
#![cfg(feature = "sandbox")]

mod support;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::outage::{API_SERVER, ETCD, Outage};
use support::packets::RATE;
use support::tunnels::{NS, condition, join};
use support::{Cluster, PATIENCE, Sandbox, real};

const FAR: &str = "242.1.1.20";
const ACCOUNT: &str = "multi-vpc-controller-manager";

/// What happens takes this long: longer than any renewal, shorter than a lease.
const AWAY: Duration = Duration::from_secs(10);
/// Longer than a lease: the leader loses its term.
const LONG_AWAY: Duration = Duration::from_secs(20);

/// Two clusters with a tunnel between them.
async fn joined() -> (Sandbox, Cluster, Cluster) {
    real::needed();
    let sandbox = Sandbox::bare().await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    join(&one, &two, "vx0", "gw1", 0).await;
    (sandbox, one, two)
}

/// A change of the tunnel is carried out.
async fn is_served(cluster: &Cluster, address: &str) {
    cluster.patch_spec("vx0", json!({"interfaceAddr": address})).await;
    cluster.says(NS, "vx0", "Ready", "True", "Up", 2 * PATIENCE).await;
    assert_eq!(cluster.addresses("gw1", "vx0").await, [address]);
}

/// Pings cross while `happening` happens, and none is lost.
async fn no_packet_is_lost(cluster: &Cluster, happening: impl Future<Output = ()>) {
    let pings = cluster.pings(FAR).await;
    happening.await;
    let count = pings.end().await;
    assert!(count.sent > 5 * RATE, "they ran all the while: {count:?}");
    assert_eq!(count.lost(), 0, "{count:?}");
}

/// Since when the tunnel is ready: if it ceased to be so meanwhile, that is later.
async fn ready_since(cluster: &Cluster) -> String {
    let ready = condition(&cluster.tunnel("vx0").await, "Ready").cloned().expect("a condition");
    assert_eq!(ready.status, "True", "{ready:?}");
    ready.last_transition_time.0.to_string()
}

async fn survives(component: &'static str, outage: fn(&Cluster, &'static str) -> Outage, away: Duration) {
    let (sandbox, one, _two) = joined().await;
    let since = ready_since(&one).await;
    for cluster in [&one, &sandbox.broker().await] {
        no_packet_is_lost(&one, async {
            let outage = outage(cluster, component);
            tokio::time::sleep(away).await;
            outage.end(cluster).await;
            is_served(&one, if cluster.name == "broker" { "10.100.0.9/24" } else { "10.100.0.8/24" }).await;
        })
        .await;
        assert_eq!(
            ready_since(&one).await,
            since,
            "no packet was lost, so the tunnel was ready all the while"
        );
    }
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn an_api_server_that_was_away_for_longer_than_a_lease_costs_no_packet_and_is_caught_up_with() {
    survives(API_SERVER, Outage::kill, LONG_AWAY).await;
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn an_api_server_that_froze_costs_no_packet_and_is_caught_up_with() {
    survives(API_SERVER, Outage::freeze, AWAY).await;
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn an_etcd_that_was_killed_costs_no_packet_and_is_caught_up_with() {
    survives(ETCD, Outage::kill, AWAY).await;
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn an_etcd_that_froze_costs_no_packet_and_is_caught_up_with() {
    survives(ETCD, Outage::freeze, AWAY).await;
}

/// Forgets all of a cluster's history: what was asked for as of an earlier version is gone.
async fn compact(cluster: &Cluster) {
    let nodes = Api::<Node>::all(cluster.client.clone()).list(&ListParams::default()).await.expect("nodes");
    let now = nodes.metadata.resource_version.expect("a version");
    let folder = real::needed().join(&cluster.name);
    let url = std::fs::read_to_string(folder.join("etcd.url")).expect("where its etcd is");
    let body = json!({"revision": now, "physical": true}).to_string();
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-sf", "-X", "POST", "-d", &body, &format!("{}/v3/kv/compaction", url.trim())]);
    assert!(curl.status().await.expect("curl").success(), "etcd compacts up to {now}");
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn a_history_that_was_compacted_while_the_controller_slept_is_listed_anew() {
    let (sandbox, one, _two) = joined().await;
    no_packet_is_lost(&one, async {
        let pid = Pid::from_raw(sandbox.controller_pid("cluster1").expect("its controller runs"));
        kill(pid, Signal::SIGSTOP).expect("it runs");
        one.patch_spec("vx0", json!({"interfaceAddr": "10.100.0.7/24"})).await;
        // A server that starts has no events in memory, and etcd has none of before.
        let outage = Outage::kill(&one, API_SERVER);
        outage.end(&one).await;
        compact(&one).await;
        kill(pid, Signal::SIGCONT).expect("it runs");
        one.says(NS, "vx0", "Ready", "True", "Up", 2 * PATIENCE).await;
        assert_eq!(one.addresses("gw1", "vx0").await, ["10.100.0.7/24"]);
        tokio::time::sleep(Duration::from_secs(3)).await;
    })
    .await;
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn a_storm_of_conflicts_holds_nothing_up_and_costs_no_packet() {
    let (_sandbox, one, _two) = joined().await;
    let folder = real::needed();
    let conflicts = || real::audit(&folder, "cluster1").iter().filter(|request| request.code == 409).count();
    let before = conflicts();
    // Somebody writes to the tunnel all the time, and so every guarded write of ours may come too late.
    let tunnels = one.tunnels(NS);
    let storm = async {
        for number in 0_u64.. {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"storm": number.to_string()}}}));
            tunnels.patch("vx0", &PatchParams::default(), &patch).await.expect("accepted");
        }
    };
    let changes = async {
        for host in 11..19 {
            is_served(&one, &format!("10.100.0.{host}/24")).await;
        }
    };
    no_packet_is_lost(&one, async {
        tokio::select! {
            () = storm => unreachable!("it has no end"),
            () = changes => {}
        }
    })
    .await;
    let ready = condition(&one.tunnel("vx0").await, "Ready").cloned().expect("a condition");
    assert_eq!(ready.status, "True", "{ready:?}");
    assert!(conflicts() > before, "none of our writes conflicted: there was no storm");
}

/// Gives the controllers' account a single seat at the server: whoever comes while it is taken gets a 429.
fn one_seat() -> String {
    let version = "flowcontrol.apiserver.k8s.io/v1";
    let level = json!({
        "apiVersion": version, "kind": "PriorityLevelConfiguration", "metadata": {"name": "storm"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    });
    let account = json!({"name": ACCOUNT, "namespace": "multi-vpc-system"});
    let schema = json!({
        "apiVersion": version, "kind": "FlowSchema", "metadata": {"name": "storm"},
        "spec": {
            "priorityLevelConfiguration": {"name": "storm"}, "matchingPrecedence": 2,
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                    "clusterScope": true, "namespaces": ["*"],
                }],
            }],
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [level, schema]}).to_string()
}

/// While this lives the controllers' account has one seat, which is taken.
struct Refusal {
    kubeconfig: PathBuf,
    seat: Option<Child>,
}

impl Refusal {
    async fn of(cluster: &Cluster) -> Refusal {
        let mut refusal = Refusal { kubeconfig: cluster.kubeconfig.clone(), seat: None };
        cluster.apply(&one_seat()).await.ok();
        let take = || async {
            let mut seat = take_seat(cluster);
            // One that is refused, because the seat was just taken by a request of the controller, ends at once.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let ended = seat.try_wait().expect("its state");
            ended.map_or_else(|| Ok(seat), |ended| Err(format!("{ended}")))
        };
        refusal.seat = Some(cluster.until("the only seat is taken", PATIENCE, async || take().await).await);
        refusal
    }
}

/// A request of the controllers' account that does not end: its body never comes.
fn take_seat(cluster: &Cluster) -> Child {
    let config = std::fs::read_to_string(cluster.controller_kubeconfig()).expect("its kubeconfig");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).expect(pointer).to_owned();
    let (server, token) = (text("/clusters/0/cluster/server"), text("/users/0/user/token"));
    let url = format!("{server}/apis/coordination.k8s.io/v1/namespaces/multi-vpc-system/leases");
    let mut curl = Command::new("curl");
    curl.args(["-skf", "-X", "POST", "-H", &format!("Authorization: Bearer {token}"), "-T", "-", &url]);
    curl.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("curl")
}

impl Drop for Refusal {
    /// Also when the test fails: the next one uses the same server.
    fn drop(&mut self) {
        if let Some(mut seat) = self.seat.take() {
            let _ = seat.kill();
            let _ = seat.wait();
        }
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig);
        kubectl.args([
            "delete",
            "flowschema/storm",
            "prioritylevelconfiguration/storm",
            "--ignore-not-found",
        ]);
        let deleted = kubectl.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
        assert!(deleted || std::thread::panicking(), "the server takes requests again");
    }
}

#[tokio::test]
#[ignore = "needs real API servers: make real"]
async fn a_server_that_answers_429_for_a_while_costs_no_packet_and_is_caught_up_with() {
    let (_sandbox, one, _two) = joined().await;
    let folder = real::needed();
    let refused = || real::audit(&folder, "cluster1").iter().filter(|request| request.code == 429).count();
    no_packet_is_lost(&one, async {
        let refusal = Refusal::of(&one).await;
        let before = refused();
        one.patch_spec("vx0", json!({"interfaceAddr": "10.100.0.6/24"})).await;
        tokio::time::sleep(AWAY).await;
        eprintln!("{} of our requests were refused", refused() - before);
        assert!(refused() > before, "none of the controller's requests was refused");
        drop(refusal);
        one.says(NS, "vx0", "Ready", "True", "Up", 2 * PATIENCE).await;
        is_served(&one, "10.100.0.5/24").await;
    })
    .await;
}
