//! A router says what data planes can be told, and is refused for anything else.

use causeway_core::rules::Kind;
use causeway_core::rules::rule::{Cluster, Destination, HttpRoute, RequestMatch, Router, Rule, StringMatch};
use serde_json::{Value, json};

use crate::{refusal, said, specs};

const KIND: Kind = Kind::TrafficRouter;

fn routed(spec: &Value) -> Router {
    match said(KIND, spec) {
        Ok(Rule::Router(router)) => router,
        other => panic!("{other:?}"),
    }
}

fn cluster(subset: &str) -> Cluster {
    Cluster { host: "foo".into(), subset: subset.into() }
}

#[test]
fn routes_have_matches_and_destinations() {
    let router = routed(&json!({
        "hosts": ["foo", "*.example.com"],
        "http": [
            {
                "name": "for people",
                "match": [
                    { "headers": { "x-tag": { "exact": "v2" }, "a": { "exact": "" } }, "uri": { "prefix": "/a" } },
                    { "name": "second", "queryParams": { "user": { "regex": "[0-9]+" } } },
                    {},
                ],
                "route": [{
                    "destination": {
                        "host": "foo", "subset": "v2", "fallback": { "host": "foo", "subset": "v1" },
                    },
                }],
            },
            {
                "route": [
                    { "destination": { "host": "foo", "subset": "v1" }, "weight": 90 },
                    { "destination": { "host": "foo" }, "weight": 0 },
                ],
            },
        ],
    }));
    let headers = vec![
        ("a".into(), StringMatch::Exact(String::new())),
        ("x-tag".into(), StringMatch::Exact("v2".into())),
    ];
    let by_header =
        RequestMatch { uri: Some(StringMatch::Prefix("/a".into())), headers, query_params: Vec::new() };
    let by_user = RequestMatch {
        query_params: vec![("user".into(), StringMatch::Regex("[0-9]+".into()))],
        ..RequestMatch::default()
    };
    let marked = HttpRoute {
        matches: vec![by_header, by_user, RequestMatch::default()],
        destinations: vec![Destination { to: cluster("v2"), fallback: Some(cluster("v1")), weight: None }],
    };
    let others = HttpRoute {
        matches: Vec::new(),
        destinations: vec![
            Destination { to: cluster("v1"), fallback: None, weight: Some(90) },
            Destination { to: cluster(""), fallback: None, weight: Some(0) },
        ],
    };
    let hosts = vec!["foo".into(), "*.example.com".into()];
    assert_eq!(router, Router { hosts, http: vec![marked, others] });
    assert_eq!(routed(&json!({})), Router::default());
}

#[test]
fn what_is_done_anyway_may_be_said() {
    let mut spec = specs::of(KIND);
    spec["gateways"] = json!(["mesh"]);
    spec["tcp"] = json!([]);
    spec["http"][0]["match"][0]["gateways"] = json!(["mesh"]);
    spec["http"][0]["match"][0]["ignoreUriCase"] = json!(false);
    spec["http"][0]["headers"] = json!({});
    for namespaces in [json!(["*"]), json!(["."])] {
        spec["exportTo"] = namespaces;
        assert_eq!(routed(&spec), routed(&specs::of(KIND)));
    }
}

#[test]
fn what_cannot_be_carried_is_refused_by_name() {
    let refused = [
        ("/gateways", json!(["mesh", "ingress"])),
        ("/exportTo", json!(["shop"])),
        ("/tcp", json!([{ "route": [] }])),
        ("/tls", json!([{ "match": [] }])),
        ("/http/0/corsPolicy", json!({ "maxAge": "1d" })),
        ("/http/0/delegate", json!({ "name": "other" })),
        ("/http/0/directResponse", json!({ "status": 503 })),
        ("/http/0/fault", json!({ "abort": { "httpStatus": 500 } })),
        ("/http/0/headers", json!({ "request": { "remove": ["x"] } })),
        ("/http/0/mirror", json!({ "host": "foo" })),
        ("/http/0/mirrorPercent", json!(10)),
        ("/http/0/mirror_percent", json!(10)),
        ("/http/0/mirrorPercentage", json!({ "value": 0.5 })),
        ("/http/0/redirect", json!({ "uri": "/" })),
        ("/http/0/retries", json!({ "attempts": 3 })),
        ("/http/0/rewrite", json!({ "uri": "/" })),
        ("/http/0/timeout", json!("5s")),
        ("/http/0/match/0/authority", json!({ "exact": "foo" })),
        ("/http/0/match/0/gateways", json!(["ingress"])),
        ("/http/0/match/0/ignoreUriCase", json!(true)),
        ("/http/0/match/0/method", json!({ "exact": "GET" })),
        ("/http/0/match/0/port", json!(80)),
        ("/http/0/match/0/scheme", json!({ "exact": "https" })),
        ("/http/0/match/0/sourceLabels", json!({ "app": "bar" })),
        ("/http/0/match/0/sourceNamespace", json!("shop")),
        ("/http/0/match/0/statPrefix", json!("foo")),
        ("/http/0/match/0/withoutHeaders", json!({ "x": { "exact": "y" } })),
        ("/http/0/route/0/headers", json!({ "response": { "set": { "a": "b" } } })),
        ("/http/0/route/0/destination/port", json!({ "number": 80 })),
        ("/http/0/route/0/destination/fallback", json!({ "host": "foo", "port": { "number": 80 } })),
    ];
    for (pointer, value) in refused {
        let deeper = if pointer.ends_with("fallback") { ".port" } else { "" };
        let field = format!("spec{}{deeper}", pointer.replace("/0", "[0]").replace('/', "."));
        assert_eq!(
            refusal(KIND, &specs::with(KIND, pointer, value)),
            format!("{field}: data planes cannot be told of this field: remove it, or correct its name")
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name_with_a_reason() {
    let one_of = "it needs exactly one of exact, prefix and regex";
    let header = "/http/0/match/0/headers/x-tag";
    let to = "/http/0/route/0/destination";
    let refused = [
        ("/hosts", json!("foo"), "spec.hosts: `foo` is not a list".to_owned()),
        ("/hosts", json!(["foo", ""]), "spec.hosts[1]: it is empty".into()),
        ("/http", json!({}), "spec.http: an object is not a list".into()),
        ("/http/0", json!(1), "spec.http[0]: `1` is not an object".into()),
        (header, json!({}), format!("spec.http[0].match[0].headers[x-tag]: {one_of}")),
        (
            header,
            json!({ "exact": "a", "prefix": "b" }),
            format!("spec.http[0].match[0].headers[x-tag]: {one_of}"),
        ),
        (header, json!("v2"), "spec.http[0].match[0].headers[x-tag]: `v2` is not an object".into()),
        (
            header,
            json!({ "suffix": "b" }),
            "spec.http[0].match[0].headers[x-tag].suffix: data planes cannot be told of this field: remove it, or \
             correct its name"
                .into(),
        ),
        (
            header,
            json!({ "exact": 2 }),
            "spec.http[0].match[0].headers[x-tag].exact: `2` is not text: put it in quotes".into(),
        ),
        (header, json!({ "regex": "" }), "spec.http[0].match[0].headers[x-tag].regex: it is empty".into()),
        (
            "/http/0/match/0/headers/",
            json!({ "exact": "a" }),
            "spec.http[0].match[0].headers[]: its name is empty".into(),
        ),
        ("/http/0/match/0/queryParams", json!([]), "spec.http[0].match[0].queryParams: a list is not an object".into()),
        ("/http/0/match/0/uri", json!({ "prefix": "" }), "spec.http[0].match[0].uri.prefix: it is empty".into()),
        ("/http/0/route/0", json!({}), "spec.http[0].route[0].destination: it is missing".into()),
        (to, json!({}), "spec.http[0].route[0].destination.host: it is missing".into()),
        (to, json!({ "host": "" }), "spec.http[0].route[0].destination.host: it is empty".into()),
        (to, json!({ "host": "a|b" }), "spec.http[0].route[0].destination.host: `a|b` has a bar in it".into()),
        (
            to,
            json!({ "host": "foo", "subset": "v|1" }),
            "spec.http[0].route[0].destination.subset: `v|1` has a bar in it".into(),
        ),
        (
            to,
            json!({ "host": "foo", "fallback": { "subset": "v1" } }),
            "spec.http[0].route[0].destination.fallback.host: it is missing".into(),
        ),
        (
            "/http/0/route/0/weight",
            json!(-1),
            "spec.http[0].route[0].weight: `-1` is not a whole number from 0 to 4294967295".into(),
        ),
    ];
    for (pointer, value, sentence) in refused {
        assert_eq!(refusal(KIND, &specs::with(KIND, pointer, value)), sentence);
    }
}
