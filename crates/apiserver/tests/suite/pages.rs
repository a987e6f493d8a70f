//! Lists in parts: `limit` and `continue`.

use kube::{
    Api, ResourceExt,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

use crate::{
    cluster::config_of,
    harness::{Read, Scene, TABLE, assert_says, config_map, eventually, ours_only, scene, scene_with},
    ours,
};

async fn maps(t: &Scene, names: &[&str]) {
    for name in names {
        t.config_map(name, "1").await;
    }
}

/// The maps of this scene, without what a controller-manager puts into every namespace.
fn ours_of(list: &Value) -> Vec<&str> {
    list.names().into_iter().filter(|name| *name != "kube-root-ca.crt").collect()
}

fn escaped(token: &str) -> String {
    token.replace('=', "%3D")
}

#[tokio::test]
async fn a_limit_gives_a_list_in_parts_until_there_is_no_token() {
    scene(async |t: &Scene| {
        maps(t, &["a", "b", "c", "d", "e"]).await;
        let (mut query, mut names, mut sizes) = ("limit=2".to_owned(), Vec::new(), Vec::new());
        loop {
            let page = t.get(&t.core(&format!("configmaps?{query}"))).await.expect(200);
            names.extend(ours_of(&page).iter().map(ToString::to_string));
            sizes.push(page.names().len());
            let token = page.text("/metadata/continue");
            if token.is_empty() {
                assert_eq!(page["metadata"].get("remainingItemCount"), None);
                break;
            }
            assert!(page["metadata"]["remainingItemCount"].as_u64().is_some_and(|n| n > 0), "{page}");
            query = format!("limit=2&continue={}", escaped(token));
        }
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == 2), "{sizes:?}");
    })
    .await;
}

#[tokio::test]
async fn remaining_items_are_counted_only_when_all_are_selected() {
    scene(async |t: &Scene| {
        for name in ["a", "b", "c"] {
            let mut map = config_map(name, "1");
            map["metadata"]["labels"] = json!({"which": "these"});
            t.post(&t.core("configmaps"), map).await.expect(201);
        }
        maps(t, &["other"]).await;
        let page = t.get(&t.core("configmaps?limit=2&labelSelector=which%3Dthese")).await.expect(200);
        assert_eq!(page.names(), ["a", "b"]);
        assert!(!page.text("/metadata/continue").is_empty());
        assert_eq!(page["metadata"].get("remainingItemCount"), None);
        let token = escaped(page.text("/metadata/continue"));
        let rest = t
            .get(&t.core(&format!("configmaps?limit=2&labelSelector=which%3Dthese&continue={token}")))
            .await
            .expect(200);
        assert_eq!(rest.names(), ["c"]);
    })
    .await;
}

#[tokio::test]
async fn all_parts_show_the_version_of_the_first() {
    scene(async |t: &Scene| {
        maps(t, &["a", "b", "d"]).await;
        let first = t.get(&t.core("configmaps?limit=1")).await.expect(200);
        t.config_map("c", "1").await;
        t.delete(&t.core("configmaps/d")).await.expect(200);
        t.put(&t.core("configmaps/b"), config_map("b", "changed")).await.expect(200);
        let token = escaped(first.text("/metadata/continue"));
        let rest = t.get(&t.core(&format!("configmaps?continue={token}"))).await.expect(200);
        assert_eq!(ours_of(&rest), ["b", "d"]);
        assert_eq!(rest["items"][0]["data"]["key"], "1");
        assert_eq!(rest.version(), first.version());
        let now = t.get(&t.core("configmaps")).await.expect(200);
        assert_eq!(ours_of(&now), ["a", "b", "c"]);
    })
    .await;
}

#[tokio::test]
async fn a_limit_over_all_namespaces_goes_from_one_to_the_next() {
    scene(async |t: &Scene| {
        let second = format!("{}-2", t.ns);
        t.make_namespace(&second).await;
        for (namespace, name) in [(&t.ns, "a"), (&t.ns, "b"), (&second, "a")] {
            let mut map = config_map(name, "1");
            map["metadata"]["labels"] = json!({"scene": t.id});
            t.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), map).await.expect(201);
        }
        let (mut token, mut found) = (String::new(), Vec::new());
        for _ in 0..3 {
            let path = format!("/api/v1/configmaps?limit=1&labelSelector=scene%3D{}&continue={token}", t.id);
            let page = t.get(&path).await.expect(200);
            found.extend(
                page["items"]
                    .as_array()
                    .expect("items")
                    .iter()
                    .map(|item| format!("{}/{}", item.text("/metadata/namespace"), item.name())),
            );
            token = escaped(page.text("/metadata/continue"));
        }
        found.sort();
        let mut wanted = [format!("{}/a", t.ns), format!("{}/b", t.ns), format!("{second}/a")];
        wanted.sort();
        assert_eq!(found, wanted);
    })
    .await;
}

#[tokio::test]
async fn tables_and_metadata_come_in_parts_too() {
    scene(async |t: &Scene| {
        maps(t, &["a", "b", "c"]).await;
        let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        for (accept, items) in [(TABLE, "rows"), (partial, "items")] {
            let page = t.get(&t.core("configmaps?limit=2")).header("accept", accept).await.expect(200);
            assert_eq!(page[items].as_array().map(Vec::len), Some(2), "{page}");
            assert!(!page.text("/metadata/continue").is_empty(), "{page}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_that_nobody_gave_out_is_refused() {
    scene(async |t: &Scene| {
        for token in ["nonsense", "e30", "eyJ2IjoidjkifQ"] {
            let status = t
                .get(&t.core(&format!("configmaps?limit=1&continue={token}")))
                .await
                .refused(400, "BadRequest");
            assert_says(status.text("/message"), &["continue key is not valid"]);
        }
        maps(t, &["a", "b"]).await;
        let page = t.get(&t.core("configmaps?limit=1")).await.expect(200);
        let token = escaped(page.text("/metadata/continue"));
        let path = t.core(&format!("configmaps?continue={token}&resourceVersion={}", page.version()));
        t.get(&path).await.refused(400, "BadRequest");
        let path = t.core(&format!("configmaps?continue={token}&resourceVersionMatch=NotOlderThan"));
        t.get(&path).await.refused(422, "Invalid");
    })
    .await;
}

#[tokio::test]
async fn who_takes_any_version_gets_all_whatever_the_limit() {
    scene(async |t: &Scene| {
        maps(t, &["a", "b", "c"]).await;
        // A real server answers from a cache, which may be a moment behind.
        eventually("all three are listed", async || {
            let list = t.get(&t.core("configmaps?limit=1&resourceVersion=0")).await.expect(200);
            assert_eq!(list.text("/metadata/continue"), "");
            (ours_of(&list) == ["a", "b", "c"]).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn an_exact_version_is_listed_as_it_was() {
    scene(async |t: &Scene| {
        maps(t, &["a"]).await;
        let before = t.get(&t.core("configmaps")).await.expect(200);
        maps(t, &["b"]).await;
        let version = before.version();
        for query in [
            format!("resourceVersion={version}&resourceVersionMatch=Exact"),
            format!("resourceVersion={version}&limit=50"),
        ] {
            let list = t.get(&t.core(&format!("configmaps?{query}"))).await.expect(200);
            assert_eq!((ours_of(&list), list.version()), (vec!["a"], version), "{query}");
        }
        let list = t.get(&t.core(&format!("configmaps?resourceVersion={version}"))).await.expect(200);
        assert_eq!(ours_of(&list), ["a", "b"]);
    })
    .await;
}

#[tokio::test]
async fn a_token_older_than_the_history_is_expired_and_another_one_goes_on() {
    ours_only("a real server forgets its history after minutes", async |_: &Scene| {
        let server = ours::start(ours::SHORT_HISTORY).await;
        let config = kube::config::Kubeconfig::from_yaml(&server.kubeconfig()).expect("it parses");
        let client = kube::Client::try_from(config_of(config).await).expect("a client");
        scene_with(client, async |t: &Scene| {
            maps(t, &["a", "b", "c"]).await;
            let first = t.get(&t.core("configmaps?limit=1")).await.expect(200);
            for n in 0..=ours::SHORT_HISTORY {
                t.put(&t.core("configmaps/c"), config_map("c", &n.to_string())).await.expect(200);
            }
            let token = escaped(first.text("/metadata/continue"));
            let status =
                t.get(&t.core(&format!("configmaps?limit=1&continue={token}"))).await.refused(410, "Expired");
            assert_says(status.text("/message"), &["The provided continue parameter is too old"]);
            let fresh = escaped(status.text("/metadata/continue"));
            let rest = t.get(&t.core(&format!("configmaps?continue={fresh}"))).await.expect(200);
            assert_eq!(rest.names(), ["b", "c"]);
            assert_ne!(rest.version(), first.version());
            let path =
                t.core(&format!("configmaps?resourceVersion={}&resourceVersionMatch=Exact", first.version()));
            t.get(&path).await.refused(410, "Expired");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn the_rust_client_pages_and_its_watcher_lists_in_parts() {
    use futures::TryStreamExt;
    scene(async |t: &Scene| {
        maps(t, &["a", "b", "c", "d", "e"]).await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let api = Api::<DynamicObject>::namespaced_with(t.client.clone(), &t.ns, &kind);
        let page = api.list(&ListParams::default().limit(2)).await.expect("a page");
        assert_eq!(page.items.len(), 2);
        let config = watcher::Config::default().page_size(2);
        let mut found = Vec::new();
        let mut stream = Box::pin(watcher(api, config).default_backoff().applied_objects());
        while !found.iter().any(|name| name == "e") {
            let next = tokio::time::timeout(crate::harness::DEADLINE, stream.try_next()).await;
            let object = next.expect("in time").expect("a watch that works").expect("more objects");
            found.push(object.name_any());
        }
        found.retain(|name| name != "kube-root-ca.crt");
        assert_eq!(found, ["a", "b", "c", "d", "e"]);
    })
    .await;
}
