//! Bugs that are planted on purpose, one of each class, to see that they are found. They stand between the controller and
//! the world: the controller itself has none of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use causeway_core::vpc::Action;
use causeway_core::vpc::objects::TUNNEL_FINALIZER;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};
use tower::BoxError;

use crate::asked::Asked;
use crate::replica::Who;
use crate::site::{LEASES, TUNNELS};
use crate::world::World;

/// A class of bugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Only what is seen to happen counts: a list after an interruption is taken for no news.
    EdgeTriggered,
    /// Writes say nothing of the version that they were decided on.
    UnguardedWrite,
    /// What goes is taken away before what comes is there.
    DropBeforePut,
    /// Nothing keeps an object until what it made is gone.
    ForgottenFinalizer,
    /// What a gateway held once is taken for what it holds.
    StaleRead,
}

/// Whether a step takes something away.
pub(crate) fn is_drop(action: &Action) -> bool {
    matches!(
        action,
        Action::LinkDel { .. }
            | Action::LinkFree { .. }
            | Action::AddrDel { .. }
            | Action::RouteDel { .. }
            | Action::NatDel { .. }
            | Action::ClampDel { .. }
    )
}

/// A write as a bug has it.
pub(crate) fn tampered(bug: Option<Bug>, asked: &Asked, body: Bytes) -> Bytes {
    let Some(mut value) = bug.and_then(|_| serde_json::from_slice::<Value>(&body).ok()) else { return body };
    match bug {
        Some(Bug::UnguardedWrite) if asked.kind != Some(LEASES) => {
            for (within, field) in [("metadata", "resourceVersion"), ("preconditions", "resourceVersion")] {
                value.get_mut(within).and_then(Value::as_object_mut).map(|object| object.remove(field));
            }
        }
        Some(Bug::ForgottenFinalizer) if asked.kind == Some(TUNNELS) => {
            let finalizers = value.get_mut("metadata").and_then(|metadata| metadata.get_mut("finalizers"));
            if let Some(finalizers) = finalizers.and_then(Value::as_array_mut) {
                finalizers.retain(|finalizer| finalizer != TUNNEL_FINALIZER);
            }
        }
        _ => return body,
    }
    Bytes::from(value.to_string())
}

/// An answer as a bug has it.
pub(crate) fn shown(bug: Option<Bug>, asked: &Asked, answer: Bytes) -> Bytes {
    if bug != Some(Bug::ForgottenFinalizer) || asked.kind != Some(TUNNELS) {
        return answer;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&answer) else { return answer };
    pretend_held(&mut value);
    Bytes::from(value.to_string())
}

/// To whoever has forgotten the finalizer every tunnel looks as if it had it.
fn pretend_held(object: &mut Value) {
    let metadata = &mut object["metadata"];
    if !metadata["name"].is_string() || metadata.get("deletionTimestamp").is_some() {
        return;
    }
    if !metadata["finalizers"].is_array() {
        metadata["finalizers"] = json!([]);
    }
    if let Some(finalizers) = metadata["finalizers"].as_array_mut() {
        finalizers.push(json!(TUNNEL_FINALIZER));
    }
}

type Lines = BTreeMap<String, Bytes>;

/// The last line that was seen of each object, by watch.
#[derive(Default)]
pub(crate) struct Known(Mutex<BTreeMap<String, Lines>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Lines>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of a watch as a bug has them.
pub(crate) fn filtered(
    world: &World,
    who: &Arc<Who>,
    asked: &Asked,
    lines: BoxStream<'static, Result<Bytes, BoxError>>,
) -> BoxStream<'static, Result<Bytes, BoxError>> {
    match world.bug {
        Some(Bug::ForgottenFinalizer) if asked.kind == Some(TUNNELS) => {
            let held = |line: Bytes| {
                let Ok(mut value) = serde_json::from_slice::<Value>(&line) else { return line };
                pretend_held(&mut value["object"]);
                Bytes::from(format!("{value}\n"))
            };
            lines.map(move |line| line.map(held)).boxed()
        }
        Some(Bug::EdgeTriggered) => {
            let mut edge = Edge::new(who.clone(), asked);
            let seen = move |line: Result<Bytes, BoxError>| match line {
                Ok(line) => stream::iter(edge.pass(line).into_iter().map(Ok).collect::<Vec<_>>()),
                Err(error) => stream::iter(vec![Err(error)]),
            };
            lines.flat_map(seen).boxed()
        }
        _ => lines,
    }
}

/// Replaces every list but the first by what was seen before.
struct Edge {
    who: Arc<Who>,
    watch: String,
    /// Whether a list that is not the first one is under way.
    relists: bool,
}

impl Edge {
    fn new(who: Arc<Who>, asked: &Asked) -> Self {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let selector = query.split('&').find(|pair| pair.starts_with("labelSelector")).unwrap_or("");
        let watch = format!("{path}?{selector}");
        let relists = asked.lists() && who.known.lock().contains_key(&watch);
        who.known.lock().entry(watch.clone()).or_default();
        Self { who, watch, relists }
    }

    fn pass(&mut self, line: Bytes) -> Vec<Bytes> {
        let Ok(value) = serde_json::from_slice::<Value>(&line) else { return vec![line] };
        let metadata = &value["object"]["metadata"];
        let key = format!("{}/{}", metadata["namespace"], metadata["name"]);
        let mut known = self.who.known.lock();
        let known = known.entry(self.watch.clone()).or_default();
        match value["type"].as_str() {
            Some("ADDED" | "MODIFIED") if self.relists => vec![],
            Some("ADDED" | "MODIFIED") => {
                known.insert(key, line.clone());
                vec![line]
            }
            Some("DELETED") => {
                known.remove(&key);
                vec![line]
            }
            Some("BOOKMARK") if self.relists => {
                self.relists = false;
                known.values().cloned().chain([line]).collect()
            }
            _ => vec![line],
        }
    }
}
