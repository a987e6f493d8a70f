//! What is known of a tunnel and its two ends when it is judged.

use std::net::Ipv4Addr;

use causeway_core::vpc::have::Have;
use causeway_core::vpc::objects::{self, Tunnel};
use causeway_core::vpc::outcome::Hindrance;
use causeway_core::vpc::{Action, Inbound, Problem, TunnelWant};
use causeway_core::{GatewayName, LinkName, ObjectKey};
use causeway_datapath::vpc::Answers;

pub(super) use crate::look::Leader;

/// A tunnel, from this end and, as far as it could be seen, from the other.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) near: End,
    pub(super) far: Far,
    /// The address behind the peer that is to answer, if one was given.
    pub(super) target: Option<Ipv4Addr>,
    /// When that was, in seconds since 1970.
    pub(super) now: i64,
}

/// The other end.
#[derive(Debug, Clone)]
pub(super) enum Far {
    /// None of the clusters that were given is the peer's.
    NotGiven,
    /// Its cluster was seen, and no tunnel there leads back.
    NoneBack {
        /// How that cluster is called here.
        cluster: String,
        /// The end that it should lead to.
        to: objects::Far,
    },
    /// It was seen.
    Seen(Box<End>),
}

/// One end of a tunnel.
#[derive(Debug, Clone)]
pub(super) struct End {
    /// How its cluster is called here: by its context, else by its id.
    pub(super) cluster: String,
    pub(super) tunnel: Tunnel,
    /// Why it cannot be built, from objects alone: what the controller would say.
    pub(super) trouble: Option<Reason>,
    /// By VPC: who its main gateway is, and should be.
    pub(super) role: Option<Role>,
    /// The pod of its gateway.
    pub(super) pod: Option<ObjectKey>,
    /// What its gateway should hold for it.
    pub(super) want: Option<Wanted>,
    /// What its gateway holds, if it was looked at.
    pub(super) held: Option<Result<Held, Unlooked>>,
    /// Whether the VPC leads to it: the VPC, the gateway's address there, and the answer.
    pub(super) routed: Option<(String, Ipv4Addr, bool)>,
    /// What packets said, if they were asked.
    pub(super) answers: Option<Result<Answers, Unlooked>>,
    pub(super) leader: Leader,
}

/// Which gateway of a VPC carries its tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) vpc: String,
    /// The one that should.
    pub(super) main: GatewayName,
    /// The one that the VPC's record names.
    pub(super) recorded: Option<GatewayName>,
    /// Why that one cannot, if it cannot.
    pub(super) unfit: Option<String>,
    /// Those that could take over.
    pub(super) standbys: Vec<GatewayName>,
}

/// Why something is not as it should be, as conditions say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) reason: String,
    pub(super) message: String,
}

/// What a gateway should hold for a tunnel.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) link: LinkName,
    pub(super) tunnel: TunnelWant,
    /// The way from the tunnel into the VPC.
    pub(super) inbound: Option<Inbound>,
}

/// What a gateway holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    pub(super) have: Have,
    /// What a controller would do now for this tunnel.
    pub(super) steps: Vec<Action>,
    /// What stands in the tunnel's way.
    pub(super) problem: Option<Problem>,
    /// What keeps packets out of it.
    pub(super) hindrance: Option<Hindrance>,
}

/// Why a gateway could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unlooked {
    /// Whether that is a matter of whoever asks, and not of the gateway.
    pub(super) is_ours: bool,
    pub(super) message: String,
}
