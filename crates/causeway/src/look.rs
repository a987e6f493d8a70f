//! A look at a cluster: its objects become the state that its controller would decide from.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use causeway_api::vpc::foreign::kube_ovn::{IptablesEIP, Subnet, Vpc, VpcNatGateway};
use causeway_api::vpc::foreign::kubernetes::{Deployment, Pod, StatefulSet};
use causeway_api::vpc::foreign::submariner::{
    Cluster as SubmarinerCluster, ClusterGlobalEgressIP, ServiceDiscovery,
};
use causeway_api::vpc::{GatewayExIp, LooseTunnel, parse};
use causeway_controller::found::{Found, by_key, by_name, keyed};
use causeway_core::names::parse_address;
use causeway_core::vpc::exchange::Record;
use causeway_core::vpc::nodes::Nodes;
use causeway_core::vpc::objects::Tunnel;
use causeway_core::vpc::{Change, Event, Given, State};
use causeway_core::{ClusterId, Invalid, Ipv4Cidr};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::ListParams;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clusters::{Listed, list};

const KUBE_SYSTEM: &str = "kube-system";
const GATEWAY_CONFIG: &str = "ovn-vpc-nat-config";
const SUBMARINER: &str = "submariner-operator";
const DISCOVERY: &str = "service-discovery";
const EGRESS: &str = "cluster-egress.submariner.io";
/// The Lease of whoever leads.
const LEASE: &str = "causeway-controller";
/// How long a node may be silent, as the controller has it by default.
const GRACE: i64 = 60;

/// Whether a controller is at work in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Leader {
    /// One holds the Lease.
    Leads,
    /// None does; a sentence says what is known.
    Nobody(String),
    /// That may not be seen.
    #[default]
    Unknown,
}

/// What was seen of a cluster.
pub(crate) struct Seen {
    pub(crate) state: State,
    pub(crate) leader: Leader,
    /// Kinds that may not be read, and what is said about it.
    pub(crate) forbidden: Vec<String>,
    /// Whether the kind of tunnels is installed.
    pub(crate) has_tunnels: bool,
    /// Whether tunnels may be read.
    pub(crate) may_see_tunnels: bool,
}

/// Lists of one cluster, with what could not be had.
struct Lists<'a> {
    client: &'a Client,
    forbidden: Vec<String>,
    missing: Vec<String>,
}

impl Lists<'_> {
    async fn of<K: Resource<DynamicType = ()>>(
        &mut self,
        namespace: Option<&str>,
        params: ListParams,
    ) -> kube::Result<Vec<Value>> {
        let path = K::url_path(&(), namespace);
        match list(self.client, &path, params).await? {
            Listed::Objects(objects) => return Ok(objects),
            Listed::Missing => self.missing.push(path),
            Listed::Forbidden(why) => self.forbidden.push(why),
        }
        Ok(Vec::new())
    }
}

/// What a parser makes of objects.
fn each<K: DeserializeOwned, Key: Ord, V>(
    objects: &[Value],
    convert: impl Fn(&Found<K>) -> (Key, Option<V>),
) -> BTreeMap<Key, V> {
    let found = objects.iter().filter_map(|object| Found::read(object).ok());
    found.map(|object| convert(&object)).filter_map(|(key, value)| Some((key, value?))).collect()
}

/// Looks at everything that a tunnel rests on.
pub(crate) async fn look(client: &Client) -> kube::Result<Seen> {
    let mut lists = Lists { client, forbidden: Vec::new(), missing: Vec::new() };
    let tunnels = lists.of::<LooseTunnel>(None, ListParams::default()).await?;
    let (has_tunnels, may_see_tunnels) = (lists.missing.is_empty(), lists.forbidden.is_empty());
    let tunnels = each(&tunnels, by_key(parse::loose_tunnel));
    let records = lists.of::<GatewayExIp>(None, ListParams::default()).await?;
    let records = each(&records, |object: &Found<GatewayExIp>| keyed(object, record(object)));
    let own = own(&mut lists).await?;
    let mut state = State::new(own.given(records.values(), tunnels.values()));
    let mut events = vec![
        Event::NoMembers,
        Event::Identity(own.identity),
        Event::Globalnets(Change::Reset(own.globalnets)),
        Event::Egress(own.egress),
    ];
    events.extend(kube_ovn(&mut lists).await?);
    events.extend(gateways(&mut lists).await?);
    events.extend([Event::Records(Change::Reset(records)), Event::Tunnels(Change::Reset(tunnels))]);
    for event in events {
        state.apply(event);
    }
    let leader = match list(client, "/apis/coordination.k8s.io/v1/leases", named(LEASE)).await? {
        Listed::Objects(leases) => leader(&leases, Timestamp::now()),
        // Whoever leads, what is there is judged without it.
        Listed::Missing | Listed::Forbidden(_) => Leader::Unknown,
    };
    Ok(Seen { state, leader, forbidden: lists.forbidden, has_tunnels, may_see_tunnels })
}

fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

/// Gateways' workloads, pods and nodes.
async fn gateways(lists: &mut Lists<'_>) -> kube::Result<Vec<Event>> {
    let gateways = || ListParams::default().labels(parse::GATEWAY_LABEL);
    let config = lists.of::<ConfigMap>(Some(KUBE_SYSTEM), named(GATEWAY_CONFIG)).await?;
    let config = each(&config, by_name(|config: &ConfigMap| Some(config.clone())));
    let config = config.into_values().next().unwrap_or_default();
    let prefix = parse::gateway_prefix(&config);
    let sets = lists.of::<StatefulSet>(Some(KUBE_SYSTEM), gateways()).await?;
    let of_set = |it: &StatefulSet| parse::workload(&it.metadata, &it.spec, &it.status, prefix);
    let deployments = lists.of::<Deployment>(Some(KUBE_SYSTEM), gateways()).await?;
    let of_deployment = |it: &Deployment| parse::workload(&it.metadata, &it.spec, &it.status, prefix);
    let pods = lists.of::<Pod>(Some(KUBE_SYSTEM), gateways()).await?;
    let nodes = lists.of::<Node>(None, ListParams::default()).await?;
    let nodes = Change::Reset(each(&nodes, by_name(|it| Some(parse::node(it)))));
    Ok(vec![
        Event::Nodes(Nodes::new(GRACE).take(nodes, Timestamp::now().as_second())),
        Event::StatefulSets(Change::Reset(each(&sets, by_name(of_set)))),
        Event::Deployments(Change::Reset(each(&deployments, by_name(of_deployment)))),
        Event::Pods(Change::Reset(each(&pods, by_key(|pod: &Pod| parse::gateway_pod(pod, prefix))))),
    ])
}

/// What kube-ovn says of gateways and VPCs.
async fn kube_ovn(lists: &mut Lists<'_>) -> kube::Result<Vec<Event>> {
    let all = ListParams::default;
    let declared = lists.of::<VpcNatGateway>(None, all()).await?;
    let eips = lists.of::<IptablesEIP>(None, all()).await?;
    let subnets = lists.of::<Subnet>(None, all()).await?;
    let vpcs = lists.of::<Vpc>(None, all()).await?;
    Ok(vec![
        Event::Subnets(Change::Reset(each(&subnets, by_name(|it| Some(parse::subnet(it)))))),
        Event::VpcGateways(Change::Reset(each(&declared, by_name(|it| Some(parse::vpc_gateway(it)))))),
        Event::Eips(Change::Reset(each(&eips, by_name(parse::eip)))),
        Event::Vpcs(Change::Reset(each(&vpcs, by_name(|it| Some(parse::vpc(it)))))),
    ])
}

/// What Submariner says of the cluster itself.
struct Own {
    identity: Option<Result<ClusterId, Invalid>>,
    globalnets: BTreeMap<String, Ipv4Cidr>,
    egress: Vec<Ipv4Addr>,
}

async fn own(lists: &mut Lists<'_>) -> kube::Result<Own> {
    let discovery = lists.of::<ServiceDiscovery>(Some(SUBMARINER), named(DISCOVERY)).await?;
    let identity = each(&discovery, by_name(|it: &ServiceDiscovery| parse::identity(&it.spec)));
    let clusters = lists.of::<SubmarinerCluster>(Some(SUBMARINER), ListParams::default()).await?;
    let range = |it: &SubmarinerCluster| it.spec.global_cidr.as_ref()?.first()?.parse().ok();
    let egress = lists.of::<ClusterGlobalEgressIP>(None, named(EGRESS)).await?;
    let allocated = |it: &ClusterGlobalEgressIP| Some(it.status.clone().unwrap_or_default().allocated_ips);
    let egress = each(&egress, by_name(allocated)).into_values().flatten();
    Ok(Own {
        identity: identity.into_values().next(),
        globalnets: each(&clusters, by_name(range)),
        egress: egress.filter_map(|text| parse_address(&text).ok()).collect(),
    })
}

impl Own {
    /// What the controller was given by flag it has written somewhere: that counts where Submariner does not say it.
    fn given<'a>(
        &self,
        mut records: impl Iterator<Item = &'a Record>,
        tunnels: impl Iterator<Item = &'a Tunnel>,
    ) -> Given {
        let mut given = Given::default();
        let written = records.find(|record| record.origin.is_none() && record.cluster.is_some());
        if self.identity.is_none() {
            given.cluster = written.and_then(|record| record.cluster.clone());
        }
        if self.globalnets.is_empty() {
            given.globalnet = written.and_then(|record| record.globalnet.parse().ok());
        }
        if self.egress.is_empty() {
            let mut built = tunnels.map(|tunnel| &tunnel.status.egress).filter(|egress| !egress.is_empty());
            let built = built.next().into_iter().flatten();
            given.egress = built.filter_map(|text| parse_address(text).ok()).collect();
        }
        given
    }
}

fn record(object: &Found<GatewayExIp>) -> Option<Record> {
    match &object.0 {
        Ok(object) => parse::record(object),
        Err(malformed) => parse::unreadable_record(&malformed.metadata, &malformed.error),
    }
}

/// Whether a controller leads, by its Lease.
fn leader(leases: &[Value], now: Timestamp) -> Leader {
    let renewed = |lease: &Value| lease["spec"]["renewTime"].as_str()?.parse::<Timestamp>().ok();
    let held = |lease: &&Value| lease["spec"]["holderIdentity"].as_str().is_some_and(|it| !it.is_empty());
    let Some(lease) = leases.iter().max_by_key(|lease| renewed(lease)) else {
        return Leader::Nobody(format!("no controller leads (there is no Lease {LEASE})"));
    };
    let place = format!("{}/{LEASE}", lease["metadata"]["namespace"].as_str().unwrap_or_default());
    let lasts = lease["spec"]["leaseDurationSeconds"].as_i64().unwrap_or_default();
    let age = renewed(lease).map(|renewed| now.as_second().saturating_sub(renewed.as_second()));
    match age {
        Some(age) if age <= lasts && held(&lease) => Leader::Leads,
        Some(age) => Leader::Nobody(format!("no controller leads (Lease {place} was renewed {age} s ago)")),
        None => Leader::Nobody(format!("no controller leads (Lease {place} is nobody's)")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(holder: &str, renewed: &str) -> Value {
        json!({ "metadata": { "namespace": "multi-vpc-system" }, "spec": {
            "holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15 } })
    }

    #[test]
    fn who_leads_has_renewed_the_lease() {
        let now: Timestamp = "2025-01-01T00:01:00Z".parse().expect("a time");
        let leader = |leases: &[Value]| leader(leases, now);
        let (fresh, old) = ("2025-01-01T00:00:50.000000Z", "2025-01-01T00:00:00.000000Z");
        assert_eq!(leader(&[lease("a", fresh)]), Leader::Leads);
        assert_eq!(leader(&[lease("a", old), lease("b", fresh)]), Leader::Leads);
        for leases in [vec![], vec![lease("a", old)], vec![lease("", fresh)], vec![json!({})]] {
            assert!(matches!(leader(&leases), Leader::Nobody(_)), "{leases:?}");
        }
    }
}
