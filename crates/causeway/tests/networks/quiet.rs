//! What an idle controller asks for, and what nobody ever hears from it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hyper::Method;

use crate::cloud::{Proxy, Rule, User};
use crate::controller::Start;
use crate::keystone;
use crate::site::Site;

/// How many requests of which kind one look costs, when nothing changed.
async fn cost_of_a_look(site: &Site) -> BTreeMap<String, usize> {
    // Looks that began before all was calm may still do something.
    let calm = Instant::now();
    let begins = |it: &crate::cloud::Request| {
        it.path.starts_with("/v2.0/networks?") && it.path.contains("tags=causeway-home")
    };
    let looks = site
        .until("six looks", async || {
            let requests = site.proxy.requests();
            let looks: Vec<_> =
                requests.into_iter().filter(begins).map(|it| it.at).filter(|at| *at > calm).collect();
            if looks.len() >= 6 { Ok(looks) } else { Err(format!("{} looks", looks.len())) }
        })
        .await;
    let mut kinds = BTreeMap::new();
    // The lists of one look are asked for at once, in any order; a second passes before the next.
    let early = Duration::from_millis(300);
    let between = |it: &crate::cloud::Request| looks[1] <= it.at + early && it.at + early < looks[5];
    for request in site.proxy.requests().into_iter().filter(between) {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        *kinds.entry(format!("{} {path}", request.method)).or_default() += 1;
    }
    kinds
}

/// Requests to the API server that change something, by what they were.
fn writes(site: &Site) -> BTreeMap<String, u64> {
    let changes = ["create", "update", "patch", "delete", "deletecollection"];
    let all = site.server.requests().into_iter().filter(|it| changes.contains(&&*it.verb));
    let mut writes = BTreeMap::new();
    for it in all.filter(|it| it.resource != "leases") {
        *writes.entry(format!("{} {}/{}", it.verb, it.resource, it.subresource)).or_default() += it.count;
    }
    writes
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_cloud_is_asked_for_lists_only_whatever_the_number_of_networks() {
    let site = Site::new().await;
    let _controller = site.start(Start::replica("only"));
    site.create("n0", "10.90.0.0/24").await;
    site.ready("n0").await;
    site.event("n0", "Synced", "").await;
    let of_one = cost_of_a_look(&site).await;

    const MANY: u8 = 24;
    for number in 1..MANY {
        site.create(&format!("n{number}"), &format!("10.90.{number}.0/24")).await;
    }
    for number in 1..MANY {
        site.ready(&format!("n{number}")).await;
        site.event(&format!("n{number}"), "Synced", "").await;
    }
    site.proxy.forget();
    let before = writes(&site);
    let of_many = cost_of_a_look(&site).await;
    assert_eq!(writes(&site), before, "nothing is written but the Lease");
    let lists = [("GET /v2.0/networks", 8), ("GET /v2.0/subnets", 8)];
    let lists: BTreeMap<_, _> = lists.map(|(kind, count)| (kind.to_owned(), count)).into();
    assert_eq!(of_one, lists, "four looks of two lists each, of networks and of subnets");
    assert_eq!(of_many, lists);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_ever_printed_or_told() {
    let (keystone, _) = keystone::servers().await;
    let site = keystone::site().await;
    let door = Proxy::start(&keystone.url()).await;
    let credential = keystone.credential(User::Member, "not-to-be-told").await;
    let start = Start::alone()
        .variable("OS_AUTH_URL", &format!("{}/v3", door.url()))
        .variable("OS_AUTH_TYPE", "v3applicationcredential")
        .variable("OS_APPLICATION_CREDENTIAL_ID", &credential.id)
        .variable("OS_APPLICATION_CREDENTIAL_SECRET", &credential.secret)
        .variable("OS_NETWORK_ENDPOINT_OVERRIDE", &site.proxy.url())
        .variable("RUST_LOG", "trace")
        .with(&["--log-format", "json"]);
    let controller = site.start_elsewhere(start);
    site.create("whispers", "10.91.0.0/24").await;
    site.ready("whispers").await;

    // Servers that repeat what they were told, in errors of all kinds.
    let token_of = |it: &crate::cloud::Request| {
        it.headers.get("x-auth-token").map(|it| it.to_str().expect("text").to_owned())
    };
    let token = site.proxy.requests().iter().find_map(token_of).expect("a token");
    let echo = format!("your token {token} of {} is odd", credential.secret);
    let answer = |rule: Rule, status| rule.times(2).answer(status, echo.clone());
    site.proxy.tell(answer(Rule::on(Method::POST, "/v2.0/subnets"), 400));
    site.proxy.tell(answer(Rule::on(Method::POST, "/v2.0/networks"), 500));
    // Keystone has never heard of the token.
    let echo_of_keystone = format!("your secret {} is odd", credential.secret);
    for status in [500, 401] {
        let rule = Rule::on(Method::POST, "/v3/auth/tokens").times(2);
        door.tell(rule.answer(status, echo_of_keystone.clone()));
    }
    site.create("refused", "10.92.0.0/24").await;
    site.says("refused", "Ready", "False", "Refused").await;
    door.tell(Rule::on(Method::POST, "/v3/auth/tokens").times(1).cut_after());
    site.proxy.tell(Rule::on(Method::GET, "/v2.0/networks").times(1).answer(200, echo.clone()));
    // Until the first token has ended, and another was asked for in vain.
    tokio::time::sleep(Duration::from_secs(3)).await;

    let mut secrets = vec![credential.secret.clone(), User::PASSWORD.to_owned()];
    let logged_in = site.proxy.requests();
    secrets.extend(logged_in.iter().filter_map(token_of));
    secrets.sort();
    secrets.dedup();
    let metrics = controller.serves("/metrics").await.expect("metrics");
    let mut told = vec![("what it printed", controller.said()), ("metrics", metrics)];
    for name in ["whispers", "refused"] {
        told.push(("a status", site.status(name).await.to_string()));
        told.push(("events", format!("{:?}", site.events(name).await)));
    }
    assert!(
        told[0].1.contains("\"level\":\"TRACE\"") || told[0].1.contains("\"level\":\"DEBUG\""),
        "it says a lot"
    );
    assert!(told.iter().any(|(_, text)| text.contains("is odd")), "what servers say is told");
    for (place, text) in &told {
        // `secret` itself is a word that is not one: the application credential has none of it.
        for secret in secrets.iter().filter(|secret| secret.len() > 10) {
            if let Some(at) = text.find(secret.as_str()) {
                let line = text[..at].rfind('\n').map_or(0, |it| it + 1);
                panic!("{place}: {}", &text[line..at]);
            }
        }
    }
}
