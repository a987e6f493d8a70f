//! `causeway gather` leaves secrets out, whatever object they are in, and tolerates what it may not read.
#![cfg(feature = "sandbox")]

#[path = "status_cli/site.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod site;

use causeway_api::{dns, networks, rules, vpc};
use causeway_core::rules::Kind;
use serde_json::{Value, json};
use site::{Site, finish};

/// Whatever has this in it must not be found.
const PLANTED: &str = "planted-hunter2";

/// A secret in every place of an object where one may be.
fn with_secrets(mut object: Value, number: usize) -> Value {
    let secret = |place: &str| format!("{PLANTED}-{place}-{number}");
    object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        secret("applied").into();
    object["metadata"]["annotations"]["vault.example/inject"] = secret("annotation").into();
    object
}

/// An object of each kind that is gathered, by its namespace.
fn objects() -> Vec<(&'static str, Value)> {
    let of = |version: &str, kind: &str, spec: Value| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "it", "annotations": {} }, "spec": spec });
    let container = json!({
        "name": "vpc-nat-gw", "image": "example/image", "args": ["controller", format!("--broker-token={PLANTED}-flag")],
        "env": [{ "name": "OS_PASSWORD", "value": format!("{PLANTED}-env") }],
    });
    let pod = json!({ "containers": [container] });
    let labels = json!({ "ovn.kubernetes.io/vpc-nat-gw": "true", "app": "vpc-nat-gw-gw1" });
    let labelled = |mut object: Value| {
        object["metadata"]["labels"] = labels.clone();
        object
    };
    let workload = |pod: &Value| {
        json!({ "selector": { "matchLabels": labels }, "serviceName": "x", "template": {
            "metadata": { "labels": labels, "annotations": { "mine": format!("{PLANTED}-template") } }, "spec": pod } })
    };
    let deployment = |pod: &Value| {
        let mut spec = workload(pod);
        spec.as_object_mut().expect("an object").remove("serviceName");
        spec
    };
    let tunnel = json!({ "type": "vxlan", "interfaceAddr": "10.100.0.1/24", "clusterId": "c2", "gatewayName": "gw1",
                         "natGwDp": "gw1" });
    let discovery = json!({ "clusterID": "c1", "brokerK8sApiServerToken": format!("{PLANTED}-token"),
        "brokerK8sApiServer": format!("https://me:{PLANTED}-url@broker:6443"), "brokerK8sSecret": "its-name" });
    let mut all = vec![
        ("ns1", of("kubeovn.ustc.io/v1", "VpcNatTunnel", tunnel)),
        (
            "ns1",
            of(
                "kubeovn.ustc.io/v1",
                "GatewayExIp",
                json!({ "externalip": "1.2.3.4", "globalnetcidr": "242.1.0.0/16" }),
            ),
        ),
        ("", of("kubeovn.io/v1", "Vpc", json!({ "password": format!("{PLANTED}-spec") }))),
        ("", of("kubeovn.io/v1", "Subnet", json!({ "password": format!("{PLANTED}-spec") }))),
        ("", of("kubeovn.io/v1", "VpcNatGateway", json!({ "password": format!("{PLANTED}-spec") }))),
        ("", of("kubeovn.io/v1", "IptablesEIP", json!({ "password": format!("{PLANTED}-spec") }))),
        (
            "submariner-operator",
            of("submariner.io/v1", "Cluster", json!({ "token": format!("{PLANTED}-spec") })),
        ),
        ("", of("submariner.io/v1", "ClusterGlobalEgressIP", json!({ "token": format!("{PLANTED}-spec") }))),
        ("submariner-operator", of("submariner.io/v1alpha1", "ServiceDiscovery", discovery)),
        ("kube-system", labelled(of("apps/v1", "StatefulSet", workload(&pod)))),
        ("kube-system", labelled(of("apps/v1", "Deployment", deployment(&pod)))),
        ("kube-system", labelled(of("v1", "Pod", pod.clone()))),
        ("multi-vpc-system", of("apps/v1", "Deployment", deployment(&pod))),
        ("multi-vpc-system", of("v1", "Pod", pod)),
        ("", of("v1", "Node", json!({}))),
        ("ns1", of("kubeovn.ustc.io/v1", "VpcDnsForward", json!({ "vpc": "a" }))),
        ("", of("kubeovn.io/v1", "VpcDns", json!({ "password": format!("{PLANTED}-spec") }))),
        (
            "default",
            of(
                "samplecrd.k8s.io/v1",
                "Network",
                json!({ "cidr": "192.168.1.0/24", "gateway": "192.168.1.1" }),
            ),
        ),
    ];
    let mut config = of("v1", "ConfigMap", Value::Null);
    config["metadata"]["name"] = "ovn-vpc-nat-config".into();
    config["data"] = json!({ "token": format!("{PLANTED}-data"), "natGwNamePrefix": "vpc-nat-gw" });
    config.as_object_mut().expect("an object").remove("spec");
    all.push(("kube-system", config));
    let mut lease = of("coordination.k8s.io/v1", "Lease", json!({}));
    lease["metadata"]["name"] = "causeway-controller".into();
    all.push(("multi-vpc-system", lease));
    let mut secret = of("v1", "Secret", Value::Null);
    secret["stringData"] = json!({ "password": format!("{PLANTED}-secret") });
    secret.as_object_mut().expect("an object").remove("spec");
    all.extend(["ns1", "multi-vpc-system", "kube-system"].map(|namespace| (namespace, secret.clone())));
    let event = json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": "it", "annotations": {} },
        "involvedObject": { "kind": "VpcNatTunnel", "namespace": "ns1", "name": "it" }, "reason": "Up",
        "message": format!("with Authorization: Bearer {PLANTED}-message") });
    all.push(("ns1", event));
    all
}

#[tokio::test]
async fn no_secret_of_any_object_is_in_the_archive() {
    let crds = [vpc::crds(), dns::crds(), vpc::foreign::crds(), networks::crds(), rules::crds()].concat();
    let site = Site::named("cluster 1/odd", crds).await;
    let namespaces = ["multi-vpc-system", "submariner-operator"];
    let namespaces = namespaces
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }));
    let objects = objects().into_iter().enumerate().map(|(number, (namespace, mut object))| {
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        with_secrets(object, number)
    });
    let all: Vec<Value> = namespaces.into_iter().chain(objects).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": all });
    let file = site.write("objects.list", &list.to_string());
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rules");
    let annotation = format!("vault.example/inject={PLANTED}-rule");
    for args in [
        vec!["create", "--validate=false", "-f", file.to_str().expect("text")],
        vec!["create", "-f", rules],
        vec!["annotate", "-f", rules, &annotation],
    ] {
        let mut kubectl = tokio::process::Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(site.kubeconfig()).args(args);
        let done = finish(kubectl).await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let archive = site.folder().join("it.tar.gz");
    let mut command = site.command(&["gather", "--kubeconfig"]);
    command.arg(site.kubeconfig()).arg("--file").arg(&archive);
    let said = finish(command).await;
    assert_eq!(said.code, Some(2), "logs and gateways cannot be had here: {said:?}");
    assert!(said.err.contains("not gathered: cluster_1_odd: what gateway kube-system/it holds"), "{said:?}");
    assert_eq!(said.out.trim(), archive.to_str().expect("text"));

    let mut tar = tokio::process::Command::new("tar");
    tar.arg("-xzf").arg(&archive).arg("-C").arg(site.folder());
    assert_eq!(finish(tar).await.code, Some(0));
    let mut grep = tokio::process::Command::new("grep");
    grep.args(["-rn", PLANTED, "--include=*.json", "--include=*.txt", "--include=*.log"]).arg(site.folder());
    let found = finish(grep).await;
    assert_eq!(found.out, "", "secrets were gathered");

    let folder = std::fs::read_dir(site.folder()).expect("a folder").flatten().map(|entry| entry.path());
    let folder = folder.filter(|path| path.is_dir()).find(|path| path.join("README.txt").exists());
    let folder = folder.expect("the archive's folder");
    let files = std::fs::read_dir(folder.join("cluster_1_odd/objects")).expect("objects").flatten();
    let files: Vec<String> = files.map(|file| file.file_name().into_string().expect("text")).collect();
    assert!(!files.iter().any(|file| file.contains("secret")), "{files:?}");
    for kind in [
        "vpcnattunnels",
        "gatewayexips",
        "vpcs",
        "subnets",
        "servicediscoveries",
        "controller-pods",
        "tunnel-events",
        "networks",
        "vpcdnsforwards",
        "vpc-dnses",
    ] {
        let path = folder.join(format!("cluster_1_odd/objects/{kind}.json"));
        let objects: Value = serde_json::from_str(&std::fs::read_to_string(path).expect(kind)).expect("JSON");
        assert_eq!(objects.as_array().map(Vec::len), Some(1), "{kind}");
        assert!(objects.to_string().contains("REDACTED"), "{kind}: {objects}");
    }
    for kind in Kind::ALL {
        let path = folder.join(format!("cluster_1_odd/objects/{}.json", kind.plural()));
        assert!(std::fs::read_to_string(path).is_ok_and(|text| text.contains("REDACTED")), "{kind}");
    }
    let discovery =
        std::fs::read_to_string(folder.join("cluster_1_odd/objects/servicediscoveries.json")).expect("it");
    assert!(
        discovery.contains("its-name") && discovery.contains("broker:6443"),
        "what helps stays: {discovery}"
    );
    let missed = std::fs::read_to_string(folder.join("NOT_GATHERED.txt")).expect("it");
    assert!(missed.contains("metrics/it.txt"), "{missed}");
    assert!(!missed.contains("Status {"), "in words: {missed}");
}

/// A kubeconfig for a server that is spoken to without TLS.
fn kubeconfig(context: &str, address: std::net::SocketAddr) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "contexts": [{ "name": context, "context": { "cluster": "it", "user": "me" } }],
        "clusters": [{ "name": "it", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "me", "user": {} }],
    })
    .to_string()
}

#[tokio::test]
async fn a_cluster_where_nobody_answers_is_given_up_at_once_and_keeps_no_other_from_being_gathered() {
    let site = Site::with_tunnels("lively").await;
    site.put("ns1", site::tunnel("demo")).await;
    // The kernel takes connections for it, and nobody reads what they bring.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let left = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let nobody = left.local_addr().expect("bound");
    drop(left);
    let address = silent.local_addr().expect("bound");
    let files = [
        site.write("silent.config", &kubeconfig("silent", address)),
        site.write("nobody.config", &kubeconfig("nobody", nobody)),
        site.kubeconfig(),
    ];
    let archive = site.folder().join("it.tar.gz");
    let mut command = site.command(&["gather", "--timeout", "1", "--file"]);
    command.arg(&archive);
    for file in &files {
        command.arg("--kubeconfig").arg(file);
    }
    let said = finish(command).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    let lines = |start: &str| said.err.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    let of_silent = format!("not gathered: silent: given up: http://{address} has not answered within 1 s: ");
    assert!(matches!(lines("not gathered: silent")[..], [line] if line.starts_with(&of_silent)), "{said:?}");
    let of_nobody = format!("not gathered: nobody: given up: nothing listens at http://{nobody} ");
    assert!(matches!(lines("not gathered: nobody")[..], [line] if line.starts_with(&of_nobody)), "{said:?}");
    assert_eq!(lines("silent: given up").len(), 1, "while others are gathered: {said:?}");
    assert_eq!(lines("lively: 1 vpcnattunnels").len(), 1, "{said:?}");

    let mut tar = tokio::process::Command::new("tar");
    tar.arg("-xzOf").arg(&archive);
    let held = finish(tar).await.out;
    assert!(held.contains(of_silent.trim_start_matches("not gathered: ")), "it is noted: {held}");
    assert!(held.contains("\"name\": \"demo\""), "{held}");
}

#[tokio::test]
async fn an_archive_that_cannot_be_made_is_told_in_a_sentence() {
    let site = Site::with_tunnels("one").await;
    let mut command = site.command(&["gather", "--file", "/nonexistent/it.tar.gz", "--kubeconfig"]);
    command.arg(site.kubeconfig());
    let said = finish(command).await;
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
    let why = "error: cannot make the archive /nonexistent/it.tar.gz: no such file or directory\n";
    assert_eq!(said.err, why);
}
