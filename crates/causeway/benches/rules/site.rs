//! An API server in this process, with rules in it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use causeway_api::rules::resource;
use causeway_apiserver::{Config, RequestCount, Server};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

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
        edit(&self.rules, 0, instant).await
    }

    /// Edits the others, of which there are so many, by turns and by several hands; each edit has a number in place of an
    /// instant. A rule is always edited by the same hand, so the highest of its numbers stays.
    pub(crate) async fn edit_others(&self, others: usize, numbers: Range<usize>) -> anyhow::Result<()> {
        let mut hands = JoinSet::new();
        for hand in 0..HANDS {
            let (rules, numbers) = (self.rules.clone(), numbers.clone());
            hands.spawn(async move {
                for number in numbers.filter(|number| number % others % HANDS == hand) {
                    edit(&rules, 1 + number % others, number as u64).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = hands.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// The sum of all rules' instants.
    pub(crate) async fn state(&self) -> anyhow::Result<u64> {
        let rules = self.rules.list(&ListParams::default()).await?;
        rules.iter().map(|rule| sample::instant_in(&rule.data["spec"])).sum()
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

async fn edit(rules: &Api<DynamicObject>, number: usize, instant: u64) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({ "spec": sample::spec(instant) }));
    rules.patch(&name(number), &PatchParams::default(), &patch).await?;
    Ok(())
}

fn name(number: usize) -> String {
    format!("rule-{number:04}")
}
