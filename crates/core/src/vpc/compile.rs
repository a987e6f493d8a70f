//! From the state: what a gateway should hold, and what can be said of each tunnel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::member::{Standing, standing};
use super::objects::{Ends, GatewayPod, NodeHealth, Peer, PodRef, Tunnel, TunnelSpec};
use super::outcome::{Claim, Outcome, Trouble};
use super::state::{State, gateway_of};
use super::want::{EgressRange, Inbound, TunnelKind, TunnelWant, Want};
use crate::names::{GatewayName, ObjectKey};

/// The provider that kube-ovn uses for a gateway's outside unless told otherwise.
const DEFAULT_PROVIDER: &str = "ovn-vpc-external-network.kube-system";

/// Where to go and what should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayTask {
    /// The pod.
    pub pod: PodRef,
    /// What it should hold.
    pub want: Want,
}

/// A gateway that runs and tells its addresses.
pub(super) struct Located<'a> {
    pub(super) pod: &'a GatewayPod,
    pub(super) router: Ipv4Addr,
    pub(super) external: Ipv4Addr,
    pub(super) lan: Option<Ipv4Addr>,
    pub(super) vpc: Option<&'a str>,
}

/// What can be said of a tunnel.
pub(super) enum Verdict<'a> {
    Up {
        want: Box<TunnelWant>,
        located: Located<'a>,
        arp_off: bool,
        /// Why TCP's segment size is not fitted to it, if it is not.
        unclamped: Option<&'a str>,
    },
    Down(Trouble),
    /// Its gateway has been told, and has not answered yet.
    Awaited,
}

/// Compiles the scope of a gateway; nothing when there is no pod to go to.
pub fn gateway(state: &State, name: &GatewayName) -> Option<GatewayTask> {
    let pod = running_pod(state, name).ok()?.pod.clone();
    let mut want = Want::default();
    want.frozen.extend(state.unreadable().cloned());
    for (key, verdict) in admitted(state, name) {
        match verdict {
            Ok(tunnel) => {
                let link = key.name.parse().expect("an admitted tunnel's name is a link name");
                want.tunnels.insert(link, tunnel);
            }
            Err(trouble) if trouble.freezes() => drop(want.frozen.insert(key)),
            Err(_) => {}
        }
    }
    if !want.tunnels.is_empty() {
        let via = locate(state, name).ok().map(|located| located.router);
        want.inbound = state.globalnet().zip(via).map(|(range, via)| Inbound { range, via });
    }
    Some(GatewayTask { pod, want })
}

/// Each tunnel of a gateway: what it needs, or why it can not be. Older ones come first and keep what
/// they have; one that is refused claims nothing.
fn admitted(state: &State, name: &GatewayName) -> BTreeMap<ObjectKey, Result<TunnelWant, Trouble>> {
    let mut tunnels: Vec<&Tunnel> = state.tunnels_of(name).filter(|tunnel| !tunnel.deleting).collect();
    tunnels.sort_by_key(|tunnel| (tunnel.created, &tunnel.key));
    let mut taken: BTreeMap<Claim, &ObjectKey> = BTreeMap::new();
    let mut verdicts = BTreeMap::new();
    for tunnel in tunnels {
        let resolved = resolve(state, tunnel);
        let claims = claims(tunnel, resolved.as_ref().ok());
        let clash = claims.iter().find_map(|claim| Some((claim.clone(), *taken.get(claim)?)));
        let verdict = match clash {
            Some((claim, by)) => Err(Trouble::Conflict { claim, by: by.clone() }),
            None => {
                taken.extend(claims.into_iter().map(|claim| (claim, &tunnel.key)));
                resolved
            }
        };
        verdicts.insert(tunnel.key.clone(), verdict);
    }
    verdicts
}

fn claims(tunnel: &Tunnel, resolved: Option<&TunnelWant>) -> Vec<Claim> {
    let Ok(spec) = &tunnel.spec else { return Vec::new() };
    let link = Claim::Link(spec.link.to_string());
    let vni = match spec.kind {
        TunnelKind::Vxlan { vni, port } => Some(Claim::Vni(vni, port)),
        TunnelKind::Gre => None,
    };
    let gre = resolved.filter(|want| want.kind == TunnelKind::Gre).map(|want| Claim::GreEnd(want.remote));
    let range = resolved.map(|want| Claim::Range(want.remote_range));
    [Some(link), vni, gre, range].into_iter().flatten().collect()
}

/// What a tunnel needs of its gateway, looked at alone.
fn resolve(state: &State, tunnel: &Tunnel) -> Result<TunnelWant, Trouble> {
    let TunnelSpec { kind, address, ends, .. } =
        tunnel.spec.as_ref().map_err(|e| Trouble::Invalid(e.clone()))?;
    let Ends::ByGateway { gateway, peer } = ends else { return Err(Trouble::NotYetSupported) };
    let located = locate(state, gateway)?;
    let ours = own_range(state)?;
    let (remote, remote_range) = find_peer(state, peer)?;
    if ours.overlaps(remote_range) {
        return Err(Trouble::RangeOverlap { cluster: peer.cluster.clone(), theirs: remote_range, ours });
    }
    let egress = EgressRange::longest_run(state.egress()).ok_or_else(|| {
        Trouble::ClusterIncomplete(
            "no egress addresses are known: ClusterGlobalEgressIP cluster-egress.submariner.io has no allocatedIPs; \
             or give --egress-ips"
                .into(),
        )
    })?;
    Ok(TunnelWant {
        owner: tunnel.key.clone(),
        kind: *kind,
        local: located.external,
        remote,
        address: *address,
        remote_range,
        egress,
    })
}

fn own_range(state: &State) -> Result<crate::names::Cidr, Trouble> {
    let missing = |what: String| Trouble::ClusterIncomplete(what);
    let cluster = state.cluster().ok_or_else(|| {
        missing("this cluster's id is not known: ServiceDiscovery submariner-operator/service-discovery is missing; or give --cluster-id".into())
    })?;
    if let Standing::Contested(by) = standing(state) {
        return Err(Trouble::ClusterIdTaken { cluster: cluster.clone(), by });
    }
    state.globalnet().ok_or_else(|| {
        missing(format!(
            "this cluster's range of global addresses is not known: Submariner Cluster {cluster} has no global_cidr; or give --globalnet-cidr"
        ))
    })
}

fn find_peer(state: &State, peer: &Peer) -> Result<(Ipv4Addr, crate::names::Cidr), Trouble> {
    let record = state.records_of(peer).find(|record| !record.deleting);
    let record = record.ok_or_else(|| Trouble::PeerUnknown(peer.clone()))?;
    let invalid = |why: String| Trouble::PeerInvalid { peer: peer.clone(), why };
    let address =
        record.external_ip.parse().map_err(|_| invalid(format!("externalip `{}`", record.external_ip)))?;
    let range =
        record.globalnet.parse().map_err(|_| invalid(format!("globalnetcidr `{}`", record.globalnet)))?;
    Ok((address, range))
}

/// The pod of a gateway that commands can be run in.
fn running_pod<'a>(state: &'a State, name: &GatewayName) -> Result<&'a GatewayPod, Trouble> {
    let mut pods: Vec<&GatewayPod> = state.pods.values().filter(|pod| pod.gateway == *name).collect();
    pods.sort_by_key(|pod| (pod.phase != "Running", &pod.pod.key));
    let known = state.workloads().any(|workload| workload.gateway == *name);
    let gateway = name.clone();
    let Some(pod) = pods.into_iter().next() else {
        let why = "it has no pod; is its workload scaled to 0?".into();
        return Err(if known {
            Trouble::GatewayNotRunning { gateway, why }
        } else {
            Trouble::GatewayNotFound(gateway)
        });
    };
    if pod.phase != "Running" {
        let why = format!("pod {} is {}", pod.pod.key.name, pod.phase);
        return Err(Trouble::GatewayNotRunning { gateway, why });
    }
    match pod.node.as_ref().map(|node| (node, state.nodes.get(node))) {
        Some((node, Some(NodeHealth::Lost))) => Err(Trouble::GatewayLost { gateway, node: node.clone() }),
        Some((_, Some(NodeHealth::Ready | NodeHealth::NotReady) | None)) | None => Ok(pod),
    }
}

/// A running gateway with the addresses that a tunnel needs.
pub(super) fn locate<'a>(state: &'a State, name: &GatewayName) -> Result<Located<'a>, Trouble> {
    let pod = running_pod(state, name)?;
    let declared = state.vpc_gateways.get(name.as_str());
    Ok(Located {
        pod,
        router: pod.router.ok_or_else(|| lacks(pod, "ovn.kubernetes.io/gateway"))?,
        external: external(state, pod)?,
        lan: declared.and_then(|gateway| gateway.lan).or(pod.lan),
        vpc: vpc_of(state, name, pod),
    })
}

/// A gateway's address on the underlay: what its pod got there, or its first floating address where kube-ovn
/// was told to give it none by itself.
fn external(state: &State, pod: &GatewayPod) -> Result<Ipv4Addr, Trouble> {
    let name = &pod.gateway;
    let declared = state.vpc_gateways.get(name.as_str());
    if declared.is_some_and(|gateway| gateway.no_default_eip) {
        let mine = state.eips.iter().filter(|(_, eip)| eip.gateway == *name);
        let first = mine.min_by_key(|(name, eip)| (eip.created, *name));
        return first.map(|(_, eip)| eip.address).ok_or_else(|| {
            let why = "is declared with noDefaultEIP, and no IptablesEIP with an address names it";
            Trouble::GatewayIncomplete(format!("gateway {name} {why} (spec.natGwDp)"))
        });
    }
    let subnet = declared.and_then(|gateway| gateway.external_subnets.first());
    let provider = subnet.and_then(|subnet| state.subnets.get(subnet)?.provider.as_deref());
    let provider = provider.unwrap_or(DEFAULT_PROVIDER);
    let annotation = || lacks(pod, &format!("{provider}.kubernetes.io/ip_address"));
    pod.external.get(provider).copied().ok_or_else(annotation)
}

fn lacks(pod: &GatewayPod, annotation: &str) -> Trouble {
    let (gateway, pod) = (&pod.gateway, &pod.pod.key);
    Trouble::GatewayIncomplete(format!(
        "pod {pod} of gateway {gateway} has no usable annotation {annotation}"
    ))
}

/// The VPC of a gateway: as declared, else as the pod says, else by its subnet. Unknown stays unknown.
fn vpc_of<'a>(state: &'a State, name: &GatewayName, pod: &'a GatewayPod) -> Option<&'a str> {
    let declared = state.vpc_gateways.get(name.as_str()).and_then(|gateway| gateway.vpc.as_deref());
    let by_subnet = || {
        let workload = state.workloads().find(|workload| workload.gateway == *name)?;
        state.subnets.get(workload.subnet.as_ref()?)?.vpc.as_deref()
    };
    declared.or(pod.vpc.as_deref()).or_else(by_subnet)
}

/// The address, VPC and readiness of a gateway, for its record.
pub(super) fn published(state: &State, name: &GatewayName) -> Option<(Ipv4Addr, Option<String>)> {
    let ready = state.workloads().any(|workload| workload.gateway == *name && workload.ready);
    let located = locate(state, name).ok().filter(|_| ready)?;
    Some((located.external, located.vpc.map(Into::into)))
}

/// Whether a tunnel is of the kind that puts things into a gateway.
pub(super) fn is_buildable(tunnel: &Tunnel) -> bool {
    gateway_of(tunnel).is_some()
}

pub(super) fn verdict<'a>(state: &'a State, tunnel: &Tunnel) -> Verdict<'a> {
    let gateway = match (&tunnel.spec, gateway_of(tunnel)) {
        (Err(why), _) => return Verdict::Down(Trouble::Invalid(why.clone())),
        (Ok(_), None) => return Verdict::Down(Trouble::NotYetSupported),
        (Ok(_), Some(gateway)) => gateway,
    };
    let wanted = match admitted(state, gateway).remove(&tunnel.key) {
        Some(Ok(want)) => want,
        Some(Err(trouble)) => return Verdict::Down(trouble),
        None => return Verdict::Awaited,
    };
    let Ok(located) = locate(state, gateway) else { return Verdict::Awaited };
    let Some(outcome) = current(state, gateway, &located.pod.pod) else { return Verdict::Awaited };
    match &outcome.result {
        Err(trouble) => Verdict::Down(trouble.clone()),
        Ok(visit) => match visit.tunnels.get(&tunnel.key) {
            Some((built, problem)) if *built == wanted => match problem {
                Some(trouble) => Verdict::Down(trouble.clone()),
                None => {
                    let unclamped = visit.unclamped.get(&tunnel.key).map(String::as_str);
                    Verdict::Up { want: Box::new(wanted), located, arp_off: visit.arp_off, unclamped }
                }
            },
            _ => Verdict::Awaited,
        },
    }
}

/// The last outcome, if it is about the pod that runs now.
fn current<'a>(state: &'a State, gateway: &GatewayName, pod: &PodRef) -> Option<&'a Outcome> {
    state.outcomes.get(gateway).filter(|outcome| outcome.pod_uid == pod.uid)
}

/// The gateways that were last seen holding something of an object.
fn holders<'a>(state: &'a State, key: &ObjectKey) -> impl Iterator<Item = &'a GatewayName> {
    let holds = |outcome: &Outcome| outcome.result.as_ref().is_ok_and(|visit| visit.holding.includes(key));
    state.outcomes.iter().filter(move |(_, outcome)| holds(outcome)).map(|(name, _)| name)
}

/// What a deleted tunnel may have left behind.
pub(super) enum Leftovers {
    None,
    /// A gateway has not been looked at since.
    Unknown,
    /// A running gateway can not be cleaned.
    Stuck(Trouble),
}

/// Where a tunnel should be, where it says it is, and where it was seen.
pub(super) fn places(state: &State, tunnel: &Tunnel) -> BTreeSet<GatewayName> {
    let told = tunnel.status.gateway.as_deref().and_then(|name| name.parse().ok());
    let named = gateway_of(tunnel).cloned();
    let seen = holders(state, &tunnel.key).cloned();
    told.into_iter().chain(named).chain(seen).collect()
}

/// Looks at all places of a tunnel. A gateway that is gone has nothing; one that runs must have been seen
/// without it, after the deletion was.
pub(super) fn leftovers(state: &State, tunnel: &Tunnel) -> Leftovers {
    let asked = state.asked.get(&tunnel.key).copied().unwrap_or(0);
    let mut unknown = false;
    for place in &places(state, tunnel) {
        let Ok(pod) = running_pod(state, place) else { continue };
        match current(state, place, &pod.pod).filter(|outcome| outcome.revision >= asked) {
            None => unknown = true,
            Some(Outcome { result: Err(trouble), .. }) => return Leftovers::Stuck(trouble.clone()),
            Some(Outcome { result: Ok(visit), .. }) if visit.holding.includes(&tunnel.key) => unknown = true,
            Some(_) => {}
        }
    }
    if unknown { Leftovers::Unknown } else { Leftovers::None }
}
