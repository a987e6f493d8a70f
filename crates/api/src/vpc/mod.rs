//! The room `vpc`: the objects that declare tunnels, and those by which gateways find each other.
//!
//! [`tunnel`], [`record`] and [`end`] are ours, [`foreign`] is kube-ovn's and Submariner's; [`parse`] turns each of them into
//! the value that decisions rest on.

pub mod end;
pub mod foreign;
pub mod parse;
pub mod record;
pub mod tunnel;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use end::{TunnelEnd, TunnelEndSpec};
pub use record::{GatewayExIp, GatewayExIpSpec};
pub use tunnel::{LooseTunnel, TunnelType, VpcNatTunnel, VpcNatTunnelSpec, VpcNatTunnelStatus};

/// With value `true` on a tunnel being deleted: let it go although its gateway cannot be cleaned.
pub const ABANDON: &str = "causeway/abandon";

/// On a `Vpc`: the gateway that should be its main one, `all` behind it where all routes should follow and not only those of
/// tunnels, and anything else to distinguish the wish from an earlier one.
pub const SWITCH_TO: &str = "causeway/switch-to";
/// On a `Vpc`: the last next hops that were moved, from where and to where. Written by Causeway.
pub const MOVED_ROUTES: &str = "causeway/moved-routes";

/// The definitions of the room's own kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![GatewayExIp::crd(), TunnelEnd::crd(), VpcNatTunnel::crd()]
}
