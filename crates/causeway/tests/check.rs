//! `causeway check` and `causeway gather` as people use them, between two clusters of a sandbox.
#![cfg(feature = "sandbox")]

mod support;

use serde_json::Value;
use support::{Cluster, Said, Sandbox};

const SERVER: &str = "242.1.1.20";

async fn causeway(one: &Cluster, two: &Cluster, command: &str, more: &[&str]) -> Said {
    let files = [one, two].map(|cluster| cluster.kubeconfig.to_str().expect("text"));
    let mut args = vec![command, "--kubeconfig", files[0], "--kubeconfig", files[1]];
    args.extend(more);
    one.causeway(&args).await
}

fn document(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_two_clusters_transfer_what_arrives_as_it_was_sent() {
    let sandbox = Sandbox::start(&["--iptables", "nft"]).await;
    let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
    one.comes_to_reach(SERVER).await;

    let said = causeway(&one, &two, "check", &["-o", "json", "--megabytes", "4"]).await;
    let well = document(&said);
    assert_eq!((said.code, &well["healthy"]), (0, &Value::Bool(true)), "{said:?}");
    assert_eq!(well["from"]["pod"], "ns1/client", "the first of a VPC speaks");
    assert_eq!((&well["to"]["pod"], &well["to"]["address"]), (&"ns1/server".into(), &SERVER.into()));
    assert_eq!((&well["echo"]["received"], &well["longestPacket"]), (&5.into(), &1450.into()));
    assert_eq!((&well["transfer"]["bytes"], &well["transfer"]["intact"]), (&4_000_000.into(), &true.into()));
    assert!(well["transfer"]["bytesPerSecond"].as_f64().is_some_and(|rate| rate > 1e6), "{said:?}");

    let echoed =
        causeway(&one, &two, "check", &["--to", SERVER, "--echo-port", "7", "--megabytes", "1"]).await;
    assert_eq!(echoed.code, 0, "an echo service will do: {echoed:?}");
    let back =
        causeway(&two, &one, "check", &["--from", "ns1/client", "--to", "ns1/server", "--megabytes", "1"])
            .await;
    assert_eq!(back.code, 0, "and the other way: {back:?}");

    one.in_gateway("gw1", "iptables -I FORWARD -o demo -j DROP").await.ok();
    let cut = causeway(&one, &two, "check", &["--to", SERVER]).await;
    assert_eq!(cut.code, 1, "{cut:?}");
    assert!(cut.out.contains("no echo request was answered"), "{cut:?}");
    one.in_gateway("gw1", "iptables -D FORWARD -o demo -j DROP").await.ok();

    let nobody = causeway(&one, &two, "check", &["--from", "ns1/nobody"]).await;
    assert_eq!(nobody.code, 2, "{nobody:?}");
    let alone = one.causeway(&["check"]).await;
    assert_eq!((alone.code, alone.err.contains("name the second cluster")), (2, true), "{alone:?}");

    let copy = sandbox.folder().join("logs").join("copy.kubeconfig");
    std::fs::copy(&one.kubeconfig, &copy).expect("a copy");
    for second in [&one.kubeconfig, &copy] {
        let files = [&one.kubeconfig, second].map(|file| file.to_str().expect("text"));
        let same = one.causeway(&["check", "--kubeconfig", files[0], "--kubeconfig", files[1]]).await;
        assert_eq!((same.code, same.out.as_str()), (2, ""), "{same:?}");
        assert!(same.err.contains("the two clusters are one and the same"), "{same:?}");
    }

    // An end that has not noticed yet that it is healed would say so in the archive.
    for cluster in [&one, &two] {
        cluster.up("demo").await;
    }
    let archive = sandbox.folder().join("logs").join("gathered.tar.gz");
    let file = archive.to_str().expect("text");
    let said = causeway(&one, &two, "gather", &["--file", file]).await;
    let logs = "logs and metrics: no pod runs in namespace multi-vpc-system";
    assert_eq!((said.code, said.err.matches(logs).count()), (2, 2), "controllers are no pods here: {said:?}");
    let list = tokio::process::Command::new("tar").args(["-tzf", file]).output().await.expect("tar runs");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for part in
        ["cluster1/objects/vpcnattunnels.json", "cluster2/gateways/vpc-nat-gw-gw2-0.txt", "diagnose.json"]
    {
        assert!(list.contains(part), "{part} in {list}");
    }
    let held = tokio::process::Command::new("tar").args(["-xzOf", file]).output().await.expect("tar runs");
    let held = String::from_utf8_lossy(&held.stdout).into_owned();
    assert!(held.contains("vxlan id 100 remote 172.50.16.21") && held.contains("\"healthy\": true"));
    for cluster in [&one, &two] {
        let kubeconfig = std::fs::read_to_string(&cluster.kubeconfig).expect("a kubeconfig");
        let token = kubeconfig.split_once("token: ").expect("a token").1.lines().next().expect("it");
        assert!(token.len() > 20 && !held.contains(token), "the token of {}", cluster.name);
        let discovery = cluster.kubectl(&["get", "servicediscoveries", "-A", "-o", "json"]).await.ok();
        let discovery: Value = serde_json::from_str(&discovery).expect("JSON");
        let token = discovery["items"][0]["spec"]["brokerK8sApiServerToken"].as_str().expect("a token");
        assert!(token.len() > 20 && !held.contains(token), "the broker's token in {}", cluster.name);
    }
    let again = causeway(&one, &two, "gather", &["--file", file]).await;
    assert_eq!(again.code, 2, "an archive that is there is not overwritten: {again:?}");
}
