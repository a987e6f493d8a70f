//! From objects to values and back, by example.

use std::net::Ipv4Addr;

use causeway_api::dns::workload::{Container, Service};
use causeway_api::dns::{LooseForward, parse, patch, record};
use causeway_api::vpc::foreign::kube_ovn;
use causeway_core::dns::Route;
use causeway_core::dns::annotation::Routes;
use causeway_core::dns::deployment::{Inherited, Script, Want, plan};
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{deployment, new_form, old_form};

const ROW: &str = "ip -4 route add 10.96.0.1 via 10.244.0.1 dev net1;";
const ROUTE: Route = Route { to: Ipv4Addr::new(10, 96, 0, 10), via: Ipv4Addr::new(10, 244, 0, 1) };

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

#[test]
fn a_forward_is_read_whatever_its_definition_lets_it_be() {
    let read = |spec: Value, status: Value| {
        let forward =
            json!({ "metadata": { "name": "dns-1", "namespace": "ns1" }, "spec": spec, "status": status });
        parse::forward(&object::<LooseForward>(forward)).expect("a key")
    };
    assert_eq!(read(json!({ "vpc": "test-vpc-1" }), Value::Null).vpc.as_deref(), Ok("test-vpc-1"));
    for spec in
        [json!({}), json!({ "vpc": 7 }), json!({ "vpc": "" }), json!({ "vpc": "No Name" }), Value::Null]
    {
        assert!(read(spec.clone(), Value::Null).vpc.is_err(), "{spec}");
    }
    // The older operator's status, and one that somebody wrote anything into.
    let odd = json!({ "initialized": true, "corefiles": ["mine", "../x", ""], "vpc": "a", "kubeDns": 7 });
    let status = read(json!({ "vpc": "a" }), odd).status;
    assert_eq!((status.vpc.as_deref(), status.kube_dns), (Some("a"), None));
    assert_eq!(status.corefiles.into_iter().collect::<Vec<_>>(), ["mine"]);
    assert_eq!(status.observed_generation, None);
}

#[test]
fn both_forms_of_a_deployment_are_read() {
    let old = deployment(old_form(ROW));
    let script = old.script.expect("a container").expect("a script");
    assert_eq!((script.text(), script.words.len()), (ROW, 3));
    assert_eq!(old.providers.into_iter().collect::<Vec<_>>(), ["ovn-nad.default.ovn"]);
    let new = deployment(new_form(r#"[{"dst":"10.96.0.1/32","gw":"10.244.0.1"},{"src":1}]"#));
    assert_eq!(new.script, None);
    let Routes::List { entries, .. } = &new.routes["ovn-nad.default.ovn.kubernetes.io/routes"] else {
        panic!("{new:?}")
    };
    assert_eq!((entries.len(), entries[0].gw.as_str(), entries[1].dst.as_str()), (2, "10.244.0.1", ""));
    for text in ["", "{}", "[1", "10.96.0.1/32"] {
        let odd = deployment(new_form(text));
        assert!(matches!(odd.routes.values().next(), Some(Routes::Unreadable(_))), "{text}");
    }
    let other: causeway_api::dns::workload::Deployment = object(json!({ "metadata": { "name": "coredns" } }));
    assert_eq!(parse::deployment(&other), None, "any other Deployment is none of ours");
}

#[test]
fn a_script_is_the_word_after_the_shells_flag_wherever_that_is() {
    for (container, script) in [
        (json!({ "name": "x", "command": ["sh", "-c", "a"] }), Some("a")),
        (json!({ "name": "x", "command": ["/bin/bash", "-euc", "a", "b"] }), Some("a")),
        (json!({ "name": "x", "command": ["sh"], "args": ["-c", "a"] }), Some("a")),
        (json!({ "name": "x", "args": ["sh", "-c", "a"] }), Some("a")),
        (json!({ "name": "x", "command": ["ip", "-4", "route"] }), None),
        (json!({ "name": "x", "command": ["sh", "-c"] }), None),
        (json!({ "name": "x" }), None),
    ] {
        let found = object::<Container>(container.clone()).script();
        assert_eq!(found.as_ref().map(Script::text), script, "{container}");
    }
}

#[test]
fn addresses_are_the_ipv4_half_of_what_there_is() {
    let service = |spec: Value| {
        parse::address(&object::<Service>(json!({ "metadata": { "name": "kube-dns" }, "spec": spec })))
    };
    assert_eq!(service(json!({ "clusterIP": "10.96.0.10" })), Ok(ROUTE.to));
    assert_eq!(
        service(json!({ "clusterIP": "fd00::a", "clusterIPs": ["fd00::a", "10.96.0.10"] })),
        Ok(ROUTE.to)
    );
    for spec in [
        json!({}),
        json!({ "clusterIP": "None" }),
        json!({ "clusterIP": "fd00::a" }),
        json!({ "clusterIP": "" }),
    ] {
        assert!(service(spec.clone()).is_err(), "{spec}");
    }
    let subnet = |gateway: Value| {
        let value = json!({ "metadata": { "name": "ovn-default" }, "spec": { "gateway": gateway },
                            "apiVersion": "kubeovn.io/v1", "kind": "Subnet" });
        parse::gateway(&object::<kube_ovn::Subnet>(value))
    };
    assert_eq!(subnet(json!("10.244.0.1")), Ok(ROUTE.via));
    assert_eq!(subnet(json!("fd00::1,10.244.0.1")), Ok(ROUTE.via));
    for gateway in [json!(""), json!("fd00::1"), Value::Null, json!("0.0.0.0")] {
        assert!(subnet(gateway.clone()).is_err(), "{gateway}");
    }
}

#[test]
fn a_corefile_of_another_name_and_a_provider_are_read_only_if_they_can_be_names() {
    let dns = |spec: Value, status: Value| {
        let value = json!({ "metadata": { "name": "d" }, "spec": spec, "status": status,
                            "apiVersion": "kubeovn.io/v1", "kind": "VpcDns" });
        parse::vpc_dns(&object::<kube_ovn::VpcDns>(value))
    };
    let active = dns(json!({ "vpc": "a" }), json!({ "active": true })).expect("a VPC");
    assert_eq!((active.active, active.corefile.as_str()), (true, "vpc-dns-corefile"));
    let mine = dns(json!({ "vpc": "a", "corefile": "mine" }), json!({})).expect("a VPC");
    assert_eq!((mine.active, mine.corefile.as_str()), (false, "mine"));
    assert_eq!(
        dns(json!({ "vpc": "a", "corefile": "" }), json!({})).expect("a VPC").corefile,
        "vpc-dns-corefile"
    );
    assert_eq!(dns(json!({}), json!({})), None);
    let provider = |text: &str| {
        parse::provider(&object::<ConfigMap>(json!({ "metadata": {}, "data": { "nad-provider": text } })))
    };
    assert_eq!(provider("ovn-nad.default.ovn").as_deref(), Some("ovn-nad.default.ovn"));
    for text in ["", "a b", "A", "x\ny", &"a".repeat(250)] {
        assert_eq!(provider(text), None, "{text}");
    }
}

#[test]
fn what_is_written_of_a_deployment_is_the_route_and_the_record_and_nothing_else() {
    let want = Want::Route(ROUTE, Inherited::Theirs);
    let seen = deployment(old_form(ROW));
    let edit = plan(&seen, want, None).edit.expect("an edit");
    let body = patch::deployment(&edit, &seen);
    let written = &body["metadata"]["annotations"]["causeway/vpc-dns-route"];
    let expected = json!({
        "metadata": { "resourceVersion": "7", "annotations": { "causeway/vpc-dns-route": written } },
        "spec": { "template": { "spec": { "initContainers": [{
            "name": "init-route",
            "command": ["sh", "-c", format!("{ROW}ip -4 route add 10.96.0.10 via 10.244.0.1 dev net1;")],
        }]}}},
    });
    assert_eq!(body, expected);
    let record = record::read(written.as_str().expect("text")).expect("a record");
    assert_eq!(Some(&Some(record)), edit.record.as_ref());

    let seen = deployment(new_form("[]"));
    let edit = plan(&seen, want, None).edit.expect("an edit");
    let body = patch::deployment(&edit, &seen);
    let key = "ovn-nad.default.ovn.kubernetes.io/routes";
    assert_eq!(
        body["spec"],
        json!({ "template": { "metadata": { "annotations": { key: r#"[{"dst":"10.96.0.10/32","gw":"10.244.0.1"}]"# } } } })
    );
}

#[test]
fn a_record_that_makes_no_sense_is_none() {
    let good =
        r#"{"in":"init-route","to":"10.96.0.10","via":"10.244.0.1","before":"a","added":"b","after":""}"#;
    let record = record::read(good).expect("a record");
    assert_eq!(record::write(&record), good);
    for bad in [
        "",
        "{}",
        "null",
        &good.replace("\"b\"", "\"\""),
        &good.replace("10.96.0.10", "x"),
        &good.replace("{", "{\"z\":1,"),
    ] {
        assert_eq!(record::read(bad), None, "{bad}");
    }
}
