//! A status is read whatever is in it, and written by two writers who leave each other's part alone.

use causeway_api::rules::status::{read, share, total};
use causeway_core::rules::{Failure, RuleStatus, Share};
use causeway_core::{Conditions, Truth};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

fn failed(client: &str, at: i64) -> Share {
    let failure = Failure { client: client.into(), code: 4007, message: "no such resource".into(), at };
    Share { generation: 0, acked: 3, failed: 1, pending: 2, failure: Some(failure) }
}

fn status() -> RuleStatus {
    let mut conditions = Conditions::default();
    conditions.set("Accepted", Truth::True, "Converted", "data planes get it".into(), 4);
    RuleStatus {
        total: failed("foo-1 (10.0.0.1:4711)", 60),
        replicas: [("a".into(), failed("foo-1 (10.0.0.1:4711)", 60)), ("b".into(), Share::default())].into(),
        observed_generation: Some(4),
        conditions,
        last_sent: Some(b"bytes".as_slice().into()),
    }
}

/// The status as all of its writers leave it.
fn written(before: Value, status: &RuleStatus, gone: &[String]) -> Value {
    let mut written = before;
    json_patch::merge(&mut written, &total(status, gone, now()));
    for (replica, said) in &status.replicas {
        json_patch::merge(&mut written, &share(replica, said));
    }
    written
}

fn now() -> Timestamp {
    Timestamp::from_second(90).expect("a time")
}

/// The same, as it is once the time of the write is known.
fn at_last(status: &RuleStatus) -> RuleStatus {
    let since = |condition: &causeway_core::Condition| causeway_core::Condition {
        since: condition.since.or(Some(90)),
        ..condition.clone()
    };
    RuleStatus { conditions: status.conditions.iter().map(since).collect(), ..status.clone() }
}

#[test]
fn what_is_written_reads_back() {
    let status = status();
    let object = written(Value::Null, &status, &[]);
    assert_eq!(read(&object), at_last(&status));
    assert_eq!((&object["acked"], &object["failed"], &object["pending"]), (&json!(3), &json!(1), &json!(2)));
    assert_eq!(
        object["lastFailure"],
        json!({
            "client": "foo-1 (10.0.0.1:4711)", "code": 4007, "message": "no such resource",
            "time": "1970-01-01T00:01:00Z",
        })
    );
    assert_eq!(object["replicas"]["b"], json!({ "generation": 0, "acked": 0, "failed": 0, "pending": 0 }));
    assert_eq!(object["observedGeneration"], json!(4));
    assert_eq!(object["conditions"][0]["lastTransitionTime"], json!("1970-01-01T00:01:30Z"));
    let again = written(object.clone(), &read(&object), &[]);
    assert_eq!(again, object, "writing it again changes nothing");
}

#[test]
fn a_refusal_that_no_longer_counts_goes_and_so_does_a_replica_that_is_gone() {
    let before = written(json!({ "theirs": 1, "replicas": { "c": { "acked": 9 } } }), &status(), &[]);
    let mut after = status();
    after.total = Share { acked: 6, ..Share::default() };
    after.replicas.insert("a".into(), after.total.clone());
    after.replicas.remove("b");
    let object = written(before, &after, &["b".into()]);
    assert_eq!(object.get("lastFailure"), None);
    assert_eq!(
        object["replicas"],
        json!({ "a": { "generation": 0, "acked": 6, "failed": 0, "pending": 0 }, "c": { "acked": 9 } })
    );
    assert_eq!(object["theirs"], json!(1), "others' fields stay");
}

#[test]
fn the_leader_leaves_alone_what_replicas_say_and_replicas_what_the_leader_says() {
    assert_eq!(total(&status(), &[], now()).get("replicas"), None);
    let own = share("a", &Share { generation: 4, acked: 1, ..Share::default() });
    let said = json!({ "generation": 4, "acked": 1, "failed": 0, "pending": 0, "lastFailure": null });
    assert_eq!(own, json!({ "replicas": { "a": said } }));
}

#[test]
fn what_makes_no_sense_does_not_hide_the_rest() {
    let good = json!({
        "type": "Accepted", "status": "True", "reason": "Converted", "message": "",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    });
    let odd = json!({
        "acked": -1, "failed": 7_000_000_000_i64, "pending": 2, "lastFailure": { "code": "x", "time": "now" },
        "observedGeneration": "x", "conditions": [good, { "type": "Theirs" }, 3], "replicas": { "a": 1, "b": { "acked": 2 } },
    });
    let status = read(&odd);
    assert_eq!((status.total.acked, status.total.failed, status.total.pending), (0, u32::MAX, 2));
    assert_eq!(
        status.total.failure,
        Some(Failure { client: String::new(), code: 0, message: String::new(), at: 0 })
    );
    assert_eq!(status.replicas["b"].acked, 2);
    assert!(status.conditions.is_true("Accepted"));
    assert_eq!(status.conditions.iter().count(), 1);
    for nothing in [Value::Null, json!([]), json!("fine"), json!({ "conditions": {}, "replicas": [] })] {
        assert_eq!(read(&nothing), RuleStatus::default(), "{nothing}");
    }
}
