//! What the definitions accept, refuse and show.

use std::path::Path;

use causeway_api::rules::{LooseRule, crds, status};
use causeway_core::rules::rule::Rule;
use causeway_core::rules::{Kind, Share, convert};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::server::Cluster;
use crate::{said, specs};

#[tokio::test]
async fn every_sample_is_accepted_understood_and_can_be_sent() {
    let cluster = Cluster::start().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/rules");
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the samples") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("text");
        assert!(text.starts_with("# "), "it begins with what it does");
        let sample: Value = serde_saphyr::from_str(&text).expect("YAML");
        let full_name = format!("{}/{}", sample["apiVersion"], sample["kind"]).replace('"', "");
        let kind: Kind = full_name.parse().expect("a kind");
        let kept = cluster.create(kind, sample.clone()).await.expect("accepted");
        assert_eq!(kept.data["spec"], sample["spec"], "nothing of it is dropped");
        assert_eq!(
            kept.metadata.labels.as_ref().and_then(|labels| labels.get("app")),
            Some(&"foo".to_owned())
        );
        let rule: Rule = said(kind, &kept.data["spec"]).expect("understood");
        convert::message("default", "a", &rule).expect("it can be sent");
        seen.push(kind);
    }
    seen.sort();
    assert_eq!(seen, Kind::ALL, "there is one of each kind");
}

#[tokio::test]
async fn what_is_out_of_bounds_is_refused_at_once() {
    let cluster = Cluster::start().await;
    let durations = ["0s", "05s", "5", "s", "-1s", "1.5s", "5sec", " 5s", "5s ", "1d1h", ""].map(Value::from);
    let ratios =
        ["", "60", "101%", "060%", "-1%", "60.5%", "1.1", "2", ".5", "1e-1", "60 %"].map(Value::from);
    let counts = [json!(-1), json!(1.5), json!("1"), json!(null)];
    let fewer_than_one = [json!(0), json!(-1), json!(2_147_483_648_u32), json!("1")];
    let modes = ["", "local", "Cluster"].map(Value::from);
    let table: [(Kind, &str, &[Value]); 20] = [
        (
            Kind::FaultToleranceRule,
            "/targets/0/targetResourceName",
            &[json!(""), json!("x".repeat(1025)), json!(1)],
        ),
        (Kind::FaultToleranceRule, "/targets/0", &[json!({}), json!("x")]),
        (Kind::FaultToleranceRule, "/targets", &[json!({}), json!("x")]),
        (Kind::FaultToleranceRule, "/strategies/0/name", &[json!(""), json!(1)]),
        (Kind::FaultToleranceRule, "/strategies/0/kind", &[json!(""), json!("TrafficRouter")]),
        (Kind::FaultToleranceRule, "/strategies/0", &[json!({ "name": "a" })]),
        (Kind::FaultToleranceRule, "/action", &[json!({}), json!({ "name": "", "kind": "a" }), json!("x")]),
        (Kind::RateLimitStrategy, "/metricType", &[json!(""), json!("Bytes")]),
        (Kind::RateLimitStrategy, "/limitMode", &modes),
        (Kind::RateLimitStrategy, "/threshold", &counts),
        (Kind::RateLimitStrategy, "/statDurationSeconds", &fewer_than_one),
        (Kind::ThrottlingStrategy, "/minIntervalOfRequests", &durations[2..]),
        (Kind::ThrottlingStrategy, "/queueTimeout", &durations),
        (Kind::ConcurrencyLimitStrategy, "/maxConcurrency", &counts),
        (Kind::ConcurrencyLimitStrategy, "/limitMode", &modes),
        (Kind::CircuitBreakerStrategy, "/strategy", &[json!(""), json!("ErrorCount")]),
        (Kind::CircuitBreakerStrategy, "/triggerRatio", &ratios),
        (Kind::CircuitBreakerStrategy, "/statDuration", &durations),
        (Kind::CircuitBreakerStrategy, "/slowConditions/maxAllowedRt", &durations),
        (Kind::CircuitBreakerStrategy, "/minRequestAmount", &fewer_than_one),
    ];
    for (kind, pointer, values) in table {
        for value in values {
            let refused = cluster.keep(kind, &specs::with(kind, pointer, value.clone())).await;
            let Err(why) = refused else { panic!("{kind} with {pointer} = {value} is accepted") };
            let field = format!("spec{}", pointer.replace("/0", "[0]").replace('/', "."));
            assert!(why.contains(&field), "{field}: {why}");
        }
    }
    let recovery = specs::with(Kind::CircuitBreakerStrategy, "/recoveryTimeout", json!("0s"));
    assert!(cluster.keep(Kind::CircuitBreakerStrategy, &recovery).await.is_err());
}

#[tokio::test]
async fn what_is_required_must_be_given() {
    let cluster = Cluster::start().await;
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::TrafficRouter) {
        let fields: Vec<String> = specs::of(kind).as_object().expect("fields").keys().cloned().collect();
        for field in fields.into_iter().filter(|field| field != "slowConditions") {
            let refused = cluster.keep(kind, &specs::without(kind, &format!("/{field}"))).await;
            assert!(
                refused.is_err_and(|why| why.contains(&format!("spec.{field}: Required"))),
                "{kind} {field}"
            );
        }
    }
}

#[tokio::test]
async fn whatever_the_schema_accepts_of_the_strategies_can_be_parsed() {
    let cluster = Cluster::start().await;
    let extremes = [
        (Kind::RateLimitStrategy, "/threshold", vec![json!(0), json!(i64::MAX)]),
        (Kind::RateLimitStrategy, "/statDurationSeconds", vec![json!(1), json!(i32::MAX)]),
        (Kind::ConcurrencyLimitStrategy, "/maxConcurrency", vec![json!(0), json!(i64::MAX)]),
        (Kind::CircuitBreakerStrategy, "/minRequestAmount", vec![json!(1), json!(i32::MAX)]),
        (
            Kind::CircuitBreakerStrategy,
            "/triggerRatio",
            ["0%", "1%", "99%", "100%", "0", "0.6", "1", "1.0"].map(Value::from).to_vec(),
        ),
        (
            Kind::CircuitBreakerStrategy,
            "/statDuration",
            ["1ms", "2s", "3m", "4min", "5minute", "6h", "7d"].map(Value::from).to_vec(),
        ),
        (
            Kind::ThrottlingStrategy,
            "/minIntervalOfRequests",
            ["0ms", "00s", "020ms"].map(Value::from).to_vec(),
        ),
        (
            Kind::FaultToleranceRule,
            "/targets/0/targetResourceName",
            vec![json!("x"), json!("ü".repeat(1024))],
        ),
        (Kind::FaultToleranceRule, "/action", vec![Value::Null, json!({ "name": "a", "kind": "b" })]),
    ];
    for (kind, pointer, values) in extremes {
        for value in values {
            let spec = specs::with(kind, pointer, value.clone());
            let kept = cluster
                .keep(kind, &spec)
                .await
                .unwrap_or_else(|why| panic!("{kind} {pointer} {value}: {why}"));
            assert!(said(kind, &kept).is_ok(), "{kind} {pointer} {value}");
        }
    }
}

#[tokio::test]
async fn a_status_is_written_in_parts_and_kept() {
    let cluster = Cluster::start().await;
    let api: Api<LooseRule> = Api::default_namespaced_with(cluster.client.clone(), &Kind::RateLimitStrategy);
    let object = json!({
        "apiVersion": "fault-tolerance.opensergo.io/v1alpha1", "kind": "RateLimitStrategy",
        "metadata": { "name": "limit" }, "spec": specs::of(Kind::RateLimitStrategy), "status": { "acked": 7 },
    });
    cluster.create(Kind::RateLimitStrategy, object).await.expect("accepted");
    let new = api.get("limit").await.expect("there");
    let mut wanted = new.parsed(Kind::RateLimitStrategy).expect("a key").status;
    wanted.total = Share { acked: 2, ..Share::default() };
    wanted.replicas.insert("a".into(), wanted.total.clone());
    wanted.observed_generation = Some(1);
    wanted.conditions.set("Accepted", true, "Converted", "data planes get it".into(), 1);
    let now = Timestamp::from_second(60).expect("a time");
    for part in [status::total(&wanted, &["gone".into()], now), status::share("a", &wanted.total)] {
        let patch = json!({ "status": part });
        api.patch_status("limit", &PatchParams::default(), &Patch::Merge(patch)).await.expect("written");
    }
    let written = api.get("limit").await.expect("there");
    let read = written.parsed(Kind::RateLimitStrategy).expect("a key").status;
    assert_eq!((&read.total, &read.replicas), (&wanted.total, &wanted.replicas));
    assert_eq!(read.conditions.get("Accepted").and_then(|condition| condition.since), Some(60));
    assert_eq!(written.metadata.generation, Some(1), "a status is no news of the spec");
}

#[test]
fn all_kinds_show_the_same_columns() {
    for crd in crds() {
        assert_eq!(crd.spec.names.categories, Some(vec!["causeway".to_owned()]));
        let version = &crd.spec.versions[0];
        assert!(version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some()));
        let columns = version.additional_printer_columns.iter().flatten();
        let names: Vec<_> =
            columns.filter(|column| column.priority.is_none()).map(|column| &column.name).collect();
        assert_eq!(names, ["App", "Acked", "Failed", "Pending", "Age"]);
    }
}
