//! Names and addresses, parsed once at the border: afterwards the type is the proof.
//!
//! Whatever reaches a gateway's shell is rendered from these types, so none of them can hold a space,
//! a line break or a quote. They are cheap to clone: keys and names are passed around more than made.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::Ipv4Net;

/// Why a text is not the name or address it was meant to be; each is a sentence a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Not a legal link name.
    #[error("`{0}` cannot name a network link: use 1 to 15 characters of a-z, A-Z, 0-9, `-`, `_` and `.`")]
    LinkName(String),
    /// A link name that every gateway already uses for something else.
    #[error("`{0}` is a name that gateways use themselves; choose another one for the tunnel")]
    ReservedLinkName(String),
    /// Not an IPv4 address with a prefix.
    #[error("`{0}` is not an IPv4 address with a prefix, like 10.100.0.1/24")]
    HostAddr(String),
    /// An address with a prefix that no host has.
    #[error(
        "`{0}` is no host's address: use a prefix from /8 on, and neither the first nor the last address of the net"
    )]
    NoHostAddr(String),
    /// Not an IPv4 range.
    #[error("`{0}` is not an IPv4 range, like 242.1.0.0/16")]
    Cidr(String),
    /// Not a range of either family.
    #[error("`{0}` is not a range of addresses, like 10.244.0.0/16 or fd00:10:244::/56")]
    Range(String),
    /// Not an IPv4 address.
    #[error("`{0}` is not an IPv4 address, like 172.50.16.11")]
    Address(String),
    /// Not an object's name or namespace.
    #[error("`{0}` is not a name: use lower-case letters, digits, `-` and `.`")]
    Name(String),
    /// Not a cluster id or gateway.
    #[error("`{0}` is not a name: use at most 63 lower-case letters, digits, `-` and `.`")]
    Label(String),
    /// Neither of the two forms of addressing, or both.
    #[error(
        "use exactly one form: clusterId, gatewayName and natGwDp; or remoteCluster, remoteVpc and localVpc"
    )]
    Form,
    /// A number outside of its bounds.
    #[error("{what} `{text}` is not a number from {min} to {max}")]
    Number {
        /// What the number is.
        what: &'static str,
        /// The text found.
        text: String,
        /// Smallest value allowed.
        min: u32,
        /// Largest value allowed.
        max: u32,
    },
}

/// Links that exist in every gateway, or that the kernel makes by itself.
const RESERVED_LINKS: [&str; 9] =
    ["lo", "all", "default", "eth0", "net1", "gre0", "gretap0", "erspan0", "tunl0"];

/// The name of a network link: at most 15 bytes, nothing a shell or `/proc` could misread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(Arc<str>);

impl FromStr for LinkName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !(1..=15).contains(&text.len())
            || !text.chars().all(legal)
            || text.starts_with('-')
            || matches!(text, "." | "..")
        {
            return Err(Invalid::LinkName(text.into()));
        }
        if RESERVED_LINKS.contains(&text) {
            return Err(Invalid::ReservedLinkName(text.into()));
        }
        Ok(Self(text.into()))
    }
}

/// A DNS-like name: what Kubernetes lets an object be called.
fn is_dns_name(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=253).contains(&text.len())
        && text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || matches!(c, '-' | '.'))
}

/// The longest value of a label, which ids and gateways become.
const LABEL: usize = 63;

macro_rules! dns_name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                if is_dns_name(text) && text.len() <= LABEL {
                    Ok(Self(text.into()))
                } else {
                    Err(Invalid::Label(text.into()))
                }
            }
        }
    };
}

dns_name!(
    /// A member cluster's id, unique in the fleet.
    ClusterId
);
dns_name!(
    /// A VPC NAT gateway's name (`gw1`, not its workload's name).
    GatewayName
);

macro_rules! text_like {
    ($($name:ident),*) => {$(
        impl $name {
            /// The text as it was parsed.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
text_like!(LinkName, ClusterId, GatewayName);

/// An object's namespace and name. Namespaced objects of one kind differ in nothing else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// A key, of two names that Kubernetes allows.
    pub fn new(namespace: &str, name: &str) -> Result<Self, Invalid> {
        match [namespace, name].into_iter().find(|text| !is_dns_name(text)) {
            Some(text) => Err(Invalid::Name(text.into())),
            None => Ok(Self { namespace: namespace.into(), name: name.into() }),
        }
    }

    /// Where a record of a gateway lies: the parts are names already.
    pub(crate) fn of_record(namespace: &'static str, gateway: &GatewayName, cluster: &ClusterId) -> Self {
        Self { namespace: namespace.into(), name: format!("{gateway}-{cluster}").into() }
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ObjectKey {
    type Err = Invalid;

    /// `namespace/name`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| Invalid::Name(text.into()))?;
        Self::new(namespace, name)
    }
}

/// An IPv4 range: host bits are always zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Cidr(Ipv4Net);

impl Ipv4Cidr {
    /// The range that an address with a prefix lies in.
    pub fn containing(net: Ipv4Net) -> Self {
        Self(net.trunc())
    }

    pub(crate) fn net(self) -> Ipv4Net {
        self.0
    }

    /// The first address in it.
    pub fn first(self) -> Ipv4Addr {
        self.0.network()
    }

    /// The last address in it, alone.
    pub fn last(self) -> Self {
        Self(Ipv4Net::from(self.0.broadcast()))
    }

    /// Every range that this one lies in, from itself to all addresses.
    pub fn covering(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.0), Ipv4Net::supernet).map(Self)
    }

    /// How many bits of it are fixed.
    pub fn prefix(self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether an address lies in the range.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        self.0.contains(&address)
    }

    /// Whether a whole range lies in this one.
    pub fn covers(self, other: Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether any address lies in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }
}

impl FromStr for Ipv4Cidr {
    type Err = Invalid;

    /// `10.1.0.0/16`; a lone address is a range of one.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let net = match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(Ipv4Net::from(address)),
            Err(_) => text.parse::<Ipv4Net>(),
        };
        net.map(Self::containing).map_err(|_| Invalid::Cidr(text.into()))
    }
}

impl fmt::Display for Ipv4Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address with the prefix of the network it stands in, as on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddr(Ipv4Net);

impl HostAddr {
    /// From its parts.
    pub fn new(net: Ipv4Net) -> Self {
        Self(net)
    }

    /// The address alone.
    pub fn address(self) -> Ipv4Addr {
        self.0.addr()
    }

    /// The same if a host can have it: in a net of a sensible size, where the first and the last address are not for hosts.
    pub fn usable(self) -> Result<Self, Invalid> {
        let Self(net) = self;
        let is_of_host = net.prefix_len() > 30 || ![net.network(), net.broadcast()].contains(&net.addr());
        if is_of_host && net.prefix_len() >= 8 {
            Ok(self)
        } else {
            Err(Invalid::NoHostAddr(self.to_string()))
        }
    }

    /// The network it stands in.
    pub fn network(self) -> Ipv4Cidr {
        Ipv4Cidr::containing(self.0)
    }
}

impl FromStr for HostAddr {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        text.parse::<Ipv4Net>().map(Self).map_err(|_| Invalid::HostAddr(text.into()))
    }
}

impl fmt::Display for HostAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A plain IPv4 address; of a dual-stack `v4,v6` pair the first half.
pub fn parse_address(text: &str) -> Result<Ipv4Addr, Invalid> {
    let v4 = text.split(',').map(str::trim).find(|part| !part.contains(':')).unwrap_or(text);
    v4.parse().map_err(|_| Invalid::Address(text.into()))
}

/// A number between two bounds.
pub fn parse_number(what: &'static str, text: &str, min: u32, max: u32) -> Result<u32, Invalid> {
    let number = text.parse().ok().filter(|n| (min..=max).contains(n));
    number.ok_or_else(|| Invalid::Number { what, text: text.into(), min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names_are_short_plain_and_not_reserved() {
        for good in ["ovn-gre0", "a", "demo.1", "abcdefghijklmno"] {
            assert!(good.parse::<LinkName>().is_ok(), "{good}");
        }
        for bad in ["", "abcdefghijklmnop", "a b", "a/b", "-x", "..", "a\nb", "lo", "net1", "tunl0", "ü"] {
            assert!(bad.parse::<LinkName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interface_address_needs_its_prefix() {
        assert!("10.100.0.1/24".parse::<HostAddr>().is_ok());
        let error = "10.100.0.1".parse::<HostAddr>().expect_err("no prefix");
        assert_eq!(
            error.to_string(),
            "`10.100.0.1` is not an IPv4 address with a prefix, like 10.100.0.1/24"
        );
    }

    #[test]
    fn a_host_has_neither_the_first_nor_the_last_address_of_a_net_of_sensible_size() {
        let usable = |text: &str| text.parse::<HostAddr>().expect("an address").usable();
        for good in ["10.100.0.1/24", "10.0.0.1/8", "10.0.0.0/31", "10.0.0.1/31", "10.0.0.7/32"] {
            assert!(usable(good).is_ok(), "{good}");
        }
        for bad in ["10.100.0.0/24", "10.100.0.255/24", "10.0.0.1/7", "1.2.3.4/0"] {
            assert_eq!(usable(bad), Err(Invalid::NoHostAddr(bad.into())));
        }
    }

    #[test]
    fn ranges_lose_their_host_bits_and_compare_by_what_they_hold() {
        let range: Ipv4Cidr = "242.1.3.4/16".parse().expect("range");
        assert_eq!(range.to_string(), "242.1.0.0/16");
        assert!(range.overlaps("242.1.9.0/24".parse().expect("range")));
        assert!(!range.overlaps("242.2.0.0/16".parse().expect("range")));
    }

    #[test]
    fn the_ipv4_half_of_a_pair_is_found() {
        assert_eq!(parse_address("10.0.1.1,fd00::1"), Ok(Ipv4Addr::new(10, 0, 1, 1)));
        assert_eq!(parse_address("fd00::1,10.0.1.1"), Ok(Ipv4Addr::new(10, 0, 1, 1)));
        assert!(parse_address("fd00::1").is_err());
    }
}
