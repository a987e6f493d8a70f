//! The route by which a VPC's DNS server reaches kube-dns, and the record of having put it somewhere.

use std::net::Ipv4Addr;

/// The way to kube-dns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Where to: the address of kube-dns.
    pub to: Ipv4Addr,
    /// Through whom: the gateway of the default subnet.
    pub via: Ipv4Addr,
}

/// Where in a Deployment a route can be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the shell command of the init container `init-route`: kube-ovn up to 1.12.
    Command,
    /// In this annotation of its pods: kube-ovn from 1.13 on.
    Annotation(String),
}

/// A text that was put between two others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// What stood there, up to it.
    pub before: String,
    /// What was put there.
    pub added: String,
    /// What stood there, after it.
    pub after: String,
}

impl Splice {
    /// The whole.
    pub fn text(&self) -> String {
        [&*self.before, &self.added, &self.after].concat()
    }

    /// Where it still stands in a text, beside what it was put beside: others may have written more around that. Where it
    /// stands beside something else, somebody wrote the whole anew, and what looks like ours is theirs.
    pub(super) fn find(&self, text: &str) -> Option<usize> {
        if *text == self.text() {
            return Some(self.before.len());
        }
        if self.before.is_empty() {
            return text.find(&[&*self.added, &self.after].concat());
        }
        text.find(&[&*self.before, &self.added].concat()).map(|at| at + self.before.len())
    }
}

/// What we put into a Deployment: kept beside it, and undone from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where.
    pub place: Place,
    /// Which route.
    pub route: Route,
    /// How.
    pub splice: Splice,
    /// Whether there was no such annotation before.
    pub made: bool,
}
