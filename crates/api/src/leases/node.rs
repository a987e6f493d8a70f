//! Nodes, as far as they say how they are reached.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_core::leases::{Announcement, Backend, Lease, Mac, Node, Own, Seen};
use causeway_core::{Cidr, Family};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ClusterResourceScope;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::meta::{annotation, created};

/// What the names of flannel's annotations begin with, where nothing else is configured.
pub const DEFAULT_PREFIX: &str = "flannel.alpha.coreos.com";

/// The few fields of a node that are read: of five thousand of them nothing else is kept for a moment.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeObject {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: NodeSpec,
    /// The status.
    #[serde(default)]
    pub status: NodeStatus,
}

/// What is said of a node.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeStatus {
    /// The conditions.
    #[serde(default)]
    pub conditions: Vec<NodeCondition>,
}

/// One thing that is said of a node.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeCondition {
    /// Which.
    #[serde(default)]
    pub r#type: String,
    /// Whether it is so.
    #[serde(default)]
    pub status: String,
}

/// Which part of the network is a node's.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    /// One for each family.
    #[serde(default, rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
    /// The first of them, where an older cluster has only that.
    #[serde(default, rename = "podCIDR")]
    pub pod_cidr: Option<String>,
}

impl Resource for NodeObject {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The condition of a node without a network; a node that has one keeps pods waiting until it says `False`.
pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

/// The parts of the network that a node has been given, or what is wrong with one.
fn subnets(object: &NodeObject) -> impl Iterator<Item = Result<Cidr, String>> {
    let NodeSpec { pod_cidrs, pod_cidr } = &object.spec;
    let texts = pod_cidrs.iter().chain(pod_cidr.iter().filter(|_| pod_cidrs.is_empty()));
    texts
        .filter(|text| !text.is_empty())
        .map(|text| few(text).parse().map_err(|why| format!("spec.podCIDR: {why}")))
}

/// The names that annotations of a family have.
struct Names {
    public: &'static str,
    overwrite: &'static str,
    asked: &'static str,
    data: &'static str,
}

const fn names(family: Family) -> Names {
    match family {
        Family::V4 => Names {
            public: "public-ip",
            overwrite: "public-ip-overwrite",
            asked: "node-public-ip",
            data: "backend-data",
        },
        Family::V6 => Names {
            public: "public-ipv6",
            overwrite: "public-ipv6-overwrite",
            asked: "node-public-ipv6",
            data: "backend-v6-data",
        },
    }
}

/// A node as others see it; and of the one of this name what only matters to itself.
pub fn seen(prefix: &str, own: &str, object: &NodeObject) -> Seen {
    let is_own = object.metadata.name.as_deref() == Some(own);
    Seen { node: node(prefix, object), own: is_own.then(|| self::own(prefix, object)) }
}

/// What a node is told by others, and what it has said of itself.
fn own(prefix: &str, object: &NodeObject) -> Own {
    let begins = format!("{prefix}/");
    let annotations = object.metadata.annotations.iter().flatten();
    let announced: BTreeMap<String, String> = annotations
        .filter(|(name, _)| name.starts_with(&begins))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mac = |family: Family| {
        let data = announced.get(&format!("{begins}{}", names(family).data))?;
        match backend("vxlan", data) {
            Ok(Backend::Vxlan { mac, .. }) => Some((family, mac)),
            _ => None,
        }
    };
    let is_unavailable = object.status.conditions.iter().find(|it| it.r#type == NETWORK_UNAVAILABLE);
    Own {
        subnets: subnets(object).collect(),
        overwritten: Family::ALL
            .into_iter()
            .filter_map(|family| Some((family, overwritten(prefix, object, family)?)))
            .collect(),
        macs: Family::ALL.into_iter().filter_map(mac).collect(),
        is_available: is_unavailable.is_some_and(|it| it.status == "False"),
        version: object.metadata.resource_version.clone().unwrap_or_default(),
        announced,
    }
}

/// A node of the network; nothing where it has no part in it.
pub fn node(prefix: &str, object: &NodeObject) -> Option<Node> {
    let get = |name: &str| annotation(&object.metadata, &format!("{prefix}/{name}"));
    if get("kube-subnet-manager") != Some("true") {
        return None;
    }
    let kind = get("backend-type").unwrap_or_default();
    let lease = |subnet: Result<Cidr, String>| -> Option<Result<Lease, Arc<str>>> {
        let subnet = match subnet {
            Ok(subnet) => subnet,
            Err(why) => return Some(Err(why.into())),
        };
        let Names { public, data, .. } = names(subnet.family());
        // It does not take part in this family, or not yet.
        let text = get(public)?;
        let name = |name: &str| format!("annotation {prefix}/{name}");
        Some(match (address(subnet.family(), text), backend(kind, get(data).unwrap_or_default())) {
            (Ok(public), Ok(backend)) => Ok(Lease { subnet, public, backend }),
            (Err(why), _) => Err(format!("{}: {why}", name(public)).into()),
            (_, Err(why)) => Err(format!("{}: {why}", name(data)).into()),
        })
    };
    Some(Node { since: created(&object.metadata), leases: subnets(object).filter_map(lease).collect() })
}

/// The address that somebody wants a node to be reached at, whatever it has itself. An agent writes neither: the next one
/// would take it for somebody's wish.
fn overwritten(prefix: &str, object: &NodeObject, family: Family) -> Option<Result<IpAddr, String>> {
    let Names { overwrite, asked, .. } = names(family);
    let wish = |name: &str| {
        let name = format!("{prefix}/{name}");
        let text = annotation(&object.metadata, &name)?;
        Some(address(family, text).map_err(|why| format!("annotation {name}: {why}")))
    };
    wish(overwrite).or_else(|| wish(asked))
}

fn address(family: Family, text: &str) -> Result<IpAddr, String> {
    let address = text.parse::<IpAddr>().ok().filter(|address| Family::of(*address) == family);
    let is_broadcast = |it: &IpAddr| matches!(it, IpAddr::V4(it) if it.is_broadcast());
    let address = address.filter(|it| !it.is_unspecified() && !it.is_multicast() && !it.is_loopback());
    let address = address.filter(|it| !is_broadcast(it));
    let text = few(text);
    address.ok_or_else(|| format!("`{text}` is not an {family} address at which a node can be reached"))
}

/// Others' words as far as anybody wants to read them: what is longer makes no sense anyway.
fn few(text: &str) -> &str {
    const ENOUGH: usize = 100;
    &text[..text.floor_char_boundary(ENOUGH)]
}

#[derive(Deserialize)]
struct VxlanData {
    #[serde(rename = "VNI", default)]
    vni: u32,
    #[serde(rename = "VtepMAC", default)]
    mac: String,
}

fn backend(kind: &str, data: &str) -> Result<Backend, String> {
    match kind {
        "host-gw" => Ok(Backend::HostGw),
        "vxlan" => {
            let data: VxlanData =
                serde_json::from_str(data).map_err(|why| format!("`{}`: {why}", few(data)))?;
            let mac: Mac = few(&data.mac).parse().map_err(|why| format!("VtepMAC: {why}"))?;
            if !mac.is_of_one() {
                return Err(format!("VtepMAC: {mac} is not the address of one link"));
            }
            Ok(Backend::Vxlan { vni: data.vni, mac })
        }
        other => Ok(Backend::Other(few(other).to_owned())),
    }
}

/// The annotations that say of a node what it says of itself; those of a family that it has no lease of are taken away.
fn annotations(prefix: &str, announcement: &Announcement) -> BTreeMap<String, Option<String>> {
    let mut annotations = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| annotations.insert(format!("{prefix}/{name}"), value);
    put("kube-subnet-manager", Some("true".into()));
    if let Some((_, lease)) = announcement.leases.first() {
        put("backend-type", Some(lease.backend.name().to_owned()));
    }
    for family in Family::ALL {
        let Names { public, data, .. } = names(family);
        let lease = announcement.leases.iter().find(|(_, lease)| lease.subnet.family() == family);
        put(public, lease.map(|(_, lease)| lease.public.to_string()));
        put(data, lease.map(|(_, lease)| backend_data(&lease.backend)));
    }
    annotations
}

/// What of a node's annotations has to change for that; nothing where all is said. What is not to be there is null.
pub fn announce(
    prefix: &str,
    announcement: &Announcement,
    said: &BTreeMap<String, String>,
) -> Map<String, Value> {
    let all = annotations(prefix, announcement).into_iter();
    all.filter(|(name, value)| said.get(name) != value.as_ref())
        .map(|(name, value)| (name, value.into()))
        .collect()
}

fn backend_data(backend: &Backend) -> String {
    match backend {
        Backend::Vxlan { vni, mac } => json!({ "VNI": vni, "VtepMAC": mac.to_string() }).to_string(),
        Backend::HostGw | Backend::Other(_) => "null".into(),
    }
}

#[cfg(test)]
mod tests {
    use causeway_core::leases::{Mode, Network};

    use super::*;

    fn object(annotations: &[(&str, &str)], cidrs: &[&str]) -> NodeObject {
        let annotations: Map<String, Value> = annotations
            .iter()
            .map(|(name, value)| (format!("{DEFAULT_PREFIX}/{name}"), json!(value)))
            .collect();
        let object =
            json!({ "metadata": { "name": "n", "annotations": annotations }, "spec": { "podCIDRs": cidrs } });
        serde_json::from_value(object).expect("a node")
    }

    #[test]
    fn what_is_announced_is_read_again() {
        let lease = |subnet: &str, public: &str, backend| Lease {
            subnet: subnet.parse().expect("a range"),
            public: public.parse().expect("an address"),
            backend,
        };
        let mac: Mac = "2a:11:22:33:44:55".parse().expect("an address");
        for backend in [Backend::HostGw, Backend::Vxlan { vni: 7, mac }] {
            let leases = vec![
                lease("10.244.3.0/24", "192.168.7.3", backend.clone()),
                lease("fd00:10:244:3::/64", "fd00:192:168::3", backend),
            ];
            let networks = leases.iter().map(|lease| Network { range: lease.subnet, mode: Mode::HostGw });
            let announcement = Announcement { leases: networks.zip(leases.clone()).collect(), mtu: 1500 };
            let mut object = object(&[("public-ip", "old")], &["10.244.3.0/24", "fd00:10:244:3::/64"]);
            let said = seen(DEFAULT_PREFIX, "n", &object).own.expect("it is this one").announced;
            let annotations = announce(DEFAULT_PREFIX, &announcement, &said);
            let text = |value: &Value| value.as_str().map(str::to_owned);
            object.metadata.annotations = Some(
                annotations.iter().filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect(),
            );
            let node = node(DEFAULT_PREFIX, &object).expect("a node of the network");
            assert_eq!(node.leases, leases.into_iter().map(Ok).collect::<Vec<_>>());
            let said = seen(DEFAULT_PREFIX, "n", &object).own.expect("it is this one").announced;
            assert!(announce(DEFAULT_PREFIX, &announcement, &said).is_empty(), "all is said");
            let less = Announcement { leases: announcement.leases[..1].to_vec(), ..announcement };
            let changes = announce(DEFAULT_PREFIX, &less, &said);
            let gone: Vec<_> = changes.iter().map(|(name, value)| (name.as_str(), value)).collect();
            let names = ["backend-v6-data", "public-ipv6"].map(|name| format!("{DEFAULT_PREFIX}/{name}"));
            assert_eq!(gone, [(names[0].as_str(), &Value::Null), (names[1].as_str(), &Value::Null)]);
        }
    }

    #[test]
    fn the_address_that_is_asked_for_is_read_and_never_written() {
        let asked = |annotations: &[(&str, &str)]| {
            let object = object(annotations, &["10.244.3.0/24"]);
            seen(DEFAULT_PREFIX, "n", &object).own.expect("it is this one").overwritten
        };
        let (wish, overwrite) = (("node-public-ip", "10.0.0.9"), ("public-ip-overwrite", "203.0.113.7"));
        assert_eq!(asked(&[wish]), [(Family::V4, Ok(IpAddr::from([10, 0, 0, 9])))].into());
        assert_eq!(asked(&[wish, overwrite]), [(Family::V4, Ok(IpAddr::from([203, 0, 113, 7])))].into());
        let announcement = Announcement { leases: Vec::new(), mtu: 1500 };
        let written = annotations(DEFAULT_PREFIX, &announcement);
        let wishes = ["public-ip-overwrite", "public-ipv6-overwrite", "node-public-ip", "node-public-ipv6"];
        for name in wishes {
            assert!(!written.contains_key(&format!("{DEFAULT_PREFIX}/{name}")), "{name} is others' to say");
        }
    }

    #[test]
    fn flannels_annotations_are_read_and_a_node_without_them_is_none() {
        assert_eq!(node(DEFAULT_PREFIX, &object(&[], &["10.244.3.0/24"])), None);
        let annotations = [
            ("kube-subnet-manager", "true"),
            ("backend-type", "vxlan"),
            ("backend-data", r#"{"VNI":1,"VtepMAC":"8e:de:ad:be:ef:01"}"#),
            ("public-ip", "10.0.0.9"),
        ];
        let found = node(DEFAULT_PREFIX, &object(&annotations, &["10.244.3.0/24", "fd00:10:244:3::/64"]))
            .expect("a node");
        let [Ok(lease)] = &found.leases[..] else { panic!("{found:?}") };
        assert_eq!(lease.public, IpAddr::from([10, 0, 0, 9]));
        assert!(matches!(lease.backend, Backend::Vxlan { vni: 1, .. }), "{lease:?}");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let of = |name: &str, value: &str, cidr: &str| {
            let mut annotations =
                vec![("kube-subnet-manager", "true"), ("backend-type", "vxlan"), ("public-ip", "10.0.0.9")];
            annotations.push(("backend-data", r#"{"VNI":1,"VtepMAC":"8e:de:ad:be:ef:01"}"#));
            annotations.retain(|(known, _)| *known != name);
            annotations.push((name, value));
            let node = node(DEFAULT_PREFIX, &object(&annotations, &[cidr])).expect("a node");
            node.leases[0].clone().expect_err("no sense").to_string()
        };
        let prefix = "annotation flannel.alpha.coreos.com";
        let cases = [
            (
                of("public-ip", "127.0.0.1", "10.244.3.0/24"),
                format!("{prefix}/public-ip: `127.0.0.1` is not an IPv4 address"),
            ),
            (
                of("public-ip", "fd00::1", "10.244.3.0/24"),
                format!("{prefix}/public-ip: `fd00::1` is not an IPv4 address"),
            ),
            (of("backend-data", "null", "10.244.3.0/24"), format!("{prefix}/backend-data: `null`")),
            (
                of("backend-data", r#"{"VNI":1,"VtepMAC":"x"}"#, "10.244.3.0/24"),
                format!("{prefix}/backend-data: VtepMAC: `x` is not"),
            ),
            (
                of("backend-data", r#"{"VNI":1,"VtepMAC":"01:00:5e:00:00:01"}"#, "10.244.3.0/24"),
                format!("{prefix}/backend-data: VtepMAC: 01:00:5e:00:00:01 is not the address of one link"),
            ),
            (of("x", "y", "10.244.3.0/99"), "spec.podCIDR: `10.244.3.0/99` is not a range".to_owned()),
        ];
        for (said, expected) in cases {
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}
