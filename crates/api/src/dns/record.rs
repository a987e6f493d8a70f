//! The record of a route, as it stands in an annotation of its Deployment.

use std::net::Ipv4Addr;

use causeway_core::dns::Route;
use causeway_core::dns::route::{Place, Record, Splice};
use serde::{Deserialize, Serialize};

use super::INIT_ROUTE;

/// Its form. Names are short: people read it with `kubectl describe`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The init container, or the annotation of the pods.
    r#in: String,
    to: Ipv4Addr,
    via: Ipv4Addr,
    before: String,
    added: String,
    after: String,
    /// Whether there was no such annotation before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    made: bool,
}

/// A record from its text.
pub fn read(text: &str) -> Option<Record> {
    let Written { r#in, to, via, before, added, after, made } = serde_json::from_str(text).ok()?;
    let place = if r#in == INIT_ROUTE { Place::Command } else { Place::Annotation(r#in) };
    // What was not added cannot be taken away.
    let splice = Some(Splice { before, added, after }).filter(|splice| !splice.added.is_empty())?;
    Some(Record { place, route: Route { to, via }, splice, made })
}

/// A record as text.
pub fn write(record: &Record) -> String {
    let Record { place, route, splice, made } = record.clone();
    let Splice { before, added, after } = splice;
    let r#in = match place {
        Place::Command => INIT_ROUTE.to_owned(),
        Place::Annotation(key) => key,
    };
    let written = Written { r#in, to: route.to, via: route.via, before, added, after, made };
    serde_json::to_string(&written).expect("words and addresses")
}
