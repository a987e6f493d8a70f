//! Label and field selectors on lists.

use serde_json::json;

use crate::{
    harness::{MERGE, Read, Scene, assert_says, config_map, scene},
    widget::anything,
    workloads::pod,
};

fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn labelled(t: &Scene) {
    for (name, labels) in [
        ("a", json!({"app": "x", "tier": "front", "mine": ""})),
        ("b", json!({"app": "x", "tier": "back", "mine": ""})),
        ("c", json!({"app": "y", "mine": ""})),
        ("d", json!({"mine": ""})),
    ] {
        let mut body = config_map(name, "1");
        body["metadata"]["labels"] = labels;
        t.post(&t.core("configmaps"), body).await.expect(201);
    }
}

#[tokio::test]
async fn label_selectors_compare_and_test_membership() {
    scene(async |t: &Scene| {
        labelled(t).await;
        for (selector, names) in [
            ("app=x", &["a", "b"][..]),
            ("app==x", &["a", "b"]),
            ("app!=x,mine", &["c", "d"]),
            ("app=x,tier=back", &["b"]),
            ("app in (x, y)", &["a", "b", "c"]),
            ("app notin (x),mine", &["c", "d"]),
            ("tier", &["a", "b"]),
            ("!tier,mine", &["c", "d"]),
            ("app in (x),tier notin (front)", &["b"]),
            ("app in (,y)", &["c"]),
            ("mine=", &["a", "b", "c", "d"]),
            ("app=none", &[]),
        ] {
            let path = t.core(&format!("configmaps?labelSelector={}", encode(selector)));
            assert_eq!(t.get(&path).await.expect(200).names(), names, "{selector}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_label_selector_that_cannot_be_read_is_a_bad_request() {
    scene(async |t: &Scene| {
        for selector in [
            "app in x",
            "a=b=c",
            "-bad-=x",
            "a,",
            ",a",
            "a,,b",
            "a in (-b)",
            "a in (b c)",
            "a in (b",
            "a b",
            "!!a",
            "a>1.5",
        ] {
            let path = t.core(&format!("configmaps?labelSelector={}", encode(selector)));
            t.get(&path).await.refused(400, "BadRequest");
        }
    })
    .await;
}

#[tokio::test]
async fn name_and_namespace_select_everywhere() {
    scene(async |t: &Scene| {
        labelled(t).await;
        let widgets = t.widgets(anything()).await;
        for name in ["a", "b"] {
            t.widget(&widgets, name, json!({})).await;
        }
        for path in [t.core("configmaps"), widgets.path.clone()] {
            let select = async |fields: &str| {
                let list = t.get(&format!("{path}?fieldSelector={}", encode(fields))).await.expect(200);
                list.names().into_iter().map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(select("metadata.name=a").await, ["a"]);
            assert_eq!(select(&format!("metadata.namespace={},metadata.name=b", t.ns)).await, ["b"]);
            assert!(select("metadata.namespace=elsewhere").await.is_empty());
            assert!(!select("metadata.name!=a").await.contains(&"a".to_owned()));
        }
        let all =
            format!("/api/v1/configmaps?fieldSelector=metadata.namespace%3D{}&labelSelector=mine", t.ns);
        assert_eq!(t.get(&all).await.expect(200).names(), ["a", "b", "c", "d"]);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_field_cannot_be_selected_by() {
    scene(async |t: &Scene| {
        let status = t.get(&t.core("configmaps?fieldSelector=data.key%3D1")).await.refused(400, "BadRequest");
        assert_says(
            status.text("/message"),
            &[r#""data.key" is not a known field selector"#, "metadata.name"],
        );
        let widgets = t.widgets(anything()).await;
        let path = format!("{}?fieldSelector=spec.size%3D1", widgets.path);
        let status = t.get(&path).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &["field label not supported: spec.size"]);
    })
    .await;
}

#[tokio::test]
async fn pods_are_selected_by_node_and_phase() {
    scene(async |t: &Scene| {
        t.post(&t.core("pods"), pod("loose")).await.expect(201);
        let mut bound = pod("bound");
        bound["spec"]["nodeName"] = json!(t.id);
        bound["spec"]["terminationGracePeriodSeconds"] = json!(0);
        t.post(&t.core("pods"), bound).await.expect(201);
        t.patch(&t.core("pods/bound/status"), MERGE, json!({"status": {"phase": "Running"}}))
            .await
            .expect(200);
        for (fields, names) in [
            (format!("spec.nodeName={}", t.id), &["bound"][..]),
            ("spec.nodeName=".to_owned(), &["loose"]),
            ("status.phase=Running".to_owned(), &["bound"]),
            ("status.phase!=Running".to_owned(), &["loose"]),
        ] {
            let path = t.core(&format!("pods?fieldSelector={}", encode(&fields)));
            assert_eq!(t.get(&path).await.expect(200).names(), names, "{fields}");
        }
    })
    .await;
}

#[tokio::test]
async fn secrets_are_selected_by_type() {
    scene(async |t: &Scene| {
        for (name, kind) in [("a", "Opaque"), ("b", "example.com/mine")] {
            let body =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind});
            t.post(&t.core("secrets"), body).await.expect(201);
        }
        let path = t.core("secrets?fieldSelector=type%3Dexample.com%2Fmine");
        assert_eq!(t.get(&path).await.expect(200).names(), ["b"]);
    })
    .await;
}
