use std::time::Duration;

use http::HeaderMap;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn answer(status: u16, body: impl Into<bytes::Bytes>) -> Answer {
    let status = StatusCode::from_u16(status).expect("a status");
    Answer { status, headers: HeaderMap::new(), body: body.into() }
}

fn said(status: u16, kind: &str) -> Trouble {
    let body = json!({"NeutronError": {"type": kind, "message": "why", "detail": ""}});
    Refusal::of(&answer(status, body.to_string()), &[]).trouble()
}

#[test]
fn each_refusal_has_its_consequence() {
    let why = || "why".to_owned();
    let table = [
        (403, "PolicyNotAuthorized", Trouble::Forbidden(why())),
        (404, "NetworkNotFound", Trouble::Missing(why())),
        (404, "HTTPNotFound", Trouble::Refused(why())),
        (409, "OverQuota", Trouble::Quota(why())),
        (409, "NetworkInUse", Trouble::InUse(why())),
        (409, "SubnetInUse", Trouble::InUse(why())),
        (409, "GatewayIpInUse", Trouble::InUse(why())),
        (409, "GatewayConflictWithAllocationPools", Trouble::Stale(why())),
        (409, "NetworkMTUSubnetConflict", Trouble::Refused(why())),
        (412, "RevisionNumberConstraintFailed", Trouble::Stale(why())),
        (400, "InvalidInput", Trouble::Refused(why())),
        (503, "NoNetworkAvailable", Trouble::Quota(why())),
        (500, "HTTPInternalServerError", Trouble::unreachable("why")),
        (502, "Whatever", Trouble::unreachable("why")),
        (429, "OverLimit", Trouble::unreachable("why")),
    ];
    for (status, kind, trouble) in table {
        assert_eq!(said(status, kind), trouble, "{status} {kind}");
    }
}

#[test]
fn what_is_not_neutrons_own_word_does_not_make_anything_gone() {
    let of_proxy = Refusal::of(&answer(404, "<html><h1>404 Not Found</h1>nginx</html>"), &[]);
    assert!(!of_proxy.is_not_there());
    assert_eq!(of_proxy.trouble(), Trouble::Refused("404 404 Not Found nginx".into()));
}

#[test]
fn words_are_one_line_of_some_length_and_the_same_every_time() {
    let body =
        json!({"NeutronError": {"type": "X", "message": format!("a\n\u{1b}[31m b {}", "ä".repeat(999))}});
    let mut answer = answer(400, body.to_string());
    answer.headers.insert("x-openstack-request-id", "req-1".parse().expect("a header"));
    let words = Refusal::of(&answer, &[]).words;
    assert!(words.starts_with("a [31m b ää") && words.ends_with("ä…"), "{words}");
    assert!(words.len() < 540);
}

#[test]
fn a_wish_to_be_asked_later_is_kept() {
    let mut answer = answer(503, "busy");
    answer.headers.insert("retry-after", "7".parse().expect("a header"));
    let trouble = Refusal::of(&answer, &[]).trouble();
    assert_eq!(trouble, Trouble::Unreachable { why: "503 busy".into(), after: Some(Duration::from_secs(7)) });
}

#[test]
fn what_is_secret_is_cut_out_also_where_the_words_end() {
    let token = Secret::new("gAAAA-the-token");
    let body = json!({"error": {"message": format!("{}gAAAA-the-token", "x".repeat(ENOUGH - 5))}});
    let words = Refusal::of(&answer(401, body.to_string()), &[&token]).words;
    assert!(!words.contains("gAAAA"), "{words}");
}

proptest! {
    #[test]
    fn any_refusal_can_be_read(status in 300_u16..600, body in prop::collection::vec(any::<u8>(), 0..200)) {
        let words = Refusal::of(&answer(status, body), &[]).trouble().to_string();
        prop_assert!(!words.is_empty() && !words.chars().any(char::is_control));
    }
}
