//! From objects to the values that decisions rest on.

use std::collections::BTreeSet;

use causeway_core::names::{parse_address, parse_number};
use causeway_core::vpc::exchange::{
    LAN_IP, LOCAL_CLUSTER, LOCAL_GATEWAY, LOCAL_VPC, MOVING, ORIGIN, ORIGIN_NAMESPACE, Record, SWITCHED,
    SWITCHED_FROM,
};
use causeway_core::vpc::mains::Moving;
use causeway_core::vpc::member::{Member, Renewal};
use causeway_core::vpc::nodes::NodeReport;
use causeway_core::vpc::objects::{
    Eip, Ends, GatewayPod, ListedRoute, Peer, PodRef, StaticRoute, Subnet, Switch, Tunnel, TunnelSpec, Vpc,
    VpcGateway, Workload,
};
use causeway_core::vpc::status::TunnelStatus;
use causeway_core::vpc::want::TunnelKind;
use causeway_core::{ClusterId, GatewayName, HostAddr, Invalid};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::foreign::kube_ovn;
use super::foreign::kubernetes::{Pod, WorkloadSpec, WorkloadStatus};
use super::foreign::submariner::ServiceDiscoverySpec;
use super::record::GatewayExIp;
use super::tunnel::{LooseTunnel, TunnelType, VpcNatTunnel, VpcNatTunnelSpec, VpcNatTunnelStatus};
use super::{ABANDON, SWITCH_TO};
use crate::condition;
use crate::meta::{annotation, created, key};

/// The label of gateways' workloads and pods.
pub const GATEWAY_LABEL: &str = "ovn.kubernetes.io/vpc-nat-gw=true";
/// The container to run commands in.
pub const GATEWAY_CONTAINER: &str = "vpc-nat-gw";

/// How the names of gateways' workloads begin by default.
pub const DEFAULT_GATEWAY_PREFIX: &str = "vpc-nat-gw";

const GATEWAY_NAME: &str = "ovn.kubernetes.io/vpc_nat_gw";
const LOGICAL_SWITCH: &str = "ovn.kubernetes.io/logical_switch";
const DEFAULT_VNI: u32 = 100;
const DEFAULT_VXLAN_PORT: u16 = 4789;

/// A tunnel. A spec that makes no sense is carried as the sentence that says why.
pub fn tunnel(object: &VpcNatTunnel) -> Option<Tunnel> {
    let spec = tunnel_spec(&object.spec, &object.metadata).map_err(|error| error.to_string());
    let status = object.status.as_ref().map(tunnel_status).unwrap_or_default();
    Some(Tunnel { spec, status, ..bare_tunnel(&object.metadata)? })
}

/// A tunnel as another definition may let it be: what can be understood of it counts.
pub fn loose_tunnel(object: &LooseTunnel) -> Option<Tunnel> {
    let spec = VpcNatTunnelSpec::deserialize(&object.spec)
        .map_err(|why| format!("the object cannot be read: {why}"));
    let spec = spec.and_then(|spec| tunnel_spec(&spec, &object.metadata).map_err(|error| error.to_string()));
    Some(Tunnel { spec, status: tunnel_status(&object.status()), ..bare_tunnel(&object.metadata)? })
}

fn bare_tunnel(meta: &ObjectMeta) -> Option<Tunnel> {
    Some(Tunnel {
        key: key(meta)?,
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        created: created(meta),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        abandon: annotation(meta, ABANDON) == Some("true"),
        spec: Err(String::new()),
        status: TunnelStatus::default(),
    })
}

fn tunnel_spec(spec: &VpcNatTunnelSpec, meta: &ObjectMeta) -> Result<TunnelSpec, Invalid> {
    Ok(TunnelSpec {
        link: meta.name.as_deref().unwrap_or_default().parse()?,
        kind: match spec.kind {
            TunnelType::Gre => TunnelKind::Gre,
            TunnelType::Vxlan => vxlan(meta)?,
        },
        address: spec.interface_addr.parse::<HostAddr>()?.usable()?,
        ends: ends(spec)?,
    })
}

fn vxlan(meta: &ObjectMeta) -> Result<TunnelKind, Invalid> {
    let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name));
    let number = |label: Option<&String>, what, default: u32, max| {
        label.map_or(Ok(default), |text| parse_number(what, text, 1, max))
    };
    let vni = number(label("vid"), "label vid", DEFAULT_VNI, (1 << 24) - 1)?;
    let port = number(label("vx-port"), "label vx-port", DEFAULT_VXLAN_PORT.into(), u16::MAX.into())?;
    Ok(TunnelKind::Vxlan { vni, port: u16::try_from(port).unwrap_or(DEFAULT_VXLAN_PORT) })
}

/// Exactly one of the two forms; the schema says so too, but not where an older definition is installed.
fn ends(spec: &VpcNatTunnelSpec) -> Result<Ends, Invalid> {
    let by_gateway = (&spec.cluster_id, &spec.gateway_name, &spec.nat_gw_dp);
    let by_vpc = (&spec.remote_cluster, &spec.remote_vpc, &spec.local_vpc);
    match (by_gateway, by_vpc) {
        ((Some(cluster), Some(gateway), Some(local)), (None, None, None)) => Ok(Ends::ByGateway {
            gateway: local.parse()?,
            peer: Peer { cluster: cluster.parse()?, gateway: gateway.parse()? },
        }),
        ((None, None, None), (Some(cluster), Some(remote), Some(local))) => {
            Ok(Ends::ByVpc { local: vpc_name(local)?, cluster: cluster.parse()?, remote: vpc_name(remote)? })
        }
        _ => Err(Invalid::Form),
    }
}

/// A VPC's name becomes a label's value, as a gateway's does.
fn vpc_name(text: &str) -> Result<String, Invalid> {
    text.parse().map(|name: GatewayName| name.to_string())
}

fn tunnel_status(status: &VpcNatTunnelStatus) -> TunnelStatus {
    TunnelStatus {
        initialized: status.initialized.unwrap_or_default(),
        internal_ip: status.internal_ip.clone(),
        remote_ip: status.remote_ip.clone(),
        interface_addr: status.interface_addr.clone(),
        kind: status.kind.clone(),
        gateway: status.local_gw.clone(),
        standbys: status.standbys.clone(),
        globalnet: status.globalnet_cidr.clone(),
        remote_globalnet: status.remote_globalnet_cidr.clone(),
        round_trip: status.round_trip_milliseconds,
        answered_behind: status.answered_behind.unwrap_or_default(),
        ovn_gw_ip: status.ovn_gw_ip.clone(),
        egress: status.global_egress_ip.clone(),
        peer: status.peer.clone(),
        observed_generation: status.observed_generation,
        conditions: condition::read(&status.conditions),
    }
}

/// A record, here or at the broker. One without labels is understood by its name: before the broker the
/// part behind the first dot is the cluster; here the origin label says where the name is cut.
pub fn record(object: &GatewayExIp) -> Option<Record> {
    let (external_ip, globalnet) = (object.spec.address().to_string(), object.spec.range().to_string());
    Some(Record { external_ip, globalnet, ..bare_record(&object.metadata)? })
}

/// A record whose object could not even be decoded: it is there, and says nothing that can be used.
pub fn unreadable_record(meta: &ObjectMeta, why: &str) -> Option<Record> {
    Some(Record { unreadable: Some(format!("it cannot be read: {why}")), ..bare_record(meta)? })
}

fn bare_record(meta: &ObjectMeta) -> Option<Record> {
    let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
    let name = meta.name.clone().unwrap_or_default();
    // One that says that it came from elsewhere is never ours, even where that place makes no sense.
    let origin = label(ORIGIN).map(|id| id.parse::<ClusterId>());
    let unreadable = match &origin {
        Some(Err(invalid)) => Some(format!("label {ORIGIN}: {invalid}")),
        Some(Ok(_)) | None => None,
    };
    let origin = origin.and_then(Result::ok);
    let (gateway, cluster) = match (label(LOCAL_GATEWAY), label(LOCAL_CLUSTER)) {
        (Some(gateway), Some(cluster)) => (gateway.parse().ok(), cluster.parse().ok()),
        _ => by_name(&name, origin.as_ref()),
    };
    Some(Record {
        key: key(meta)?,
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        external_ip: String::new(),
        globalnet: String::new(),
        vpc: label(LOCAL_VPC),
        gateway,
        cluster,
        origin,
        origin_namespace: label(ORIGIN_NAMESPACE),
        deleting: meta.deletion_timestamp.is_some(),
        unreadable,
        lan: annotation(meta, LAN_IP).and_then(|text| text.parse().ok()),
        moving: annotation(meta, MOVING).into_iter().flat_map(moving).collect(),
        switched: annotation(meta, SWITCHED).map(Into::into),
        switched_from: annotation(meta, SWITCHED_FROM).and_then(|text| text.parse().ok()),
    })
}

/// What is still to be moved; of what somebody else wrote there nothing.
fn moving(text: &str) -> impl Iterator<Item = Moving> {
    text.split(',').filter_map(|text| text.parse().ok())
}

fn by_name(name: &str, origin: Option<&ClusterId>) -> (Option<GatewayName>, Option<ClusterId>) {
    let dashed =
        origin.and_then(|id| Some((name.strip_suffix(id.as_str())?.strip_suffix('-')?, id.as_str())));
    match name.split_once('.').or(dashed) {
        Some((gateway, cluster)) => (gateway.parse().ok(), cluster.parse().ok()),
        None => (None, None),
    }
}

/// A claim to a cluster's id, read at `now` (seconds since 1970); nothing for a Lease that is none.
pub fn member(lease: &Lease, now: i64) -> Option<Renewal> {
    let cluster = lease.metadata.labels.as_ref()?.get(ORIGIN)?.parse().ok()?;
    let spec = lease.spec.as_ref()?;
    Some(Renewal {
        member: Member { cluster, uid: spec.holder_identity.clone()? },
        renewed: spec.renew_time.as_ref()?.0.as_second(),
        lasts: spec.lease_duration_seconds?.into(),
        read: now,
    })
}

/// A gateway's workload, from its parts: StatefulSets and Deployments differ only in type.
pub fn workload(
    meta: &ObjectMeta,
    spec: &WorkloadSpec,
    status: &WorkloadStatus,
    prefix: &str,
) -> Option<Workload> {
    let template = &spec.template.metadata;
    let named = annotation(template, GATEWAY_NAME);
    let gateway = named.or_else(|| unprefixed(meta.name.as_deref()?, prefix))?.parse().ok()?;
    let subnet = annotation(template, LOGICAL_SWITCH).map(Into::into);
    let ready = status.available_replicas.unwrap_or_default() >= 1;
    Some(Workload { gateway, ready, subnet, replicated: spec.replicas.unwrap_or(1) > 1 })
}

/// A gateway's pod; nothing for a pod that is no gateway's.
pub fn gateway_pod(pod: &Pod, prefix: &str) -> Option<GatewayPod> {
    let meta = &pod.metadata;
    let app = meta.labels.as_ref().and_then(|labels| labels.get("app"));
    let gateway = annotation(meta, GATEWAY_NAME).or_else(|| unprefixed(app?, prefix))?.parse().ok()?;
    let address = |name: &str| annotation(meta, name).and_then(|text| parse_address(text).ok());
    let external = meta.annotations.iter().flatten().filter_map(|(name, text)| {
        let provider =
            name.strip_suffix(".kubernetes.io/ip_address").filter(|provider| *provider != "ovn")?;
        Some((provider.to_string(), parse_address(text).ok()?))
    });
    Some(GatewayPod {
        pod: PodRef { key: key(meta)?, uid: meta.uid.clone().unwrap_or_default() },
        gateway,
        created: created(meta),
        phase: pod.status.phase.clone().unwrap_or_else(|| "Pending".into()),
        // Where nothing is said of it, the phase is all there is.
        ready: pod.is_ready().unwrap_or(true),
        deleting: meta.deletion_timestamp.is_some(),
        node: pod.spec.node_name.clone(),
        lan: address("ovn.kubernetes.io/ip_address"),
        external: external.collect(),
        router: address("ovn.kubernetes.io/gateway"),
        vpc: annotation(meta, "ovn.kubernetes.io/logical_router").map(Into::into),
    })
}

/// The gateway's name in its workload's.
fn unprefixed<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_prefix('-')
}

/// kube-ovn's own object of a gateway.
pub fn vpc_gateway(object: &kube_ovn::VpcNatGateway) -> VpcGateway {
    let text = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    VpcGateway {
        vpc: text(&object.spec.vpc),
        lan: object.spec.lan_ip.as_deref().and_then(|text| parse_address(text).ok()),
        external_subnets: object.spec.external_subnets.clone(),
        no_default_eip: object.spec.no_default_eip.unwrap_or_default(),
        replicated: object.spec.replicas.unwrap_or(1) > 1
            || object.spec.bfd.as_ref().and_then(|bfd| bfd.enabled).unwrap_or_default(),
    }
}

/// A floating address; nothing before it has one.
pub fn eip(object: &kube_ovn::IptablesEIP) -> Option<Eip> {
    Some(Eip {
        gateway: object.spec.nat_gw_dp.as_ref()?.parse().ok()?,
        address: parse_address(object.status.as_ref()?.ip.as_deref()?).ok()?,
        created: created(&object.metadata),
    })
}

/// What a cluster is called, if it says so.
pub fn identity(spec: &ServiceDiscoverySpec) -> Option<Result<ClusterId, Invalid>> {
    spec.cluster_id.as_deref().filter(|id| !id.is_empty()).map(str::parse)
}

/// How kube-ovn begins the names of gateways' workloads, a dash following: as its ConfigMap says.
pub fn gateway_prefix(config: &ConfigMap) -> &str {
    let given = config.data.as_ref().and_then(|data| data.get("natGwNamePrefix"));
    given.map(|prefix| prefix.trim()).filter(|prefix| !prefix.is_empty()).unwrap_or(DEFAULT_GATEWAY_PREFIX)
}

/// A subnet.
pub fn subnet(object: &kube_ovn::Subnet) -> Subnet {
    let text = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    Subnet { provider: text(&object.spec.provider), vpc: text(&object.spec.vpc) }
}

/// A VPC.
pub fn vpc(object: &kube_ovn::Vpc) -> Vpc {
    let namespaces = object.spec.namespaces.iter().cloned().collect();
    Vpc {
        routes: static_routes(object),
        listed: object.spec.static_routes.iter().map(listed_route).collect(),
        namespaces,
        resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
        annotated: object.metadata.annotations.as_ref().is_some_and(|all| !all.is_empty()),
        switch: annotation(&object.metadata, SWITCH_TO).and_then(Switch::read),
    }
}

fn listed_route(route: &kube_ovn::StaticRoute) -> ListedRoute {
    let says = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    ListedRoute {
        range: route.cidr.parse().ok(),
        next_hop: parse_address(&route.next_hop_ip).ok(),
        shared: says(&route.ecmp_mode) || says(&route.bfd_id),
    }
}

/// The static routes of a VPC that lead by destination; ones that make no sense lead nowhere.
fn static_routes(object: &kube_ovn::Vpc) -> BTreeSet<StaticRoute> {
    let by_source = |route: &&kube_ovn::StaticRoute| route.policy.as_deref() == Some("policySrc");
    let routes = object.spec.static_routes.iter().filter(|route| !by_source(route));
    routes
        .filter_map(|route| {
            Some(StaticRoute {
                range: route.cidr.parse().ok()?,
                next_hop: parse_address(&route.next_hop_ip).ok()?,
            })
        })
        .collect()
}

/// What the Ready condition of a node says.
pub fn node(object: &Node) -> NodeReport {
    let conditions = object.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    match ready.map(|ready| ready.status.as_str()) {
        // A node that has not said anything yet is not one that fell silent.
        Some("True") | None => NodeReport::Ready,
        Some("False") => NodeReport::NotReady,
        Some(_) => NodeReport::Silent {
            since: ready.and_then(|ready| Some(ready.last_transition_time.as_ref()?.0.as_second())),
        },
    }
}
