//! Events are one kind of object seen through two groups, with other field names in each.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::{Value, json};

use crate::harness::{MERGE, Read, Scene, scene};

fn core_event(t: &Scene, name: &str, about: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": t.ns},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": about, "namespace": t.ns, "uid": "u-1"},
        "reason": "Moved", "message": "moved to b", "type": "Normal", "count": 3,
        "source": {"component": "mover", "host": "h1"},
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:05:05Z",
    })
}

#[tokio::test]
async fn a_core_event_is_seen_through_the_events_group() {
    scene(async |t: &Scene| {
        t.post(&t.core("events"), core_event(t, "e", "p")).await.expect(201);
        let seen = t.get(&t.group("events.k8s.io/v1", "events/e")).await.expect(200);
        assert_eq!((&seen["apiVersion"], &seen["kind"]), (&json!("events.k8s.io/v1"), &json!("Event")));
        assert_eq!(
            (&seen["note"], &seen["reason"], &seen["type"]),
            (&json!("moved to b"), &json!("Moved"), &json!("Normal"))
        );
        assert_eq!(seen["regarding"]["name"], "p");
        assert_eq!(
            (&seen["deprecatedCount"], &seen["deprecatedSource"]["component"]),
            (&json!(3), &json!("mover"))
        );
        assert_eq!(seen["deprecatedFirstTimestamp"], "2026-01-02T03:04:05Z");
        assert_eq!(seen["deprecatedLastTimestamp"], "2026-01-02T03:05:05Z");
        for field in ["involvedObject", "message", "count", "source"] {
            assert_eq!(seen.get(field), None, "{field}");
        }
        let list = t.get(&t.group("events.k8s.io/v1", "events")).await.expect(200);
        assert_eq!((&list["kind"], list.names()), (&json!("EventList"), vec!["e"]));
    })
    .await;
}

#[tokio::test]
async fn an_event_of_the_events_group_is_seen_through_core() {
    scene(async |t: &Scene| {
        let body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": t.ns},
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": t.ns},
            "reason": "Moved", "note": "moved to b", "type": "Warning", "action": "Move",
            "eventTime": "2026-01-02T03:04:05.000006Z", "reportingController": "example.com/mover", "reportingInstance": "m-0",
        });
        t.post(&t.group("events.k8s.io/v1", "events"), body).await.expect(201);
        let seen = t.get(&t.core("events/e")).await.expect(200);
        assert_eq!((&seen["apiVersion"], &seen["message"]), (&json!("v1"), &json!("moved to b")));
        assert_eq!((&seen["involvedObject"]["name"], &seen["type"]), (&json!("p"), &json!("Warning")));
        assert_eq!((&seen["reportingComponent"], &seen["reportingInstance"]), (&json!("example.com/mover"), &json!("m-0")));
        assert_eq!((&seen["action"], &seen["eventTime"]), (&json!("Move"), &json!("2026-01-02T03:04:05.000006Z")));
        assert_eq!((seen.get("note"), seen.get("regarding")), (None, None));
    })
    .await;
}

#[tokio::test]
async fn an_event_is_patched_through_either_group() {
    scene(async |t: &Scene| {
        t.post(&t.core("events"), core_event(t, "e", "p")).await.expect(201);
        let count = json!({"count": 4, "message": "again"});
        t.patch(&t.core("events/e"), crate::harness::MERGE, count).await.expect(200);
        let seen = t.get(&t.group("events.k8s.io/v1", "events/e")).await.expect(200);
        assert_eq!((&seen["deprecatedCount"], &seen["note"]), (&json!(4), &json!("again")));
        t.delete(&t.group("events.k8s.io/v1", "events/e")).await.expect(200);
        t.get(&t.core("events/e")).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn events_are_selected_by_what_they_are_about() {
    scene(async |t: &Scene| {
        t.post(&t.core("events"), core_event(t, "e1", "p1")).await.expect(201);
        let mut second = core_event(t, "e2", "p2");
        second["type"] = json!("Warning");
        second["reason"] = json!("Lost");
        second["involvedObject"]["uid"] = json!("u-2");
        t.post(&t.core("events"), second).await.expect(201);
        let namespace = format!("involvedObject.namespace={},involvedObject.name=p2", t.ns);
        for (fields, names) in [
            ("involvedObject.name=p1", &["e1"][..]),
            (&namespace, &["e2"]),
            ("involvedObject.kind=Pod", &["e1", "e2"]),
            ("involvedObject.kind=Node", &[]),
            ("involvedObject.uid=u-2", &["e2"]),
            ("involvedObject.apiVersion=v1,reason=Lost", &["e2"]),
            ("type=Warning", &["e2"]),
            ("type!=Warning", &["e1"]),
        ] {
            let path = t.core(&format!("events?fieldSelector={}", fields.replace('=', "%3D")));
            assert_eq!(t.get(&path).await.expect(200).names(), names, "{fields}");
        }
        let path = t.group("events.k8s.io/v1", "events?fieldSelector=regarding.name%3Dp1");
        assert_eq!(t.get(&path).await.expect(200).names(), ["e1"]);
    })
    .await;
}

#[tokio::test]
async fn an_event_must_live_where_its_object_lives() {
    scene(async |t: &Scene| {
        let mut body = core_event(t, "e", "p");
        body["involvedObject"]["namespace"] = json!("elsewhere");
        let status = t.post(&t.core("events"), body).await.refused(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], "involvedObject.namespace");
    })
    .await;
}

#[tokio::test]
async fn the_rust_recorder_publishes_and_counts() {
    scene(async |t: &Scene| {
        let reporter = Reporter { controller: "example.com/suite".into(), instance: Some("one".into()) };
        let about = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("ConfigMap".into()),
            name: Some("a".into()),
            namespace: Some(t.ns.clone()),
            uid: Some("u-3".into()),
            ..ObjectReference::default()
        };
        let recorder = Recorder::new(t.client.clone(), reporter);
        let event = Event {
            type_: EventType::Normal,
            reason: "Tested".into(),
            note: Some("it works".into()),
            action: "Test".into(),
            secondary: None,
        };
        recorder.publish(&event, &about).await.expect("the first");
        recorder.publish(&event, &about).await.expect("the second becomes a series");
        let list = t.get(&t.core("events")).await.expect(200);
        assert_eq!(list.names().len(), 1, "{list}");
        let seen = &list["items"][0];
        assert_eq!((&seen["message"], &seen["series"]["count"]), (&json!("it works"), &json!(2)));
    })
    .await;
}

/// An event as the newer group wants it.
fn modern(t: &Scene) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"generateName": "e-"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": t.ns}, "eventTime": "2026-01-02T03:04:05.000000Z",
        "type": "Normal", "action": "Act", "reason": "Reason", "note": "a note", "reportingController": "example.com/suite",
        "reportingInstance": "suite-1",
    })
}

#[tokio::test]
async fn the_newer_group_wants_to_know_who_reports_what_in_short() {
    scene(async |t: &Scene| {
        let path = t.group("events.k8s.io/v1", "events");
        t.post(&path, modern(t)).await.expect(201);
        for (field, value, cause) in [
            ("eventTime", Value::Null, "eventTime"),
            ("type", json!("Odd"), "type"),
            ("action", json!(""), "action"),
            ("reason", json!("x".repeat(129)), "reason"),
            ("reportingController", json!(""), "reportingController"),
            ("reportingController", json!("not a name"), "reportingController"),
            ("reportingInstance", json!(""), "reportingInstance"),
            ("note", json!("x".repeat(1025)), "message"),
            ("deprecatedCount", json!(1), "count"),
            (
                "series",
                json!({"count": 1, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}),
                "series.count",
            ),
        ] {
            let mut event = modern(t);
            event[field] = value;
            let status = t.post(&path, event).await.refused(422, "Invalid");
            let causes = status["details"]["causes"].as_array().expect("causes");
            assert!(causes.iter().any(|found| found["field"] == cause), "{field}: {status}");
        }
    })
    .await;
}

#[tokio::test]
async fn in_the_newer_group_only_the_series_of_an_event_changes() {
    scene(async |t: &Scene| {
        let made = t.post(&t.group("events.k8s.io/v1", "events"), modern(t)).await.expect(201);
        let path = t.group("events.k8s.io/v1", &format!("events/{}", made.name()));
        for change in [json!({"note": "other"}), json!({"type": "Warning"}), json!({"deprecatedCount": 3})] {
            t.patch(&path, MERGE, change).await.refused(422, "Invalid");
        }
        let series = json!({"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"});
        t.patch(&path, MERGE, json!({"series": series})).await.expect(200);
        t.patch(&t.core(&format!("events/{}", made.name())), MERGE, json!({"message": "other"}))
            .await
            .expect(200);
    })
    .await;
}

#[tokio::test]
async fn fields_that_clients_in_go_send_empty_count_as_unset() {
    scene(async |t: &Scene| {
        let path = t.group("events.k8s.io/v1", "events");
        let mut event = modern(t);
        event["deprecatedSource"] = json!({});
        event["deprecatedFirstTimestamp"] = Value::Null;
        event["deprecatedLastTimestamp"] = Value::Null;
        event["deprecatedCount"] = json!(0);
        let made = t.post(&path, event.clone()).await.expect(201);
        // A replacement that says as little about them changes nothing of them.
        let mut again = modern(t);
        again["metadata"] = json!({"name": made.name(), "resourceVersion": made.version()});
        again["series"] = json!({"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"});
        let changed = t.put(&format!("{path}/{}", made.name()), again.clone()).await.expect(200);
        again["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"].clone();
        again["series"]["count"] = json!(3);
        again["deprecatedSource"] = json!({"component": "", "host": ""});
        t.put(&format!("{path}/{}", made.name()), again).await.expect(200);
        event["deprecatedSource"] = json!({"component": "someone"});
        let status = t.post(&path, event).await.refused(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], "source");
        let old_style = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "old", "namespace": t.ns, "creationTimestamp": null},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": t.ns}, "reason": "R", "message": "m",
            "source": {}, "firstTimestamp": null, "lastTimestamp": null, "type": "Normal", "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        });
        t.post(&t.core("events"), old_style).await.expect(201);
    })
    .await;
}
