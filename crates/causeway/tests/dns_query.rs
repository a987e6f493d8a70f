//! Names of other clusters really resolve: a CoreDNS that loaded the Corefile as the controller left it, with the routes
//! that the controller put, asks through a tunnel. `make dns` builds that CoreDNS and runs this.
#![cfg(feature = "sandbox")]

mod support;

use std::path::{Path, PathBuf};

use kube::api::AttachedProcess;
use serde_json::{Value, json};
use support::{Cluster, PATIENCE, Sandbox};

/// A name, and where it leads: to the server of the other cluster, which is also where kube-dns's stand-in is.
const NAME: &str = "web.shop.svc.clusterset.local";
const SERVER: &str = "242.1.1.20";
const DEPLOYMENT: [&str; 4] = ["deployment", "-n", "kube-system", "vpc-dns-test-dns1"];
/// Answers as kube-dns would.
const KUBE_DNS: &str =
    ".:53 {\n  log\n  errors\n  hosts {\n    242.1.1.20 web.shop.svc.clusterset.local\n  }\n}\n";
/// Starts a CoreDNS as a pod has it: with an account's token, and with another server for everything else.
const AS_A_POD: &str = "mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io/serviceaccount && \
     echo none >/var/run/secrets/kubernetes.io/serviceaccount/token && mount --bind \"$3\" /etc/resolv.conf && \
     KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=1 exec \"$1\" -conf \"$2\" >>\"$2.log\" 2>&1";

/// The program that `hack/dns-build.sh` built.
fn coredns() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/dns-build.sh");
    let said = std::process::Command::new(script).arg("--have").output().expect("the script runs");
    assert!(said.status.success(), "there is no CoreDNS yet: `make dns` builds it");
    String::from_utf8(said.stdout).expect("a path").trim().to_owned()
}

/// A file that CoreDNS reads.
fn file(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    let file = sandbox.folder().join("logs").join(name);
    std::fs::write(&file, text).expect("written");
    file
}

/// A field of an object, as text.
async fn field(cluster: &Cluster, object: &[&str], path: &str) -> String {
    let path = format!("jsonpath={path}");
    cluster.kubectl(&[&["get"], object, &["-o", &path]].concat()).await.ok()
}

/// Waits until the forward says where it asks.
async fn forwards_to(one: &Cluster, server: &str) {
    let path = "{.status.kubeDns} {.status.conditions[?(@.type==\"Ready\")].status}";
    one.until(&format!("it forwards to {server}"), PATIENCE, async || {
        let said = field(one, &["vdf", "-n", "ns1", "dns-1"], path).await;
        if said == format!("{server} True") { Ok(()) } else { Err(said) }
    })
    .await;
}

/// The Corefile of the cluster's DNS servers.
async fn corefile(one: &Cluster) -> String {
    field(one, &["configmap", "-n", "kube-system", "vpc-dns-corefile"], "{.data.Corefile}").await
}

/// Starts the VPC's DNS server in the client's place, with a Corefile.
async fn serve(sandbox: &Sandbox, one: &Cluster, text: &str) -> AttachedProcess {
    let corefile = file(sandbox, "vpc-dns.Corefile", text).display().to_string();
    let upstream = file(sandbox, "resolv.conf", "nameserver 192.0.2.1\n").display().to_string();
    let program = coredns();
    let argv = ["unshare", "-m", "sh", "-c", AS_A_POD, "sh", &program, &corefile, &upstream];
    one.start("ns1", "client", &argv).await
}

/// Asks the VPC's DNS server, which may still be starting, until it answers.
async fn resolves(sandbox: &Sandbox, one: &Cluster) {
    let program = coredns();
    one.until(&format!("{NAME} leads to {SERVER}"), PATIENCE, async || {
        let said = one.exec("ns1", "client", &[&program, "ask", "127.0.0.1", NAME]).await;
        let log =
            std::fs::read_to_string(sandbox.folder().join("logs/vpc-dns.Corefile.log")).unwrap_or_default();
        if said.code == 0 && said.out.trim() == SERVER { Ok(()) } else { Err(format!("{said:?}\n{log}")) }
    })
    .await;
}

/// Ends the DNS server and waits until its port is free.
async fn end(one: &Cluster, server: AttachedProcess) {
    drop(server);
    one.until("nobody serves", PATIENCE, async || {
        let listeners = one.in_client("ss -Huln 'sport = 53'").await.ok();
        if listeners.is_empty() { Ok(()) } else { Err(listeners) }
    })
    .await;
}

/// Gives the client a link as the default network's, on which the routes lead.
async fn attach(one: &Cluster) {
    let script = "ip link add net1 link eth0 type macvlan mode bridge && ip address add 10.0.1.201/24 dev net1 && \
                  ip link set net1 up";
    one.in_client(script).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a CoreDNS: make dns"]
async fn a_name_of_another_cluster_resolves_through_the_tunnel_while_a_forward_is_there() {
    let program = coredns();
    let sandbox = Sandbox::start(&["--dns"]).await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    forwards_to(&one, "10.96.0.10").await;

    // kube-dns goes to the other end of the tunnel.
    let stand_in = file(&sandbox, "kube-dns.Corefile", KUBE_DNS).display().to_string();
    let serve_there = format!("exec {program} -conf {stand_in} >{stand_in}.log 2>&1");
    let _kube_dns = two.start("ns1", "server", &["sh", "-c", &serve_there]).await;
    one.kubectl(&["delete", "service", "-n", "kube-system", "kube-dns"]).await.ok();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": SERVER, "ports": [{"port": 53, "protocol": "UDP"}]},
    });
    one.apply(&service.to_string()).await.ok();
    forwards_to(&one, SERVER).await;

    // The pod starts as its Deployment says: first its script, then its Corefile.
    attach(&one).await;
    let script = field(
        &one,
        &DEPLOYMENT,
        "{.spec.template.spec.initContainers[?(@.name==\"init-route\")].command[2]}",
    )
    .await;
    assert!(script.ends_with(&format!("ip -4 route add {SERVER} via 10.0.1.1 dev net1;")), "{script}");
    one.in_client(&script).await.ok();
    let with = corefile(&one).await;
    let server = serve(&sandbox, &one, &with).await;
    resolves(&sandbox, &one).await;
    // It was asked through the tunnel: from an address of this cluster's range.
    let log = std::fs::read_to_string(format!("{stand_in}.log")).expect("its log");
    let asked = log.lines().find(|line| line.contains(NAME)).expect("a question");
    assert!(asked.contains(" 242.0.0."), "{asked}");
    let elsewhere = one.exec("ns1", "client", &[&program, "ask", "127.0.0.1", "example.org"]).await;
    assert_ne!(elsewhere.code, 0, "other names go where they went: {elsewhere:?}");
    end(&one, server).await;

    // The same where kube-ovn gives routes by annotation, which we carry out in its place.
    one.in_client(&format!("ip route del {SERVER}")).await.ok();
    let routes = json!([{"dst": "10.96.0.2/32", "gw": "10.0.1.1"}]).to_string();
    let key = "ovn-nad.default.ovn.kubernetes.io/routes";
    let patch = json!({"spec": {"template": {
        "metadata": {"annotations": {key: routes}}, "spec": {"initContainers": null},
    }}});
    one.kubectl(&[&["patch"], &DEPLOYMENT[..], &["--type=merge", "-p", &patch.to_string()]].concat())
        .await
        .ok();
    let path = "{.spec.template.metadata.annotations.ovn-nad\\.default\\.ovn\\.kubernetes\\.io/routes}";
    let given: Vec<Value> = one
        .until("the route is in the list", PATIENCE, async || {
            let text = field(&one, &DEPLOYMENT, path).await;
            if text.contains(SERVER) { Ok(serde_json::from_str(&text).expect("a list")) } else { Err(text) }
        })
        .await;
    for route in &given {
        let (to, via) = (route["dst"].as_str().expect("dst"), route["gw"].as_str().expect("gw"));
        one.in_client(&format!("ip route add {to} via {via} dev net1")).await.ok();
    }
    let server = serve(&sandbox, &one, &with).await;
    resolves(&sandbox, &one).await;
    end(&one, server).await;

    // Without a forward the name is nobody's here.
    one.kubectl(&["delete", "vdf", "-n", "ns1", "dns-1", "--timeout=60s"]).await.ok();
    let without = corefile(&one).await;
    assert!(with.ends_with(&without) && !without.contains("clusterset"), "{without}");
    assert_eq!(field(&one, &DEPLOYMENT, path).await, routes);
    let server = serve(&sandbox, &one, &without).await;
    one.until("it serves", PATIENCE, async || {
        let listeners = one.in_client("ss -Huln 'sport = 53'").await.ok();
        if listeners.is_empty() { Err(listeners) } else { Ok(()) }
    })
    .await;
    let asked = one.exec("ns1", "client", &[&program, "ask", "127.0.0.1", NAME]).await;
    assert_ne!(asked.code, 0, "{asked:?}");
    end(&one, server).await;
}
