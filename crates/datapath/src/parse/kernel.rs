//! Links, addresses, routes and ARP tables from `ip -j`, settings from `/proc`.
//!
//! Versions differ: a filtered entry may be an empty object, a number may be text under `-N`, a field that
//! has its default may be left out. Only what the planner compares is read.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_core::names::{Cidr, HostAddr};
use causeway_core::vpc::{Link, LinkKind, Route};
use ipnet::Ipv4Net;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::unreadable;
use crate::Trouble;

type Links = BTreeMap<String, Link>;

/// The protocol that `ip route add` gives by default, and does not print.
const PROTO_BOOT: u8 = 3;

/// A number, or what stands for one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

impl Number {
    /// The value; none where a word stands for it.
    fn value(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            },
        }
    }
}

#[derive(Debug, Deserialize)]
struct RawLink {
    ifname: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    group: Option<Number>,
    ifalias: Option<String>,
    linkinfo: Option<RawInfo>,
}

#[derive(Debug, Deserialize)]
struct RawInfo {
    info_kind: Option<String>,
    info_data: Option<RawTunnel>,
}

#[derive(Debug, Deserialize)]
struct RawTunnel {
    id: Option<u32>,
    port: Option<u16>,
    local: Option<String>,
    remote: Option<String>,
    link: Option<String>,
    ttl: Option<Number>,
    ikey: Option<serde_json::Value>,
    okey: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct RawAddresses {
    ifname: Option<String>,
    #[serde(default)]
    addr_info: Vec<RawAddress>,
}

#[derive(Debug, Deserialize)]
struct RawAddress {
    family: Option<String>,
    local: Option<Ipv4Addr>,
    prefixlen: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct RawRoute {
    dst: Option<String>,
    gateway: Option<String>,
    dev: Option<String>,
    protocol: Option<Number>,
    metric: Option<u32>,
    tos: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct RawTable {
    dev: Option<String>,
    proxy_delay: Option<u64>,
}

/// The entries of a listing; a tool with nothing to list may print nothing at all.
fn entries<T: DeserializeOwned>(what: &'static str, json: &str) -> Result<Vec<T>, Trouble> {
    if json.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(json).map_err(|error| unreadable(what, error))
}

/// All links, still without addresses and settings.
pub(super) fn links(json: &str) -> Result<Links, Trouble> {
    let raw: Vec<RawLink> = entries("links", json)?;
    let named = raw.into_iter().filter_map(|mut link| Some((link.ifname.take()?, link)));
    Ok(named.map(|(name, link)| (name, self::link(link))).collect())
}

fn link(raw: RawLink) -> Link {
    let has = |flag: &str| raw.flags.iter().any(|f| f == flag);
    Link {
        group: raw.group.as_ref().and_then(Number::value).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        up: has("UP"),
        arp_off: has("NOARP"),
        alias: raw.ifalias,
        kind: raw.linkinfo.and_then(kind),
        ..Link::default()
    }
}

/// The parameters of a link of a kind that we make.
fn kind(info: RawInfo) -> Option<LinkKind> {
    let data = info.info_data;
    let address =
        |text: &Option<String>| text.as_ref()?.parse::<Ipv4Addr>().ok().filter(|a| !a.is_unspecified());
    let local = data.as_ref().and_then(|d| address(&d.local));
    let remote = data.as_ref().and_then(|d| address(&d.remote));
    match info.info_kind?.as_str() {
        "vxlan" => {
            let data = data?;
            Some(LinkKind::Vxlan { vni: data.id?, port: data.port?, local, remote, dev: data.link })
        }
        "gre" => {
            let ttl = data.as_ref().and_then(|d| d.ttl.as_ref()?.value()).and_then(|n| u8::try_from(n).ok());
            let keyed = data.as_ref().is_some_and(|d| d.ikey.is_some() || d.okey.is_some());
            Some(LinkKind::Gre { local, remote, ttl: ttl.unwrap_or(0), keyed })
        }
        _ => None,
    }
}

/// Puts addresses on their links.
pub(super) fn addresses(json: &str, links: &mut Links) -> Result<(), Trouble> {
    for raw in entries::<RawAddresses>("addresses", json)? {
        let Some(link) = raw.ifname.and_then(|name| links.get_mut(&name)) else { continue };
        let of_v4 = raw.addr_info.iter().filter(|a| a.family.as_deref().is_none_or(|f| f == "inet"));
        let nets = of_v4.filter_map(|a| Ipv4Net::new(a.local?, a.prefixlen?).ok());
        link.addresses = nets.map(HostAddr::new).collect();
    }
    Ok(())
}

/// Puts the delay before proxied ARP answers on their links.
pub(super) fn neighbours(json: &str, links: &mut Links) -> Result<(), Trouble> {
    for raw in entries::<RawTable>("ARP tables", json)? {
        if let Some(link) = raw.dev.and_then(|name| links.get_mut(&name)) {
            let delay = raw.proxy_delay.unwrap_or(0);
            link.proxy_delay = u32::try_from(delay).unwrap_or(u32::MAX);
        }
    }
    Ok(())
}

/// Puts `proxy_arp`, `rp_filter` and `promote_secondaries` on their links: each line is a name and the values.
pub(super) fn sysctls(text: &str, links: &mut Links) {
    for line in text.lines() {
        let mut words = line.split(' ');
        let Some(link) = words.next().and_then(|name| links.get_mut(name)) else { continue };
        let mut value = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0_u8);
        link.proxy_arp = value() != 0;
        link.rp_filter = value();
        link.promotes = value() != 0;
    }
}

/// The routes of the main table. One for a type of service is none that ours could stand in the way of.
pub(super) fn routes(json: &str) -> Result<Vec<Route>, Trouble> {
    let raw: Vec<RawRoute> = entries("routes", json)?;
    raw.into_iter().filter(|route| route.dst.is_some() && route.tos.is_none()).map(route).collect()
}

fn route(raw: RawRoute) -> Result<Route, Trouble> {
    let dst = raw.dst.unwrap_or_default();
    let range: Cidr = match dst.as_str() {
        "default" => "0.0.0.0/0".parse(),
        dst => dst.parse(),
    }
    .map_err(|error| unreadable("routes", error))?;
    let protocol = raw.protocol.map_or(Some(u64::from(PROTO_BOOT)), |protocol| protocol.value());
    Ok(Route {
        range,
        via: raw.gateway.and_then(|via| via.parse().ok()),
        dev: raw.dev,
        // A name where a number was asked for is none of ours.
        protocol: protocol.and_then(|n| u8::try_from(n).ok()).unwrap_or(0),
        metric: raw.metric.unwrap_or(0),
    })
}
