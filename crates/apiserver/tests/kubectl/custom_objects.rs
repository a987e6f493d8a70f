//! The life of a custom object as its owner sees it.

use crate::session::{Session, session};

#[tokio::test]
async fn apply_creates_then_leaves_alone_then_configures() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        let name = format!("widget.{}/a", k.group());
        k.apply(&k.widget("a", "{size: 3}")).await.says(&[&format!("{name} created")]);
        k.apply(&k.widget("a", "{size: 3}")).await.says(&[&format!("{name} unchanged")]);
        k.apply(&k.widget("a", "{size: 4}")).await.says(&[&format!("{name} configured")]);
        let got = k
            .ok(&["get", &widgets, "a", "-o", "jsonpath={.spec.size} {.spec.peer} {.metadata.generation}"])
            .await;
        assert_eq!(got.out, "4 nobody 2");
        k.apply(&k.widget("a", "{peer: b}")).await.says(&["configured"]);
        let got = k.ok(&["get", &widgets, "a", "-o", "jsonpath={.spec}"]).await;
        assert_eq!(got.out, r#"{"peer":"b"}"#, "what the manifest no longer says is removed");
    })
    .await;
}

#[tokio::test]
async fn get_prints_the_columns_of_the_definition() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        k.apply(&k.widget("a", "{size: 3, peer: b}")).await;
        let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Up","message":"all well"}]}}"#;
        k.ok(&["patch", &widgets, "a", "--subresource=status", "--type=merge", "-p", status]).await;
        let narrow = k.ok(&["get", &widgets]).await;
        narrow.row(&["NAME", "SIZE", "READY", "AGE"]);
        narrow.row(&["a", "3", "True"]);
        let wide = k.ok(&["get", &widgets, "-o", "wide"]).await;
        wide.row(&["NAME", "SIZE", "READY", "PEER", "AGE"]);
        wide.row(&["a", "3", "True", "b"]);
        k.ok(&["get", &widgets, "-A"]).await.row(&[&k.ns, "a", "3"]);
        k.ok(&["get", &widgets, "-o", "name"]).await.says(&[&format!("widget.{}/a", k.group())]);
        k.ok(&["get", &widgets, "a", "-o", "yaml"]).await.says(&["kind: Widget", "  size: 3", "    reason: Up"]);
        k.ok(&["describe", &widgets, "a"]).await.says(&["Name:         a", "all well", "Events:       <none>"]);
    })
    .await;
}

#[tokio::test]
async fn mistakes_are_reported_in_words() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        let said = k.run(&["apply", "-f", "-"], &k.widget("a", "{size: 0}")).await;
        assert!(!said.ok);
        said.says(&["spec.size: Invalid value: 0", "greater than or equal to 1"]);
        let said = k.run(&["apply", "-f", "-"], &k.widget("a", "{sise: 3}")).await;
        assert!(!said.ok);
        said.says(&[r#"unknown field "spec.sise""#]);
        let said = k.run(&["apply", "--validate=warn", "-f", "-"], &k.widget("a", "{sise: 3}")).await;
        assert!(said.ok, "{said:?}");
        said.says(&[r#"Warning: unknown field "spec.sise""#]);
        k.fails(&["get", &widgets, "none"])
            .await
            .says(&[&format!(r#"Error from server (NotFound): {widgets} "none" not found"#)]);
        k.fails(&["get", "gizmos"]).await.says(&[r#"the server doesn't have a resource type "gizmos""#]);
        k.ok(&["get", &widgets, "-l", "none=here"]).await.says(&["No resources found in"]);
    })
    .await;
}

#[tokio::test]
async fn patch_label_annotate_and_replace_change_an_object() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        k.apply(&k.widget("a", "{size: 3}")).await;
        k.ok(&["patch", &widgets, "a", "--type=merge", "-p", r#"{"spec":{"size":5}}"#])
            .await
            .says(&["patched"]);
        k.ok(&["patch", &widgets, "a", "--type=merge", "-p", r#"{"spec":{"size":5}}"#])
            .await
            .says(&["patched (no change)"]);
        let op = r#"[{"op":"replace","path":"/spec/size","value":6}]"#;
        k.ok(&["patch", &widgets, "a", "--type=json", "-p", op]).await.says(&["patched"]);
        k.ok(&["label", &widgets, "a", "tier=front"]).await.says(&["labeled"]);
        k.ok(&["annotate", &widgets, "a", "note=hello"]).await.says(&["annotated"]);
        k.ok(&["get", &widgets, "-l", "tier in (front)"]).await.row(&["a", "6"]);
        k.ok(&["get", &widgets, "--field-selector", "metadata.name=a"]).await.row(&["a", "6"]);
        let yaml = k.ok(&["get", &widgets, "a", "-o", "yaml"]).await.out.replace("size: 6", "size: 7");
        let said = k.run(&["replace", "-f", "-"], &yaml).await;
        assert!(said.ok, "{said:?}");
        let said = k.run(&["replace", "-f", "-"], &yaml).await;
        assert!(!said.ok, "the second time its version is stale");
        said.says(&["the object has been modified"]);
    })
    .await;
}

#[tokio::test]
async fn wait_returns_when_a_condition_is_met_or_the_object_gone() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        k.apply(&k.widget("a", "{size: 3}")).await;
        k.fails(&["wait", "--for=condition=Ready", "--timeout=1s", &widgets, "a"])
            .await
            .says(&["timed out waiting"]);
        let ready = ["wait", "--for=condition=Ready", "--timeout=30s", &widgets, "a"];
        let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
        let patch = ["patch", &widgets, "a", "--subresource=status", "--type=merge", "-p", status];
        let (waited, _) = tokio::join!(k.ok(&ready), k.ok(&patch));
        waited.says(&["condition met"]);
        k.ok(&["wait", "--for=jsonpath={.spec.size}=3", "--timeout=30s", &widgets, "a"])
            .await
            .says(&["condition met"]);
        let gone = ["wait", "--for=delete", "--timeout=30s", &widgets, "a"];
        let delete = ["delete", &widgets, "a"];
        let (_, deleted) = tokio::join!(k.ok(&gone), k.ok(&delete));
        deleted.says(&[&format!(r#"widget.{} "a" deleted"#, k.group())]);
    })
    .await;
}

#[tokio::test]
async fn delete_waits_for_finalizers() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        k.apply(&k.widget("a", "{size: 3}")).await;
        let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
        k.ok(&["patch", &widgets, "a", "--type=merge", "-p", hold]).await;
        k.fails(&["delete", &widgets, "a", "--timeout=1s"]).await.says(&["deleted", "timed out waiting"]);
        k.ok(&["get", &widgets, "a"]).await.row(&["a", "3"]);
        let gone = ["wait", "--for=delete", "--timeout=30s", &widgets, "a"];
        let release = ["patch", &widgets, "a", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
        tokio::join!(k.ok(&gone), k.ok(&release));
        k.fails(&["get", &widgets, "a"]).await.says(&["NotFound"]);
    })
    .await;
}

#[tokio::test]
async fn get_watch_prints_a_row_per_change() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        k.apply(&k.widget("a", "{size: 3}")).await;
        let mut follow = k.follow(&["get", &widgets, "--watch", "--output-watch-events"]);
        follow.row(&["EVENT", "NAME", "SIZE"]).await;
        follow.row(&["ADDED", "a", "3"]).await;
        k.ok(&["patch", &widgets, "a", "--type=merge", "-p", r#"{"spec":{"size":5}}"#]).await;
        follow.row(&["MODIFIED", "a", "5"]).await;
        k.apply(&k.widget("b", "{size: 1}")).await;
        follow.row(&["ADDED", "b", "1"]).await;
        k.ok(&["delete", &widgets, "a"]).await;
        follow.row(&["DELETED", "a", "5"]).await;
    })
    .await;
}

#[tokio::test]
async fn explain_and_api_resources_know_the_definition() {
    session(async |k: &Session| {
        let widgets = k.define().await;
        let group_version = format!("{}/v1", k.group());
        let spec = format!("{widgets}.spec");
        let said = k.until(&["explain", &spec], |said| said.out.contains("How large it is.")).await;
        said.says(&["KIND:       Widget", "What the widget should be.", "size\t<integer>", "peer\t<string>"]);
        k.ok(&["explain", &format!("{spec}.peer")]).await.says(&["FIELD: peer <string>", "The other end."]);
        let resources = ["api-resources", &format!("--api-group={}", k.group())];
        let said = k.until(&resources, |said| said.out.contains("widgets")).await;
        said.row(&["widgets", "wdg", &group_version, "true", "Widget"]);
        k.ok(&["api-versions"]).await.says(&[&group_version, "apps/v1", "coordination.k8s.io/v1"]);
    })
    .await;
}
