//! From where to where a subnet gives out addresses: its gateway's is not among them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Cidr, Family};

/// A first and a last address.
pub type Pool = (IpAddr, IpAddr);

/// All addresses that hosts can have, without the gateway's.
pub fn all_but(cidr: Cidr, gateway: IpAddr) -> Vec<Pool> {
    let last = match cidr.family() {
        Family::V4 => before(cidr.last()),
        Family::V6 => Some(cidr.last()),
    };
    let whole = last.map(|last| (cidr.second(), last));
    without(&whole.into_iter().collect::<Vec<_>>(), gateway)
}

/// These without one address.
pub fn without(pools: &[Pool], address: IpAddr) -> Vec<Pool> {
    let mut rest = Vec::new();
    for (first, last) in pools {
        if address < *first || address > *last {
            rest.push((*first, *last));
            continue;
        }
        rest.extend(before(address).filter(|end| end >= first).map(|end| (*first, end)));
        rest.extend(after(address).filter(|start| start <= last).map(|start| (start, *last)));
    }
    rest
}

/// The pools that a subnet should have when its gateway moves: what somebody has set aside stays so.
pub fn moved(cidr: Cidr, known: &[Pool], from: Option<IpAddr>, to: IpAddr) -> Vec<Pool> {
    let is_default = from.is_some_and(|from| all_but(cidr, from) == known);
    if is_default { all_but(cidr, to) } else { without(known, to) }
}

fn before(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => u32::from(it).checked_sub(1).map(|it| Ipv4Addr::from(it).into()),
        IpAddr::V6(it) => u128::from(it).checked_sub(1).map(|it| Ipv6Addr::from(it).into()),
    }
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => u32::from(it).checked_add(1).map(|it| Ipv4Addr::from(it).into()),
        IpAddr::V6(it) => u128::from(it).checked_add(1).map(|it| Ipv6Addr::from(it).into()),
    }
}
