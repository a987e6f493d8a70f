//! An API server in this process, with rules in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use causeway_api::rules::resource;
use causeway_apiserver::{Config, RequestCount, Server};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;

use crate::apply;
use crate::sample::{self, KIND, NAMESPACE};

/// Writes under way at once.
const HANDS: usize = 16;

/// The API server, and a folder with its kubeconfig.
pub(crate) struct Site {
    server: Server,
    rules: Api<DynamicObject>,
    folder: TempDir,
}

impl Site {
    /// Starts it with so many rules, spread over so many apps.
    pub(crate) async fn start(rules: usize, apps: usize) -> anyhow::Result<Site> {
        let config = Config { name: "c1".into(), history: 100_000, ..Config::default() };
        let server = Server::start(config).await?;
        let folder = tempfile::tempdir()?;
        server.write_kubeconfig(&folder.path().join("kubeconfig"))?;
        let client = Client::new(server.router(), NAMESPACE);
        apply::crds(&client, causeway_api::rules::crds()).await?;
        let rules_api = Api::namespaced_with(client, NAMESPACE, &resource(KIND));
        let site = Site { server, rules: rules_api, folder };
        let create = |number| site.create(number, number % apps);
        stream::iter(0..rules).map(Ok).try_for_each_concurrent(HANDS, create).await?;
        Ok(site)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    async fn create(&self, number: usize, app: usize) -> anyhow::Result<()> {
        let resource = resource(KIND);
        let object = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name(number), "labels": { "app": sample::app(app) } },
            "spec": sample::spec(0),
        });
        self.rules.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Edits the first rule, which is also the first of its app's set.
    pub(crate) async fn edit(&self, instant: u64) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": sample::spec(instant) }));
        self.rules.patch(&name(0), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// What was asked for so far, but for watches and what concerns Leases.
    pub(crate) fn requests(&self) -> BTreeMap<String, u64> {
        let mut requests = BTreeMap::new();
        for RequestCount { verb, resource, subresource, code, count } in self.server.requests() {
            if verb != "watch" && resource != "leases" {
                let slash = if subresource.is_empty() { "" } else { "/" };
                *requests.entry(format!("{verb} {resource}{slash}{subresource} {code}")).or_default() +=
                    count;
            }
        }
        requests
    }
}

fn name(number: usize) -> String {
    format!("rule-{number:04}")
}
