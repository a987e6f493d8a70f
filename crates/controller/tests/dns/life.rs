//! The life of a forward: what comes with it, changes with it, and goes with it.

use causeway_core::dns::corefile::render;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::site::{ENTRY, Form, LIST, ROUTE, ROUTES, ROW, STOCK, Site, USUAL};
use crate::support::until;

fn with_block(server: &str) -> String {
    render(STOCK, server.parse().expect("an address"))
}

#[tokio::test(start_paused = true)]
async fn with_a_forward_come_a_block_and_a_route_and_they_go_with_it_and_leave_what_was_there() {
    for form in [Form::Script, Form::Annotation] {
        let site = Site::new(form).await;
        let before = site.deployment("vpc-dns-one").await;
        let _replica = site.start("controller");
        site.forward("f", "a").await;
        site.says("f", "Forwarding").await;
        assert_eq!(site.corefile_text(USUAL).await, with_block("10.96.0.10"));
        let mut with = site.deployment("vpc-dns-one").await;
        let (expected, place) = match form {
            Form::Script => {
                (json!(format!("{ROW}{ROUTE}")), "/spec/template/spec/initContainers/1/command/2")
            }
            Form::Annotation => {
                let list = LIST.trim_end_matches(']');
                (
                    json!(format!("{list},{ENTRY}]")),
                    "/spec/template/metadata/annotations/ovn-nad.default.ovn.kubernetes.io~1routes",
                )
            }
        };
        assert_eq!(with.pointer(place), Some(&expected));
        // Nothing else differs, to the byte.
        *with.pointer_mut(place).expect("a text") = before.pointer(place).expect("a text").clone();
        with["annotations"]
            .as_object_mut()
            .expect("annotations")
            .remove("causeway/vpc-dns-route")
            .expect("a record");
        assert_eq!(with, before);

        let forward = site.forwards().get("f").await.expect("the forward");
        assert_eq!(forward.metadata.finalizers.as_deref(), Some(&["dns.finalizer.ustc.io".to_owned()][..]));
        let status = forward.status();
        assert_eq!((status.vpc.as_deref(), status.vpc_dns.as_deref()), (Some("a"), Some("one")));
        assert_eq!(
            (status.kube_dns.as_deref(), status.gateway.as_deref()),
            (Some("10.96.0.10"), Some("10.244.0.1"))
        );
        assert_eq!(status.observed_generation, forward.metadata.generation);
        until("it is an event too", || async { site.events("f").await == ["Forwarding"] }).await;

        site.delete("f").await;
        site.is_gone("f").await;
        assert_eq!(site.corefile_text(USUAL).await, STOCK);
        assert_eq!(site.deployment("vpc-dns-one").await, before);
        assert_eq!((site.patches("deployments"), site.patches("configmaps")), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn what_kube_ovn_makes_anew_gets_its_route_back_in_either_form_and_people_hear_of_it() {
    let site = Site::new(Form::Script).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    site.make("vpc-dns-one", Form::Script).await;
    until("the route is back", || async { site.script("vpc-dns-one").await == format!("{ROW}{ROUTE}") })
        .await;
    assert!(site.has_record("vpc-dns-one").await);
    until("it is an event", || async { site.events("f").await.contains(&"DriftRepaired".into()) }).await;
    // kube-ovn is upgraded.
    site.make("vpc-dns-one", Form::Annotation).await;
    until("the route is in the other place", || async {
        site.routes("vpc-dns-one").await.as_str().is_some_and(|it| it.contains(ENTRY))
    })
    .await;
    site.corefile(USUAL, STOCK).await;
    until("so is the block", || async { site.corefile_text(USUAL).await == with_block("10.96.0.10") }).await;
    assert_eq!(site.condition("f", "Ready").await.expect("a condition").0, "True");
    site.delete("f").await;
    site.is_gone("f").await;
    assert_eq!(site.routes("vpc-dns-one").await, LIST);
    assert!(!site.has_record("vpc-dns-one").await);
}

#[tokio::test(start_paused = true)]
async fn another_vpc_in_the_spec_cleans_the_old_one() {
    let site = Site::new(Form::Script).await;
    site.vpc_dns("two", json!({ "vpc": "b" }), true).await;
    site.make("vpc-dns-two", Form::Annotation).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    site.respec("f", json!({ "vpc": "b" })).await;
    until("the new one has it and the old one has not", || async {
        site.has_record("vpc-dns-two").await && site.script("vpc-dns-one").await == ROW
    })
    .await;
    until("the forward says so", || async {
        let forward = site.forwards().get("f").await.expect("the forward");
        forward.status().vpc.as_deref() == Some("b") && forward.status().observed_generation == Some(2)
    })
    .await;
    assert!(!site.has_record("vpc-dns-one").await);
    assert_eq!(site.patches("configmaps"), 1, "the Corefile is everybody's");
}

#[tokio::test(start_paused = true)]
async fn two_forwards_share_what_they_have_and_it_goes_with_the_last() {
    let site = Site::new(Form::Annotation).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.forward("g", "a").await;
    site.says("f", "Forwarding").await;
    site.says("g", "Forwarding").await;
    site.delete("f").await;
    site.is_gone("f").await;
    assert_eq!(site.corefile_text(USUAL).await, with_block("10.96.0.10"));
    assert_eq!((site.patches("deployments"), site.patches("configmaps")), (1, 1));
    site.delete("g").await;
    site.is_gone("g").await;
    assert_eq!(site.corefile_text(USUAL).await, STOCK);
    assert_eq!(site.routes("vpc-dns-one").await, LIST);
}

#[tokio::test(start_paused = true)]
async fn where_kube_dns_or_the_gateway_moves_what_was_written_follows() {
    for form in [Form::Script, Form::Annotation] {
        let site = Site::new(form).await;
        let _replica = site.start("controller");
        site.forward("f", "a").await;
        site.says("f", "Forwarding").await;
        site.kube_dns("10.96.0.99").await;
        site.gateway("10.244.0.254,fd00::1").await;
        until("the forward says so", || async {
            let status = site.forwards().get("f").await.expect("the forward").status();
            (status.kube_dns.as_deref(), status.gateway.as_deref())
                == (Some("10.96.0.99"), Some("10.244.0.254"))
        })
        .await;
        assert_eq!(site.corefile_text(USUAL).await, with_block("10.96.0.99"));
        match form {
            Form::Script => {
                let route = "ip -4 route add 10.96.0.99 via 10.244.0.254 dev net1;";
                assert_eq!(site.script("vpc-dns-one").await, format!("{ROW}{route}"));
            }
            Form::Annotation => {
                let list = r#"[{"dst":"10.96.0.1/32","gw":"10.244.0.1"},{"dst":"10.96.0.99/32","gw":"10.244.0.254"}]"#;
                assert_eq!(site.routes("vpc-dns-one").await, list);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_route_follows_the_dns_server_that_is_active_and_a_corefile_of_another_name_is_served() {
    let site = Site::new(Form::Script).await;
    site.corefile("mine", "# mine\n.:53 {\n  whoami\n}\n").await;
    site.vpc_dns("two", json!({ "vpc": "a", "corefile": "mine" }), false).await;
    site.make("vpc-dns-two", Form::Script).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    assert!(!site.has_record("vpc-dns-two").await);
    site.vpc_dns("two", json!({ "vpc": "a", "corefile": "mine" }), true).await;
    site.vpc_dns("one", json!({ "vpc": "a" }), false).await;
    until("all has gone over", || async {
        let gone = site.script("vpc-dns-one").await == ROW && site.corefile_text(USUAL).await == STOCK;
        gone && site.has_record("vpc-dns-two").await
            && site.corefile_text("mine").await.contains("forward . 10.96.0.10")
    })
    .await;
    site.says("f", "Forwarding").await;
    site.delete("f").await;
    site.is_gone("f").await;
    assert_eq!(site.corefile_text("mine").await, "# mine\n.:53 {\n  whoami\n}\n");
}

#[tokio::test(start_paused = true)]
async fn a_forward_goes_also_when_everything_else_went_before_it() {
    let site = Site::new(Form::Script).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    site.forget_vpc_dns("one").await;
    let delete = kube::api::DeleteParams::default();
    site.deployments().delete("vpc-dns-one", &delete).await.expect("deleted");
    site.config_maps().delete(USUAL, &delete).await.expect("deleted");
    site.says("f", "VpcDnsMissing").await;
    site.delete("f").await;
    site.is_gone("f").await;
}

#[tokio::test(start_paused = true)]
async fn a_forward_says_what_is_missing_and_goes_on_when_it_is_there() {
    let site = Site::bare().await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "VpcDnsMissing").await;
    site.vpc_dns("one", json!({ "vpc": "a" }), false).await;
    site.says("f", "NotActive").await;
    site.vpc_dns("one", json!({ "vpc": "a" }), true).await;
    site.says("f", "KubeDnsMissing").await;
    site.kube_dns("None").await;
    until("it says that there is no address", || async {
        site.condition("f", "Ready").await.expect("a condition").2.contains("has no IPv4 address")
    })
    .await;
    site.kube_dns("10.96.0.10").await;
    site.says("f", "SubnetGatewayMissing").await;
    site.gateway("10.244.0.1").await;
    site.says("f", "CorefileMissing").await;
    site.corefile(USUAL, "clusterset.local {\n  forward . 9.9.9.9\n}\n").await;
    site.says("f", "ForeignBlock").await;
    site.corefile(USUAL, STOCK).await;
    site.says("f", "DeploymentMissing").await;
    let mut odd = crate::site::made("vpc-dns-one", Form::Annotation);
    odd["spec"]["template"]["metadata"]["annotations"] = json!({ ROUTES: "[]" });
    site.deployments().create(&PostParams::default(), &crate::site::object(odd)).await.expect("created");
    site.says("f", "ShapeUnknown").await;
    site.make("vpc-dns-one", Form::Script).await;
    site.says("f", "Forwarding").await;
    assert_eq!(site.condition("f", "Ready").await.map(|it| it.0), Some("True".into()));
    let seen: Vec<String> = site.events("f").await;
    for reason in ["VpcDnsMissing", "ForeignBlock", "ShapeUnknown"] {
        assert!(seen.iter().any(|it| it == reason), "{seen:?}");
    }
    assert_eq!(site.deployment("vpc-dns-one").await["spec"]["replicas"], Value::from(2));
}
