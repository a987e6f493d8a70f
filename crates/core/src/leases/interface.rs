//! By which of its links a node is reached.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Interface;
use crate::{Cidr, Family};

/// A link that a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSeen {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its largest packet.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Its addresses, with the networks that they stand in.
    pub addresses: Vec<IpNet>,
}

/// Which link is meant.
pub enum Choice<'a> {
    /// That of the default route.
    Default,
    /// That of a name, or with an address.
    Named(&'a str),
    /// The first whose name or address fits.
    Fitting(&'a dyn Fn(&str) -> bool, &'a str),
    /// That by which an address is reached.
    Reaching(IpAddr),
}

/// Where packets go, as the kernel says: by which link, and from which address if it says so.
pub type Way = Option<(u32, Option<IpAddr>)>;

/// Finds the link; or says why there is none. `way` is that of the default route, or to the address that is to be reached.
pub fn choose(
    family: Family,
    choice: &Choice<'_>,
    links: &[LinkSeen],
    way: Way,
) -> Result<Interface, String> {
    let (link, preferred) = match choice {
        Choice::Default => {
            let (index, source) = way.ok_or_else(|| format!("there is no default route of {family}"))?;
            (find(links, index)?, source)
        }
        Choice::Reaching(address) => {
            let (index, source) = way.ok_or_else(|| format!("{address} cannot be reached"))?;
            (find(links, index)?, source)
        }
        Choice::Named(text) => match text.parse::<IpAddr>() {
            Ok(address) => {
                let has = |link: &&LinkSeen| link.addresses.iter().any(|net| net.addr() == address);
                let link = links.iter().find(has);
                (link.ok_or_else(|| format!("no interface has the address {address}"))?, Some(address))
            }
            Err(_) => {
                let link = links.iter().find(|link| link.name == *text);
                (link.ok_or_else(|| format!("there is no interface {text}"))?, None)
            }
        },
        Choice::Fitting(fits, pattern) => {
            let by_name = links.iter().find(|link| fits(&link.name)).map(|link| (link, None));
            let by_address = || {
                let all =
                    links.iter().flat_map(|link| link.addresses.iter().map(move |net| (link, net.addr())));
                let mut of_family = all.filter(|(_, address)| Family::of(*address) == family);
                of_family
                    .find(|(_, address)| fits(&address.to_string()))
                    .map(|(link, address)| (link, Some(address)))
            };
            let found = by_name.or_else(by_address);
            found
                .ok_or_else(|| format!("no interface fits `{pattern}`, by its name or an {family} address"))?
        }
    };
    interface(family, link, preferred)
}

/// The link that is in use, as it is by now: for as long as it is up and has the address that others know, whatever else
/// there is to choose from, and whatever it is called.
pub fn still(known: &Interface, links: &[LinkSeen]) -> Option<Interface> {
    let has = |link: &&LinkSeen| link.up && link.addresses.iter().any(|net| net.addr() == known.address);
    let link = links.iter().find(|link| link.index == known.index && has(link));
    let link = link.or_else(|| links.iter().find(|link| link.name == known.name && has(link)))?;
    interface(Family::of(known.address), link, Some(known.address))
        .ok()
        .filter(|it| it.address == known.address)
}

fn find(links: &[LinkSeen], index: u32) -> Result<&LinkSeen, String> {
    links.iter().find(|link| link.index == index).ok_or_else(|| format!("the interface {index} is gone"))
}

fn interface(family: Family, link: &LinkSeen, preferred: Option<IpAddr>) -> Result<Interface, String> {
    let name = &link.name;
    if !link.up {
        return Err(format!("the interface {name} is down"));
    }
    let mut own: Vec<IpNet> =
        link.addresses.iter().copied().filter(|net| Family::of(net.addr()) == family).collect();
    // Addresses that are good on one link only are the last choice.
    own.sort_by_key(|net| (preferred.is_some_and(|it| it != net.addr()), is_link_local(net.addr())));
    let address = own.first().ok_or_else(|| format!("the interface {name} has no {family} address"))?.addr();
    let near = own.iter().filter(|net| !is_link_local(net.addr())).map(|net| Cidr::containing(*net));
    let neighbours = near.filter(|range| range.prefix() < family.longest()).collect();
    Ok(Interface { index: link.index, name: name.clone(), mtu: link.mtu, address, neighbours })
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
