//! Where nothing happens nothing is asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use crate::site::{Form, Site};

/// What was asked for but for watches, by verb, resource and subresource.
fn asked(site: &Site) -> BTreeMap<String, u64> {
    let mut asked = BTreeMap::new();
    for it in site.server.requests().into_iter().filter(|it| it.verb != "watch") {
        *asked.entry(format!("{} {} {}", it.verb, it.resource, it.subresource)).or_default() += it.count;
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn over_an_idle_hour_nothing_is_asked_for_but_the_lease() {
    let site = Site::new(Form::Script).await;
    let _replica = site.start("controller");
    for name in ["f", "g"] {
        site.forward(name, "a").await;
        site.says(name, "Forwarding").await;
    }
    // One that cannot get on is no reason to ask for anything either.
    site.forward("h", "nowhere").await;
    site.says("h", "VpcDnsMissing").await;
    sleep(Duration::from_secs(60)).await;
    let before = asked(&site);
    let watches = |site: &Site| -> u64 {
        site.server.requests().into_iter().filter(|it| it.verb == "watch").map(|it| it.count).sum()
    };
    let (watched, version) =
        (watches(&site), site.deployments().get("vpc-dns-one").await.expect("it").metadata.resource_version);
    sleep(Duration::from_secs(3600)).await;
    let mut since = asked(&site);
    let now = site.deployments().get("vpc-dns-one").await.expect("it").metadata.resource_version;
    for (what, count) in before {
        *since.get_mut(&what).expect("it was asked for") -= count;
    }
    since.retain(|what, count| *count > 0 && !what.contains("leases") && what != "get deployments ");
    assert_eq!(since, BTreeMap::new());
    assert_eq!(now, version);
    // Eight kinds are watched, each of which an API server ends now and then.
    let rounds = watches(&site) - watched;
    assert!(rounds <= 8 * 3600 / 240, "{rounds} watches were begun anew");
}

#[tokio::test(start_paused = true)]
async fn a_forward_costs_a_handful_of_writes() {
    let site = Site::new(Form::Annotation).await;
    let _replica = site.start("controller");
    site.forward("f", "a").await;
    site.says("f", "Forwarding").await;
    sleep(Duration::from_secs(60)).await;
    // A first word, the finalizer, which Corefile, and that it forwards.
    assert!(site.patches("vpcdnsforwards") <= 4, "{}", site.patches("vpcdnsforwards"));
    assert_eq!((site.patches("deployments"), site.patches("configmaps")), (1, 1));
}
