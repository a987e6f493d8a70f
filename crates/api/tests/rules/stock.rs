//! Whatever OpenSergo's own definitions accept, ours accept too, and drop nothing of it.

use causeway_core::rules::Kind;
use serde_json::{Value, json};

use crate::server::Cluster;
use crate::{refusal, said, specs};

/// A router with every field that the stock definition knows.
fn everything_of_a_virtual_service() -> Value {
    let text = json!({ "exact": "a", "prefix": "b", "regex": "c" });
    let destination = json!({
        "host": "foo", "subset": "v1", "port": { "number": 80 }, "fallback": { "host": "foo", "subset": "v2" },
    });
    let edits = json!({ "add": { "a": "b" }, "set": { "c": "d" }, "remove": ["e"] });
    let headers = json!({ "request": edits, "response": edits });
    let request = json!({
        "name": "n", "uri": text, "scheme": text, "method": text, "authority": text, "headers": { "h": text },
        "port": 80, "sourceLabels": { "a": "b" }, "gateways": ["g"], "queryParams": { "q": text },
        "ignoreUriCase": true, "withoutHeaders": { "h": text }, "sourceNamespace": "s", "statPrefix": "p",
    });
    let connection = json!({
        "destinationSubnets": ["10.0.0.0/8"], "port": 1, "sourceLabels": { "a": "b" }, "gateways": ["g"],
        "sourceNamespace": "s",
    });
    let route = json!([{ "destination": destination, "weight": -1 }]);
    json!({
        "hosts": ["foo", ""], "gateways": ["g"], "exportTo": ["*"],
        "http": [{
            "name": "n", "match": [request, {}],
            "route": [{ "destination": destination, "weight": 1, "headers": headers }, { "destination": {} }, {}],
            "redirect": { "uri": "/", "authority": "a", "port": 1, "scheme": "https", "redirectCode": 301 },
            "directResponse": { "status": 503, "body": { "string": "s" } },
            "delegate": { "name": "n", "namespace": "s" }, "rewrite": { "uri": "/", "authority": "a" },
            "timeout": "5s", "retries": { "attempts": 3, "perTryTimeout": "1s", "retryOn": "5xx", "retryRemoteLocalities": null },
            "fault": {
                "delay": { "fixedDelay": "1s", "percent": 1, "percentage": { "value": 0.5 } },
                "abort": { "httpStatus": 500, "percentage": { "value": 0.5 } },
            },
            "mirror": destination, "mirror_percent": 1, "mirrorPercent": null, "mirrorPercentage": { "value": 0.5 },
            "corsPolicy": { "allowOrigin": ["*"], "allowOrigins": [text], "allowCredentials": true, "maxAge": "1d" },
            "headers": headers,
        }],
        "tcp": [{ "match": [connection], "route": route }],
        "tls": [{ "match": [{ "sniHosts": ["foo"] }], "route": route }],
    })
}

#[tokio::test]
async fn everything_of_a_virtual_service_is_kept_and_refused_by_name() {
    let cluster = Cluster::start().await;
    let spec = everything_of_a_virtual_service();
    let kept = cluster.keep(Kind::TrafficRouter, &spec).await.expect("accepted");
    assert_eq!(kept, spec, "nothing is dropped before it can be refused");
    assert!(
        refusal(Kind::TrafficRouter, &kept).starts_with("spec.tcp: "),
        "{}",
        refusal(Kind::TrafficRouter, &kept)
    );
    for odd in
        [json!({}), json!({ "http": [{}] }), json!({ "hosts": [], "http": [{ "match": [{}], "route": [] }] })]
    {
        assert_eq!(cluster.keep(Kind::TrafficRouter, &odd).await, Ok(odd.clone()));
    }
}

#[tokio::test]
async fn objects_for_the_stock_definitions_are_accepted_and_mean_something() {
    let cluster = Cluster::start().await;
    let breaker = Kind::CircuitBreakerStrategy;
    let objects = [
        (Kind::FaultToleranceRule, json!({ "targets": [], "strategies": [] })),
        (
            Kind::FaultToleranceRule,
            json!({
                "targets": [{ "targetResourceName": "GET:/fooa" }, { "targetResourceName": " " }],
                "strategies": [
                    { "name": "rate-limit-foo", "kind": "RateLimitStrategy" },
                    { "name": "Not A Name", "kind": "ConcurrencyLimitStrategy" },
                ],
            }),
        ),
        (Kind::ThrottlingStrategy, json!({ "minIntervalOfRequests": "00000ms", "queueTimeout": "1minute" })),
        (breaker, specs::without(breaker, "/slowConditions")),
        (breaker, specs::with(breaker, "/strategy", json!("ErrorRequestRatio"))),
        (breaker, specs::with(breaker, "/triggerRatio", json!("0%"))),
        (breaker, specs::with(breaker, "/errorConditions", json!({ "representation": "" }))),
        (
            Kind::TrafficRouter,
            json!({
                "hosts": ["service-provider"],
                "http": [
                    {
                        "match": [{ "headers": { "x-mse-tag": { "exact": "v2" } } }],
                        "route": [{
                            "destination": {
                                "host": "service-provider", "subset": "v2",
                                "fallback": { "host": "service-provider", "subset": "v1" },
                            },
                        }],
                    },
                    { "route": [{ "destination": { "host": "service-provider", "subset": "v1" } }] },
                ],
            }),
        ),
    ];
    for (kind, spec) in objects {
        let kept = cluster.keep(kind, &spec).await;
        assert_eq!(kept.as_ref(), Ok(&spec), "{kind}");
        assert!(said(kind, &spec).is_ok(), "{}", refusal(kind, &spec));
    }
}

#[tokio::test]
async fn an_object_without_a_spec_is_accepted_and_its_spec_is_missed() {
    let cluster = Cluster::start().await;
    for kind in Kind::ALL {
        let api = causeway_api::rules::resource(kind);
        let bare = json!({ "apiVersion": api.api_version, "kind": api.kind, "metadata": { "name": "bare" } });
        let kept = cluster.create(kind, bare).await.expect("accepted");
        assert_eq!(refusal(kind, &kept.data["spec"]), "spec: it is missing");
    }
}
