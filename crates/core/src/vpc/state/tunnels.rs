//! What an event of tunnels touches, and which of a gateway's tunnels may be built after it.

use std::collections::{BTreeMap, BTreeSet};

use super::{State, Touched};
use crate::names::{GatewayName, ObjectKey};
use crate::room::Change;
use crate::vpc::admission::{Admission, Candidate, Grounds};
use crate::vpc::compile;
use crate::vpc::ends::Agreement;
use crate::vpc::event::Scope;
use crate::vpc::objects::{Ends, Tunnel};
use crate::vpc::want::Seat;

impl State {
    pub(super) fn apply_tunnels(&mut self, event: Change<ObjectKey, Tunnel>) -> Touched {
        let mut touched = Touched::new();
        let mut concerned: BTreeMap<GatewayName, BTreeSet<ObjectKey>> = BTreeMap::new();
        let mut vpcs = BTreeSet::new();
        // Until they are listed nothing is done to any gateway.
        let mut anywhere = !self.tunnels.listed() && matches!(event, Change::Reset(_));
        let pairs = self.pairs_around(&event);
        let compared = self.compared(&pairs);
        for difference in self.tunnels.take(event, self.revision) {
            if difference.in_spec {
                touched.extend(self.own_end(&difference.key));
                for tunnel in [&difference.old, &difference.new].into_iter().flatten() {
                    anywhere |= tunnel.spec.is_err();
                    // A deletion waits for a look at each of them.
                    touched.extend(compile::places(self, tunnel).into_iter().map(Scope::Gateway));
                    vpcs.extend(tunnel.local_vpc().map(ToString::to_string));
                    for gateway in self.gateways_of(tunnel) {
                        concerned.entry(gateway).or_default().insert(difference.key.clone());
                    }
                }
            }
            // What is in use decides between claims that overlap.
            if let (Some(old), Some(new)) = (&difference.old, &difference.new)
                && old.built_with() != new.built_with()
            {
                for gateway in self.gateways_of(new) {
                    touched.insert(Scope::Gateway(gateway.clone()));
                    concerned.entry(gateway).or_default().insert(difference.key.clone());
                }
                vpcs.extend(new.local_vpc().map(ToString::to_string));
            }
            touched.insert(Scope::Tunnel(difference.key));
        }
        if anywhere {
            // What an object has that cannot be understood stays, wherever it is.
            touched.extend(self.gateways.names().cloned().map(Scope::Gateway));
        }
        touched.extend(self.elect_each(vpcs));
        for (gateway, keys) in concerned {
            touched.extend(self.admit(&gateway, keys).into_iter().map(Scope::Tunnel));
            touched.extend(self.gateways.vpc_of(&gateway).map(|vpc| Scope::Vpc(vpc.into())));
        }
        // One that comes or goes may leave another with another end of the peer's.
        let differs = |(key, now): (ObjectKey, Agreement)| (compared.get(&key) != Some(&now)).then_some(key);
        touched.extend(self.compared(&pairs).into_iter().filter_map(differs).map(Scope::Tunnel));
        touched
    }

    /// Decides some tunnels of a gateway anew; gives those of which something else is true now.
    pub(super) fn admit(
        &mut self,
        gateway: &GatewayName,
        keys: impl IntoIterator<Item = ObjectKey>,
    ) -> BTreeSet<ObjectKey> {
        let seat = self.gateways.vpc_of(gateway).map(|vpc| (vpc, self.seat(vpc, gateway)));
        let located = self.gateways.locate(gateway);
        let local = located.as_ref().map(|located| located.external);
        let vpc = located.as_ref().ok().and_then(|located| located.vpc.as_deref());
        let grounds = Grounds {
            local,
            gateway,
            own: &self.own,
            records: &self.records,
            ranges: &self.ranges,
            vpc: vpc.map(|vpc| (vpc, self.vpcs.get(vpc))),
        };
        let mut candidate = |key: &ObjectKey| {
            let tunnel = self.tunnels.get(key).filter(|tunnel| !tunnel.deleting)?;
            let spec = tunnel.spec.as_ref().ok()?;
            let seat = match &spec.ends {
                Ends::ByGateway { gateway: on, .. } => (on == gateway).then_some(Seat::Named),
                Ends::ByVpc { local, .. } => seat.filter(|(vpc, _)| vpc == local).map(|(_, seat)| seat),
            };
            self.resolves += u64::from(seat.is_some());
            seat.map(|seat| Candidate::new(tunnel, spec, grounds.resolve(tunnel, spec, seat)))
        };
        let changes = keys.into_iter().map(|key| {
            let candidate = candidate(&key);
            (key, candidate)
        });
        let admission = self.admissions.entry(gateway.clone()).or_default();
        let changed = admission.update(changes);
        if admission.is_empty() {
            self.admissions.remove(gateway);
        }
        changed
    }

    pub(super) fn admit_whole(&mut self, gateway: &GatewayName) {
        let admitted = self.admissions.get(gateway).into_iter().flat_map(Admission::keys);
        let keys: BTreeSet<ObjectKey> = self.on(gateway).chain(admitted).cloned().collect();
        self.admit(gateway, keys);
    }

    pub(super) fn admit_all(&mut self) {
        let by_vpc = self.tunnels.vpcs().flat_map(|vpc| self.gateways.of_vpc(vpc));
        let gateways: BTreeSet<GatewayName> =
            self.tunnels.gateways().chain(by_vpc).chain(self.admissions.keys()).cloned().collect();
        gateways.iter().for_each(|gateway| self.admit_whole(gateway));
    }
}
