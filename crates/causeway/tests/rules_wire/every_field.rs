//! Each kind with all of its fields, as the SDK's own messages and Envoy's have them.

use causeway_core::rules::Kind;
use serde_json::{Value, json};

use super::client::{Client, target};
use super::site::Site;

const TYPES: &str = "type.googleapis.com/io.opensergo.proto.fault_tolerance.v1";
const NOTHING: &str = "fault-tolerance.opensergo.io/v1alpha1/Nothing";

/// Of each kind a spec and the message that it becomes. Where the messages have no field nothing is printed.
fn kinds() -> [(Kind, Value, Value); 6] {
    [
        (
            Kind::FaultToleranceRule,
            json!({ "targets": [{ "targetResourceName": "GET:/orders" }, { "targetResourceName": "ä" }],
                    "strategies": [{ "name": "one", "kind": "RateLimitStrategy" },
                                   { "name": "two", "kind": "CircuitBreakerStrategy" }],
                    "action": { "name": "three", "kind": "Fallback" } }),
            json!({ "@type": format!("{TYPES}.FaultToleranceRule"),
                    "targets": [{ "target_resource_name": "GET:/orders" }, { "target_resource_name": "ä" }],
                    "strategies": [{ "name": "one", "kind": "RateLimitStrategy" },
                                   { "name": "two", "kind": "CircuitBreakerStrategy" }],
                    "action": { "name": "three", "kind": "Fallback" } }),
        ),
        (
            Kind::RateLimitStrategy,
            json!({ "metricType": "RequestAmount", "limitMode": "Global", "threshold": 9_000_000_000_i64,
                    "statDurationSeconds": 30 }),
            json!({ "@type": format!("{TYPES}.RateLimitStrategy"), "name": "rule",
                    "metric_type": "TYPE_REQUEST_AMOUNT", "limit_mode": "MODE_GLOBAL",
                    "threshold": "9000000000", "stat_duration": 30, "stat_duration_time_unit": "SECOND" }),
        ),
        (
            Kind::ThrottlingStrategy,
            json!({ "minIntervalOfRequests": "20ms", "queueTimeout": "2s" }),
            json!({ "@type": format!("{TYPES}.ThrottlingStrategy"), "name": "rule",
                    "min_interval_millis_of_requests": "20", "queue_timeout_millis": "2000" }),
        ),
        (
            Kind::ConcurrencyLimitStrategy,
            json!({ "maxConcurrency": 8, "limitMode": "Local" }),
            json!({ "@type": format!("{TYPES}.ConcurrencyLimitStrategy"), "name": "rule",
                    "limit_mode": "MODE_LOCAL", "max_concurrency": "8" }),
        ),
        (
            Kind::CircuitBreakerStrategy,
            json!({ "strategy": "SlowRequestRatio", "triggerRatio": "60%", "statDuration": "30s",
                    "recoveryTimeout": "5s", "minRequestAmount": 10,
                    "slowConditions": { "maxAllowedRt": "500ms" } }),
            json!({ "@type": format!("{TYPES}.CircuitBreakerStrategy"), "name": "rule",
                    "strategy": "STRATEGY_SLOW_REQUEST_RATIO", "trigger_ratio": 0.6,
                    "stat_duration": "30000", "stat_duration_time_unit": "MILLISECOND",
                    "recovery_timeout": 5000, "recovery_timeout_time_unit": "MILLISECOND",
                    "min_request_amount": 10, "slow_condition": { "max_allowed_rt_millis": 500 } }),
        ),
        (Kind::TrafficRouter, router(), routes()),
    ]
}

fn router() -> Value {
    json!({
        "hosts": ["foo", "*.example.org"],
        "http": [
            { "match": [
                { "headers": { "x-tag": { "exact": "v2" } }, "uri": { "exact": "/exactly" } },
                { "headers": { "x-tag": { "prefix": "v" } }, "queryParams": { "user": { "regex": "[0-9]+" } },
                  "uri": { "prefix": "/preview/" } },
                { "headers": { "x-tag": { "regex": "v." } }, "queryParams": { "user": { "prefix": "u" } },
                  "uri": { "regex": "/.*" } },
              ],
              "route": [{ "destination": { "host": "foo", "subset": "v2",
                                           "fallback": { "host": "foo", "subset": "v1" } } }] },
            { "match": [{ "queryParams": { "user": { "exact": "me" } } }],
              "route": [{ "destination": { "host": "bar.other.svc.cluster.local", "subset": "v1" } }] },
            { "route": [{ "destination": { "host": "foo", "subset": "v1" }, "weight": 90 },
                        { "destination": { "host": "foo", "subset": "v2" }, "weight": 10 }] },
        ],
    })
}

fn routes() -> Value {
    let (v1, v2) =
        ("outbound||v1|foo.default.svc.cluster.local", "outbound||v2|foo.default.svc.cluster.local");
    let user = |matcher: Value| json!([{ "name": "user", "string_match": matcher }]);
    let fallback = json!({ "inline_cluster_specifier_plugin": { "extension": {
        "name": "envoy.router.cluster_specifier_plugin.cluster_fallback",
        "typed_config": {
            "@type": "type.googleapis.com/io.opensergo.proto.router.v1.ClusterFallbackConfig_ClusterConfig",
            "RoutingCluster": v2, "FallbackCluster": v1 } } } });
    json!({
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        "name": "rule",
        "virtual_hosts": [{
            "name": "rule",
            "domains": ["foo.default.svc.cluster.local", "*.example.org"],
            "routes": [
                { "match": { "path": "/exactly", "headers": [{ "name": "x-tag", "exact_match": "v2" }] },
                  "route": fallback },
                { "match": { "prefix": "/preview/", "headers": [{ "name": "x-tag", "prefix_match": "v" }],
                             "query_parameters": user(json!({ "safe_regex": { "regex": "[0-9]+" } })) },
                  "route": fallback },
                { "match": { "safe_regex": { "regex": "/.*" },
                             "headers": [{ "name": "x-tag", "safe_regex_match": { "regex": "v." } }],
                             "query_parameters": user(json!({ "prefix": "u" })) },
                  "route": fallback },
                { "match": { "prefix": "/", "query_parameters": user(json!({ "exact": "me" })) },
                  "route": { "cluster": "outbound||v1|bar.other.svc.cluster.local" } },
                { "match": { "prefix": "/" },
                  "route": { "weighted_clusters": { "clusters": [
                      { "name": v1, "weight": 90 }, { "name": v2, "weight": 10 }] } } },
            ],
        }],
    })
}

#[tokio::test]
async fn every_field_of_all_six_kinds_arrives_as_written_and_an_unknown_kind_is_refused_alone() {
    let site = Site::set_up().await;
    let replica = site.replica_anywhere("a").await;
    for (kind, spec, _) in kinds() {
        site.create(kind, "rule", spec).await;
    }
    let mut client = Client::start(&[replica.address()]);
    let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.full_name()).collect();
    names.insert(2, NOTHING);
    client.order(json!({ "subscribe": target(&names) })).await;
    let refused = client.until("a refusal", |event| event["is"] == "refused").await;
    let response = &refused["response"];
    assert_eq!((&response["kind"], &response["ack"]), (&json!(NOTHING), &json!("NACK")), "{refused}");
    assert_eq!(response["status"]["code"], 4003, "{refused}");
    for (kind, _, message) in kinds() {
        client.holds(kind, &json!([message])).await;
    }
    for kind in Kind::ALL {
        site.says(kind, "rule", [1, 0, 0]).await;
    }

    // The other condition of a breaker, and the largest that fits.
    let spec = json!({ "strategy": "ErrorRequestRatio", "triggerRatio": "100%", "statDuration": "1d",
                       "recoveryTimeout": "1h", "minRequestAmount": 1, "slowConditions": null,
                       "errorConditions": {} });
    site.patch(Kind::CircuitBreakerStrategy, "rule", spec).await;
    let message = json!({ "@type": format!("{TYPES}.CircuitBreakerStrategy"), "name": "rule",
                          "strategy": "STRATEGY_ERROR_REQUEST_RATIO", "trigger_ratio": 1.0,
                          "stat_duration": "86400000", "stat_duration_time_unit": "MILLISECOND",
                          "recovery_timeout": 3_600_000, "recovery_timeout_time_unit": "MILLISECOND",
                          "min_request_amount": 1, "error_condition": {} });
    client.holds(Kind::CircuitBreakerStrategy, &json!([message])).await;
}
