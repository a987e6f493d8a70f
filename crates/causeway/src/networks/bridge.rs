//! Flags of networks as bridges of one machine.

use std::path::PathBuf;

use anyhow::Context;
use causeway_controller::networks::Cloud;
use causeway_controller::networks::bridge::{Bridge, Options};
use causeway_core::Cidr;

/// Networks as bridges (--provider bridge).
#[derive(Debug, clap::Args)]
pub(super) struct BridgeArgs {
    /// The network namespace that bridges are made in, like /run/netns/demo; without it the controller's own.
    #[arg(long, value_name = "FILE")]
    bridge_namespace: Option<PathBuf>,
    /// Let hosts on bridges reach whatever is outside, from the address of this machine.
    #[arg(long)]
    bridge_nat: bool,
    /// Where their ranges may lie: whoever declares a network takes its addresses from everybody on this machine.
    #[arg(
        long,
        value_name = "CIDR,…",
        value_delimiter = ',',
        default_value = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7"
    )]
    bridge_within: Vec<Cidr>,
}

impl BridgeArgs {
    /// A flag that only this provider has a use for, if one was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let namespace = self.bridge_namespace.is_some().then_some("--bridge-namespace");
        namespace.or(self.bridge_nat.then_some("--bridge-nat"))
    }

    pub(super) fn cloud(self) -> anyhow::Result<Cloud> {
        let Self { bridge_namespace: namespace, bridge_nat: nat, bridge_within: within } = self;
        if let Some(path) = &namespace {
            std::fs::File::open(path).with_context(|| format!("--bridge-namespace {}", path.display()))?;
        }
        Ok(Cloud::Bridge(Bridge::new(Options { namespace, nat, within })))
    }
}
