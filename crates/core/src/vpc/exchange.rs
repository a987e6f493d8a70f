//! How clusters learn each other's gateways: records here, copies at the broker.
//!
//! Each cluster publishes a record per ready gateway, copies its own records to the broker, and brings
//! the others' copies home. It writes and deletes at the broker only what it originated, and here only
//! its own records and imported ones. When its id changes, what it published under the former one goes, here and
//! at the broker, as long as its claim to that id is there to prove that it was its own ([`super::member`]).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::mains::{Moving, left_behind, still_moving};
use super::member::Standing;
use super::naming::{copy_name, home_name, is_named_after, vpc_home_name, vpc_name};
use super::objects::{Far, Peer};
use super::state::State;
use crate::names::{ClusterId, GatewayName, ObjectKey};

/// Label: the cluster a record came from; only imported records and copies carry it.
pub const ORIGIN: &str = "submariner-io/clusterID";
/// Label: the namespace a record has at home.
pub const ORIGIN_NAMESPACE: &str = "submariner-io/originatingNamespace";
/// Label: the VPC of a record's gateway.
pub const LOCAL_VPC: &str = "localVpc";
/// Label: the gateway of a record.
pub const LOCAL_GATEWAY: &str = "localGateway";
/// Label: the cluster of a record's gateway.
pub const LOCAL_CLUSTER: &str = "localCluster";
/// Annotation on our own record of a VPC: its main gateway's address in the VPC. Routes that lead there follow a switch, also
/// when the gateway is gone by then.
pub const LAN_IP: &str = "causeway/lan-ip";
/// Annotation on the same: where routes lead that are still to be moved, [`Moving`] by [`Moving`].
pub const MOVING: &str = "causeway/moving-from";
/// Annotation on the same: the last wish for another main gateway that was granted.
pub const SWITCHED: &str = "causeway/switched";
/// Annotation on the same: where the gateway was that gave way to that wish. What stayed there is told, and follows when the
/// wish is repeated for all routes.
pub const SWITCHED_FROM: &str = "causeway/switched-from";
/// Where our own records live.
pub const RECORD_NAMESPACE: &str = "kube-system";

/// A `GatewayExIp`, here or at the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its namespace and name where it was seen.
    pub key: ObjectKey,
    /// The version last seen.
    pub resource_version: String,
    /// The gateway's address on the underlay, as written.
    pub external_ip: String,
    /// The cluster's range, as written.
    pub globalnet: String,
    /// The gateway's VPC, where known.
    pub vpc: Option<String>,
    /// The gateway.
    pub gateway: Option<GatewayName>,
    /// Its cluster.
    pub cluster: Option<ClusterId>,
    /// The cluster that it was brought from.
    pub origin: Option<ClusterId>,
    /// Its namespace at home.
    pub origin_namespace: Option<String>,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// Why what it says cannot be used, if it cannot: it counts as present.
    pub unreadable: Option<String>,
    /// Of a VPC: what [`LAN_IP`] says.
    pub lan: Option<Ipv4Addr>,
    /// Of a VPC: what [`MOVING`] says.
    pub moving: Vec<Moving>,
    /// Of a VPC: what [`SWITCHED`] says.
    pub switched: Option<String>,
    /// Of a VPC: what [`SWITCHED_FROM`] says.
    pub switched_from: Option<Ipv4Addr>,
}

/// A record as it should be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordObject {
    /// Where.
    pub key: ObjectKey,
    /// `spec.externalip`.
    pub external_ip: String,
    /// `spec.globalnetcidr`.
    pub globalnet: String,
    /// Its labels.
    pub labels: BTreeMap<&'static str, String>,
    /// Its annotations, where it has any of ours.
    pub annotations: BTreeMap<&'static str, String>,
}

/// What to do about one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordTask {
    /// It is as it should be.
    Nothing,
    /// Make it: there is none.
    Create(RecordObject),
    /// Write it over the version given.
    Update {
        /// What it should be.
        object: RecordObject,
        /// The version last seen.
        version: String,
        /// Labels that it has and should not have.
        unset: Vec<&'static str>,
        /// Annotations that it has and should not have.
        unset_annotations: Vec<&'static str>,
    },
    /// Remove the version given.
    Delete(ObjectKey, String),
}

impl Record {
    /// The gateway that a record here stands for, by its labels. Its name has to agree with them: a record under its
    /// VPC's name is another matter.
    pub fn peer(&self) -> Option<Peer> {
        self.labelled().filter(|peer| is_named_after(self.key.name(), peer))
    }

    /// What a record stands for: its gateway, or its VPC where it has the name of that.
    pub fn far(&self) -> Option<Far> {
        self.peer().map(Far::Gateway).or_else(|| self.of_vpc())
    }

    /// All that it stands for. One without labels, as other operators write them, may be a gateway's or a VPC's: it is taken for
    /// whichever is looked for.
    pub(super) fn fars(&self) -> impl Iterator<Item = Far> {
        let either = self.peer().filter(|_| self.vpc.is_none());
        let either = either.map(|peer| Far::Vpc { cluster: peer.cluster, vpc: peer.gateway.to_string() });
        self.far().into_iter().chain(either)
    }

    /// The VPC that it stands for, by its labels and its name.
    fn of_vpc(&self) -> Option<Far> {
        let (vpc, cluster) = (self.vpc.as_ref()?, self.cluster.as_ref()?);
        let name = self.key.name();
        let is_its = name == vpc_name(vpc, cluster) || name == vpc_home_name(vpc, cluster);
        is_its.then(|| Far::Vpc { cluster: cluster.clone(), vpc: vpc.clone() })
    }

    fn labelled(&self) -> Option<Peer> {
        Some(Peer { cluster: self.cluster.clone()?, gateway: self.gateway.clone()? })
    }

    /// Where a copy at the broker belongs in the cluster `own`; nowhere if its member does not speak for itself, if it
    /// is from a namespace of which nothing is brought, or if its name is neither its gateway's nor its VPC's.
    pub fn home(&self, own: Option<&ClusterId>) -> Option<ObjectKey> {
        let from = self.origin_namespace.as_deref().unwrap_or(RECORD_NAMESPACE);
        let peer = self.labelled().filter(|peer| self.origin.as_ref() == Some(&peer.cluster))?;
        let name = match &self.vpc {
            _ if self.key.name() == copy_name(&peer) => home_name(own, &peer),
            Some(vpc) if self.key.name() == vpc_name(vpc, &peer.cluster) => vpc_home_name(vpc, &peer.cluster),
            Some(_) | None => return None,
        };
        ObjectKey::new(RECORD_NAMESPACE, &name).ok().filter(|_| from == RECORD_NAMESPACE)
    }

    /// Whether a copy is named after its gateway and cluster.
    fn is_of_gateway(&self) -> bool {
        self.labelled().is_some_and(|peer| copy_name(&peer) == self.key.name())
    }

    /// The member that a record is about: in whose line it waits to be brought here.
    pub(super) fn member(&self) -> Option<&ClusterId> {
        self.origin.as_ref().or(self.cluster.as_ref())
    }

    /// The labels that we write, as they are.
    fn labels(&self) -> [(&'static str, Option<&str>); 5] {
        [
            (LOCAL_VPC, self.vpc.as_deref()),
            (LOCAL_GATEWAY, self.gateway.as_ref().map(GatewayName::as_str)),
            (LOCAL_CLUSTER, self.cluster.as_ref().map(ClusterId::as_str)),
            (ORIGIN, self.origin.as_ref().map(ClusterId::as_str)),
            (ORIGIN_NAMESPACE, self.origin_namespace.as_deref()),
        ]
    }

    /// The annotations that we write, as they are.
    fn annotations(&self) -> [(&'static str, Option<String>); 4] {
        [
            (LAN_IP, self.lan.map(|lan| lan.to_string())),
            (MOVING, Some(listed(&self.moving)).filter(|moving| !moving.is_empty())),
            (SWITCHED, self.switched.clone()),
            (SWITCHED_FROM, self.switched_from.map(|from| from.to_string())),
        ]
    }

    fn says(&self, object: &RecordObject) -> bool {
        let wanted = |name| object.labels.get(name).map(String::as_str);
        self.unreadable.is_none()
            && self.external_ip == object.external_ip
            && self.globalnet == object.globalnet
            && self.labels().iter().all(|(name, value)| *value == wanted(*name))
            && self.annotations().iter().all(|(name, value)| value.as_ref() == object.annotations.get(name))
    }

    /// The same facts under another key and origin.
    fn moved(&self, key: ObjectKey, origin: &ClusterId, namespace: &str) -> RecordObject {
        let mut labels =
            BTreeMap::from([(ORIGIN, origin.to_string()), (ORIGIN_NAMESPACE, namespace.to_string())]);
        labels.extend(self.vpc.clone().map(|vpc| (LOCAL_VPC, vpc)));
        labels.extend(self.gateway.as_ref().map(|gateway| (LOCAL_GATEWAY, gateway.to_string())));
        labels.extend(self.cluster.as_ref().map(|cluster| (LOCAL_CLUSTER, cluster.to_string())));
        let (external_ip, globalnet) = (self.external_ip.clone(), self.globalnet.clone());
        RecordObject { key, external_ip, globalnet, labels, annotations: BTreeMap::new() }
    }
}

/// As [`MOVING`] has it.
fn listed(moving: &[Moving]) -> String {
    moving.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn task(want: Option<RecordObject>, have: Option<&Record>) -> RecordTask {
    match (want, have) {
        (Some(want), Some(have)) if have.says(&want) => RecordTask::Nothing,
        (Some(object), None) => RecordTask::Create(object),
        (Some(object), Some(have)) => {
            let too_many = have.labels().into_iter().filter(|(_, value)| value.is_some());
            let unset = too_many.map(|(name, _)| name).filter(|name| !object.labels.contains_key(name));
            let said = have.annotations().into_iter().filter(|(_, value)| value.is_some());
            let said = said.map(|(name, _)| name).filter(|name| !object.annotations.contains_key(name));
            let (unset, unset_annotations) = (unset.collect(), said.collect());
            RecordTask::Update { unset, unset_annotations, object, version: have.resource_version.clone() }
        }
        (None, Some(have)) if !have.deleting => {
            RecordTask::Delete(have.key.clone(), have.resource_version.clone())
        }
        (None, Some(_) | None) => RecordTask::Nothing,
    }
}

/// Where the record of a gateway of ours is.
pub(super) fn own_key(cluster: &ClusterId, gateway: &GatewayName) -> ObjectKey {
    ObjectKey::of_record(RECORD_NAMESPACE, gateway, cluster)
}

/// The record of a gateway of ours. It is written when the gateway is ready and stays while the gateway
/// exists: a restart must not tear the peers' tunnels down.
pub fn own_record(state: &State, gateway: &GatewayName) -> RecordTask {
    let Some(cluster) = state.cluster() else { return RecordTask::Nothing };
    let key = own_key(cluster, gateway);
    let have = state.records.here().get(&key);
    let exists = state.gateways.get(gateway).is_some();
    let want = state.gateways.published(gateway).zip(state.own.globalnet()).map(|(located, globalnet)| {
        let mut labels =
            BTreeMap::from([(LOCAL_GATEWAY, gateway.to_string()), (LOCAL_CLUSTER, cluster.to_string())]);
        labels.extend(located.vpc.clone().map(|vpc| (LOCAL_VPC, vpc)));
        let (external_ip, globalnet) = (located.external.to_string(), globalnet.to_string());
        RecordObject { key, external_ip, globalnet, labels, annotations: BTreeMap::new() }
    });
    let is_about = |record: &Record| {
        record.gateway.as_ref() == Some(gateway) && record.cluster.as_ref() == Some(cluster)
    };
    // Another cluster goes by this id, or what was brought from it stands here: our id may be a slip.
    let brought = have.is_some_and(|record| record.origin.is_some());
    match state.own.standing() {
        Standing::Contested(_) => return RecordTask::Nothing,
        Standing::Unproven if brought => return RecordTask::Nothing,
        Standing::Unproven | Standing::Ours => {}
    }
    match want {
        None if exists => RecordTask::Nothing,
        // What was brought, or is about another gateway, is not ours to remove here.
        None => task(None, have.filter(|record| record.origin.is_none() && is_about(record))),
        want => task(want, have),
    }
}

/// Our own record of a VPC of ours, if there is one.
pub(super) fn own_vpc_record<'a>(state: &'a State, vpc: &str) -> Option<&'a Record> {
    let cluster = state.cluster()?;
    let key = ObjectKey::new(RECORD_NAMESPACE, &vpc_name(vpc, cluster)).ok()?;
    let is_ours = |record: &&Record| {
        record.origin.is_none()
            && record.vpc.as_deref() == Some(vpc)
            && record.cluster.as_ref() == Some(cluster)
    };
    state.records.here().get(&key).filter(is_ours)
}

/// The record of a VPC of ours: it names the main gateway, leads there, and remembers what a switch still has to move. It
/// stays as it is while the main gateway has no address to be reached by, and goes with the VPC's last gateway.
pub(super) fn vpc_record(state: &State, vpc: &str) -> RecordTask {
    let Some(cluster) = state.cluster() else { return RecordTask::Nothing };
    let Ok(key) = ObjectKey::new(RECORD_NAMESPACE, &vpc_name(vpc, cluster)) else {
        return RecordTask::Nothing;
    };
    // Who else goes by our id is a matter of the exchange: whether it leaves this cluster, `export` asks.
    let standing = state.records.here().get(&key);
    let have = standing.filter(|record| record.origin.is_none());
    if have.is_none() && standing.is_some() {
        // Brought from elsewhere, in its place.
        return RecordTask::Nothing;
    }
    let Some(main) = state.main(vpc) else {
        // It remembers where routes lead for as long as anybody may come to take over.
        let is_last = state.gateways.of_vpc(vpc).next().is_none();
        return if is_last { task(None, have) } else { RecordTask::Nothing };
    };
    let Some(located) = state.gateways.published(&main.gateway) else { return RecordTask::Nothing };
    let known = || have.map(|record| record.globalnet.clone());
    let Some(globalnet) = state.own.globalnet().map(|range| range.to_string()).or_else(known) else {
        return RecordTask::Nothing;
    };
    let labels = BTreeMap::from([
        (LOCAL_GATEWAY, main.gateway.to_string()),
        (LOCAL_CLUSTER, cluster.to_string()),
        (LOCAL_VPC, vpc.to_string()),
    ]);
    let moving = listed(&still_moving(state, vpc, have, main, located.lan));
    let wish = state.vpcs.get(vpc).and_then(|vpc| vpc.switch.as_ref());
    let granted = wish.filter(|wish| wish.to == main.gateway).map(|wish| wish.text.clone());
    let switched = granted.or_else(|| have?.switched.clone());
    let annotations = [
        (LAN_IP, located.lan.map(|lan| lan.to_string())),
        (MOVING, Some(moving).filter(|moving| !moving.is_empty())),
        (SWITCHED, switched),
        (SWITCHED_FROM, left_behind(state, vpc, have, main, located.lan).map(|from| from.to_string())),
    ];
    let annotations = annotations.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let external_ip = located.external.to_string();
    task(Some(RecordObject { key, external_ip, globalnet, labels, annotations }), have)
}

/// A copy at the broker, by its name: it should say what our record says; copies of others are not ours.
pub fn export(state: &State, name: &str) -> RecordTask {
    let (Some(copies), Some(cluster)) = (state.records.copies(), state.cluster()) else {
        return RecordTask::Nothing;
    };
    let have = copies.get(name);
    if have.is_some_and(|copy| state.own.is_former(copy.origin.as_ref())) {
        return task(None, have);
    }
    if have.is_some_and(|copy| copy.origin.as_ref() != Some(cluster))
        || *state.own.standing() != Standing::Ours
    {
        return RecordTask::Nothing;
    }
    let original = original(state, cluster, name);
    if original.is_some_and(|record| record.unreadable.is_some()) {
        // What it said before stands until it is mended.
        return RecordTask::Nothing;
    }
    let Ok(key) = ObjectKey::new(&state.records.broker_namespace, name) else { return RecordTask::Nothing };
    let want = original.map(|record| record.moved(key, cluster, record.key.namespace()));
    task(want, have)
}

/// Our record that a copy of this name stands for. Only what is in the namespace of our own records counts: who
/// may write elsewhere must not speak for a gateway.
fn original<'a>(state: &'a State, cluster: &ClusterId, name: &str) -> Option<&'a Record> {
    let is_ours = |record: &&Record| {
        let gateway = record.gateway.as_ref().filter(|_| record.cluster.as_ref() == Some(cluster));
        let of_gateway = gateway.is_some_and(|gateway| own_key(cluster, gateway) == record.key);
        let of_vpc = || {
            record
                .vpc
                .as_ref()
                .is_some_and(|vpc| own_vpc_record(state, vpc).is_some_and(|own| own.key == record.key))
        };
        !record.deleting && (of_gateway || of_vpc())
    };
    let records = state.records.exported_as(name).filter(is_ours);
    // Two gateways of ours may be spelt alike there: the one whose name it really is. And a VPC that is called like one of
    // them has no copy of its own.
    let best = records.min_by_key(|record| {
        let dotted = record.gateway.as_ref().is_some_and(|it| it.as_str().contains('.'));
        (record.peer().is_none(), dotted)
    });
    best.filter(|record| record.key.namespace() != state.records.broker_namespace)
}

/// Whether a record is one of ours from when we went by another id. Only our own claim to that id proves it.
pub(super) fn is_former(state: &State, record: &Record) -> bool {
    record.origin.is_none()
        && record.key.namespace() == RECORD_NAMESPACE
        && record.far().is_some_and(|far| state.own.is_former(Some(far.cluster())))
}

/// Whether a record was written while we went by a wrong id: it is another cluster's, and leads to a gateway of ours.
fn is_slip(state: &State, cluster: &ClusterId, record: &Record) -> bool {
    let leads_here = |gateway: &GatewayName| {
        let located = state.gateways.published(gateway);
        located.is_some_and(|located| located.external.to_string() == record.external_ip)
    };
    record.origin.is_none()
        && record.key.namespace() == RECORD_NAMESPACE
        && record.peer().is_some_and(|peer| peer.cluster != *cluster && leads_here(&peer.gateway))
}

/// A record brought from another cluster: it should say what the copy says, and go with it. One of our own from
/// when we went by another id goes. Only what is in the namespace of records counts, so only there anything is
/// brought: members may name any.
pub fn import(state: &State, key: &ObjectKey) -> RecordTask {
    let (Some(_), Some(cluster)) = (state.records.copies(), state.cluster()) else {
        return RecordTask::Nothing;
    };
    let have = state.records.here().get(key);
    if have.is_some_and(|record| is_former(state, record)) {
        return task(None, have);
    }
    if key.namespace() != RECORD_NAMESPACE || key.namespace() == state.records.broker_namespace {
        return RecordTask::Nothing;
    }
    let is_it = |copy: &&Record| {
        let from_another = copy.origin.as_ref().is_some_and(|origin| origin != cluster);
        from_another && !copy.deleting && !state.own.is_former(copy.origin.as_ref())
    };
    // One that stands for its gateway by name comes before one that only happens to be called so.
    // And of two members one whose id has no dot: there, a dot ends the name of a VPC.
    let clear = |copy: &Record| !copy.origin.as_ref().is_some_and(|id| id.as_str().contains('.'));
    let copy =
        state.records.copies_for(key).filter(is_it).max_by_key(|copy| (clear(copy), copy.is_of_gateway()));
    // Nor is anything taken or let go under an id that is perhaps not its publisher's; before that is known, a controller
    // that starts would bring what was refused before.
    let mut members = [copy, have].into_iter().flatten().filter_map(|record| record.origin.as_ref());
    if members.any(|member| !state.own.believes(member) || have.is_some() && !state.own.takes_changes(member))
    {
        return RecordTask::Nothing;
    }
    let mended = |record: &Record| {
        is_slip(state, cluster, record) && copy.is_some_and(|copy| copy.external_ip != record.external_ip)
    };
    let is_ours = |record: &Record| record.origin.as_ref().is_none_or(|origin| origin == cluster);
    if have.is_some_and(|record| is_ours(record) && !mended(record)) {
        return RecordTask::Nothing;
    }
    if copy.is_some_and(|copy| copy.unreadable.is_some())
        || have.is_some_and(|record| is_moving(state, record))
    {
        return RecordTask::Nothing;
    }
    let want = copy.and_then(|copy| {
        let origin = copy.origin.clone()?;
        Some(copy.moved(key.clone(), &origin, key.namespace()))
    });
    task(want, have)
}

/// Whether what is said under an earlier name is not here yet under the one that it should have: until then it stays,
/// so that no tunnel is without it.
fn is_moving(state: &State, record: &Record) -> bool {
    let Some(peer) = record.peer() else { return false };
    let home = ObjectKey::new(RECORD_NAMESPACE, &home_name(state.cluster(), &peer)).ok();
    home.filter(|home| *home != record.key).is_some_and(|home| {
        let is_coming = |copy: &Record| copy.is_of_gateway() && !copy.deleting && copy.unreadable.is_none();
        state.records.copies_for(&home).any(is_coming) && !state.records.here().contains_key(&home)
    })
}
