//! Nodes, as far as they say how they are reached.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_core::leases::{Backend, Lease, Mac, Node};
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

/// The parts of the network that a node has been given, or what is wrong with one.
pub fn subnets(object: &NodeObject) -> impl Iterator<Item = Result<Cidr, String>> {
    let NodeSpec { pod_cidrs, pod_cidr } = &object.spec;
    let texts = pod_cidrs.iter().chain(pod_cidr.iter().filter(|_| pod_cidrs.is_empty()));
    texts
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().map_err(|why| format!("spec.podCIDR: {why}")))
}

/// The names that annotations of a family have.
struct Names {
    public: &'static str,
    overwrite: &'static str,
    data: &'static str,
}

const fn names(family: Family) -> Names {
    match family {
        Family::V4 => Names { public: "public-ip", overwrite: "public-ip-overwrite", data: "backend-data" },
        Family::V6 => {
            Names { public: "public-ipv6", overwrite: "public-ipv6-overwrite", data: "backend-v6-data" }
        }
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

/// The address that somebody wants a node to be reached at, whatever it has itself.
pub fn overwritten(prefix: &str, object: &NodeObject, family: Family) -> Option<Result<IpAddr, String>> {
    let name = format!("{prefix}/{}", names(family).overwrite);
    let text = annotation(&object.metadata, &name)?;
    Some(address(family, text).map_err(|why| format!("annotation {name}: {why}")))
}

fn address(family: Family, text: &str) -> Result<IpAddr, String> {
    let address = text.parse::<IpAddr>().ok().filter(|address| Family::of(*address) == family);
    let address = address.filter(|it| !it.is_unspecified() && !it.is_multicast() && !it.is_loopback());
    address.ok_or_else(|| format!("`{text}` is not an {family} address at which a node can be reached"))
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
            let data: VxlanData = serde_json::from_str(data).map_err(|why| format!("`{data}`: {why}"))?;
            let mac: Mac = data.mac.parse().map_err(|why| format!("VtepMAC: {why}"))?;
            Ok(Backend::Vxlan { vni: data.vni, mac })
        }
        other => Ok(Backend::Other(other.to_owned())),
    }
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Its leases.
    pub leases: Vec<Lease>,
    /// The addresses of the link that it uses, by which it can be seen whether others were asked for.
    pub own: Vec<IpAddr>,
}

/// The annotations that say so; those of a family that it has no lease of are taken away.
pub fn announce(prefix: &str, announcement: &Announcement) -> Map<String, Value> {
    let mut annotations = Map::new();
    let mut put = |name: &str, value: Value| drop(annotations.insert(format!("{prefix}/{name}"), value));
    put("kube-subnet-manager", json!("true"));
    if let Some(lease) = announcement.leases.first() {
        put("backend-type", json!(lease.backend.name()));
    }
    for family in Family::ALL {
        let Names { public, data, .. } = names(family);
        let lease = announcement.leases.iter().find(|lease| lease.subnet.family() == family);
        put(public, lease.map(|lease| lease.public.to_string()).into());
        put(data, lease.map(|lease| backend_data(&lease.backend)).into());
        let own = announcement.own.iter().find(|address| Family::of(**address) == family);
        let name = if family == Family::V4 { "node-public-ip" } else { "node-public-ipv6" };
        put(name, own.map(ToString::to_string).into());
    }
    annotations
}

fn backend_data(backend: &Backend) -> String {
    match backend {
        Backend::Vxlan { vni, mac } => json!({ "VNI": vni, "VtepMAC": mac.to_string() }).to_string(),
        Backend::HostGw | Backend::Other(_) => "null".into(),
    }
}

#[cfg(test)]
mod tests {
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
            let announcement = Announcement { leases: leases.clone(), own: Vec::new() };
            let annotations = announce(DEFAULT_PREFIX, &announcement);
            let mut object = object(&[], &["10.244.3.0/24", "fd00:10:244:3::/64"]);
            let text = |value: &Value| value.as_str().map(str::to_owned);
            object.metadata.annotations = Some(
                annotations.iter().filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect(),
            );
            let node = node(DEFAULT_PREFIX, &object).expect("a node of the network");
            assert_eq!(node.leases, leases.into_iter().map(Ok).collect::<Vec<_>>());
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
            (of("x", "y", "10.244.3.0/99"), "spec.podCIDR: `10.244.3.0/99` is not a range".to_owned()),
        ];
        for (said, expected) in cases {
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}
