//! Taking Causeway out of a cluster, as people do it: with kubectl and make, from outside.
#![cfg(feature = "sandbox")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::Value;
use support::gateway::ONE_TUNNEL;
use support::tunnels::{NS, vxlan, with_vni};
use support::{Cluster, PATIENCE, Said, Sandbox, real};
use tokio::process::Command;

/// The kinds of `deploy/controller.yaml` that the embedded server has; it has no rights to give.
const KINDS: [&str; 3] = ["Namespace", "ServiceAccount", "Deployment"];
const LEASE: Duration = Duration::from_secs(15);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What ships, in files: all of it where the server is a real one.
fn manifests(sandbox: &Sandbox) -> Vec<String> {
    let shipped = |name| root().join("deploy").join(name).display().to_string();
    if real::folder().is_some() {
        return vec![shipped("controller.yaml"), shipped("vpc.yaml")];
    }
    let text = std::fs::read_to_string(shipped("controller.yaml")).expect("the manifest");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let served =
        objects.iter().filter(|object| object["kind"].as_str().is_some_and(|it| KINDS.contains(&it)));
    let documents: String = served.map(|object| format!("---\n{object}\n")).collect();
    // With the logs, which a sandbox may leave behind.
    let file = sandbox.folder().join("logs").join("deploy.yaml");
    std::fs::write(&file, documents).expect("written");
    vec![file.display().to_string()]
}

/// Runs a command of the project on a cluster; gives how it ended and how long it took.
async fn run(one: &Cluster, command: &[&str], variables: &[(&str, &str)]) -> (Said, Duration) {
    let start = Instant::now();
    let (program, args) = command.split_first().expect("a command");
    let mut child = Command::new(program);
    child.args(args).current_dir(root()).env("KUBECONFIG", &one.kubeconfig).stdin(Stdio::null());
    child.envs(variables.iter().copied()).kill_on_drop(true);
    let output = tokio::time::timeout(2 * PATIENCE, child.output()).await;
    let output = output.expect("it ends").expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = Said {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    };
    (said, start.elapsed())
}

/// A tunnel on each gateway of a cluster, up.
async fn two_tunnels(one: &Cluster) {
    for (name, gateway, vni) in [("first0", "gw1", 1), ("second0", "gw2", 2)] {
        let tunnel = vxlan(name, gateway, &format!("cluster2/{gateway}"), &format!("10.100.{vni}.1/24"));
        one.create(&with_vni(tunnel, vni)).await;
        one.built(name).await;
        assert_eq!(one.marked(gateway).await.len(), ONE_TUNNEL);
    }
}

/// The controller goes when its Deployment does, as it would where Kubernetes had started it.
async fn ends_with_deployment(sandbox: &Sandbox, one: &Cluster) {
    let deployments: Api<Deployment> = Api::namespaced(one.client.clone(), "multi-vpc-system");
    one.until("the Deployment is gone", PATIENCE, async || {
        match deployments.get_opt("multi-vpc-controller-manager").await.map_err(|error| error.to_string())? {
            Some(_) => Err("it is there".to_owned()),
            None => Ok(()),
        }
    })
    .await;
    sandbox.hold(one).await;
}

/// The names of our definitions that are installed.
async fn definitions(one: &Cluster) -> Vec<String> {
    let names = one.kubectl(&["get", "crd", "-o", "name"]).await.ok();
    names.lines().filter(|name| name.ends_with(".kubeovn.ustc.io")).map(str::to_owned).collect()
}

/// Where a Service of the name that data planes know leads.
async fn name(one: &Cluster) -> String {
    let args = ["get", "service", "-n", "opensergo-system", "opensergo-control-plane", "--ignore-not-found"];
    one.kubectl(&[&args[..], &["-o", "jsonpath={.spec.externalName}{.spec.type}"]].concat()).await.ok()
}

#[tokio::test]
async fn undeploying_takes_the_name_that_data_planes_know_only_where_it_leads_to_us() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let mut undeploy = vec!["hack/undeploy.sh"];
    let manifests = manifests(&sandbox);
    undeploy.extend(manifests.iter().map(String::as_str));
    let shipped = root().join("deploy/rules-name.yaml").display().to_string();
    one.kubectl(&["apply", "-f", &shipped]).await.ok();
    assert!(name(&one).await.starts_with("causeway-rules."));
    let said = run(&one, &undeploy, &[("WAIT", "50")]).await.0.ok();
    assert!(said.contains("the namespace opensergo-system stays"), "{said}");
    assert_eq!(name(&one).await, "");
    let namespace =
        one.kubectl(&["get", "namespace", "opensergo-system", "-o", "jsonpath={.status.phase}"]).await;
    assert_ne!(namespace.ok(), "Terminating", "with what else is in it");

    let stock = r#"{"apiVersion": "v1", "kind": "Service", "spec": {"type": "ClusterIP", "ports": [{"port": 10246}]},
        "metadata": {"name": "opensergo-control-plane", "namespace": "opensergo-system"}}"#;
    one.apply(stock).await.ok();
    run(&one, &undeploy, &[("WAIT", "50")]).await.0.ok();
    assert_eq!(name(&one).await, "ClusterIP", "OpenSergo's own");
}

#[tokio::test]
async fn undeploying_cleans_the_gateways_and_leaves_no_tunnel_no_definition_and_no_controller() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let manifests = manifests(&sandbox);
    for manifest in &manifests {
        one.kubectl(&["apply", "-f", manifest]).await.ok();
    }
    two_tunnels(&one).await;

    let mut undeploy = vec!["hack/undeploy.sh"];
    undeploy.extend(manifests.iter().map(String::as_str));
    let ((said, _), ()) =
        tokio::join!(run(&one, &undeploy, &[("WAIT", "50")]), ends_with_deployment(&sandbox, &one));
    let printed = said.ok();
    for gateway in ["gw1", "gw2"] {
        assert_eq!(one.marked(gateway).await, Vec::<String>::new(), "{gateway}: {printed}");
    }
    assert_eq!(definitions(&one).await, Vec::<String>::new());
    let left = one.kubectl(&["get", "namespace", "multi-vpc-system", "--ignore-not-found"]).await.ok();
    assert_eq!(left, "", "the namespace, and all that is in it");
    assert!(
        printed.contains("kubectl delete gatewayexips,tunnelends,leases -l submariner-io/clusterID=cluster1"),
        "{printed}"
    );

    // Once more: there is nothing to do, and that is no error.
    run(&one, &undeploy, &[("WAIT", "50")]).await.0.ok();
    sandbox.let_go(&one);
}

#[tokio::test]
async fn without_a_controller_undeploying_ends_in_time_names_the_tunnels_and_says_what_to_do() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    two_tunnels(&one).await;
    let before = definitions(&one).await;
    assert_eq!(before.len(), 3, "{before:?}");
    sandbox.hold(&one).await;

    let bound = LEASE + Duration::from_secs(3);
    let wait = bound.as_secs().to_string();
    let (said, took) = run(&one, &["make", "uninstall"], &[("WAIT", &wait)]).await;
    assert!(took < bound + LEASE, "{took:?}: {said:?}");
    let names = [format!("{NS}/first0 on gateway gw1"), format!("{NS}/second0 on gateway gw2")];
    let words =
        ["No controller runs", "causeway-controller was last renewed", "Nothing else was removed", "FORCE=1"];
    said.refused(&[&names.each_ref().map(String::as_str)[..], &words[..]].concat());
    assert_eq!(definitions(&one).await, before);
    let listed = one.kubectl(&["get", "vnt", "-A", "-o", "name"]).await.ok();
    assert_eq!(listed.lines().count(), 2, "{listed}");

    let (said, _) = run(&one, &["make", "uninstall", "FORCE=1", "WAIT=8"], &[]).await;
    let printed = said.ok();
    for name in ["first0", "second0"] {
        assert!(
            printed.contains(&format!("(comment causeway:{NS}/{name})")),
            "it says what stays: {printed}"
        );
    }
    assert_eq!(definitions(&one).await, Vec::<String>::new());
    assert_eq!(one.marked("gw1").await.len(), ONE_TUNNEL, "as it said");
    // Held back no more: what ends with the sandbox is a controller too.
    sandbox.let_go(&one);
}

/// A network that only a controller with a cloud could let go.
async fn network(one: &Cluster) {
    let object = serde_json::json!({
        "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "spec": { "cidr": "10.8.0.0/24" },
        "metadata": { "name": "a", "namespace": "default", "finalizers": ["causeway/network", "example.org/theirs"] },
    });
    one.apply(&object.to_string()).await.ok();
    let network = ["networks.samplecrd.k8s.io", "-n", "default", "a"];
    let patch = r#"{"status": {"networkId": "7a1c"}}"#;
    let args = [&["patch"], &network[..], &["--subresource=status", "--type=merge", "-p", patch]].concat();
    one.kubectl(&args).await.ok();
}

async fn networks_are_defined(one: &Cluster) -> bool {
    let names = one.kubectl(&["get", "crd", "-o", "name"]).await.ok();
    names.lines().any(|name| name.ends_with("/networks.samplecrd.k8s.io"))
}

#[tokio::test]
async fn undeploying_waits_for_networks_first_and_leaves_a_definition_that_others_brought() {
    let sandbox = Sandbox::bare().await;
    let one = sandbox.cluster(1).await;
    let definition = root().join("deploy/networks-crds.yaml").display().to_string();
    one.kubectl(&["apply", "-f", &definition]).await.ok();
    network(&one).await;
    let before = definitions(&one).await;
    let (said, _) = run(&one, &["hack/undeploy.sh"], &[("WAIT", "2")]).await;
    said.refused(&[
        "default/a as the cloud's network 7a1c",
        "there is no Lease causeway-networks",
        "FORCE=1",
    ]);
    assert!(
        networks_are_defined(&one).await && definitions(&one).await == before,
        "nothing else was removed"
    );

    let (said, _) = run(&one, &["hack/undeploy.sh"], &[("WAIT", "4"), ("FORCE", "1")]).await;
    said.refused(&["others' finalizers hold these networks: default/a"]);
    let patch = r#"{"metadata": {"finalizers": []}}"#;
    let args = ["patch", "networks.samplecrd.k8s.io", "-n", "default", "a", "--type=merge", "-p", patch];
    one.kubectl(&args).await.ok();
    let (said, _) = run(&one, &["hack/undeploy.sh"], &[("WAIT", "20")]).await;
    assert!(said.ok().contains("no networks are left"));
    assert!(!networks_are_defined(&one).await);

    let mut foreign: Value =
        serde_saphyr::from_str(include_str!("../../../deploy/networks-crds.yaml")).expect("YAML");
    foreign["spec"]["names"]["categories"] = serde_json::json!([]);
    one.apply(&foreign.to_string()).await.ok();
    network(&one).await;
    run(&one, &["hack/undeploy.sh"], &[("WAIT", "20")]).await.0.ok();
    let left = one.kubectl(&["get", "networks.samplecrd.k8s.io", "-A", "-o", "name"]).await.ok();
    assert_eq!(left.lines().count(), 1, "none of ours: {left}");
}

#[tokio::test]
async fn undeploying_takes_forwards_first_and_leaves_the_texts_as_they_were() {
    let sandbox = Sandbox::start(&["--bare", "--dns"]).await;
    let one = sandbox.cluster(1).await;
    let corefile =
        ["get", "configmap", "-n", "kube-system", "vpc-dns-corefile", "-o", "jsonpath={.data.Corefile}"];
    let before = one.kubectl(&corefile).await.ok();
    let sample = root().join("samples/dns.yaml").display().to_string();
    one.kubectl(&["apply", "-f", &sample]).await.ok();
    one.kubectl(&["wait", "vdf", "-n", "ns1", "dns-1", "--for=condition=Ready", "--timeout=60s"]).await.ok();
    assert!(one.kubectl(&corefile).await.ok().contains("clusterset.local:53 {"));
    let (said, _) = run(&one, &["hack/undeploy.sh"], &[("WAIT", "50")]).await;
    assert!(said.ok().contains("no forwards are left"));
    assert_eq!(one.kubectl(&corefile).await.ok(), before);
    assert_eq!(definitions(&one).await, Vec::<String>::new());
}
