//! Servers that fail, and those in front of them.

use std::time::Duration;

use cloud::{Proxy, Rule};
use hyper::Method;
use serde_json::json;

use super::*;

async fn behind_proxy(cluster: &str) -> (Proxy, Neutron, Home) {
    let proxy = Proxy::start(&neutron().await.url()).await;
    let neutron = at(&proxy.url());
    (proxy, neutron, home(cluster))
}

#[tokio::test]
async fn a_read_is_repeated_twice_and_a_write_never() {
    let (proxy, neutron, home) = behind_proxy("repeats").await;
    let one = clue("u", "a", &["x"]);
    let reads = || proxy.count(&Method::GET, "/v2.0/networks?limit=500&tags");
    for rule in [
        Rule::on(Method::GET, "/v2.0").answer(502, "bad gateway"),
        Rule::on(Method::GET, "/v2.0").cut_before(),
    ] {
        proxy.tell(rule.clone().times(2));
        assert_eq!(neutron.look(&home, &one).await, Ok(Vec::new()));
        proxy.pass();
        proxy.forget();
        proxy.tell(rule);
        let result = neutron.look(&home, &one).await;
        assert!(is_unreachable(&result), "{result:?}");
        assert!(reads() <= 3, "{}", reads());
        proxy.pass();
    }
    for rule in
        [Rule::on(Method::POST, "/v2.0").answer(500, ""), Rule::on(Method::POST, "/v2.0").cut_before()]
    {
        proxy.forget();
        proxy.tell(rule);
        let result = neutron.apply(&create(&home, "a")).await;
        assert!(is_unreachable(&result), "{result:?}");
        assert_eq!(proxy.requests().len(), 1);
        proxy.pass();
    }
    assert_eq!(all(&neutron, &home).await, []);
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_found_by_the_next_look() {
    let (proxy, neutron, home) = behind_proxy("lost").await;
    proxy.tell(Rule::on(Method::POST, "/v2.0/networks").cut_after().times(1));
    let result = neutron.apply(&create(&home, "a")).await;
    assert!(is_unreachable(&result), "{result:?}");
    let found = neutron.look(&home, &clue("u", "a", &[])).await.expect("a look");
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn a_wish_to_be_asked_later_is_passed_on_and_nobody_waits_for_it() {
    let (proxy, neutron, home) = behind_proxy("later").await;
    for status in [429, 503] {
        proxy.forget();
        proxy.tell(Rule::on_any("/v2.0").answer(status, "").header("retry-after", "7"));
        let begun = std::time::Instant::now();
        for result in [
            neutron.look(&home, &Look::All).await.map(|_| ()),
            neutron.apply(&create(&home, "a")).await.map(|_| ()),
        ] {
            let Err(Trouble::Unreachable { after, .. }) = &result else { panic!("{result:?}") };
            assert_eq!(*after, Some(Duration::from_secs(7)));
        }
        assert!(begun.elapsed() < Duration::from_secs(3));
        assert_eq!(proxy.count(&Method::POST, "/"), 1);
        proxy.pass();
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_no_answers() {
    let (proxy, neutron, home) = behind_proxy("garbage").await;
    let huge = "x".repeat(65 << 20);
    let bodies = ["", "null", "[]", "{}", "<html>", r#"{"networks": 3}"#, r#"{"networks": [{}]}"#, &huge];
    for body in bodies {
        proxy.tell(Rule::on_any("/v2.0/networks").answer(200, body.to_owned()));
        let result = neutron.look(&home, &Look::All).await;
        assert!(is_unreachable(&result), "{result:?}");
        let result = neutron.apply(&create(&home, "a")).await;
        assert!(is_unreachable(&result), "{result:?}");
        proxy.pass();
    }
}

#[tokio::test]
async fn nothing_is_gone_because_a_proxy_knows_no_such_path() {
    let (proxy, neutron, home) = behind_proxy("path").await;
    let id = made(&neutron, &home, "a").await.id;
    let not_found =
        json!({"NeutronError": {"type": "HTTPNotFound", "message": "no", "detail": ""}}).to_string();
    for body in ["<h1>404</h1>", &not_found] {
        proxy.tell(Rule::on_any("/v2.0").answer(404, body.to_owned()));
        let result = neutron.apply(&Step::DeleteNetwork { id: id.clone() }).await;
        assert!(matches!(result, Err(Trouble::Refused(_))), "{result:?}");
        let result = neutron.look(&home, &Look::All).await;
        assert!(matches!(result, Err(Trouble::Refused(_))), "{result:?}");
        proxy.pass();
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable_with_his_address() {
    let (proxy, neutron, home) = behind_proxy("nobody").await;
    proxy.set_gone(true);
    let result = neutron.apply(&create(&home, "a")).await;
    let Err(Trouble::Unreachable { why, .. }) = result else { panic!("{result:?}") };
    assert!(why.starts_with(&format!("POST {}/v2.0/networks: ", proxy.url())), "{why}");
    proxy.set_gone(false);
    assert_eq!(all(&neutron, &home).await, []);
}

#[tokio::test]
async fn tls_needs_the_authority_that_is_named() {
    let proxy = Proxy::start_with_tls(&neutron().await.url()).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), proxy.authority()).expect("written");
    let url = proxy.url();
    let endpoint = [("OS_AUTH_TYPE", "none"), ("OS_ENDPOINT", url.as_str())];
    let with = |name: &'static str, value: &str| {
        let variables = [endpoint[0], endpoint[1], (name, value)];
        Neutron::new(by(&variables)).expect("a client")
    };
    let home = home("tls");
    let path = file.path().to_str().expect("a path");
    assert_eq!(all(&with("OS_CACERT", path), &home).await, []);
    assert_eq!(all(&with("OS_INSECURE", "true"), &home).await, []);
    let result = with("OS_INSECURE", "false").look(&home, &Look::All).await;
    let Err(Trouble::Unreachable { why, .. }) = result else { panic!("{result:?}") };
    assert!(why.contains("certificate"), "{why}");
    let missing = Neutron::new(by(&[endpoint[0], endpoint[1], ("OS_CACERT", "/no/such.pem")]));
    assert!(missing.is_err_and(|error| format!("{error:#}").starts_with("reading /no/such.pem")));
}

#[tokio::test]
async fn requests_are_counted_by_method_and_by_how_they_were_answered() {
    use causeway_controller::networks::neutron::metrics::Asked;
    let (proxy, neutron, home) = behind_proxy("counted").await;
    made(&neutron, &home, "a").await;
    neutron.look(&home, &clue("u", "x", &[])).await.expect("a look");
    proxy.tell(Rule::on(Method::POST, "/v2.0").cut_before());
    let _ = neutron.apply(&create(&home, "b")).await;
    let count = |method, code| neutron.requests().0.get_or_create(&Asked { method, code }).get();
    assert_eq!((count("POST", "2xx"), count("GET", "2xx"), count("POST", "none")), (1, 2, 1));
}
