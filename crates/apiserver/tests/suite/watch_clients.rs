//! The watch machinery of the Rust client, in both its modes, against this server.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use crate::{
    harness::{DEADLINE, MERGE, Read, Scene, scene},
    widget::anything,
};

#[tokio::test]
async fn the_rust_watcher_lists_and_follows_in_both_modes() {
    scene(async |t: &Scene| {
        let widgets = t.widgets(anything()).await;
        t.widget(&widgets, "a", json!({})).await;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&widgets.group, "v1", "Widget"));
        let api = Api::<DynamicObject>::namespaced_with(t.client.clone(), &t.ns, &resource);
        for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
            let mut stream = watcher(api.clone(), config).boxed();
            let mut next = async || {
                let event = tokio::time::timeout(DEADLINE, stream.try_next()).await;
                event.expect("in time").expect("no error").expect("no end")
            };
            assert!(matches!(next().await, watcher::Event::Init));
            assert!(matches!(next().await, watcher::Event::InitApply(o) if o.name_any() == "a"));
            assert!(matches!(next().await, watcher::Event::InitDone));
            t.widget(&widgets, "b", json!({})).await;
            assert!(matches!(next().await, watcher::Event::Apply(o) if o.name_any() == "b"));
            t.delete(&widgets.at("b")).await.expect(200);
            assert!(matches!(next().await, watcher::Event::Delete(o) if o.name_any() == "b"));
        }
    })
    .await;
}

#[tokio::test]
async fn the_rust_metadata_watcher_sees_changes() {
    scene(async |t: &Scene| {
        let api = Api::<PartialObjectMeta<ConfigMap>>::namespaced(t.client.clone(), &t.ns);
        let config = watcher::Config::default().fields("metadata.name!=kube-root-ca.crt");
        let mut stream = watcher(api, config).applied_objects().boxed();
        t.config_map("a", "1").await;
        let seen = tokio::time::timeout(DEADLINE, stream.try_next()).await;
        assert_eq!(seen.expect("in time").expect("no error").expect("no end").name_any(), "a");
    })
    .await;
}

#[tokio::test]
async fn a_typed_watch_parses_every_event() {
    scene(async |t: &Scene| {
        let api = Api::<ConfigMap>::namespaced(t.client.clone(), &t.ns);
        let made = t.config_map("a", "1").await;
        let params = WatchParams::default().fields("metadata.name=a").timeout(10);
        let mut stream = api.watch(&params, made.version()).await.expect("a watch").boxed();
        t.patch(&t.core("configmaps/a"), MERGE, json!({"data": {"key": "2"}})).await.expect(200);
        let event = stream.try_next().await.expect("no error");
        let Some(WatchEvent::Modified(object)) = event else { panic!("{event:?}") };
        assert_eq!(object.data.expect("data")["key"], "2");
    })
    .await;
}
