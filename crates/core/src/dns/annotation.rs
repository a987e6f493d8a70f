//! A route in the annotation by which kube-ovn gives pods routes: a list in JSON.
//!
//! It is edited as text, so that whatever else is in it keeps its form; what the list holds was read at the border.

use std::net::Ipv4Addr;

use super::route::{Route, Splice};

/// The annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routes {
    /// A list.
    List {
        /// As it stands there.
        text: String,
        /// What is in it.
        entries: Vec<Entry>,
    },
    /// Something else, and why it is none.
    Unreadable(String),
}

/// An entry of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Where to.
    pub dst: String,
    /// Through whom.
    pub gw: String,
}

impl Entry {
    /// Whether it is a route to this address.
    pub fn leads_to(&self, to: Ipv4Addr) -> bool {
        self.dst.strip_suffix("/32").unwrap_or(&self.dst).parse() == Ok(to)
    }
}

/// A route as an entry.
pub fn entry(route: Route) -> String {
    format!(r#"{{"dst":"{}/32","gw":"{}"}}"#, route.to, route.via)
}

/// The list with the route; nothing where it is no list.
pub fn put(text: Option<&str>, route: Route) -> Option<Splice> {
    let added = entry(route);
    let Some(text) = text else {
        return Some(Splice { before: "[".into(), added, after: "]".into() });
    };
    let inside = text.trim_end().strip_suffix(']')?.trim_end();
    let comma = if inside.trim_start() == "[" { "" } else { "," };
    let after = text[inside.len()..].to_owned();
    Some(Splice { before: inside.into(), added: format!("{comma}{added}"), after })
}

/// The list without what was put there; nothing where that does not stand there any more. An entry is one wherever it
/// stands, so others may have written before it, behind it, or in place of the rest.
pub fn take(text: &str, splice: &Splice) -> Option<String> {
    if *text == splice.text() {
        return Some([&*splice.before, &splice.after].concat());
    }
    let entry = splice.added.trim_start_matches(',');
    let start = text.find(entry)?;
    let end = start + entry.len();
    let (left, right) = (text[..start].trim_end(), text[end..].trim_start());
    // One comma goes with it: the one before, or behind the first entry the one after.
    if let Some(left) = left.strip_suffix(',') {
        right.starts_with([',', ']']).then(|| [left, &text[end..]].concat())
    } else if left.ends_with('[') {
        let rest = right.strip_prefix(',').or_else(|| right.starts_with(']').then_some(&text[end..]))?;
        Some([&text[..start], rest].concat())
    } else {
        None
    }
}
