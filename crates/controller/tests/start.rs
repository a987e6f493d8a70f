//! What a controller needs before it decides anything, and what ends it.

mod support;

use causeway_apiserver::{Fault, Match, Server, Switch};
use causeway_controller::room::{Parts, add_lasting_part, add_part};
use causeway_controller::vpc::broker::Broker;
use causeway_controller::{until_end, vpc};
use causeway_core::vpc::Given;
use support::vpc::{define, options, start};
use support::{client, until};
use tokio_util::sync::CancellationToken;

/// A server with all definitions.
async fn server() -> Server {
    let server = support::server().await;
    define(&server, causeway_api::vpc::crds().into_iter().chain(causeway_api::vpc::foreign::crds())).await;
    server
}

fn forbid(server: &Server, resources: &[&str]) {
    let matching = Match {
        resources: resources.iter().map(|name| (*name).to_owned()).collect(),
        user_agent: Some("controller".into()),
        ..Match::default()
    };
    let refuse = Switch::Refuse { code: 403, percent: 100, retry_after_seconds: 0 };
    server.faults().set(vec![Fault::new(refuse).on(matching)]).expect("a fault");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_read_is_named_and_awaited() {
    let server = server().await;
    forbid(&server, &["iptables-eips"]);
    let (house, _parts) = start(&server, options());
    until("only that kind is waited for", || async {
        let (code, lines) = house.readiness.answer();
        let named = lines.starts_with("vpc/iptables-eips: ") && lines.contains("is forbidden");
        code == 503 && named && lines.lines().count() == 1
    })
    .await;
    server.faults().clear();
    until("all is listed", || async { house.readiness.answer().0 == 200 }).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_given_needs_no_right_to_be_read() {
    let server = server().await;
    let kinds = ["clusters", "clusterglobalegressips", "servicediscoveries"];
    forbid(&server, &kinds);
    let (without, _parts) = start(&server, options());
    until("each of them is waited for", || async {
        let (_, lines) = without.readiness.answer();
        lines.lines().count() == 3
            && kinds
                .iter()
                .all(|kind| lines.contains(&format!("vpc/{kind}: {kind}.submariner.io is forbidden")))
    })
    .await;

    let given = Given {
        cluster: Some("cluster1".parse().expect("an id")),
        globalnet: Some("242.0.0.0/16".parse().expect("a range")),
        egress: vec![[242, 0, 0, 1].into()],
        ..Given::default()
    };
    let broker = Broker { client: client(&server, "broker"), namespace: "default".into() };
    let (with, _parts) = start(&server, vpc::Options { given, broker: Some(broker), ..options() });
    until("nothing is waited for", || async { with.readiness.answer().0 == 200 }).await;
    assert_eq!(without.readiness.answer().0, 503);
}

async fn broken() -> anyhow::Result<()> {
    panic!("a copy makes no sense")
}

#[tokio::test]
async fn a_part_that_panics_is_the_end_and_named_with_its_message() {
    for lasting in [false, true] {
        let (stop, mut parts) = (CancellationToken::new(), Parts::new());
        add_part(&mut parts, &stop, "vpc/pods".into(), std::future::pending());
        if lasting {
            add_lasting_part(&mut parts, "vpc/broker".into(), broken());
        } else {
            add_part(&mut parts, &stop, "vpc/broker".into(), broken());
        }
        let end = until_end(parts, stop).await.expect_err("a part has ended");
        assert_eq!(format!("{end:#}"), "vpc/broker: it panicked: a copy makes no sense");
    }
}
