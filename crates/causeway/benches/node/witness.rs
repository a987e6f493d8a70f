//! Sees what a kernel holds, without the agent.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use causeway_core::Family;
use causeway_core::leases::kernel::Held;
use causeway_core::leases::{Have, Mac, Owner, Plan, Step};
use causeway_datapath::leases::Kernel;
use causeway_datapath::netlink::Netlink;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::addresses;
use crate::namespace::Namespace;

const FAMILY: Family = Family::V4;
/// How often it looks.
const EVERY: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(60);

/// Conversations of our own with the kernel of a namespace.
pub(crate) struct Witness {
    kernel: Kernel,
    netlink: Netlink,
}

impl Witness {
    /// Of that namespace, from wherever it is asked.
    pub(crate) fn in_namespace(namespace: &Namespace) -> anyhow::Result<Witness> {
        let open = || Ok(Witness { kernel: Kernel::open()?, netlink: Netlink::open()? });
        namespace.thread(open)?.join().map_err(|_| anyhow!("a thread panicked"))?
    }

    /// Waits until packets to the pods of each of these nodes have a way, one node after another.
    pub(crate) fn until_reached(&mut self, nodes: impl IntoIterator<Item = u32>) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for node in nodes {
            while self.kernel.way_to(addresses::pod(node))?.is_none() {
                patience(deadline).with_context(|| format!("there is no way to the pods of node {node}"))?;
            }
        }
        Ok(())
    }

    /// Waits until the kernel knows who is at a far end of a link.
    pub(crate) fn until_neighbour(&mut self, link: u32, address: IpAddr) -> anyhow::Result<()> {
        let mut message = NeighbourMessage::default();
        (message.header.family, message.header.ifindex) = (AddressFamily::Inet, link);
        let IpAddr::V4(address) = address else { bail!("{address} is not of IPv4") };
        message.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet(address)));
        self.until_known(message)
    }

    /// Waits until the kernel knows at which node a far end of a link is.
    pub(crate) fn until_fdb(&mut self, link: u32, end: Mac) -> anyhow::Result<()> {
        let mut message = NeighbourMessage::default();
        (message.header.family, message.header.ifindex) = (AddressFamily::Bridge, link);
        message.header.flags = NeighbourFlags::Own;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(end.0.to_vec()));
        self.until_known(message)
    }

    fn until_known(&mut self, message: NeighbourMessage) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.netlink.get(RouteNetlinkMessage::GetNeighbour(message.clone()))?.is_none() {
            patience(deadline)?;
        }
        Ok(())
    }

    /// What the kernel holds, and the link of that name.
    pub(crate) fn holds(&mut self, link: Option<&str>) -> anyhow::Result<Have> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.kernel.observe(FAMILY, link) {
                // It changed meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                seen => return seen.context("listing what the kernel holds"),
            }
            patience(deadline)?;
        }
    }

    /// Lists until it is as it should be.
    pub(crate) fn until(
        &mut self,
        link: Option<&str>,
        is_right: impl Fn(&Have) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_right(&self.holds(link)?) {
            patience(deadline)?;
        }
        Ok(())
    }

    /// Does harm.
    pub(crate) fn change(&mut self, steps: Vec<Step>, have: &Have) -> anyhow::Result<()> {
        let plan = Plan { steps, contested: Vec::new() };
        match self.kernel.apply(FAMILY, &plan, have)?.first() {
            Some(failure) => bail!("{}: {}", failure.step, failure.error),
            None => Ok(()),
        }
    }
}

/// Until the next look, if there is one.
fn patience(deadline: Instant) -> anyhow::Result<()> {
    ensure!(Instant::now() < deadline, "it was waited for long enough");
    std::thread::sleep(EVERY);
    Ok(())
}

/// The steps that delete routes of ours; so many, from there on.
pub(crate) fn deletions(have: &Have, first: usize, count: usize) -> Vec<Step> {
    let all = have.routes.iter().flat_map(|(range, held)| held.iter().map(move |held| (range, held)));
    let ours = all.filter(|(_, held): &(_, &Held)| held.owner == Owner::Ours);
    ours.skip(first).take(count).map(|(range, held)| Step::DropRoute(*range, held.clone())).collect()
}

/// How many routes are ours.
pub(crate) fn ours(have: &Have) -> usize {
    have.routes.values().flatten().filter(|held| held.owner == Owner::Ours).count()
}
