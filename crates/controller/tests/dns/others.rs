//! What is others', and what others do: left alone, waited for, and borne with.

use std::time::Duration;

use causeway_api::dns::VpcDnsForward;
use causeway_apiserver::{Fault, Match, Switch};
use causeway_core::dns::corefile::render;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::site::{Form, ROUTE, ROW, STOCK, Site, USUAL, made, object};
use crate::support::until;

#[tokio::test(start_paused = true)]
async fn what_another_operator_left_is_taken_over_and_goes_with_its_forward() {
    let site = Site::new(Form::Script).await;
    let spliced =
        STOCK.replacen(".:53 {", "clusterset.local:53 {\n    forward . 10.96.0.10\n  }\n  .:53 {", 1);
    site.corefile(USUAL, &spliced).await;
    let mut left = made("vpc-dns-one", Form::Script);
    left["spec"]["template"]["spec"]["initContainers"][1]["command"][2] = json!(format!("{ROW}{ROUTE}"));
    site.deployments().delete("vpc-dns-one", &Default::default()).await.expect("deleted");
    site.deployments().create(&PostParams::default(), &object(left)).await.expect("created");
    let metadata = json!({ "name": "f", "finalizers": ["dns.finalizer.ustc.io"] });
    site.create(metadata, json!({ "vpc": "a" })).await;
    let _replica = site.start("controller");
    site.says("f", "Forwarding").await;
    assert_eq!(site.script("vpc-dns-one").await, format!("{ROW}{ROUTE}"), "once");
    assert_eq!(site.corefile_text(USUAL).await, render(STOCK, "10.96.0.10".parse().expect("an address")));
    site.delete("f").await;
    site.is_gone("f").await;
    assert_eq!((site.script("vpc-dns-one").await.as_str(), &*site.corefile_text(USUAL).await), (ROW, STOCK));
}

#[tokio::test(start_paused = true)]
async fn a_route_and_a_block_of_the_users_own_stay_when_the_forward_goes() {
    let site = Site::new(Form::Script).await;
    let theirs = format!("clusterset.local:53 {{\n    forward . 10.96.0.10\n    cache 30\n}}\n{STOCK}");
    site.corefile(USUAL, &theirs).await;
    let mut own = site.deployments().get("vpc-dns-one").await.expect("the Deployment");
    let spec = own.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()).expect("a spec");
    let inits = spec.init_containers.as_mut().expect("containers");
    let script = format!("{ROW}ip route add 10.96.0.10/32 via 10.244.0.1 dev net1");
    inits[1].command = Some(vec!["sh".into(), "-c".into(), script.clone()]);
    site.deployments().replace("vpc-dns-one", &PostParams::default(), &own).await.expect("replaced");
    let before = site.deployment("vpc-dns-one").await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "ForeignBlock").await;
    let (status, _, message) = site.condition("f", "Ready").await.expect("a condition");
    assert_eq!(status, "False");
    assert!(message.contains("10.96.0.10") && message.contains(USUAL), "{message}");
    site.delete("f").await;
    site.is_gone("f").await;
    assert_eq!((site.corefile_text(USUAL).await, site.deployment("vpc-dns-one").await), (theirs, before));
    assert_eq!((site.patches("deployments"), site.patches("configmaps")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_undoes_it_again_and_again_is_borne_with_less_and_less_often() {
    let site = Site::new(Form::Script).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    let begun = Instant::now();
    let mut undone = 0;
    while begun.elapsed() < Duration::from_secs(1800) {
        if site.script("vpc-dns-one").await != ROW {
            site.make("vpc-dns-one", Form::Script).await;
            undone += 1;
        }
        sleep(Duration::from_millis(500)).await;
    }
    assert!((9..=16).contains(&undone), "{undone} times in half an hour");
    site.says("f", "Undone").await;
    let statuses = site.patches("vpcdnsforwards");
    assert!(statuses < 12, "{statuses} writes of the forward");
    sleep(Duration::from_secs(300)).await;
    assert_ne!(site.script("vpc-dns-one").await, ROW, "it is put back in the end");
    assert_eq!(site.condition("f", "Ready").await.expect("a condition").1, "Undone", "for a while");
    sleep(Duration::from_secs(660)).await;
    assert_eq!(
        site.condition("f", "Ready").await.expect("a condition").1,
        "Forwarding",
        "nobody disturbs it"
    );
    // And a new quarrel begins anew.
    site.make("vpc-dns-one", Form::Script).await;
    let begun = Instant::now();
    until("at once again", || async { site.script("vpc-dns-one").await != ROW }).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_written_is_said_and_written_when_it_may() {
    let site = Site::new(Form::Annotation).await;
    site.refuse("deployments", 403);
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forbidden").await;
    site.refuse("deployments", 500);
    site.says("f", "WriteRefused").await;
    site.server.faults().clear();
    site.says("f", "Forwarding").await;
    site.refuse("configmaps", 403);
    site.delete("f").await;
    until("it says what holds it", || async {
        site.condition("f", "CleanupBlocked").await.is_some_and(|(status, reason, message)| {
            status == "True" && reason == "Forbidden" && message.contains("causeway/abandon=true")
        })
    })
    .await;
    let abandon = json!({ "metadata": { "annotations": { "causeway/abandon": "true" } } });
    site.forwards().patch("f", &PatchParams::default(), &Patch::Merge(&abandon)).await.expect("patched");
    site.is_gone("f").await;
    assert_ne!(site.corefile_text(USUAL).await, STOCK, "as it was told");
    site.server.faults().clear();
    until("what was left is swept when it can be", || async { site.corefile_text(USUAL).await == STOCK })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_corefile_that_may_not_be_read_is_said_with_what_to_do() {
    let site = Site::new(Form::Script).await;
    site.corefile("mine", STOCK).await;
    let replica = site.start("controller");
    until("it leads", || async { replica.leads() }).await;
    // What is watched already goes on; another one may not be.
    let what = Match {
        verbs: vec!["watch".into(), "list".into()],
        resources: vec!["configmaps".into()],
        user_agent: Some("controller".into()),
        ..Match::default()
    };
    let refuse = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    site.server.faults().set(vec![Fault::new(refuse).on(what)]).expect("a fault");
    site.vpc_dns("one", json!({ "vpc": "a", "corefile": "mine" }), true).await;
    site.forward("f", "a").await;
    site.says("f", "CorefileForbidden").await;
    let (_, _, message) = site.condition("f", "Ready").await.expect("a condition");
    assert!(message.contains("kube-system/mine") && message.contains("deploy/dns.yaml"), "{message}");
    site.server.faults().clear();
    site.says("f", "Forwarding").await;
    assert_ne!(site.corefile_text("mine").await, STOCK);
}

#[tokio::test(start_paused = true)]
async fn somebody_who_writes_at_the_same_time_loses_nothing() {
    let site = Site::new(Form::Script).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    // The deployment controller writes a Deployment's status all the time while it rolls out.
    for number in 0..40 {
        let status = json!({ "status": { "observedGeneration": number, "replicas": number } });
        let patch = Patch::Merge(&status);
        site.deployments()
            .patch_status("vpc-dns-one", &PatchParams::default(), &patch)
            .await
            .expect("patched");
        let label = json!({ "metadata": { "labels": { "n": number.to_string() } } });
        site.config_maps()
            .patch(USUAL, &PatchParams::default(), &Patch::Merge(&label))
            .await
            .expect("patched");
        sleep(Duration::from_millis(7)).await;
    }
    site.says("f", "Forwarding").await;
    let deployment = site.deployments().get("vpc-dns-one").await.expect("the Deployment");
    assert_eq!(deployment.status.and_then(|it| it.replicas), Some(39));
    assert_eq!(site.script("vpc-dns-one").await, format!("{ROW}{ROUTE}"));
    let map = site.config_maps().get(USUAL).await.expect("the ConfigMap");
    assert_eq!(map.metadata.labels.expect("labels")["n"], "39");
}

#[tokio::test(start_paused = true)]
async fn a_forward_that_cannot_be_read_says_so_keeps_its_effect_and_can_be_deleted() {
    let site = Site::new(Form::Script).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    // Somebody puts the older operator's definition in place of ours, which lets a spec be anything.
    let mut crd = VpcDnsForward::crd();
    for version in &mut crd.spec.versions {
        let open = JSONSchemaProps {
            type_: Some("object".into()),
            x_kubernetes_preserve_unknown_fields: Some(true),
            ..JSONSchemaProps::default()
        };
        version.schema.get_or_insert_default().open_api_v3_schema = Some(open);
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(site.client.clone());
    let patch = json!({ "spec": { "versions": crd.spec.versions } });
    let name = "vpcdnsforwards.kubeovn.ustc.io";
    definitions.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("patched");
    for spec in [json!({ "vpc": 7 }), json!({ "vpc": "No Name" }), json!({ "vpc": null })] {
        site.respec("f", spec).await;
        site.says("f", "InvalidSpec").await;
    }
    assert_eq!(site.script("vpc-dns-one").await, format!("{ROW}{ROUTE}"));
    site.delete("f").await;
    site.is_gone("f").await;
    assert_eq!((site.script("vpc-dns-one").await.as_str(), &*site.corefile_text(USUAL).await), (ROW, STOCK));
}
