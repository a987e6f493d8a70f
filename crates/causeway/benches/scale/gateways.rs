//! Real gateways: network namespaces with a gateway's links, addresses and NAT chains.

use std::path::Path;

use anyhow::bail;

use crate::far;
use crate::namespace::Namespace;
use crate::shape::{self, ROUTER};

/// All gateways; they vanish with this value.
pub(crate) struct Gateways {
    all: Vec<Namespace>,
    /// What each reaches outside.
    far: Vec<Namespace>,
    /// And what lies behind that.
    _vpcs: Vec<Namespace>,
    folder: tempfile::TempDir,
}

/// What the kernels hold of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Held {
    links: usize,
    routes: usize,
    rules: usize,
}

impl Held {
    /// What so many tunnels need.
    pub(crate) fn of(tunnels: usize) -> Held {
        Held { links: tunnels, routes: tunnels, rules: tunnels }
    }
}

impl Gateways {
    /// Makes them, as kube-ovn leaves a gateway: two links, addresses, a way out, empty chains.
    pub(crate) fn create(count: usize) -> anyhow::Result<Gateways> {
        let folder = tempfile::tempdir()?;
        let make = |number| {
            let namespace = Namespace::create(folder.path())?;
            namespace.sh(&set_up(number))?;
            Ok(namespace)
        };
        let all: Vec<Namespace> = (1..=count).map(make).collect::<anyhow::Result<_>>()?;
        let (mut far, mut vpcs) = (Vec::new(), Vec::new());
        for gateway in &all {
            let create = || Namespace::create(folder.path());
            let [other, vpc] = far::behind(gateway, create()?, create()?)?;
            far.push(other);
            vpcs.push(vpc);
        }
        Ok(Gateways { all, far, _vpcs: vpcs, folder })
    }

    /// A gateway, counted from 1.
    pub(crate) fn get(&self, number: usize) -> Option<&Namespace> {
        self.all.get(number.checked_sub(1)?)
    }

    pub(crate) fn all(&self) -> &[Namespace] {
        &self.all
    }

    /// What lies outside of each.
    pub(crate) fn far(&self) -> &[Namespace] {
        &self.far
    }

    /// Counts what is in the kernels.
    pub(crate) fn held(&self) -> anyhow::Result<Held> {
        let mut held = Held::of(0);
        for gateway in &self.all {
            let text = gateway.sh(
                "ip -o link show type vxlan | wc -l; ip -4 route show | grep -c 'dev t.*proto 157'
                 { iptables-legacy -t nat -S POSTROUTING; iptables-nft -t nat -S POSTROUTING; } \
                 2>/dev/null | grep -c causeway: ; true",
            )?;
            let counts: Vec<usize> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [links, routes, rules] = counts[..] else { bail!("three counts, not {text:?}") };
            held.links += links;
            held.routes += routes;
            held.rules += rules;
        }
        Ok(held)
    }

    /// A place that lives as long as the gateways.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// kube-ovn uses legacy iptables where it works, and so does this.
fn set_up(number: usize) -> String {
    let (lan, external) = (shape::lan(number), shape::external(number));
    format!(
        "set -e
        ip -batch - <<END
link set dev lo up
link add name eth0 type veth peer name eth0-far
link add name net1 type veth peer name net1-far
address add {lan}/24 dev eth0
address add {external}/16 dev net1
link set dev eth0 up
link set dev eth0-far up
link set dev net1 up
route add default via {ROUTER} dev net1
END
        echo 1 >/proc/sys/net/ipv4/ip_forward
        kind=nft
        iptables-legacy -t nat -S INPUT 1 >/dev/null 2>&1 && kind=legacy
        iptables-$kind-restore --noflush <<END
*nat
:DNAT_FILTER - [0:0]
:EXCLUSIVE_DNAT - [0:0]
:SHARED_DNAT - [0:0]
-A PREROUTING -j DNAT_FILTER
-A DNAT_FILTER -j EXCLUSIVE_DNAT
-A DNAT_FILTER -j SHARED_DNAT
:SNAT_FILTER - [0:0]
:EXCLUSIVE_SNAT - [0:0]
:SHARED_SNAT - [0:0]
-A POSTROUTING -j SNAT_FILTER
-A SNAT_FILTER -j EXCLUSIVE_SNAT
-A SNAT_FILTER -j SHARED_SNAT
COMMIT
END
"
    )
}
