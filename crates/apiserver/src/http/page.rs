//! Lists in parts: what a `continue` token says, and the part of a list that it leads to.
//!
//! A token names the version of the first part and the key at which the next one begins, in the
//! form that Kubernetes gives it. All parts show that one version. Once the history no longer
//! reaches back to it, the client gets "expired" and a token that continues in the present.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::selector::Selector;
use crate::status::ApiError;
use crate::store::{Key, Object};

const ENCODING: &str = "meta.k8s.io/v1";
/// Stands in a token for "whatever version is the present".
const PRESENT: i64 = -1;

const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start \
                       a new list without the continue parameter, or use the continue token in this response to \
                       retrieve the remainder of the results. Continuing with the provided token results in an \
                       inconsistent list - objects that were created, modified, or deleted between the time the \
                       first chunk was returned and now may show up in the list.";

/// Where a list goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The version that all parts show; `None` is the present.
    pub(super) version: Option<u64>,
    /// Namespace (when all are listed) and name, then a zero when that key is already done.
    start: String,
}

#[derive(Serialize, Deserialize)]
struct Encoded {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl Token {
    pub(super) fn parse(text: &str) -> Result<Token, ApiError> {
        let refused = |why: &str| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|why| refused(&format!(": {why}")))?;
        let Encoded { v, rv, start } =
            serde_json::from_slice(&bytes).map_err(|why| refused(&format!(": {why}")))?;
        if v != ENCODING {
            return Err(refused(&format!(": server does not recognize this encoded version {v}")));
        }
        if rv == 0 {
            return Err(refused(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if start.is_empty() {
            return Err(refused(": encoded start key empty (version meta.k8s.io/v1)"));
        }
        let clean = start.strip_prefix('/').unwrap_or(&start);
        if clean.split('/').any(|part| ["", ".", ".."].contains(&part)) {
            return Err(refused(&format!(": {start}")));
        }
        Ok(Token { version: u64::try_from(rv).ok(), start: clean.to_owned() })
    }

    fn encode(&self) -> String {
        let rv = self.version.and_then(|version| i64::try_from(version).ok()).unwrap_or(PRESENT);
        let encoded = Encoded { v: ENCODING.to_owned(), rv, start: self.start.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&encoded).unwrap_or_default())
    }

    /// The refusal of a token whose version is no longer known.
    pub(super) fn expired(&self) -> ApiError {
        let mut error = ApiError::expired(TOO_OLD);
        let fresh = Token { version: None, start: self.start.clone() };
        error.details.get_or_insert_default().continuing = fresh.encode();
        error
    }

    /// Whether the part that begins here holds this key. Inside one namespace a token names no
    /// namespace.
    fn reaches(&self, key: &Key, namespace: Option<&str>) -> bool {
        let (text, done) = match self.start.strip_suffix('\0') {
            Some(text) => (text, true),
            None => (self.start.as_str(), false),
        };
        let from = match (namespace, text.split_once('/')) {
            (None, Some((namespace, name))) => Key::new(namespace, name),
            _ => Key::new(&key.namespace, text),
        };
        if done { *key > from } else { *key >= from }
    }
}

/// Which part of which list.
pub(super) struct Wanted<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) selector: &'a Selector,
    /// No limit is all the rest.
    pub(super) limit: Option<usize>,
    pub(super) token: Option<&'a Token>,
}

/// One part of a list.
pub(super) struct Page {
    pub(super) objects: Vec<Arc<Object>>,
    /// The list's metadata.
    pub(super) metadata: Value,
}

impl Wanted<'_> {
    /// The part of `all`, which are the objects as of `version` in the order of their keys.
    pub(super) fn of(&self, mut all: Vec<Arc<Object>>, version: u64) -> Page {
        if let Some(token) = self.token {
            all.retain(|object| token.reaches(&object.key(), self.namespace));
        }
        let mut objects = Vec::new();
        let mut looked_at = 0;
        for object in &all {
            if self.limit.is_some_and(|limit| objects.len() == limit) {
                break;
            }
            looked_at += 1;
            if self.selector.is_empty() || self.selector.matches(&object.value) {
                objects.push(object.clone());
            }
        }
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        let remaining = all.len() - looked_at;
        if remaining > 0
            && let Some(last) = objects.last()
        {
            let Key { namespace, name } = last.key();
            let start = match self.namespace {
                None if !namespace.is_empty() => format!("{namespace}/{name}\0"),
                _ => format!("{name}\0"),
            };
            metadata["continue"] = json!(Token { version: Some(version), start }.encode());
            // Nobody has counted how many of the others would be selected.
            if self.selector.is_empty() {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        Page { objects, metadata }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_reads_as_it_was_written_and_no_other_text_is_one() {
        let token = Token { version: Some(7), start: "a/b\0".into() };
        assert_eq!(Token::parse(&token.encode()).unwrap(), token);
        let present = Token { version: None, start: "b\0".into() };
        assert_eq!(Token::parse(&present.encode()).unwrap(), present);
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for wrong in [
            "not base64!".to_owned(),
            encoded("no json"),
            encoded(r#"{"v":"v9","rv":7,"start":"a\u0000"}"#),
            encoded(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#),
            encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":""}"#),
            encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"../secrets/a\u0000"}"#),
        ] {
            let error = Token::parse(&wrong).unwrap_err();
            assert_eq!(error.code, 400, "{wrong}");
            assert!(
                error.message.starts_with("invalid continue token: continue key is not valid"),
                "{error:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_token_or_refused(text in "[A-Za-z0-9_=-]{0,40}", inside in any::<String>()) {
            let _ = Token::parse(&text);
            let start = serde_json::to_string(&inside).unwrap();
            let body = format!(r#"{{"v":"meta.k8s.io/v1","rv":5,"start":{start}}}"#);
            if let Ok(token) = Token::parse(&URL_SAFE_NO_PAD.encode(body)) {
                prop_assert_eq!(Token::parse(&token.encode()).unwrap(), token);
            }
        }
    }
}
