//! Faults that a test switches on in a running server, to see what its clients make of them.
//!
//! A [`Fault`] is a [`Switch`] and what it [`Match`]es. The list of those that are on is replaced,
//! added to or emptied as a whole, through [`Faults`] or, from another process, through `/faults`
//! (see `http::control`). A request asks the list what to do before anything else looks at it;
//! watches and exec sessions that have begun go on asking.

mod switches;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::http::Shared;
pub(crate) use switches::{Asked, Changes, Switches};

/// What goes wrong, for which requests, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub switch: Switch,
    /// For which requests; for all when left out.
    #[serde(rename = "match", default, skip_serializing_if = "Match::is_everything")]
    pub matching: Match,
    /// Ends this long after it was switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Ends when it has struck so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Switch {
    /// Requests are taken and not answered while it is on; watches and exec sessions fall silent.
    /// Afterwards everything goes on where it stopped, as with a server that was stopped by a signal;
    /// but a request whose client has left by then is not carried out.
    Freeze,
    /// Requests are refused, nothing having been done.
    Refuse {
        /// 403, 409, 429, 500 or 503.
        code: u16,
        /// How many of a hundred; all when left out.
        #[serde(default = "hundred")]
        percent: u8,
        /// For `Retry-After`; a 429 without it asks for one second.
        #[serde(default)]
        retry_after_seconds: u32,
    },
    /// Requests are answered late.
    Delay {
        /// By this much.
        ms: u64,
    },
    /// Lists, and watches that begin with one, show the state at the time this was switched on, or at
    /// a given version, as far back as the history reaches.
    StaleLists {
        /// The version, when it is not that of the moment.
        #[serde(default)]
        resource_version: Option<u64>,
    },
    /// Watches that begin at a version from before this was switched on are answered with "expired".
    Compacted,
    /// Watches that began before this was switched on end. Their clients may begin new ones.
    CloseWatches,
    /// What a command writes to stdout arrives late and its end does not, so that the end may come
    /// first: a kubelet copies the two separately.
    LateOutput {
        /// By this much.
        ms: u64,
    },
    /// Of the exec protocols only `v4.channel.k8s.io` is offered.
    ExecV4,
}

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

fn hundred() -> u8 {
    100
}

/// Which requests. What is left empty matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Plurals, with their subresource if any: `leases`, `pods/exec`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names in the path; a create has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Part of the client's `User-Agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The client's user, see [`Server::kubeconfig_as`](crate::Server::kubeconfig_as).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl Match {
    fn is_everything(&self) -> bool {
        *self == Match::default()
    }
}

/// What is switched on in a server that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// No such refusal is made.
    #[error("a fault cannot refuse with {0}: only with 403, 409, 429, 500 and 503")]
    Code(u16),
    /// It would never match.
    #[error("a fault cannot match the verb {0:?}: it is none of {VERBS:?}")]
    Verb(String),
    /// More than all.
    #[error("a fault cannot strike {0} requests of a hundred")]
    Percent(u8),
}

impl Fault {
    /// For all requests, until it is switched off.
    pub fn new(switch: Switch) -> Fault {
        Fault { switch, matching: Match::default(), for_ms: None, times: None }
    }

    /// The same, for these requests only.
    #[must_use]
    pub fn on(self, matching: Match) -> Fault {
        Fault { matching, ..self }
    }

    fn check(&self) -> Result<(), FaultError> {
        if let Some(verb) = self.matching.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
            return Err(FaultError::Verb(verb.clone()));
        }
        match self.switch {
            Switch::Refuse { code, .. } if !matches!(code, 403 | 409 | 429 | 500 | 503) => {
                Err(FaultError::Code(code))
            }
            Switch::Refuse { percent, .. } if percent > 100 => Err(FaultError::Percent(percent)),
            _ => Ok(()),
        }
    }
}

/// The faults of a running server.
#[derive(Clone)]
pub struct Faults(Arc<Shared>);

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

impl Faults {
    pub(crate) fn of(shared: &Arc<Shared>) -> Faults {
        Faults(shared.clone())
    }

    /// Those that are on.
    pub fn all(&self) -> Vec<Fault> {
        self.0.faults.all()
    }

    /// Switches these on, and all others off.
    ///
    /// # Errors
    /// When one of them makes no sense; then nothing has changed.
    pub fn set(&self, faults: Vec<Fault>) -> Result<(), FaultError> {
        faults.iter().try_for_each(Fault::check)?;
        let version = self.0.read().store.version();
        self.0.faults.replace(faults, version);
        Ok(())
    }

    /// Switches more on.
    ///
    /// # Errors
    /// When one of them makes no sense; then nothing has changed.
    pub fn add(&self, faults: Vec<Fault>) -> Result<(), FaultError> {
        faults.iter().try_for_each(Fault::check)?;
        let version = self.0.read().store.version();
        self.0.faults.add(faults, version);
        Ok(())
    }

    /// Switches all off.
    pub fn clear(&self) {
        self.0.faults.replace(Vec::new(), 0);
    }
}
