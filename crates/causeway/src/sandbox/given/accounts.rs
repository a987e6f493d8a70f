//! The accounts and roles that ship, on a server that enforces them.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::super::apply;

/// Kinds of the manifests that are put into a sandbox's cluster. The sandbox runs the controllers itself, so
/// their Deployment and what belongs to it is not among them.
const KINDS: [&str; 6] =
    ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// As long as anybody leaves a sandbox running.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// Applies a manifest of `deploy/`, one object after another: a namespace comes before what is in it.
pub(super) async fn apply(client: &Client, manifest: &str) -> anyhow::Result<()> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).context("a shipped manifest")?;
    for object in documents {
        if object["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind)) {
            apply::one(client, object).await?;
        }
    }
    Ok(())
}

/// Makes an account.
pub(super) async fn create(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
    });
    apply::one(client, account).await.map(drop)
}

/// A token of an account.
pub(super) async fn token(client: &Client, (namespace, name): (&str, &str)) -> anyhow::Result<String> {
    let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
    let request = TokenRequest { metadata: ObjectMeta::default(), spec, status: None };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let made = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let made = made.with_context(|| format!("a token of {namespace}/{name}"))?;
    made.status.map(|status| status.token).with_context(|| format!("no token of {namespace}/{name} came"))
}

/// A kubeconfig for whoever has this token. JSON is YAML too.
pub(super) fn kubeconfig(name: &str, url: &str, ca_pem: &str, token: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": ca}}],
        "users": [{"name": "controller", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "controller"}}],
    });
    format!("{config:#}\n")
}
