//! How things in a cloud say whose they are.
//!
//! Tags say it: which cluster, and which object of it. A cloud takes them only of what is there already, so between
//! making and tagging there is a moment in which a crash would leave something nobody knows. So what is made carries a
//! first mark in its description, which is part of the request that makes it.

use std::collections::BTreeSet;

/// On everything of Causeway's, whichever cluster's.
const CAUSEWAY: &str = "causeway";
const CLUSTER: &str = "causeway-cluster=";
const HOME: &str = "causeway-home=";
const OBJECT: &str = "causeway-uid=";

/// The cluster whose objects we serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    cluster: String,
    uid: String,
}

/// Whose something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner<'a> {
    /// An object of ours has it, by its uid.
    Object(&'a str),
    /// We made it, and nobody knows for whom: it has its first mark only.
    Unfinished,
    /// Somebody else's, who goes by the id of our cluster.
    Namesake,
    /// Anybody else's.
    Others,
}

impl Home {
    /// A cluster by the id it is known by, and by the uid of its `kube-system`, which no other cluster has: two
    /// clusters that are given one id by mistake must not take each other's networks for orphans.
    pub fn new(cluster: Option<&str>, uid: &str) -> Self {
        Self { cluster: cluster.unwrap_or(uid).to_owned(), uid: uid.to_owned() }
    }

    /// The cluster that tags name, if they name one.
    pub fn of(tags: &BTreeSet<String>) -> Option<Self> {
        let value = |name: &str| tags.iter().find_map(|tag| tag.strip_prefix(name));
        Some(Self::new(Some(value(CLUSTER)?), value(HOME)?))
    }

    /// The id it is known by.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Whether it goes by an id that somebody gave it, and another may have too.
    pub fn is_named(&self) -> bool {
        self.cluster != self.uid
    }

    /// The tag that all have which belong to somebody of our id.
    pub fn cluster_tag(&self) -> String {
        format!("{CLUSTER}{}", self.cluster)
    }

    /// The tag that all have which are ours, whatever the cluster is called.
    pub fn home_tag(&self) -> String {
        format!("{HOME}{}", self.uid)
    }

    /// The tag of one object's.
    pub fn object_tag(uid: &str) -> String {
        format!("{OBJECT}{uid}")
    }

    /// All tags of what is an object's.
    pub fn tags(&self, uid: &str) -> BTreeSet<String> {
        [CAUSEWAY.to_owned(), self.cluster_tag(), self.home_tag(), Self::object_tag(uid)].into()
    }

    /// The first mark: whatever the cluster is called, it stays the same.
    pub fn description(&self) -> String {
        format!("Made by Causeway for cluster {}", self.uid)
    }

    /// Whether something is ours beyond doubt. An object finds what is its own by its uid alone; but what has no object is
    /// deleted, and a uid that nobody here knows may be another cluster's.
    pub fn is_proven(&self, tags: &BTreeSet<String>, description: &str) -> bool {
        tags.contains(&self.home_tag()) || description == self.description()
    }

    /// Whose something with these tags and this description is.
    ///
    /// Some of our tags may have been taken away, and the cluster may be called otherwise by now: what is left counts, as
    /// long as nothing of it is another's.
    pub fn owner<'a>(&self, tags: &'a BTreeSet<String>, description: &str) -> Owner<'a> {
        let value = |name: &str| tags.iter().find_map(|tag| tag.strip_prefix(name));
        let (cluster, home, object) = (value(CLUSTER), value(HOME), value(OBJECT));
        let is_namesake = cluster == Some(&*self.cluster);
        let is_marked = description == self.description();
        match home {
            Some(home) if home != self.uid => {
                if is_namesake {
                    Owner::Namesake
                } else {
                    Owner::Others
                }
            }
            None if cluster.is_some() && !is_namesake => Owner::Others,
            None if object.is_none() && !is_marked => Owner::Others,
            Some(_) | None => object.map_or(Owner::Unfinished, Owner::Object),
        }
    }
}

/// Whether tags say that something is of another cluster. Those of ours, or that name nobody, do not.
pub fn names_another_home(home: &Home, tags: &BTreeSet<String>) -> bool {
    let others = |name: &str, ours: &str| {
        tags.iter().filter_map(|tag| tag.strip_prefix(name)).any(|value| value != ours)
    };
    let is_home = tags.contains(&home.home_tag());
    others(HOME, &home.uid) || (others(CLUSTER, &home.cluster) && !is_home)
}

/// Whether tags say that something is of another cluster, or of another object than one.
pub fn names_another(home: &Home, uid: &str, tags: &BTreeSet<String>) -> bool {
    let mut objects = tags.iter().filter_map(|tag| tag.strip_prefix(OBJECT));
    names_another_home(home, tags) || objects.any(|object| object != uid)
}

/// Whether tags say that something is Causeway's, of whichever cluster.
pub fn is_taken(tags: &BTreeSet<String>) -> bool {
    tags.iter().any(|tag| is_ours(tag))
}

/// Whether a tag is one of those that we put.
pub fn is_ours(tag: &str) -> bool {
    tag == CAUSEWAY || [CLUSTER, HOME, OBJECT].iter().any(|name| tag.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_their_cluster_unless_some_are_missing() {
        let home = Home::new(Some("east"), "1234");
        let mut tags = home.tags("u1");
        assert_eq!(Home::of(&tags), Some(home.clone()));
        tags.remove(&home.cluster_tag());
        assert_eq!(Home::of(&tags), None);
    }
}
