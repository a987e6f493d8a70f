//! The room `vpc`: tunnels between the gateways of VPCs in different clusters.
//!
//! Three kinds of place are kept: a gateway's network namespace ([`want`], [`have`], [`plan`]), the
//! objects that say how far it got ([`status`]), and the records by which clusters find each other's
//! gateways ([`exchange`], [`member`]) and compare both ends of a tunnel ([`published`], [`ends`]). [`state`] takes in what the watches saw ([`event`]); [`compile`]
//! answers from it.

pub mod action;
mod admission;
pub mod compile;
pub mod ends;
pub mod event;
pub mod exchange;
pub mod filter;
mod gateways;
pub mod have;
mod index;
pub mod mains;
pub mod member;
pub mod model;
pub mod moves;
pub mod naming;
pub mod nodes;
pub mod objects;
pub mod outcome;
pub mod overview;
mod own;
mod pairing;
pub mod plan;
pub mod published;
mod ranges;
pub mod reach;
mod records;
pub mod shares;
pub mod state;
pub mod status;
pub mod stayed;
pub mod trouble;
mod tunnels;
mod visits;
pub mod want;

pub use crate::room::Change;
pub use action::{Action, Step};
pub use event::{Event, Scope};
pub use filter::Filter;
pub use have::{Have, Holding, Link, LinkKind, Nat, NatRule, Route, Variant};
pub use outcome::{Outcome, Trouble, Visit};
pub use plan::{Plan, Problem, Refused, plan, plan_after};
pub use reach::{Answer, Near, Probed};
pub use state::{Given, State};
pub use want::{EgressRange, Established, Inbound, Seat, TunnelKind, TunnelWant, Want};

/// Link group of every link we make (`CWY` and a version), set in the same call that makes it.
pub const LINK_GROUP: u32 = 0x4357_5901;
/// The group of links of ours that are being deleted together. One that is still in it was left over.
pub const LEAVING_GROUP: u32 = LINK_GROUP + 1;
/// The group of links that stand by: their gateway would take over, and sends nothing through them until it does.
pub const STANDBY_GROUP: u32 = LINK_GROUP + 2;
/// Routing protocol number of every route we make.
pub const ROUTE_PROTOCOL: u8 = 157;
/// How aliases and rule comments of ours begin; the object's key follows.
pub const MARK: &str = "causeway:";
/// The gateway's link into the VPC.
pub const LAN_LINK: &str = "eth0";
/// The gateway's link to the outside, which tunnels run over.
pub const UNDERLAY_LINK: &str = "net1";
