//! The rule that is sent: about a kilobyte, most of which is the name of the resource that it guards. That name begins
//! with the instant of the rule's last edit, and with zero when it was never edited.

use anyhow::Context;
use causeway_core::rules::Kind;
use causeway_core::rules::wire::Any;
use causeway_core::rules::wire::fault_tolerance::v1::FaultToleranceRule;
use causeway_core::rules::wire::fault_tolerance::v1::fault_tolerance_rule::{
    FaultToleranceRuleTargetRef, FaultToleranceStrategyRef,
};
use causeway_core::rules::wire::transport::v1::{
    ControlPlaneDesc, DataWithVersion, Status, SubscribeRequest, SubscribeRequestTarget, SubscribeResponse,
};
use prost::Message;
use serde_json::{Value, json};

pub(crate) const KIND: Kind = Kind::FaultToleranceRule;
pub(crate) const NAMESPACE: &str = "default";
/// The resource's name is filled up to so many characters; with what is around it that makes a kilobyte.
const LONG: usize = 880;
const STRATEGY: &str = "limit";

/// The name of the app with this number.
pub(crate) fn app(number: usize) -> String {
    format!("app-{number:03}")
}

fn resource_name(instant: u64) -> String {
    format!("{:x<LONG$}", format!("{instant:020}/"))
}

/// The `spec` of the object.
pub(crate) fn spec(instant: u64) -> Value {
    json!({
        "targets": [{ "targetResourceName": resource_name(instant) }],
        "strategies": [{ "name": STRATEGY, "kind": "RateLimitStrategy" }],
    })
}

/// A rule as a client gets it.
fn rule(instant: u64) -> FaultToleranceRule {
    FaultToleranceRule {
        targets: vec![FaultToleranceRuleTargetRef { target_resource_name: resource_name(instant) }],
        strategies: vec![FaultToleranceStrategyRef {
            name: STRATEGY.into(),
            kind: "RateLimitStrategy".into(),
        }],
        action: None,
    }
}

fn any(instant: u64) -> Any {
    let type_url = "type.googleapis.com/io.opensergo.proto.fault_tolerance.v1.FaultToleranceRule".into();
    Any { type_url, value: rule(instant).encode_to_vec() }
}

/// What a floor sends, which is what the controller sends: so many rules, of which the first was edited.
pub(crate) fn response(rules: usize, instant: u64, number: i64) -> SubscribeResponse {
    let data = (0..rules).map(|rule| any(if rule == 0 { instant } else { 0 })).collect();
    SubscribeResponse {
        status: Some(Status { code: 200, message: "Get and send rule success".into(), details: Vec::new() }),
        ack: String::new(),
        namespace: NAMESPACE.into(),
        app: app(0),
        kind: KIND.full_name().into(),
        data_with_version: Some(DataWithVersion { data, version: number }),
        control_plane: Some(ControlPlaneDesc { identifier: "osg-floor".into() }),
        response_id: format!("5000-{number}"),
    }
}

/// The instants that a response's rules carry.
pub(crate) fn instants(response: &SubscribeResponse) -> anyhow::Result<Vec<u64>> {
    let data = response.data_with_version.as_ref().context("no rules")?;
    data.data.iter().map(instant).collect()
}

fn instant(rule: &Any) -> anyhow::Result<u64> {
    let rule = FaultToleranceRule::decode(rule.value.as_slice())?;
    let name = &rule.targets.first().context("no target")?.target_resource_name;
    instant_of(name)
}

fn instant_of(resource_name: &str) -> anyhow::Result<u64> {
    let (instant, _) = resource_name.split_once('/').context("no instant")?;
    instant.parse().context("no instant")
}

/// The instant in an object's `spec`.
pub(crate) fn instant_in(spec: &Value) -> anyhow::Result<u64> {
    instant_of(spec["targets"][0]["targetResourceName"].as_str().context("no target")?)
}

/// The request that asks for an app's rules.
pub(crate) fn subscribe(app: &str, client: &str) -> SubscribeRequest {
    SubscribeRequest {
        target: Some(SubscribeRequestTarget {
            namespace: NAMESPACE.into(),
            app: app.into(),
            labels: Vec::new(),
            kinds: vec![KIND.full_name().into()],
        }),
        identifier: client.into(),
        request_id: "1".into(),
        ..SubscribeRequest::default()
    }
}

/// The answer to a response.
pub(crate) fn ack(response: SubscribeResponse) -> SubscribeRequest {
    SubscribeRequest {
        response_ack: "ACK".into(),
        status: Some(Status { code: 1, ..Status::default() }),
        request_id: response.response_id,
        ..SubscribeRequest::default()
    }
}

/// A refusal that does not say why.
pub(crate) fn nack(response: SubscribeResponse) -> SubscribeRequest {
    SubscribeRequest { response_ack: "NACK".into(), status: None, ..ack(response) }
}
