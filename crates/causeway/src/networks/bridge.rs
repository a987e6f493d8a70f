//! Flags of networks as bridges of one machine.

use std::path::PathBuf;

use anyhow::Context;
use causeway_controller::networks::Cloud;
use causeway_controller::networks::bridge::{Bridge, Options};
use causeway_core::Cidr;
use clap::ArgAction;

/// Networks as bridges (--provider bridge).
#[derive(Debug, clap::Args)]
pub(super) struct BridgeArgs {
    /// The network namespace that bridges are made in, like /run/netns/demo; without it the controller's own.
    #[arg(long, value_name = "FILE")]
    bridge_namespace: Option<PathBuf>,
    /// Let hosts on bridges reach whatever is outside, from the address of this machine.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_default_value = true, value_name = "BOOL")]
    bridge_nat: bool,
    /// Where their ranges may lie: whoever declares a network takes its addresses from everybody on this machine. By default
    /// in those that are private: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 and fc00::/7.
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',')]
    bridge_within: Vec<Cidr>,
}

const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

impl BridgeArgs {
    /// A flag that only this provider has a use for, if one was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let namespace = self.bridge_namespace.is_some().then_some("--bridge-namespace");
        let nat = self.bridge_nat.then_some("--bridge-nat");
        namespace.or(nat).or((!self.bridge_within.is_empty()).then_some("--bridge-within"))
    }

    pub(super) fn cloud(self) -> anyhow::Result<Cloud> {
        let Self { bridge_namespace: namespace, bridge_nat: nat, bridge_within: mut within } = self;
        if within.is_empty() {
            within = PRIVATE.iter().filter_map(|range| range.parse().ok()).collect();
        }
        if let Some(path) = &namespace {
            std::fs::File::open(path).with_context(|| format!("--bridge-namespace {}", path.display()))?;
        }
        Ok(Cloud::Bridge(Bridge::new(Options { namespace, nat, within })))
    }
}
