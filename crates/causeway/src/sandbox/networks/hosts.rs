//! Bridges of one cluster, in a network namespace of their own, and the hosts that are attached to them.
//!
//! ```text
//!   blue1   blue2          green1        a namespace each, which echoes
//!     └──┬────┘              │
//!      cw… 192.168.10.1    cw… 192.168.20.1     the namespace of the bridges, which the controller makes
//! ```
//!
//! Hosts have their cables from the start. Attaching them is not the controller's business: what a hypervisor or a CNI
//! plugin would do, [`keep_attached`] does, once for each bridge. So a host comes back when its bridge does, and one that
//! somebody detached stays so.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_api::networks::LooseNetwork;
use causeway_controller::words::describe;
use causeway_datapath::networks::Kernel;
use futures::TryStreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::time::{MissedTickBehavior, interval};

use super::super::addresses::Cluster;
use super::super::echo::{Echo, PORT};
use super::super::matrix::Way;
use super::super::netns::Namespace;
use super::super::topology::{QUIET, hardware};
use super::declared::{self, Declared, NAMESPACE};

/// It forwards, as machines with containers do: so nothing but the controller's rules keeps networks apart. And whoever
/// echoes on a gateway's address may start before the address is there.
const MACHINE: &[(&str, &str)] = &[("ipv4/ip_forward", "1"), ("ipv4/ip_nonlocal_bind", "1")];
/// How often is looked whether there is a bridge that a host is not attached to yet.
const LOOK: Duration = Duration::from_millis(250);

/// The bridges of one cluster, and their hosts.
#[derive(Debug)]
pub(super) struct Bridges {
    cluster: Cluster,
    namespace: Namespace,
    /// Leads into it from another terminal.
    pub(super) file: PathBuf,
    gateways: Vec<(Declared, Echo)>,
    pub(super) hosts: Vec<Host>,
}

/// Somebody who lives on a network.
#[derive(Debug)]
pub(super) struct Host {
    /// Also that of its port, beside the bridge.
    pub(super) name: &'static str,
    pub(super) network: Declared,
    pub(super) address: Ipv4Addr,
    pub(super) file: PathBuf,
    namespace: Namespace,
    echo: Echo,
}

impl Bridges {
    /// Makes the namespaces and lays the cables; files in `folder` lead to each of them.
    pub(super) async fn create(cluster: Cluster, folder: &Path) -> anyhow::Result<Bridges> {
        let namespace = Namespace::create(&format!("{cluster}'s bridges")).await?;
        namespace.sysctl(QUIET).await?;
        namespace.sysctl(MACHINE).await?;
        namespace.ip(&["link set dev lo up".into()]).await?;
        let file = lead(folder, cluster, "bridges", &namespace)?;
        let mut gateways = Vec::new();
        for network in declared::ALL {
            gateways.push((network, Echo::start(&namespace, network.gateway()).await?));
        }
        // One after another: whoever lists a bridge's ports gets them in the order in which they were made.
        let mut hosts = Vec::new();
        for network in declared::ALL {
            for host in network.hosts() {
                hosts.push(plug(cluster, &namespace, network, host, folder).await?);
            }
        }
        Ok(Bridges { cluster, namespace, file, gateways, hosts })
    }

    /// Where the controller can open the namespace.
    pub(super) fn path(&self) -> String {
        self.namespace.path()
    }

    /// From every host to every other and to every gateway; whether it should get there.
    pub(super) fn ways(&self) -> Vec<(Way<'_>, bool)> {
        let mut ways = Vec::new();
        for from in &self.hosts {
            let hosts = self.hosts.iter().filter(|to| to.name != from.name);
            let hosts = hosts.map(|to| (to.name.to_owned(), to.network, to.address));
            let gateways = self.gateways.iter().map(|(network, _)| *network);
            let gateways = gateways.map(|it| (it.gateway().to_string(), it, it.gateway()));
            for (to, network, address) in hosts.chain(gateways) {
                let target = (address, PORT).into();
                let way = Way { from: from.name.into(), to, inside: &from.namespace, target };
                ways.push((way, from.network == network));
            }
        }
        ways
    }

    /// How many questions came to a host or a gateway from outside of its network.
    pub(super) fn crossed(&self) -> u64 {
        let hosts = self.hosts.iter().map(|host| (host.network, &host.echo));
        let all = hosts.chain(self.gateways.iter().map(|(network, echo)| (*network, echo)));
        let strangers = all.flat_map(|(network, echo)| {
            let range = network.range();
            echo.seen().into_iter().filter(move |(from, _)| !range.contains(from))
        });
        strangers.map(|(_, times)| times).sum()
    }

    /// The bridges that are there, by their names. Another index is another bridge.
    async fn indexes(&self) -> anyhow::Result<BTreeMap<String, u32>> {
        let links = self.namespace.run(|| Kernel::open()?.observe()).await?.context("listing bridges")?;
        Ok(links.bridges.into_iter().map(|(name, bridge)| (name, bridge.index)).collect())
    }
}

async fn plug(
    cluster: Cluster,
    switch: &Namespace,
    network: Declared,
    (name, address): (&'static str, Ipv4Addr),
    folder: &Path,
) -> anyhow::Result<Host> {
    let namespace = Namespace::create(&format!("{cluster}'s {name}")).await?;
    namespace.sysctl(QUIET).await?;
    let (path, hardware) = (namespace.path(), hardware(address));
    let cable = format!(
        "link add name {name} mtu 1500 type veth peer name eth0 mtu 1500 address {hardware} netns {path}"
    );
    switch.ip(&[cable]).await?;
    namespace
        .ip(&[
            "link set dev lo up".into(),
            format!("address add {address}/{} dev eth0", network.range().prefix_len()),
            "link set dev eth0 up".into(),
            format!("route add default via {}", network.gateway()),
        ])
        .await?;
    let echo = Echo::start(&namespace, address).await?;
    let file = lead(folder, cluster, name, &namespace)?;
    Ok(Host { name, network, address, file, namespace, echo })
}

/// A file that leads into a namespace, for people: `nsenter --net=FILE`.
fn lead(folder: &Path, cluster: Cluster, name: &str, namespace: &Namespace) -> anyhow::Result<PathBuf> {
    let file = folder.join(format!("{cluster}.{name}.net"));
    let what = || format!("cannot make {}", file.display());
    std::os::unix::fs::symlink(namespace.path(), &file).with_context(what)?;
    Ok(file)
}

/// Attaches each host to the bridge of its network whenever there is one, until dropped.
pub(super) async fn keep_attached(client: Client, bridges: Arc<Bridges>) -> anyhow::Result<()> {
    let cluster = bridges.cluster;
    let api = Api::<LooseNetwork>::namespaced(client, NAMESPACE);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The bridge of each network, by its name; and the one that each host was attached to, by its index.
    let (mut ids, mut attached) = (BTreeMap::<String, String>::new(), BTreeMap::<&str, u32>::new());
    loop {
        tokio::select! {
            event = events.try_next() => match event {
                Ok(Some(watcher::Event::Apply(network) | watcher::Event::InitApply(network))) => {
                    match network.status().network_id {
                        Some(id) => ids.insert(network.name_any(), id),
                        None => ids.remove(&network.name_any()),
                    };
                }
                Ok(Some(watcher::Event::Delete(network))) => drop(ids.remove(&network.name_any())),
                Ok(Some(watcher::Event::Init | watcher::Event::InitDone)) => {}
                Ok(None) => anyhow::bail!("the watch of networks ended"),
                Err(error) => tracing::warn!(%cluster, error = describe(&error), "watching networks"),
            },
            _ = looks.tick() => {
                if let Err(error) = attach(&bridges, &ids, &mut attached).await {
                    tracing::warn!(%cluster, error = describe(error.as_ref()), "attaching hosts; trying again");
                }
            }
        }
    }
}

async fn attach(
    bridges: &Bridges,
    ids: &BTreeMap<String, String>,
    attached: &mut BTreeMap<&'static str, u32>,
) -> anyhow::Result<()> {
    let indexes = bridges.indexes().await?;
    for host in &bridges.hosts {
        let Some((id, index)) = ids.get(host.network.name).and_then(|id| indexes.get_key_value(id)) else {
            continue;
        };
        if attached.get(host.name) == Some(index) {
            continue;
        }
        bridges.namespace.ip(&[format!("link set dev {} master {id} up", host.name)]).await?;
        tracing::info!(cluster = %bridges.cluster, host = host.name, bridge = id, "attached");
        attached.insert(host.name, *index);
    }
    Ok(())
}
