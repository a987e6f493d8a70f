//! Agents that come, are killed, and go; API servers that do not answer; what they would do, and how they leave.

use causeway_apiserver::{Fault, Switch};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::agent::Program;
use super::cluster::{Backend, Cluster};
use super::ping::Steady;
use super::repairs::events;
use super::{all_ours, joined};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_stopped_and_started_anew_it_costs_no_packet() {
    for backend in [Backend::HostGw, Backend::Vxlan] {
        let mut cluster = joined(backend).await;
        let devices = cluster.machines[0].devices();
        let address = cluster.machines[1].addresses()[0].clone();
        let flow = Steady::begin(cluster.folder(), &cluster.machines[0].pod, &address);
        flow.goes_on().await;
        for _ in 0..3 {
            cluster.kill(1);
            cluster.start(1, Program::Causeway);
        }
        flow.goes_on().await;
        cluster.stop(1).await;
        assert_eq!(all_ours(&cluster.machines[0]), Ok(()), "a clean stop leaves routes in place");
        flow.goes_on().await;
        flow.none_was_lost().await;
        assert_eq!(cluster.machines[0].devices(), devices, "index and VtepMAC stay");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_changes_goes_or_comes_is_followed() {
    let mut cluster = joined(Backend::HostGw).await;
    // It goes: an agent that is gone says nothing any more.
    cluster.kill(3);
    cluster.nodes().delete("node3", &DeleteParams::default()).await.expect("it goes");
    cluster
        .until("its routes go too", async || {
            let routes = cluster.machines[0].routes();
            if routes.len() == 2 { Ok(()) } else { Err(routes.join("\n")) }
        })
        .await;
    // It comes back with another part of the network.
    cluster.register_as(3, 33).await;
    cluster.start(3, Program::Causeway);
    cluster
        .until("the new routes are there", async || {
            let routes = cluster.machines[0].routes().join("\n");
            let there = routes.contains("10.244.33.0/24 via 192.168.7.3")
                && routes.contains("fd00:10:244:33::/64 via fd00:192:168::3");
            if there { Ok(()) } else { Err(routes) }
        })
        .await;
    // It goes over to another way: the others leave it, and say why.
    cluster.kill(3);
    let annotations =
        json!({ "metadata": { "annotations": { "flannel.alpha.coreos.com/backend-type": "udp" } } });
    let params = PatchParams::default();
    cluster.nodes().patch("node3", &params, &Patch::Merge(&annotations)).await.expect("patched");
    cluster
        .until("its routes go", async || {
            let routes = cluster.machines[0].routes();
            if routes.len() == 2 { Ok(()) } else { Err(routes.join("\n")) }
        })
        .await;
    let log = cluster.machines[0].log();
    assert!(log.contains("its backend is `udp`, and this node's is `host-gw`"), "{log}");
    cluster.start(3, Program::Causeway);
    cluster.until("it is put right by its own agent", async || all_ours(&cluster.machines[0])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_api_server_a_node_keeps_its_routes_and_repairs_them() {
    let cluster = joined(Backend::HostGw).await;
    let first = &cluster.machines[0];
    cluster.server().faults().set(vec![Fault::new(Switch::Freeze)]).expect("a fault");
    first.node.sh("ip route flush proto 158");
    cluster.until("it is repaired", async || all_ours(first)).await;
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_change_is_said_and_cleaning_up_leaves_nothing() {
    let mut cluster = joined(Backend::Vxlan).await;
    let (code, said) = cluster.run(1, &["--observe-only"]);
    assert_eq!((code, said.trim()), (Some(0), "nothing would change"));
    cluster.kill(1);
    let first = &cluster.machines[0];
    first.node.sh("ip route del 10.244.2.0/24; ip route add 10.9.0.0/16 via 192.168.7.2; iptables -A FORWARD -s 10.9.0.0/16 -j ACCEPT");
    let all = "ip route; iptables-save | grep -v '^#'; nft list ruleset 2>/dev/null | grep -v counter";
    let before = first.node.sh(all);
    let (code, said) = cluster.run(1, &["--observe-only"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("would put the route 10.244.2.0/24 via 10.244.2.0"), "{said}");
    assert_eq!(first.node.sh(all), before);

    let (code, said) = cluster.run(1, &["--cleanup"]);
    assert_eq!(code, Some(0), "{said}");
    let left =
        first.node.sh("ip route show proto 158; ip -6 route show proto 158; ip -o link show type vxlan
                              nft list tables | grep causeway || true; iptables-save | grep causeway || true
                              ip6tables-save | grep causeway || true");
    assert_eq!(left.trim(), "", "{said}");
    assert!(!cluster.folder().join("node1.subnet.env").exists());
    assert!(first.node.sh("ip route; iptables-save").contains("10.9.0.0/16"), "others' things stay");
    // And it can begin again.
    cluster.start(1, Program::Causeway);
    cluster.everybody_is_reached().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_part_of_the_network_waits_and_says_so() {
    let mut cluster = Cluster::new(Backend::HostGw).await;
    cluster.nodes().delete("node1", &DeleteParams::default()).await.expect("it goes");
    cluster.register_without(1).await;
    cluster.start_with(1, Program::Causeway, &["--healthz-port=8080"]);
    cluster
        .until("it says what it waits for", async || {
            let told = events(&cluster, "node1", "Waiting").await;
            let said = told.iter().any(|note| note.contains("Node node1 has no IPv4 podCIDR yet"));
            said.then_some(()).ok_or_else(|| format!("{told:?}"))
        })
        .await;
    assert_eq!(cluster.announced(1).await, Vec::<String>::new(), "nobody relies on it");
    let spec = json!({ "spec": { "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:10:244:1::/64"] } });
    cluster.nodes().patch("node1", &PatchParams::default(), &Patch::Merge(&spec)).await.expect("patched");
    for number in 2..=3 {
        cluster.start(number, Program::Causeway);
    }
    cluster.everybody_is_reached().await;
    let env = std::fs::read_to_string(cluster.folder().join("node1.subnet.env")).expect("a file");
    assert!(
        env.contains("FLANNEL_SUBNET=10.244.1.1/24\n")
            && env.contains("FLANNEL_IPV6_SUBNET=fd00:10:244:1::1/64\n"),
        "{env}"
    );
    let node = cluster.nodes().get("node1").await.expect("the node");
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let condition = conditions.iter().find(|it| it.type_ == "NetworkUnavailable").expect("it is said");
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("FlannelIsUp")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_may_change_nothing_says_so_and_nobody_relies_on_it() {
    let mut cluster = Cluster::new(Backend::HostGw).await;
    cluster.start(1, Program::Powerless);
    cluster
        .until("it says so", async || {
            let log = cluster.machines[0].log();
            if log.contains("error: the kernel lets this process change nothing: it needs CAP_NET_ADMIN") {
                Ok(())
            } else {
                Err(log)
            }
        })
        .await;
    assert_eq!(cluster.announced(1).await, Vec::<String>::new(), "nobody is told to reach it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_default_route_a_node_goes_on() {
    let mut cluster = Cluster::new(Backend::HostGw).await;
    let first = &cluster.machines[0];
    first.node.sh("ip route add default via 192.168.7.2; ip -6 route add default via fd00:192:168::2");
    // No name fits, so the link is that by which somewhere far is reached.
    cluster.start_with(
        1,
        Program::Causeway,
        &["--iface-regex=none.*", "--iface-can-reach=203.0.113.1", "--check-every=1h"],
    );
    for number in 2..=3 {
        cluster.start(number, Program::Causeway);
    }
    let first = &cluster.machines[0];
    let to_both = |machine: &super::Machine| {
        let routes = machine.routes();
        let ours = routes
            .iter()
            .filter(|route| route.starts_with("10.244.") && route.contains(" proto 158"))
            .count();
        if ours == 2 { Ok(()) } else { Err(routes.join("\n")) }
    };
    cluster.until("it is there", async || to_both(first)).await;
    first.node.sh("ip route del default; ip route flush proto 158");
    cluster.until("it is repaired", async || to_both(first)).await;
}
