//! Links, addresses, routes and settings from what `ip -o` says, or from what `observe.sh` makes of it:
//!
//! ```text
//! l demo@net1 <UP,> mtu 1450 group 1129797889\link/ether 02:43:ac:32:10:0b\vxlan id 100 remote 172.50.16.21 local 172.50.16.11 dev net1 dstport 4789\alias causeway:ns1/demo
//! a demo 10.100.0.1/24
//! r 242.1.0.0/16 dev demo proto 157
//! c demo loose on
//! d demo 0
//! ```
//!
//! Words beside those that are read are passed over: versions of `ip` differ in them. Only what the planner
//! compares is read.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_core::names::{HostAddr, Ipv4Cidr};
use causeway_core::vpc::action::LOOSE;
use causeway_core::vpc::{Link, LinkKind, Route};
use ipnet::Ipv4Net;

use super::unreadable;
use crate::Trouble;

/// The protocol that `ip route add` gives by default.
const PROTO_BOOT: u8 = 3;

/// What `ip` says of links and routes.
#[derive(Default)]
pub(super) struct Kernel {
    pub(super) links: BTreeMap<String, Link>,
    pub(super) routes: Vec<Route>,
}

/// One line of a listing.
enum Line<'a> {
    /// `name flags and more`.
    Link(&'a str),
    Address(&'a str, &'a str),
    Route(&'a str),
    Conf(&'a str, Option<&'a str>, Option<&'a str>),
    Delay(&'a str, Option<&'a str>),
    /// About nothing that is read.
    Other,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        let after_name = |rest: &'a str| rest.split_once(' ').map(|(name, rest)| (name, rest.trim_start()));
        match line.split_once(' ') {
            // A complaint, which an exit status goes with if it matters.
            Some(("!", _)) => Self::Other,
            Some(("l", rest)) => Self::Link(rest),
            Some(("r", rest)) => Self::Route(rest),
            Some(("a", rest)) => {
                after_name(rest).map_or(Self::Other, |(name, rest)| Self::Address(name, rest))
            }
            Some(("c", rest)) => after_name(rest).map_or(Self::Other, |(name, rest)| {
                let (filter, proxy) = rest.split_once(' ').unzip();
                Self::Conf(name, filter, proxy)
            }),
            Some(("d", rest)) => {
                after_name(rest).map_or(Self::Other, |(name, rest)| Self::Delay(name, Some(rest)))
            }
            Some(("inet", rest)) if rest.starts_with("arp_cache ") => {
                value(rest, "dev").map_or(Self::Other, |dev| Self::Delay(dev, value(rest, "proxy_delay")))
            }
            Some(("inet", rest)) => after_name(rest).map_or(Self::Other, |(name, rest)| {
                Self::Conf(name, value(rest, "rp_filter"), value(rest, "proxy_neigh"))
            }),
            // `7: demo@net1: <UP> ...`, `7: demo    inet 10.100.0.1/24 ...`.
            Some((number, rest)) if number.ends_with(':') => match after_name(rest) {
                Some((_, more)) if more.starts_with('<') => Self::Link(rest),
                Some((name, more)) => {
                    more.strip_prefix("inet ").map_or(Self::Other, |address| Self::Address(name, address))
                }
                None => Self::Other,
            },
            Some(_) => Self::Route(line),
            None => Self::Other,
        }
    }
}

/// All listings of `ip`.
pub(super) fn kernel(text: &str) -> Result<Kernel, Trouble> {
    let mut settings: BTreeMap<&str, Link> = BTreeMap::new();
    for line in text.lines() {
        match Line::new(line) {
            Line::Conf(name, rp_filter, proxy_arp) => {
                let link = settings.entry(name).or_default();
                link.rp_filter = rp_filter.and_then(filter).ok_or_else(|| unreadable("settings", line))?;
                link.proxy_arp = proxy_arp == Some("on");
            }
            Line::Delay(name, delay) => {
                let delay = delay.and_then(|delay| delay.parse().ok());
                settings.entry(name).or_default().proxy_delay =
                    delay.ok_or_else(|| unreadable("ARP tables", line))?;
            }
            Line::Address(name, address) => settings.entry(name).or_default().addresses.extend(host(address)),
            Line::Link(_) | Line::Route(_) | Line::Other => {}
        }
    }
    let mut kernel = Kernel::default();
    for line in text.lines() {
        match Line::new(line) {
            Line::Link(text) => {
                let (name, link) = link(text, &mut settings).ok_or_else(|| unreadable("links", line))?;
                kernel.links.insert(name, link);
            }
            Line::Route(text) => kernel.routes.extend(route(text)?),
            Line::Conf(..) | Line::Delay(..) | Line::Address(..) | Line::Other => {}
        }
    }
    Ok(kernel)
}

fn filter(word: &str) -> Option<u8> {
    match word {
        "off" => Some(0),
        "strict" => Some(1),
        "loose" => Some(LOOSE),
        _ => None,
    }
}

/// `10.100.0.1/24`, or `10.100.0.1 peer 10.100.0.2/24`, and more.
fn host(text: &str) -> Option<HostAddr> {
    let address = text.split(' ').next()?;
    let with_prefix = value(text, "peer").unwrap_or(address);
    let address = address.split('/').next()?.parse().ok()?;
    let prefix = with_prefix.split_once('/').map_or(Some(32), |(_, prefix)| prefix.parse().ok())?;
    Ipv4Net::new(address, prefix).ok().map(HostAddr::new)
}

/// A link by its name, with what else was said of it.
fn link(line: &str, settings: &mut BTreeMap<&str, Link>) -> Option<(String, Link)> {
    let mut lines = line.split('\\');
    let head = lines.next()?;
    let (name, rest) = head.split_once(' ')?;
    let name = name_of(name.trim_end_matches(':'), settings);
    let flags = rest.strip_prefix('<')?.split_once('>')?.0;
    let has = |flag: &str| flags.split(',').any(|f| f == flag);
    let mut link = settings.remove(name).unwrap_or_default();
    link.group = value(rest, "group")?.parse().ok()?;
    (link.up, link.arp_off) = (has("UP"), has("NOARP"));
    link.mtu = value(rest, "mtu").and_then(|mtu| mtu.parse().ok()).unwrap_or_default();
    for line in lines.map(str::trim_start) {
        if let Some(alias) = line.strip_prefix("alias ") {
            link.alias = Some(alias.into());
            // It comes last, and may hold anything.
            break;
        }
        link.mac = link.mac.or_else(|| line.strip_prefix("link/")?.split(' ').nth(1)?.parse().ok());
        link.kind = link.kind.or_else(|| kind(line));
    }
    Some((name.into(), link))
}

/// Behind the name of a link may stand the one below it. Both may have an `@` in them, so what else was listed
/// tells where the name ends.
fn name_of<'a>(text: &'a str, settings: &BTreeMap<&str, Link>) -> &'a str {
    let shorter = text.rmatch_indices('@').map(|(at, _)| &text[..at]);
    let mut names = std::iter::once(text).chain(shorter);
    names.find(|name| settings.contains_key(name)).or_else(|| Some(text.rsplit_once('@')?.0)).unwrap_or(text)
}

/// The word after a word.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split(' ').skip_while(|word| *word != key).nth(1)
}

/// The parameters of a link of a kind that we make.
fn kind(text: &str) -> Option<LinkKind> {
    let (kind, data) = text.split_once(' ').unwrap_or((text, ""));
    let address =
        |key: &str| value(data, key)?.parse::<Ipv4Addr>().ok().filter(|address| !address.is_unspecified());
    let (local, remote) = (address("local"), address("remote"));
    match kind {
        "vxlan" => {
            let (vni, port) = (value(data, "id")?.parse().ok()?, value(data, "dstport")?.parse().ok()?);
            let (dev, odd) = (value(data, "dev").map(Into::into), is_odd(data));
            Some(LinkKind::Vxlan { vni, port, local, remote, dev, odd })
        }
        "gre" => {
            // A word stands for none.
            let ttl = value(data, "ttl").and_then(|ttl| ttl.parse().ok()).unwrap_or(0);
            let keyed = ["ikey", "okey", "key"].iter().any(|key| value(data, key).is_some());
            Some(LinkKind::Gre { local, remote, ttl, keyed })
        }
        _ => None,
    }
}

/// Whether a VXLAN has parameters that ours never have.
fn is_odd(data: &str) -> bool {
    let odd_words = ["nolearning", "proxy", "rsc", "l2miss", "l3miss", "tos"];
    let has_ttl = value(data, "ttl").is_some_and(|ttl| ttl != "auto" && ttl != "0");
    let ages = value(data, "ageing").is_some_and(|age| age != "300");
    has_ttl || ages || data.split(' ').any(|word| odd_words.contains(&word))
}

/// A route of the main table. One for a type of service is none that ours could stand in the way of.
fn route(line: &str) -> Result<Option<Route>, Trouble> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    // A type may stand before the destination.
    let range = words.iter().take(2).find_map(|word| match *word {
        "default" => "0.0.0.0/0".parse::<Ipv4Cidr>().ok(),
        word => word.parse().ok().filter(|_| word.contains('.')),
    });
    let range = range.ok_or_else(|| unreadable("routes", line))?;
    // What follows belongs to one of several next hops.
    let own = words.split(|word| word.starts_with('\\')).next().unwrap_or_default();
    let value = |key: &str| own.iter().skip_while(|word| **word != key).nth(1).copied();
    if value("tos").is_some() {
        return Ok(None);
    }
    Ok(Some(Route {
        range,
        via: value("via").and_then(|via| via.parse().ok()),
        dev: value("dev").map(Into::into),
        // A name where a number was asked for is none of ours.
        protocol: value("proto").map_or(PROTO_BOOT, |protocol| protocol.parse().unwrap_or(0)),
        metric: value("metric").and_then(|metric| metric.parse().ok()).unwrap_or(0),
    }))
}
