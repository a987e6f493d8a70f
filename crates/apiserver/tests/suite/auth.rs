//! Who may ask: a bearer token that the server knows, and nobody else.

use kube::Client;

use crate::{
    cluster::Cluster,
    harness::{Read, Scene, scene},
};

async fn with_token(token: Option<&str>) -> Client {
    let mut config = Cluster::get().config().await;
    config.auth_info = kube::config::AuthInfo::default();
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().expect("a header value");
        config.headers.push((http::header::AUTHORIZATION, value));
    }
    Client::try_from(config).expect("a client")
}

#[tokio::test]
async fn a_wrong_token_is_unauthorized() {
    scene(async |t: &Scene| {
        let stranger = Scene::borrowed(t, with_token(Some("wrong")).await);
        for path in [t.core("configmaps"), "/apis".to_owned(), t.core("pods/p/exec?command=id&stdout=true")] {
            let status = stranger.get(&path).await.refused(401, "Unauthorized");
            assert_eq!(status.text("/message"), "Unauthorized");
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_token_nothing_is_served() {
    scene(async |t: &Scene| {
        t.config_map("a", "1").await;
        let stranger = Scene::borrowed(t, with_token(None).await);
        let answer = stranger.get(&t.core("configmaps/a")).await;
        // A server that lets anonymous people in at all forbids them this.
        assert!(matches!(answer.code, 401 | 403), "{answer:?}");
        assert_eq!(answer.json["kind"], "Status");
        assert!(!answer.text.contains("key"), "{answer:?}");
    })
    .await;
}
