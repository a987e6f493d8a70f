//! Flags of the room `networks`: which cloud, and how to get in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_controller::networks::bridge::{self, Bridge};
use causeway_controller::networks::neutron::{Neutron, config};
use causeway_controller::networks::{Cloud, Options, Setup};
use clap::ValueEnum;

/// Networks of a cloud (--enable networks).
#[derive(Debug, clap::Args)]
pub(crate) struct NetworksArgs {
    /// Where declared networks are made (--enable networks).
    #[arg(long, value_enum, default_value = "neutron")]
    provider: ProviderName,
    /// The cloud's name in clouds.yaml; without it OS_* variables say where it is, else the only cloud of that file.
    #[arg(long, value_name = "NAME", env = "OS_CLOUD")]
    os_cloud: Option<String>,
    /// A Neutron that asks for no credentials, in place of all that.
    #[arg(long, value_name = "URL")]
    neutron_url: Option<String>,
    /// How many networks are worked on at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    networks_workers: u16,
    /// How often the cloud is looked at as a whole, so that what somebody changed there is put right.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::controller::duration)]
    networks_resync: Duration,
    /// The network namespace that bridges are made in, like /run/netns/demo; without it the controller's own.
    #[arg(long, value_name = "FILE")]
    bridge_namespace: Option<PathBuf>,
    /// Let hosts on bridges reach whatever is outside, from the address of this machine.
    #[arg(long)]
    bridge_nat: bool,
}

/// Where networks can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProviderName {
    /// OpenStack's.
    Neutron,
    /// Linux bridges on this machine.
    Bridge,
}

impl NetworksArgs {
    /// What the room needs; what is wrong with it is an error before anything starts.
    pub(crate) fn setup(self, cluster: Option<String>) -> anyhow::Result<Setup> {
        let cloud = match self.provider {
            ProviderName::Neutron => {
                let variable = |name: &str| std::env::var(name).ok();
                let found = config::load(
                    self.neutron_url.as_deref(),
                    self.os_cloud.as_deref(),
                    &variable,
                    &config::read_file,
                );
                let neutron = found.and_then(Neutron::new).context("--provider neutron")?;
                Cloud::Neutron(Arc::new(neutron))
            }
            ProviderName::Bridge => {
                let options = bridge::Options { namespace: self.bridge_namespace, nat: self.bridge_nat };
                Cloud::Bridge(Bridge::new(options))
            }
        };
        let options =
            Options { cluster, workers: self.networks_workers.into(), resync: self.networks_resync };
        Ok(Setup { options, cloud })
    }
}
