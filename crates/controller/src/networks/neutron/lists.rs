//! Lists, page by page.

use std::collections::{BTreeMap, BTreeSet};

use causeway_core::networks::Trouble;
use serde_json::Value;

use super::Neutron;
use super::api::{Call, Fault};
use super::http::encoded;
use super::wire::{NETWORK, Row, SUBNET};

/// How much is asked for at once. A server may have a limit of its own, which is less.
const PAGE: usize = 500;
/// More pages than any project has; a server that never ends is broken.
const MOST_PAGES: usize = 1_000;
/// How often a list is begun anew because the last thing of a page was deleted meanwhile.
const BEGINNINGS: usize = 3;
/// How many ids are in one request: as an address may have some 8,000 characters, and an id takes 40.
const CHUNK: usize = 100;

/// A list to ask for.
#[derive(Debug, Clone)]
pub(super) struct List {
    what: &'static str,
    fields: &'static [&'static str],
    filters: Vec<(&'static str, String)>,
}

/// Rows by their ids.
pub(super) type Rows = BTreeMap<String, Row>;

impl List {
    pub(super) fn networks() -> Self {
        Self { what: "network", fields: NETWORK, filters: Vec::new() }
    }

    pub(super) fn subnets() -> Self {
        Self { what: "subnet", fields: SUBNET, filters: Vec::new() }
    }

    /// Only those with this value; of several values of one name any will do.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.filters.push((name, value.into()));
        self
    }

    /// Only those of a project, if it is known which is ours: an administrator sees everybody's.
    pub(super) fn of(self, project: Option<&str>) -> Self {
        match project {
            Some(project) => self.with("project_id", project),
            None => self,
        }
    }

    fn path(&self, marker: Option<&str>) -> String {
        let mut path = format!("/{}s?limit={PAGE}", self.what);
        for (name, value) in &self.filters {
            path.push_str(&format!("&{name}={}", encoded(value)));
        }
        for field in self.fields {
            path.push_str(&format!("&fields={field}"));
        }
        if let Some(marker) = marker {
            path.push_str(&format!("&marker={}", encoded(marker)));
        }
        path
    }
}

impl Neutron {
    /// The whole list.
    pub(super) async fn list(&self, list: List) -> Result<Rows, Trouble> {
        for _ in 0..BEGINNINGS {
            if let Some(rows) = self.pages(&list).await? {
                return Ok(rows);
            }
        }
        Err(Trouble::unreachable(format!("the list of {}s changes faster than it can be read", list.what)))
    }

    /// The same list for each of some values of one filter, which may be too many for one request.
    pub(super) async fn list_each(
        &self,
        list: List,
        name: &'static str,
        values: &BTreeSet<String>,
    ) -> Result<Rows, Trouble> {
        let values: Vec<_> = values.iter().collect();
        let mut rows = Rows::new();
        for chunk in values.chunks(CHUNK) {
            let list = chunk.iter().fold(list.clone(), |list, value| list.with(name, *value));
            rows.extend(self.list(list).await?);
        }
        Ok(rows)
    }

    /// None if what the next page begins after is not there any more.
    ///
    /// Pages are followed by the last id on each: the address that the server gives for the next one is made of what it
    /// takes for its own name, which behind a proxy is not ours for it.
    async fn pages(&self, list: &List) -> Result<Option<Rows>, Trouble> {
        let mut rows = Rows::new();
        let mut marker: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let call = Call::get(list.path(marker.as_deref()));
            let mut answer = match self.api.ask(&call).await {
                Ok(answer) => answer,
                Err(fault) if marker.is_some() && fault.is_not_there() => return Ok(None),
                Err(fault) => return Err(not_a_list(fault)),
            };
            let Some(Value::Array(page)) = answer.get_mut(format!("{}s", list.what)).map(Value::take) else {
                return Err(Trouble::unreachable(format!("what {} answered is no list", call.name())));
            };
            let page = page.into_iter().map(|value| Row::new(list.what, value));
            let page = page.collect::<Result<Vec<_>, _>>()?;
            let last = page.last().map(|row| row.id().to_owned());
            let known = rows.len();
            rows.extend(page.into_iter().map(|row| (row.id().to_owned(), row)));
            if !has_next(&answer, list.what) {
                return Ok(Some(rows));
            }
            // Not the whole list, then: what it lacks would be taken for gone.
            if rows.len() == known {
                return Err(Trouble::unreachable(format!(
                    "a page of the list of {}s brings nothing new",
                    list.what
                )));
            }
            marker = last;
        }
        Err(Trouble::unreachable(format!("the list of {}s does not end", list.what)))
    }
}

/// A list is always there; where it is not, no Neutron is.
fn not_a_list(fault: Fault) -> Trouble {
    match Trouble::from(fault) {
        Trouble::Missing(words) => Trouble::Refused(words),
        trouble => trouble,
    }
}

fn has_next(answer: &Value, what: &str) -> bool {
    let links = answer.get(format!("{what}s_links")).and_then(Value::as_array);
    let is_next = |link: &Value| link.get("rel").and_then(Value::as_str) == Some("next");
    links.is_some_and(|links| links.iter().any(is_next))
}
