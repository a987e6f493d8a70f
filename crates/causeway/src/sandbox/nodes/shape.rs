//! What nodes are like: how many there are, and how packets get from one to the other.

use causeway_core::Family;
use causeway_core::leases::network::overhead;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::network;

/// How packets get from node to node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Routes to the other nodes' addresses.
    HostGw,
    /// Routes into a link of the agent's own, in which the others are.
    Vxlan,
}

impl Backend {
    /// As a network's configuration calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Backend::HostGw => "host-gw",
            Backend::Vxlan => "vxlan",
        }
    }
}

/// What the nodes of a cluster are like.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Shape {
    pub(in super::super) count: u8,
    pub(in super::super) backend: Backend,
    pub(in super::super) ipv6: bool,
}

impl Shape {
    pub(super) fn families(&self) -> &'static [Family] {
        if self.ipv6 { &Family::ALL } else { &[Family::V4] }
    }

    /// What a CNI plugin would give pods: as much as fits from node to node in one packet.
    pub(super) fn pod_mtu(&self) -> u32 {
        match self.backend {
            Backend::HostGw => network::MTU,
            Backend::Vxlan => {
                let overheads = self.families().iter().map(|family| overhead(*family));
                network::MTU - overheads.max().unwrap_or_default()
            }
        }
    }

    /// The agents' configuration.
    pub(super) fn configuration(&self) -> Value {
        let mut all =
            json!({"Network": network::range(Family::V4), "Backend": {"Type": self.backend.name()}});
        if self.ipv6 {
            all["EnableIPv6"] = true.into();
            all["IPv6Network"] = json!(network::range(Family::V6));
        }
        all
    }
}
