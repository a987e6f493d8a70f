//! What is there: a few lists, put together.
//!
//! An unchanged cloud of any size costs four lists, one more where the cluster was given an id, and those by id only for subnets that others put into our networks.
//! Servers of some age ignore a filter that they do not know, so what they answer is filtered here once more.

use std::collections::BTreeSet;

use causeway_core::networks::mark::Owner;
use causeway_core::networks::{Clue, Held, Home, Trouble};
use futures::try_join;

use super::Neutron;
use super::lists::{List, Rows};
use super::wire::{Row, is_id};

impl Neutron {
    /// All with a mark of ours.
    pub(super) async fn look_for_all(&self, home: &Home) -> Result<Vec<Held>, Trouble> {
        let access = self.api.access().await?;
        let project = access.project.as_deref();
        let (tag, cluster, mark) = (home.home_tag(), home.cluster_tag(), home.description());
        // Not by both tags at once: where several of `tags-any` match, a network counts several times, and pages end too soon.
        let by_tag = |list: List| self.list(list.with("tags", &*tag).of(project));
        let by_mark = |list: List| self.list(list.with("description", &*mark).of(project));
        let namesakes = async {
            let list = List::networks().with("tags", &*cluster).with("not-tags", &*tag).of(project);
            if home.is_named() { self.list(list).await } else { Ok(Rows::new()) }
        };
        let (mut networks, marked, namesakes, mut subnets, marked_subnets) = try_join!(
            by_tag(List::networks()),
            by_mark(List::networks()),
            namesakes,
            by_tag(List::subnets()),
            by_mark(List::subnets()),
        )?;
        networks.extend(marked);
        networks.extend(namesakes);
        subnets.extend(marked_subnets);
        let is_marked = |row: &Row| -> Result<bool, Trouble> {
            let has = row.tags()?;
            let is_ours = [&tag, &cluster].iter().any(|tag| has.contains(*tag))
                || row.text("description") == Some(&*mark);
            Ok(is_ours && is_of(row, project))
        };
        let networks = kept(networks, is_marked)?;
        let mut missing = BTreeSet::new();
        for network in networks.values() {
            missing.extend(network.subnets()?.into_iter().filter(|id| !subnets.contains_key(id)));
        }
        subnets.extend(self.list_each(List::subnets(), "id", &missing).await?);
        together(&networks, &subnets)
    }

    /// All that may be one object's.
    pub(super) async fn look_for_one(&self, home: &Home, clue: &Clue) -> Result<Vec<Held>, Trouble> {
        let access = self.api.access().await?;
        let project = access.project.as_deref();
        let (tag, mark) = (Home::object_tag(&clue.uid), home.description());
        let ids: BTreeSet<String> = clue.ids.iter().filter(|id| is_id(id)).cloned().collect();
        let by_tags = List::networks().with("tags", &*tag).of(project);
        let by_mark = List::networks().with("description", &*mark).with("name", &*clue.name).of(project);
        let by_id = self.list_each(List::networks().of(project), "id", &ids);
        let (mut networks, marked, named) = try_join!(self.list(by_tags), self.list(by_mark), by_id)?;
        networks.extend(marked);
        networks.extend(named);
        let may_be_its = |row: &Row| -> Result<bool, Trouble> {
            let (has, says) = (row.tags()?, row.text("description").unwrap_or_default());
            // Somebody may have copied the tag of an object to what is another cluster's.
            let is_tagged = home.owner(&has, says) == Owner::Object(&clue.uid);
            let is_marked = row.text("description") == Some(&*mark) && row.text("name") == Some(&*clue.name);
            Ok((ids.contains(row.id()) || is_tagged || is_marked) && is_of(row, project))
        };
        let networks = kept(networks, may_be_its)?;
        let found = networks.keys().cloned().collect();
        let subnets = self.list_each(List::subnets(), "network_id", &found).await?;
        together(&networks, &subnets)
    }
}

fn is_of(row: &Row, project: Option<&str>) -> bool {
    project.is_none_or(|project| row.text("project_id") == Some(project))
}

fn kept(rows: Rows, is_meant: impl Fn(&Row) -> Result<bool, Trouble>) -> Result<Rows, Trouble> {
    let mut kept = Rows::new();
    for (id, row) in rows {
        if is_meant(&row)? {
            kept.insert(id, row);
        }
    }
    Ok(kept)
}

/// Networks with their subnets. Lists are not of one moment: a subnet may be there already that its network, listed
/// before, does not name yet.
fn together(networks: &Rows, subnets: &Rows) -> Result<Vec<Held>, Trouble> {
    let mut all = std::collections::BTreeMap::new();
    for (id, row) in networks {
        all.insert(id.as_str(), row.network()?);
    }
    for (id, row) in subnets {
        if let Some(network) = row.text("network_id").and_then(|network| all.get_mut(network)) {
            network.subnets.insert(id.clone(), row.subnet()?);
        }
    }
    Ok(all.into_values().collect())
}
