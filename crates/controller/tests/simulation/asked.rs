//! What a request is about.

use http::Method;
use http::request::Parts;
use serde_json::Value;

use crate::site::{KINDS, Kind};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    /// None where a run knows nothing of it.
    pub(crate) kind: Option<Kind>,
    pub(crate) namespace: String,
    /// Empty where the path names no object.
    pub(crate) name: String,
    pub(crate) watches: bool,
}

impl Asked {
    pub(crate) fn of(head: &Parts, body: &[u8]) -> Self {
        let parts: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
        // `api/v1` or `apis/<group>/<version>`.
        let root = if parts.first() == Some(&"api") { 2 } else { 3 };
        let mut rest = parts.get(root..).unwrap_or_default();
        let mut namespace = "";
        if let ["namespaces", inside, more @ ..] = rest
            && !more.is_empty()
        {
            (namespace, rest) = (*inside, more);
        }
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let query = head.uri.query().unwrap_or_default();
        Self {
            method: head.method.clone(),
            path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            kind: KINDS.iter().find(|kind| kind.plural == part(0)).copied(),
            namespace: namespace.to_owned(),
            name: if head.method == Method::POST { named(body) } else { part(1) },
            watches: query.split('&').any(|pair| pair == "watch=true"),
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// Whether it asks for everything there is.
    pub(crate) fn lists(&self) -> bool {
        !self.is_write()
            && self.name.is_empty()
            && (!self.watches || self.path.contains("sendInitialEvents=true"))
    }
}

/// The name of an object that is to be made.
fn named(body: &[u8]) -> String {
    let object: Option<Value> = serde_json::from_slice(body).ok();
    object.and_then(|object| Some(object["metadata"]["name"].as_str()?.to_owned())).unwrap_or_default()
}
