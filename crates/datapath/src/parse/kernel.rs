//! Links, addresses, routes and ARP tables from `ip -j`, settings from `/proc`.
//!
//! One `ip` prints all listings one after the other. An entry tells by its fields what it is of, because a
//! listing without any may be an empty array or nothing at all. Versions differ: a filtered entry may be an
//! empty object, a number may be text under `-N`, a field that has its default may be left out. Only what the
//! planner compares is read.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_core::names::{Cidr, HostAddr};
use causeway_core::vpc::{Link, LinkKind, Route};
use ipnet::Ipv4Net;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
    #[serde(default)]
    flags: Vec<String>,
    group: Option<Number>,
    ifalias: Option<String>,
    linkinfo: Option<RawInfo>,
    #[serde(default)]
    addr_info: Vec<RawAddress>,
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
    ikey: Option<Value>,
    okey: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct RawAddress {
    family: Option<String>,
    local: Option<String>,
    prefixlen: Option<u8>,
}

#[derive(Debug, Deserialize)]
struct RawRoute {
    dst: Option<String>,
    gateway: Option<String>,
    dev: Option<String>,
    protocol: Option<Number>,
    metric: Option<u32>,
    tos: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct RawTable {
    dev: Option<String>,
    proxy_delay: Option<u64>,
}

/// What `ip` says of links and routes.
#[derive(Default)]
pub(super) struct Kernel {
    pub(super) links: Links,
    pub(super) routes: Vec<Route>,
}

/// All listings of `ip`.
pub(super) fn kernel(text: &str) -> Result<Kernel, Trouble> {
    let mut kernel = Kernel::default();
    let mut tables: Vec<RawTable> = Vec::new();
    for listing in serde_json::Deserializer::from_str(text).into_iter::<Vec<Value>>() {
        for entry in listing.map_err(|error| unreadable("listings of ip", error))? {
            if let Some(name) = entry.get("ifname").and_then(Value::as_str).map(str::to_owned) {
                kernel.links.insert(name, link(read("links", entry)?));
            } else if entry.get("dst").is_some() {
                kernel.routes.extend(route(read("routes", entry)?)?);
            } else if entry.get("dev").is_some() {
                tables.push(read("ARP tables", entry)?);
            }
        }
    }
    for table in tables {
        if let Some(link) = table.dev.and_then(|name| kernel.links.get_mut(&name)) {
            link.proxy_delay = table.proxy_delay.unwrap_or(0).try_into().unwrap_or(u32::MAX);
        }
    }
    Ok(kernel)
}

fn read<T: DeserializeOwned>(what: &'static str, entry: Value) -> Result<T, Trouble> {
    serde_json::from_value(entry).map_err(|error| unreadable(what, error))
}

fn link(raw: RawLink) -> Link {
    let has = |flag: &str| raw.flags.iter().any(|f| f == flag);
    let of_v4 = raw.addr_info.iter().filter(|a| a.family.as_deref().is_none_or(|family| family == "inet"));
    let nets = of_v4.filter_map(|a| Ipv4Net::new(a.local.as_ref()?.parse().ok()?, a.prefixlen?).ok());
    Link {
        addresses: nets.map(HostAddr::new).collect(),
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

/// A route of the main table. One for a type of service is none that ours could stand in the way of.
fn route(raw: RawRoute) -> Result<Option<Route>, Trouble> {
    let Some(dst) = raw.dst.filter(|_| raw.tos.is_none()) else { return Ok(None) };
    let range: Cidr = match dst.as_str() {
        "default" => "0.0.0.0/0".parse(),
        dst => dst.parse(),
    }
    .map_err(|error| unreadable("routes", error))?;
    let protocol = raw.protocol.map_or(Some(u64::from(PROTO_BOOT)), |protocol| protocol.value());
    Ok(Some(Route {
        range,
        via: raw.gateway.and_then(|via| via.parse().ok()),
        dev: raw.dev,
        // A name where a number was asked for is none of ours.
        protocol: protocol.and_then(|n| u8::try_from(n).ok()).unwrap_or(0),
        metric: raw.metric.unwrap_or(0),
    }))
}
