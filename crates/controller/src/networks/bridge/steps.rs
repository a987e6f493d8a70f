//! Looks and steps, in the network namespace that this thread is in.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use causeway_core::Cidr;
use causeway_core::networks::mark::is_taken;
use causeway_core::networks::plan::SubnetChange;
use causeway_core::networks::{Held, HeldSubnet, Home, Look, NetworkSpec, Seen, Step, Trouble};
use causeway_datapath::netlink::is_absent;
use causeway_datapath::networks::mark::{Group, alias, is_plain, link_name};
use causeway_datapath::networks::table::{self, translated};
use causeway_datapath::networks::{Bridge, Kernel, Links, settings};
use ipnet::IpNet;

use super::held::{self, Flaws};
use crate::local::Here;

/// The word in the alias of a bridge by which the machine's owner lets it be taken over. Whoever may declare networks could
/// otherwise have any bridge, and with it whatever runs on it.
const ADOPTABLE: &str = "causeway-adoptable";
/// So many names of ports say enough.
const FEW: usize = 5;

pub(super) struct Site {
    pub(super) kernel: Kernel,
    pub(super) nat: bool,
    pub(super) within: Vec<Cidr>,
}

impl Site {
    pub(super) async fn look(&mut self, home: &Home, look: &Look) -> Result<Vec<Held>, Trouble> {
        let links = self.links()?;
        let flaws = flaws(&links).await?;
        Ok(held::found(home, look, &links, self.nat, &flaws))
    }

    pub(super) async fn apply(&mut self, step: &Step) -> Result<Seen, Trouble> {
        match step {
            Step::CreateNetwork { uid, name, description } => self.create(uid, name, description).await,
            Step::TagNetwork { id, tags } => self.tag(id, tags).await,
            Step::ChangeNetwork { id, name, description, .. } => {
                self.change(id, name.as_deref(), description.as_deref()).await
            }
            Step::Repair { id, .. } => self.repair(id).await,
            Step::CreateSubnet { network, spec, .. } => self.create_subnet(network, *spec).await,
            // A subnet has its bridge's tags and no others: that they were asked for is all that there is to it.
            Step::TagSubnet { network, id, tags } => {
                Ok(Seen::SubnetTags(network.clone(), id.clone(), tags.clone()))
            }
            Step::ChangeSubnet { network, id, change, .. } => self.change_subnet(network, id, change).await,
            Step::DeleteSubnet { network, id, .. } => self.delete_subnet(network, id).await,
            Step::DeleteNetwork { id, .. } => self.delete(id).await,
        }
    }

    async fn create(&mut self, uid: &str, name: &str, first_mark: &str) -> Result<Seen, Trouble> {
        let id = link_name(uid);
        let group = Group::new(first_mark, self.nat);
        match self.kernel.create(&id, group) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let links = self.links()?;
                let is_ours = links.bridges.get(&id).is_some_and(Bridge::is_ours);
                return Err(match is_ours {
                    true => Trouble::Stale(format!("bridge {id} is there already")),
                    false => Trouble::Refused(format!(
                        "a link named {id} is there, and it is not Causeway's: delete or rename it"
                    )),
                });
            }
            made => made.map_err(|error| trouble(&id, &error))?,
        }
        settings::of_bridge(&id);
        self.settle().await?;
        let (name, description) = (Some(name.to_owned()), first_mark.to_owned());
        Ok(Seen::Network(Held { id, name, description, ..Held::default() }))
    }

    /// Marks a bridge, or lets it go.
    async fn tag(&mut self, id: &str, tags: &BTreeSet<String>) -> Result<Seen, Trouble> {
        let bridge = self.bridge(id)?;
        let alias = alias(tags)
            .ok_or_else(|| Trouble::Refused(format!("the tags of bridge {id} do not fit into its alias")))?;
        if is_taken(tags) && !is_plain(id) {
            let why = "letters, digits and -_.: make a name that rules can be written about";
            return Err(Trouble::Refused(format!("bridge {id}: {why}; rename it")));
        }
        if is_taken(tags) && !bridge.is_ours() && !tags.contains(ADOPTABLE) {
            return Err(Trouble::Refused(format!(
                "bridge {id} is the machine's, and nobody gave it away: ip link set dev {id} alias {ADOPTABLE}"
            )));
        }
        let wanted = Bridge { tags: tags.clone(), ..bridge.clone() };
        let group = match held::group(&wanted, self.nat) {
            Some(group) => group,
            None if is_taken(tags) => bridge.group,
            None => Group::NONE,
        };
        self.kernel.mark(bridge.index, group, Some(&alias)).map_err(|error| trouble(id, &error))?;
        self.settle().await?;
        Ok(Seen::NetworkTags(id.to_owned(), self.bridge(id)?.tags))
    }

    /// A bridge has no name for people, and of descriptions only the first mark, which is its group: that can be taken away.
    async fn change(
        &mut self,
        id: &str,
        name: Option<&str>,
        description: Option<&str>,
    ) -> Result<Seen, Trouble> {
        let bridge = self.bridge(id)?;
        if description == Some("") && bridge.group.is_ours() {
            self.kernel.mark(bridge.index, Group::NONE, None).map_err(|error| trouble(id, &error))?;
            self.settle().await?;
        }
        let name = name.map(Into::into);
        Ok(Seen::Network(Held { name, ..held::plain(id, &bridge) }))
    }

    async fn repair(&mut self, id: &str) -> Result<Seen, Trouble> {
        let bridge = self.ours(id)?;
        let group = held::group(&bridge, self.nat).unwrap_or(bridge.group);
        if bridge.group != group {
            self.kernel.mark(bridge.index, group, None).map_err(|error| trouble(id, &error))?;
        }
        if !(bridge.up && bridge.plain) {
            self.kernel.put_in_order(bridge.index).map_err(|error| trouble(id, &error))?;
        }
        settings::of_bridge(id);
        let links = self.settle().await?;
        let bridge = find(&links, id)?;
        match held::broken(id, &links, self.nat, &flaws(&links).await?) {
            Some(broken) => Err(Trouble::Refused(format!("bridge {id} does not stay in order: {broken}"))),
            None => Ok(Seen::Network(held::plain(id, bridge))),
        }
    }

    async fn create_subnet(&mut self, id: &str, spec: NetworkSpec) -> Result<Seen, Trouble> {
        if !self.within.iter().any(|within| within.covers(spec.cidr)) {
            let within: Vec<String> = self.within.iter().map(Cidr::to_string).collect();
            return Err(Trouble::Refused(format!(
                "range {} is not one that networks of this machine may have: {}; --bridge-within says which",
                spec.cidr,
                within.join(", ")
            )));
        }
        let links = self.links()?;
        let bridge = self.ours(id)?;
        if let Some((link, range)) = links.overlap(spec.cidr, bridge.index) {
            let link = self.kernel.name_of(link).ok().flatten().unwrap_or_else(|| link.to_string());
            return Err(Trouble::Refused(format!(
                "range {} shares addresses with {range} on link {link}, and a machine has one way to each address",
                spec.cidr
            )));
        }
        let route =
            self.kernel.route_elsewhere(spec.cidr, bridge.index).map_err(|error| trouble(id, &error))?;
        if let Some(route) = route {
            return Err(Trouble::Refused(format!(
                "range {} shares addresses with {route}, which this machine has a route to",
                spec.cidr
            )));
        }
        let put = address(spec.gateway, spec.cidr)?;
        self.announce(id, put).await?;
        self.kernel.move_address(bridge.index, Some(put), &[]).map_err(|error| trouble(id, &error))?;
        self.seen_subnet(id, spec.cidr).await
    }

    async fn change_subnet(
        &mut self,
        id: &str,
        subnet: &str,
        change: &SubnetChange,
    ) -> Result<Seen, Trouble> {
        let (bridge, range) = self.subnet(id, subnet)?;
        let Some(gateway) = change.gateway else {
            // It has no name, and no description but its bridge's.
            return Ok(Seen::Subnet(id.to_owned(), subnet.to_owned(), held::subnet(&bridge, range)));
        };
        let put = address(gateway, range)?;
        let drop: Vec<IpNet> = bridge.addresses_of(range).filter(|address| *address != put).collect();
        settings::of_bridge(id);
        self.announce(id, put).await?;
        self.kernel.move_address(bridge.index, Some(put), &drop).map_err(|error| trouble(id, &error))?;
        self.seen_subnet(id, range).await
    }

    async fn delete_subnet(&mut self, id: &str, subnet: &str) -> Result<Seen, Trouble> {
        let (bridge, range) = self.subnet(id, subnet)?;
        let drop: Vec<IpNet> = bridge.addresses_of(range).collect();
        self.kernel.move_address(bridge.index, None, &drop).map_err(|error| trouble(id, &error))?;
        self.settle().await?;
        Ok(Seen::SubnetGone(id.to_owned(), subnet.to_owned()))
    }

    async fn delete(&mut self, id: &str) -> Result<Seen, Trouble> {
        let bridge = self.ours(id)?;
        let ports = self.kernel.ports(bridge.index).map_err(|error| trouble(id, &error))?;
        if !ports.is_empty() {
            let more = ports.len().saturating_sub(FEW);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let few = ports[..ports.len().min(FEW)].join(", ");
            return Err(Trouble::InUse(format!("attached to bridge {id}: {few}{more}")));
        }
        // First the rules: were it the other way round, a crash after the last bridge would leave them for ever.
        let mut links = self.links()?;
        links.bridges.remove(id);
        keep(&links).await?;
        self.kernel.delete(bridge.index).map_err(|error| trouble(id, &error))?;
        Ok(Seen::Gone(id.to_owned()))
    }

    /// Has the rules know an address before it is there: else others could reach it until they do.
    async fn announce(&mut self, id: &str, address: IpNet) -> Result<(), Trouble> {
        let mut links = self.links()?;
        if let Some(bridge) = links.bridges.get_mut(id) {
            bridge.addresses.insert(address);
        }
        keep(&links).await
    }

    /// Writes the rules that follow from what there is now.
    async fn settle(&mut self) -> Result<Links, Trouble> {
        let links = self.links()?;
        keep(&links).await?;
        Ok(links)
    }

    /// A subnet as it is, once the rules know it.
    async fn seen_subnet(&mut self, id: &str, range: Cidr) -> Result<Seen, Trouble> {
        let links = self.settle().await?;
        let subnet: HeldSubnet = held::subnet(find(&links, id)?, range);
        Ok(Seen::Subnet(id.to_owned(), range.to_string(), subnet))
    }

    fn links(&mut self) -> Result<Links, Trouble> {
        self.kernel.observe().map_err(|error| trouble("links", &error))
    }

    fn bridge(&mut self, id: &str) -> Result<Bridge, Trouble> {
        find(&self.links()?, id).cloned()
    }

    /// Only marked things are changed.
    fn ours(&mut self, id: &str) -> Result<Bridge, Trouble> {
        let bridge = self.bridge(id)?;
        match bridge.is_ours() {
            true => Ok(bridge),
            false => Err(Trouble::Stale(format!("bridge {id} is not Causeway's any more"))),
        }
    }

    fn subnet(&mut self, id: &str, subnet: &str) -> Result<(Bridge, Cidr), Trouble> {
        let bridge = self.ours(id)?;
        let range = bridge.ranges().into_iter().find(|range| range.to_string() == subnet);
        let missing = || Trouble::Missing(format!("bridge {id} has no address in {subnet}"));
        range.map(|range| (bridge, range)).ok_or_else(missing)
    }
}

fn find<'a>(links: &'a Links, id: &str) -> Result<&'a Bridge, Trouble> {
    links.bridges.get(id).ok_or_else(|| Trouble::Missing(format!("there is no bridge {id}")))
}

fn address(address: IpAddr, range: Cidr) -> Result<IpNet, Trouble> {
    IpNet::new(address, range.prefix()).map_err(|error| Trouble::Refused(error.to_string()))
}

/// What is wrong with what bridges share. Without any of ours nothing is asked for.
async fn flaws(links: &Links) -> Result<Flaws, Trouble> {
    if links.ours().next().is_none() {
        return Ok(Flaws::default());
    }
    let have = table::look(&Here).await.map_err(of_rules)?;
    let forwarding = translated(links).filter(|family| !settings::forwards(*family)).collect();
    Ok(Flaws { rules: table::wrong(links, have.as_ref()), forwarding })
}

/// Has the rules be what these links need, and packets forwarded where that is wanted.
async fn keep(links: &Links) -> Result<(), Trouble> {
    if table::keep(&Here, links).await.map_err(of_rules)? {
        let bridges = links.ours().count();
        tracing::info!(table = table::TABLE, bridges, "the rules that keep networks apart were written");
    }
    for family in translated(links).filter(|family| !settings::forwards(*family)).collect::<Vec<_>>() {
        let setting = settings::forwarding(family);
        settings::forward(family).map_err(|error| trouble(setting, &error))?;
        tracing::info!(setting, "switched on, so that hosts of networks reach what is outside");
    }
    Ok(())
}

fn of_rules(trouble: table::Trouble) -> Trouble {
    match trouble {
        table::Trouble::Missing(_) => Trouble::Refused(trouble.to_string()),
        table::Trouble::Forbidden(_) => Trouble::Forbidden(format!("{trouble}; {NO_RIGHT}")),
        table::Trouble::Unknown(_) => Trouble::unreachable(trouble.to_string()),
    }
}

const NO_RIGHT: &str = "to change the network this process needs CAP_NET_ADMIN";

fn trouble(what: &str, error: &io::Error) -> Trouble {
    let why = format!("{what}: {error}");
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Trouble::Forbidden(format!("{why}; {NO_RIGHT}"))
        }
        _ if is_absent(error) => Trouble::Missing(why),
        // Of a conversation that broke off it is not known how far it got.
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
            Trouble::unreachable(why)
        }
        _ if error.raw_os_error().is_none() => Trouble::unreachable(why),
        _ => Trouble::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_kernel_says_what_follows_from_it() {
        // EPERM, EROFS, ENODEV, EINVAL, EAGAIN.
        for (code, reason) in
            [(1, "Forbidden"), (30, "Forbidden"), (19, "Missing"), (22, "Refused"), (11, "CloudUnreachable")]
        {
            let trouble = trouble("cw1", &io::Error::from_raw_os_error(code));
            assert_eq!(trouble.reason(), reason, "{trouble}");
            assert_eq!(trouble.to_string().contains("CAP_NET_ADMIN"), reason == "Forbidden", "{trouble}");
        }
        let odd = trouble("links", &io::ErrorKind::InvalidData.into());
        assert_eq!(odd.reason(), "CloudUnreachable");
    }
}
