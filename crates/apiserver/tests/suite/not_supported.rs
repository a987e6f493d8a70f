//! What our server leaves out on purpose, each refused with a `Status` that says so: doing something
//! else silently would be worse than not doing it. A real server does all of this.

use serde_json::{Value, json};

use crate::{
    harness::{JSON_PATCH, MERGE, Read, Scene, assert_says, config_map, ours_only},
    widget::{CRDS, with_spec},
};

const WHY: &str = "a real server supports it, ours leaves it out";

/// Asserts a failure `Status` of one of these codes with a message worth reading.
#[track_caller]
fn assert_refused(answer: crate::harness::Answer, codes: &[u16]) -> Value {
    assert!(codes.contains(&answer.code), "{answer:?}");
    assert_eq!(
        (&answer.json["kind"], &answer.json["status"]),
        (&json!("Status"), &json!("Failure")),
        "{answer:?}"
    );
    assert_eq!(answer.json["code"], answer.code, "{answer:?}");
    assert!(answer.json.text("/message").len() > 10, "{answer:?}");
    answer.json
}

#[tokio::test]
async fn server_side_apply_is_an_unsupported_media_type() {
    ours_only(WHY, async |t: &Scene| {
        let apply = "application/apply-patch+yaml";
        let path = t.core("configmaps/a?fieldManager=me");
        let status = assert_refused(t.patch(&path, apply, config_map("a", "1")).await, &[415]);
        assert_eq!(status["reason"], "UnsupportedMediaType");
        let says = ["server-side apply is not supported by this server", JSON_PATCH, MERGE];
        assert_says(status.text("/message"), &says);
        t.get(&t.core("configmaps/a")).await.expect(404);
    })
    .await;
}

#[tokio::test]
async fn other_groups_and_subresources_do_not_exist() {
    ours_only(WHY, async |t: &Scene| {
        for path in
            [t.group("batch/v1", "jobs"), t.group("networking.k8s.io/v1", "ingresses"), t.core("pods/p/log")]
        {
            t.get(&path).await.expect(404);
        }
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_cannot_be_evaluated_is_refused_with_its_definition() {
    ours_only(WHY, async |t: &Scene| {
        for (rule, why) in [
            ("self.?a.orValue('') == ''", "unsupported syntax '.?'"),
            ("optional.of(self.a).optMap(x, x + 'y').hasValue()", "'optMap' is not supported by this server"),
            ("dyn(self.a) == 1", "'dyn' is not supported by this server"),
            ("self.l.all(i, v, v == 'x')", "'all' is not supported by this server"),
        ] {
            let texts = json!({"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 3}});
            let mut version = with_spec(json!({"a": {"type": "string", "maxLength": 3}, "l": texts}));
            version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
                json!([{"rule": rule}]);
            let status = assert_refused(t.post(CRDS, t.definition(version)).await, &[422]);
            assert_says(status.text("/message"), &["x-kubernetes-validations[0].rule", why]);
        }
    })
    .await;
}
