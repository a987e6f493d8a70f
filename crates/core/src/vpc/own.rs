//! Who we are: the facts about this cluster that every tunnel rests on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::member::{Contest, Member, Members, Standing};
use super::outcome::Trouble;
use super::want::EgressRange;
use crate::names::{ClusterId, Invalid, Ipv4Cidr};

/// Values that people give by flag, which win over what is observed.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The cluster's id.
    pub cluster: Option<ClusterId>,
    /// Its range of global addresses.
    pub globalnet: Option<Ipv4Cidr>,
    /// Its egress addresses.
    pub egress: Vec<Ipv4Addr>,
    /// What all clusters' ranges must lie in, if they must.
    pub within: Option<Ipv4Cidr>,
    /// Whether a tunnel must be in a namespace of its gateway's VPC.
    pub restrict_namespaces: bool,
    /// How many records of each other cluster are brought here, where not as many as usual.
    pub records_per_member: Option<usize>,
}

/// What is given and observed of ourselves, and what follows from it.
#[derive(Debug, Clone, Default)]
pub(super) struct Own {
    pub(super) given: Given,
    /// What the cluster is called where it says so, if that can be an id.
    pub(super) identity: Option<Result<ClusterId, Invalid>>,
    pub(super) uid: Option<String>,
    pub(super) globalnets: BTreeMap<String, Ipv4Cidr>,
    pub(super) egress: Vec<Ipv4Addr>,
    pub(super) members: Members,
    /// How our claim to our id stands.
    standing: Standing,
    /// The ids that we went by before, as our claims to them prove.
    former: BTreeSet<ClusterId>,
    /// The ids of others that two claim.
    contested: BTreeMap<ClusterId, Contest>,
    /// The ids of others that two may claim.
    unsettled: BTreeSet<ClusterId>,
    /// The longest run of egress addresses.
    run: Option<EgressRange>,
}

impl Own {
    pub(super) fn new(given: Given) -> Self {
        let mut own = Self { given, ..Self::default() };
        own.work_out();
        own
    }

    /// Works out what follows; to be called after a change.
    pub(super) fn work_out(&mut self) {
        let us = self.ourselves();
        self.standing = self.members.standing(us.as_ref());
        self.former = self.members.former(us.as_ref());
        self.contested = self.members.contested(us.as_ref());
        self.unsettled = self.members.unsettled(us.as_ref());
        self.run = EgressRange::longest_run(self.egress());
    }

    /// Our cluster's id, once known.
    pub(super) fn cluster(&self) -> Option<&ClusterId> {
        let observed = || self.identity.as_ref()?.as_ref().ok();
        self.given.cluster.as_ref().or_else(observed)
    }

    /// Our cluster's range of global addresses.
    pub(super) fn globalnet(&self) -> Option<Ipv4Cidr> {
        let observed = || self.globalnets.get(self.cluster()?.as_str()).copied();
        self.given.globalnet.or_else(observed)
    }

    /// The addresses that our traffic appears to come from elsewhere.
    pub(super) fn egress(&self) -> &[Ipv4Addr] {
        if self.given.egress.is_empty() { &self.egress } else { &self.given.egress }
    }

    /// Our claim to our id.
    pub(super) fn ourselves(&self) -> Option<Member> {
        Some(Member { cluster: self.cluster()?.clone(), uid: self.uid.clone()? })
    }

    /// The ids that we went by before.
    pub(super) fn former(&self) -> &BTreeSet<ClusterId> {
        &self.former
    }

    /// Whether we went by an id before.
    pub(super) fn is_former(&self, id: Option<&ClusterId>) -> bool {
        id.is_some_and(|id| self.former.contains(id))
    }

    /// How our claim to our id stands at the broker.
    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The ids of others that two claim, so that nothing new of them is believed.
    pub(super) fn contested(&self) -> &BTreeMap<ClusterId, Contest> {
        &self.contested
    }

    /// Whether anybody claims what another does, ourselves included.
    pub(super) fn is_any_contested(&self) -> bool {
        matches!(self.standing, Standing::Contested(_)) || !self.contested.is_empty()
    }

    /// Whether what is published under an id may be believed: it is known who claims it, and not two do.
    pub(super) fn believes(&self, id: &ClusterId) -> bool {
        self.members.are_known() && !self.contested.contains_key(id)
    }

    /// The ids of others that two may claim, as far as could be watched.
    pub(super) fn unsettled(&self) -> &BTreeSet<ClusterId> {
        &self.unsettled
    }

    /// Whether what is known of an id may be exchanged for what is published under it now.
    pub(super) fn takes_changes(&self, id: &ClusterId) -> bool {
        self.believes(id) && !self.unsettled.contains(id)
    }

    /// Our range, if it is known and our id is ours.
    pub(super) fn range(&self) -> Result<Ipv4Cidr, Trouble> {
        let missing = |what: String| Trouble::ClusterIncomplete(what);
        let cluster = self.cluster().ok_or_else(|| {
            let object = "ServiceDiscovery submariner-operator/service-discovery";
            missing(match &self.identity {
                Some(Err(invalid)) => {
                    format!("this cluster's id cannot be used: in {object} {invalid}; or give --cluster-id")
                }
                Some(Ok(_)) | None => {
                    format!("this cluster's id is not known: {object} is missing; or give --cluster-id")
                }
            })
        })?;
        if let Standing::Contested(by) = &self.standing {
            return Err(Trouble::ClusterIdTaken { cluster: cluster.clone(), by: by.clone() });
        }
        let range = self.globalnet();
        if let Some((range, within)) = range.zip(self.given.within)
            && !within.covers(range)
        {
            let why = format!("this cluster's own range {range} is not within {within} (--globalnet-within)");
            return Err(missing(why));
        }
        range.ok_or_else(|| {
            missing(format!(
                "this cluster's range of global addresses is not known: Submariner Cluster {cluster} has no global_cidr; or give --globalnet-cidr"
            ))
        })
    }

    /// The egress addresses that one rule can use.
    pub(super) fn egress_range(&self) -> Result<EgressRange, Trouble> {
        self.run.ok_or_else(|| {
            Trouble::ClusterIncomplete(
                "no egress addresses are known: ClusterGlobalEgressIP cluster-egress.submariner.io has no allocatedIPs; \
                 or give --egress-ips"
                    .into(),
            )
        })
    }
}
