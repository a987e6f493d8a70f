//! The cables: one underlay for all, and per cluster a VPC router with its pods around it.
//!
//! ```text
//!  client  server            gw1   gw2                         gw1 of another cluster
//!    └──────┴──── lan ────────┘     │   eth0                      │
//!            (router 10.0.1.1)      └── net1 ──── underlay ───────┘
//! ```
//!
//! `lan` is a bridge in the router's namespace, `underlay` one in a namespace of its own; every
//! pod gets a veth into the first, gateways one into the second too. A pod's ports carry a number
//! that is never used again, so a new pod never meets the remains of the one before it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ipnet::Ipv4Net;
use tokio::sync::watch;

use super::addresses::{self, Cluster, Gateway, Role};
use super::nat::{self, Variant};
use super::netns::{Namespace, NamespaceError};

/// No IPv6 chatter: the sandbox's networks are IPv4 only.
pub(super) const QUIET: &[(&str, &str)] =
    &[("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];
/// A redirect to a gateway would outlive a failover by minutes in the client's cache.
pub(super) const ROUTER: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];

/// The network between the gateways of all clusters.
#[derive(Debug)]
pub(super) struct Underlay {
    namespace: Namespace,
}

impl Underlay {
    pub(super) async fn create() -> Result<Underlay, NamespaceError> {
        let namespace = Namespace::create("underlay").await?;
        namespace.sysctl(QUIET).await?;
        let gateway = addresses::UNDERLAY_GATEWAY;
        let prefix = addresses::underlay().prefix_len();
        namespace
            .ip(&[
                "link set dev lo up".into(),
                format!("link add name underlay mtu 1500 address {} type bridge", hardware(gateway)),
                format!("address add {gateway}/{prefix} dev underlay"),
                "link set dev underlay up".into(),
            ])
            .await?;
        Ok(Underlay { namespace })
    }
}

/// One cluster's network: its VPC router and the way to plug pods in.
#[derive(Debug)]
pub(super) struct Fabric {
    cluster: Cluster,
    router: Namespace,
    underlay: Arc<Underlay>,
    variant: Variant,
    folder: PathBuf,
    plugged: AtomicU32,
    /// The VPC's static routes that the router has.
    led: watch::Sender<Routes>,
}

/// Where a router leads which range.
pub(super) type Routes = BTreeMap<Ipv4Net, Ipv4Addr>;

/// A pod's network. [`Fabric::unplug`] takes it out at once; dropped, it goes in its own time.
#[derive(Debug)]
pub(super) struct PodNet {
    pub(super) role: Role,
    pub(super) namespace: Namespace,
    /// The pod's own files: its home, its iptables lock.
    pub(super) folder: PathBuf,
    lan_port: String,
    underlay_port: Option<String>,
}

impl PodNet {
    /// The lock of the pod's iptables; see [`nat::LOCK`].
    pub(super) fn lock(&self) -> PathBuf {
        self.folder.join("xtables.lock")
    }
}

impl Fabric {
    /// Builds the cluster's router. Pods get their files below `folder`.
    pub(super) async fn create(
        cluster: Cluster,
        underlay: Arc<Underlay>,
        variant: Variant,
        folder: PathBuf,
    ) -> Result<Fabric, NamespaceError> {
        let router = Namespace::create(&format!("{cluster}'s router")).await?;
        router.sysctl(QUIET).await?;
        router.sysctl(ROUTER).await?;
        let (own, prefix) = (addresses::ROUTER, addresses::lan().prefix_len());
        let server = (cluster.server_global(), Role::Server.lan());
        router
            .ip(&[
                "link set dev lo up".into(),
                format!("link add name lan mtu 1500 address {} type bridge", hardware(own)),
                format!("address add {own}/{prefix} dev lan"),
                "link set dev lan up".into(),
                // What nobody owns must not wander back into a tunnel; and like OVN's the router says of every
                // address there that a packet has lived too long.
                format!("route add {} dev lan", cluster.globalnet()),
                format!("route add {} via {}", server.0, server.1),
            ])
            .await?;
        Ok(Fabric {
            cluster,
            router,
            underlay,
            variant,
            folder,
            plugged: AtomicU32::new(0),
            led: watch::Sender::default(),
        })
    }

    pub(super) fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// The VPC router's namespace, whose routes follow the `Vpc` object.
    pub(super) fn router(&self) -> &Namespace {
        &self.router
    }

    /// The VPC's static routes as the router has them: whoever changes those says so here.
    pub(super) fn led(&self) -> &watch::Sender<Routes> {
        &self.led
    }

    /// Makes a pod's namespace and connects it, as kube-ovn's CNI would.
    pub(super) async fn plug(&self, role: Role) -> Result<PodNet, NamespaceError> {
        let number = self.plugged.fetch_add(1, Ordering::Relaxed);
        let namespace = Namespace::create(&format!("{}'s {}", self.cluster, role.short())).await?;
        let lan_port = format!("{}-{number}", role.short());
        let underlay_port = match role {
            Role::Gateway(_) => Some(format!("{}-{lan_port}", self.cluster.short())),
            Role::Client | Role::Server => None,
        };
        let folder = self.folder.join(&lan_port);
        let made = tokio::fs::create_dir_all(&folder).await;
        made.map_err(|source| NamespaceError::Create { name: lan_port.clone(), source })?;
        let pod = PodNet { role, namespace, folder, lan_port, underlay_port };
        pod.namespace.sysctl(QUIET).await?;
        let end = ("eth0", role.lan());
        let lan = cable(&self.router, "lan", &pod.lan_port, &pod.namespace, end);
        let outside = async {
            match (role, &pod.underlay_port) {
                (Role::Gateway(gateway), Some(port)) => {
                    let end = ("net1", self.cluster.external(gateway));
                    cable(&self.underlay.namespace, "underlay", port, &pod.namespace, end).await
                }
                _ => Ok(()),
            }
        };
        tokio::try_join!(lan, outside)?;
        match role {
            Role::Gateway(gateway) => self.set_up_gateway(&pod, gateway).await?,
            Role::Client | Role::Server => self.set_up_workload(&pod.namespace, role).await?,
        }
        Ok(pod)
    }

    /// Cuts the pod's cables: from now on not even a packet in flight reaches it.
    pub(super) async fn unplug(&self, pod: &PodNet) -> Result<(), NamespaceError> {
        self.router.ip(&[format!("link delete dev {}", pod.lan_port)]).await?;
        if let Some(port) = &pod.underlay_port {
            self.underlay.namespace.ip(&[format!("link delete dev {port}")]).await?;
        }
        // Only the pod's files; the sandbox's folder goes as a whole at the end anyway.
        let _ = tokio::fs::remove_dir_all(&pod.folder).await;
        Ok(())
    }

    /// Has a gateway fall silent as if its node had died, or lets it be heard again. Nobody is told.
    pub(super) async fn mute(&self, pod: &PodNet, silent: bool) -> Result<(), NamespaceError> {
        let state = if silent { "down" } else { "up" };
        let line = |port: &String| [format!("link set dev {port} {state}")];
        self.router.ip(&line(&pod.lan_port)).await?;
        match &pod.underlay_port {
            Some(port) => self.underlay.namespace.ip(&line(port)).await,
            None => Ok(()),
        }
    }

    /// A network on the underlay beside the clusters, which has these addresses. The underlay's gateway leads there.
    pub(super) async fn beside(&self, ranges: &[Ipv4Net]) -> Result<Namespace, NamespaceError> {
        let namespace = Namespace::create("others").await?;
        let (own, prefix) = (addresses::OTHERS, addresses::underlay().prefix_len());
        for namespace in [&namespace, &self.underlay.namespace] {
            namespace.sysctl(QUIET).await?;
            namespace.sysctl(ROUTER).await?;
        }
        cable(&self.underlay.namespace, "underlay", "others", &namespace, ("net1", own)).await?;
        namespace
            .ip(&[
                "link set dev lo up".into(),
                format!("address add {own}/{prefix} dev net1"),
                "link set dev net1 up".into(),
            ])
            .await?;
        let ways: Vec<String> = ranges.iter().map(|range| format!("route add {range} via {own}")).collect();
        self.underlay.namespace.ip(&ways).await?;
        Ok(namespace)
    }

    async fn set_up_workload(&self, pod: &Namespace, role: Role) -> Result<(), NamespaceError> {
        let mut lines = lan_lines(role);
        lines.push(format!("route add default via {}", addresses::ROUTER));
        if role == Role::Server {
            lines.push(format!("address add {}/32 dev lo", self.cluster.server_global()));
        }
        pod.ip(&lines).await
    }

    async fn set_up_gateway(&self, pod: &PodNet, gateway: Gateway) -> Result<(), NamespaceError> {
        let prefix = addresses::underlay().prefix_len();
        let external = self.cluster.external(gateway);
        let floating = self.cluster.floating(gateway);
        let mut lines = lan_lines(Role::Gateway(gateway));
        lines.push(format!("address add {external}/{prefix} dev net1"));
        lines.extend(floating.map(|ip| format!("address add {ip}/{prefix} dev net1")));
        lines.push("link set dev net1 up".into());
        lines.push(format!("route add default via {} dev net1", addresses::UNDERLAY_GATEWAY));
        let lock = pod.lock();
        let (forward, links, chains) = tokio::join!(
            pod.namespace.sysctl(&[("ipv4/ip_forward", "1")]),
            pod.namespace.ip(&lines),
            nat::init(&pod.namespace, self.variant, floating, &lock),
        );
        forward.and(links).and(chains)
    }
}

fn lan_lines(role: Role) -> Vec<String> {
    let (own, prefix) = (role.lan(), addresses::lan().prefix_len());
    vec![
        "link set dev lo up".into(),
        format!("address add {own}/{prefix} dev eth0"),
        "link set dev eth0 up".into(),
    ]
}

/// A hardware address that follows from the IP address, so that neighbours still know a pod that
/// was replaced, and a bridge that gets another port.
pub(super) fn hardware(ip: Ipv4Addr) -> String {
    let [a, b, c, d] = ip.octets();
    format!("0a:58:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Plugs a namespace into a bridge of another.
pub(super) async fn cable(
    switch: &Namespace,
    bridge: &str,
    port: &str,
    pod: &Namespace,
    (end, ip): (&str, Ipv4Addr),
) -> Result<(), NamespaceError> {
    let (pod, address) = (pod.path(), hardware(ip));
    let peer = format!("peer name {end} mtu 1500 address {address} netns {pod}");
    switch
        .ip(&[
            format!("link add name {port} mtu 1500 type veth {peer}"),
            format!("link set dev {port} master {bridge} up"),
        ])
        .await
}
