//! A room on the public types alone: every ConfigMap with the label `file` is a file on each replica, and the leader
//! says so on the ConfigMap. It brings a state, a source, and a handle; the loop does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use causeway_controller::room::{Desk, Duty, Room, Who};
use causeway_controller::write::{guarded, patching};
use causeway_controller::{election::Term, follow::Watch, found::Found, queue::Next, sources::Sources};
use causeway_core::room::{Change, State};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt, api::Patch};
use serde_json::json;

/// What is known of a ConfigMap.
#[derive(Clone, PartialEq)]
pub(crate) struct Text {
    content: String,
    version: String,
    marked: bool,
}

/// All that is known of them, and what files there were at the start: some may be nobody's by now.
pub(crate) struct Texts(BTreeMap<String, Text>, BTreeSet<String>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    File(String),
    Mark(String),
}

impl State for Texts {
    type Event = Change<String, Text>;
    type Scope = Scope;

    fn apply(&mut self, event: Self::Event) -> BTreeSet<Scope> {
        event.carry_out(&mut self.0).into_iter().flat_map(|(name, ..)| scopes(&name)).collect()
    }

    fn everything(&self) -> BTreeSet<Scope> {
        self.0.keys().chain(&self.1).flat_map(|name| scopes(name)).collect()
    }
}

fn scopes(name: &str) -> [Scope; 2] {
    [Scope::File(name.into()), Scope::Mark(name.into())]
}

fn text(object: &Found<ConfigMap>) -> (String, Option<Text>) {
    let content = object.0.as_ref().ok().and_then(|map| map.data.as_ref()?.get("text").cloned());
    let version = object.resource_version().unwrap_or_default();
    let marked = object.annotations().contains_key("written");
    (object.name_any(), content.map(|content| Text { content, version, marked }))
}

pub(crate) struct Files {
    desk: Desk<Texts>,
    client: Client,
    folder: PathBuf,
}

impl Files {
    pub(crate) fn new(client: Client, folder: PathBuf) -> Arc<Self> {
        let duty = |name, who| Duty { name, who, workers: 4 };
        let duties = [duty("files", Who::EveryReplica), duty("marks", Who::Leader)];
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok()).collect();
        Arc::new(Self { desk: Desk::new::<Self>(Texts(BTreeMap::new(), names), &duties), client, folder })
    }

    async fn write_file(&self, name: &str, text: Option<Text>) -> Next {
        let path = self.folder.join(name);
        let written = match text {
            Some(text) => tokio::fs::write(path, text.content).await,
            None if path.exists() => tokio::fs::remove_file(path).await,
            None => Ok(()),
        };
        if written.is_ok() { Next::Done } else { Next::Retry }
    }

    async fn mark(&self, name: &str, text: Option<Text>, term: &Term) -> Next {
        let Some(Text { version, marked: false, .. }) = text else { return Next::Done };
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let mark = json!({ "resourceVersion": version, "annotations": { "written": "true" } });
        let patch = Patch::Merge(json!({ "metadata": mark }));
        guarded(term, "mark", maps.patch(name, &patching(), &patch)).await.err().unwrap_or(Next::Done)
    }
}

impl Room for Files {
    const NAME: &'static str = "files";
    const LEASE: &'static str = "causeway-files";
    type State = Texts;

    fn desk(&self) -> &Desk<Texts> {
        &self.desk
    }

    fn sources(self: &Arc<Self>, sources: &mut Sources<'_, Self>) {
        let maps = Watch::new(Api::namespaced(self.client.clone(), "default")).labels("file");
        sources.watch("configmaps", maps, text, |change, _| change);
    }

    fn duty(scope: &Scope) -> (&'static str, usize) {
        match scope {
            Scope::File(_) => ("file", 0),
            Scope::Mark(_) => ("mark", 1),
        }
    }

    async fn handle(self: Arc<Self>, scope: Scope, term: Term) -> Next {
        let known = |name: &str| self.desk.state().0.get(name).cloned();
        match &scope {
            Scope::File(name) => self.write_file(name, known(name)).await,
            Scope::Mark(name) => self.mark(name, known(name), &term).await,
        }
    }
}
