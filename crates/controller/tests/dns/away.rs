//! A controller that was away, or is not alone: the same in the end.

use std::time::Duration;

use causeway_core::dns::corefile::render;
use serde_json::json;
use tokio::time::sleep;

use crate::site::{Form, LIST, ROW, STOCK, Site, USUAL};
use crate::support::until;

#[tokio::test(start_paused = true)]
async fn whatever_changed_while_nobody_was_there_is_as_it_should_be_afterwards() {
    let site = Site::new(Form::Script).await;
    site.vpc_dns("two", json!({ "vpc": "b" }), true).await;
    site.make("vpc-dns-two", Form::Annotation).await;
    site.vpc_dns("three", json!({ "vpc": "c", "corefile": "mine" }), true).await;
    site.make("vpc-dns-three", Form::Script).await;
    site.corefile("mine", STOCK).await;
    let replica = site.start("controller");
    for (name, vpc) in [("goes", "b"), ("moves", "a"), ("custom", "c"), ("stays", "a")] {
        site.forward(name, vpc).await;
        site.says(name, "Forwarding").await;
    }
    drop(replica);

    site.delete("goes").await;
    site.delete("custom").await;
    site.respec("moves", json!({ "vpc": "elsewhere" })).await;
    site.kube_dns("10.96.0.99").await;
    site.gateway("10.244.0.254").await;
    site.make("vpc-dns-one", Form::Annotation).await;
    site.corefile(USUAL, &format!("# other\n{STOCK}")).await;
    // Of this one only the forward knows that it holds something.
    site.forget_vpc_dns("three").await;
    site.vpc_dns("four", json!({ "vpc": "d" }), true).await;
    site.make("vpc-dns-four", Form::Script).await;
    site.forward("comes", "d").await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(site.names().await.len(), 5, "nobody is there to let them go");

    let _replica = site.start("another");
    site.is_gone("goes").await;
    site.is_gone("custom").await;
    site.says("moves", "VpcDnsMissing").await;
    site.says("comes", "Forwarding").await;
    until("the one that stayed has what is new", || async {
        let status = site.forwards().get("stays").await.expect("the forward").status();
        status.kube_dns.as_deref() == Some("10.96.0.99") && status.gateway.as_deref() == Some("10.244.0.254")
    })
    .await;
    let block = render(&format!("# other\n{STOCK}"), "10.96.0.99".parse().expect("an address"));
    assert_eq!(
        (site.corefile_text(USUAL).await, site.corefile_text("mine").await),
        (block, STOCK.to_owned())
    );
    let entry = r#"{"dst":"10.96.0.99/32","gw":"10.244.0.254"}"#;
    assert_eq!(site.routes("vpc-dns-one").await, format!("{},{entry}]", LIST.trim_end_matches(']')));
    assert_eq!(site.routes("vpc-dns-two").await, LIST);
    assert_eq!(site.script("vpc-dns-three").await, ROW);
    assert!(
        site.script("vpc-dns-four").await.ends_with("ip -4 route add 10.96.0.99 via 10.244.0.254 dev net1;")
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_writes_and_the_other_goes_on_when_that_one_is_gone() {
    let site = Site::new(Form::Script).await;
    let first = site.start("first");
    until("one leads", || async { first.leads() }).await;
    let second = site.start("second");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    assert!(!second.leads());
    assert_eq!((site.patches("deployments"), site.patches("configmaps")), (1, 1));
    drop(first);
    site.make("vpc-dns-one", Form::Script).await;
    until("the other puts it back", || async { site.script("vpc-dns-one").await != ROW }).await;
    assert!(second.leads());
}

#[tokio::test(start_paused = true)]
async fn where_nothing_of_kube_ovn_is_installed_forwards_say_so_and_it_comes_later() {
    let site = Site { server: crate::support::server().await, client: Site::bare().await.client };
    let site = Site { client: crate::support::client(&site.server, "somebody"), ..site };
    crate::support::vpc::define(&site.server, causeway_api::dns::crds()).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "VpcDnsMissing").await;
    crate::support::vpc::define(&site.server, causeway_api::vpc::foreign::crds()).await;
    site.kube_dns("10.96.0.10").await;
    site.gateway("10.244.0.1").await;
    site.corefile(USUAL, STOCK).await;
    site.vpc_dns("one", json!({ "vpc": "a" }), true).await;
    site.make("vpc-dns-one", Form::Annotation).await;
    site.says("f", "Forwarding").await;
}
