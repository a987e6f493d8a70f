//! Flags of the room `networks`: which cloud, and how to get in.

#[cfg(feature = "bridge")]
mod bridge;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
#[cfg(feature = "bridge")]
use anyhow::{bail, ensure};
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
    #[cfg(feature = "bridge")]
    #[command(flatten)]
    bridge: bridge::BridgeArgs,
}

/// Where networks can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProviderName {
    /// OpenStack's.
    Neutron,
    /// Linux bridges on this machine.
    #[cfg(feature = "bridge")]
    Bridge,
}

impl NetworksArgs {
    /// What the room needs; what is wrong with it is an error before anything starts.
    pub(crate) fn setup(self, cluster: Option<String>) -> anyhow::Result<Setup> {
        let cloud = match self.provider {
            ProviderName::Neutron => {
                #[cfg(feature = "bridge")]
                if let Some(flag) = self.bridge.given() {
                    bail!("{flag} is for --provider bridge");
                }
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
            #[cfg(feature = "bridge")]
            ProviderName::Bridge => {
                ensure!(self.neutron_url.is_none(), "--neutron-url is for --provider neutron");
                self.bridge.cloud()?
            }
        };
        let options =
            Options { cluster, workers: self.networks_workers.into(), resync: self.networks_resync };
        Ok(Setup { options, cloud })
    }
}
