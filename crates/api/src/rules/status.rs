//! What is said of a rule of any kind: read leniently, and written in two parts by two writers.
//!
//! Each replica writes what the data planes of its own streams said ([`share`]); the leader writes the sum and the
//! conditions ([`total`]). Both are merge patches, so neither touches the other's part.
#![allow(unreachable_pub, reason = "the schema derive repeats the struct inside a function")]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use causeway_core::rules::{Failure, RuleStatus, Share};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::condition;

/// How far a rule got. Everything here is written by Causeway.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Status {
    /// How many data planes run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub acked: Option<i64>,
    /// How many refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed: Option<i64>,
    /// How many have not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pending: Option<i64>,
    /// The latest refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
    /// What each replica of Causeway says of the data planes that it serves, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<BTreeMap<String, ReplicaStatus>>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is still sent of it while it cannot be sent as it is: its last good form, encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sent: Option<String>,
    /// Accepted, Distributed; those of others are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// What one replica of Causeway says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// How many data planes run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub acked: Option<i64>,
    /// How many refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed: Option<i64>,
    /// How many have not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pending: Option<i64>,
    /// The latest refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// A data plane's refusal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastFailure {
    /// Who refused: its identifier if it has one, and its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// What can be understood of a status, field by field: whatever else is there must not hide it.
pub fn read(status: &Value) -> RuleStatus {
    let replicas = status["replicas"].as_object().into_iter().flatten();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let conditions: Vec<Condition> =
        conditions.filter_map(|condition| Condition::deserialize(condition).ok()).collect();
    RuleStatus {
        total: read_share(status),
        replicas: replicas.map(|(name, share)| (name.clone(), read_share(share))).collect(),
        observed_generation: status["observedGeneration"].as_i64(),
        conditions: condition::read(&conditions),
        last_sent: status["lastSent"].as_str().and_then(|text| STANDARD.decode(text).ok()).map(Into::into),
    }
}

fn read_share(fields: &Value) -> Share {
    let count = |name: &str| {
        fields[name].as_u64().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or_default()
    };
    Share {
        generation: fields["generation"].as_i64().unwrap_or_default(),
        acked: count("acked"),
        failed: count("failed"),
        pending: count("pending"),
        failure: read_failure(&fields["lastFailure"]),
    }
}

fn read_failure(fields: &Value) -> Option<Failure> {
    let fields = fields.as_object()?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let code = fields.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let time = text("time").parse::<Timestamp>();
    Some(Failure {
        client: text("client").into(),
        code: code.unwrap_or_default(),
        message: text("message").into(),
        at: time.map(Timestamp::as_second).unwrap_or_default(),
    })
}

/// A patch of the status with all that the leader says at `now`, and without what replicas said that are gone.
pub fn total(status: &RuleStatus, gone: &[String], now: Timestamp) -> Value {
    let mut fields = share_fields(&status.total);
    fields.insert("observedGeneration".into(), json!(status.observed_generation));
    fields.insert("conditions".into(), json!(condition::written(&status.conditions, now)));
    let last_sent = status.last_sent.as_ref().map(|bytes| STANDARD.encode(bytes));
    fields.insert("lastSent".into(), json!(last_sent));
    if !gone.is_empty() {
        let gone = gone.iter().map(|replica| (replica.clone(), Value::Null));
        fields.insert("replicas".into(), Value::Object(gone.collect()));
    }
    Value::Object(fields)
}

/// A patch of the status with what one replica says.
pub fn share(replica: &str, share: &Share) -> Value {
    let mut fields = share_fields(share);
    fields.insert("generation".into(), json!(share.generation));
    json!({ "replicas": { replica: fields } })
}

/// In a merge patch null takes a field away: a refusal that no longer counts goes.
fn share_fields(share: &Share) -> Map<String, Value> {
    let Share { acked, failed, pending, failure, .. } = share;
    let failure = failure.as_ref().map(written_failure);
    Map::from_iter([
        ("acked".into(), json!(acked)),
        ("failed".into(), json!(failed)),
        ("pending".into(), json!(pending)),
        ("lastFailure".into(), json!(failure)),
    ])
}

fn written_failure(failure: &Failure) -> LastFailure {
    LastFailure {
        client: Some(failure.client.clone()),
        code: Some(failure.code),
        message: Some(failure.message.clone()),
        time: Timestamp::from_second(failure.at).ok().map(Time),
    }
}
