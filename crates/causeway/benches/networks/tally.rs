//! What reached Neutron, by kind.

use std::collections::BTreeMap;

use crate::cloud::Request;

/// How many requests there were of each kind.
pub(crate) struct Tally(BTreeMap<String, usize>);

/// Lists of all that a cluster has, as a look at the whole cloud asks for them.
const OF_EVERYTHING: &str = "list everything";

impl Tally {
    pub(crate) fn of(requests: &[Request]) -> Self {
        let mut kinds = BTreeMap::new();
        for request in requests {
            *kinds.entry(kind(request)).or_default() += 1;
        }
        Self(kinds)
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&String, &usize)> {
        self.0.iter()
    }

    pub(crate) fn all(&self) -> usize {
        self.0.values().sum()
    }

    pub(crate) fn lists_of_everything(&self) -> usize {
        self.0.get(OF_EVERYTHING).copied().unwrap_or_default()
    }

    /// Those that were about one network.
    pub(crate) fn about_one(&self) -> usize {
        self.all() - self.lists_of_everything()
    }
}

fn kind(request: &Request) -> String {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let parts: Vec<_> = path.trim_start_matches("/v2.0/").split('/').collect();
    // A look at one network names it, or asks for its object's tag.
    let is_about_one = ["&name=", "&id=", "&network_id=", "causeway-uid"].iter().any(|it| query.contains(it));
    match (request.method.as_str(), &parts[..]) {
        ("GET", [_]) if !is_about_one => OF_EVERYTHING.to_owned(),
        ("GET", [what, ..]) => format!("look for {what} of one"),
        (method, [what, _, rest]) => format!("{method} {what}/ID/{rest}"),
        (method, [what, ..]) => format!("{method} {what}"),
        (method, []) => method.to_owned(),
    }
}
