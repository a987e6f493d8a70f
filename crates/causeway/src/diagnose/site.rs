//! The ends of tunnels as they are now: from a cluster's state, its gateway, and packets.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::time::Duration;

use causeway_api::vpc::parse::GATEWAY_CONTAINER;
use causeway_controller::vpc::exec::PodExec;
use causeway_core::vpc::have::Have;
use causeway_core::vpc::objects::{self, Ends, Place, Tunnel};
use causeway_core::vpc::outcome::Hindrance;
use causeway_core::vpc::status::{self, READY};
use causeway_core::vpc::{UNDERLAY_LINK, Want, compile, plan};
use causeway_core::{GatewayName, Ipv4Cidr, ObjectKey};
use causeway_datapath::vpc::{Beyond, Commands, Datapath, Looked, Question};
use causeway_datapath::{RunError, Trouble};
use tokio::sync::Mutex;

use super::facts::{End, Held, Reason, Role, Unlooked, Wanted};
use crate::clusters::Cluster;
use crate::look::Seen;

/// The longest that a command in a gateway may take.
const LIMIT: Duration = Duration::from_secs(20);

/// A cluster that was looked at, and the way to its gateways.
pub(super) struct Site {
    /// Its context, else its id.
    pub(super) name: String,
    pub(super) seen: Seen,
    cluster: Cluster,
    /// What gateways hold, each looked at once.
    held: Mutex<BTreeMap<ObjectKey, Result<Have, Unlooked>>>,
}

impl Site {
    pub(super) fn new(context: Option<String>, cluster: Cluster, seen: Seen) -> Self {
        let id = || seen.state.cluster().map(ToString::to_string);
        let name = context.or_else(id).unwrap_or_else(|| "this cluster".into());
        Self { name, seen, cluster, held: Mutex::default() }
    }

    /// The tunnel of this cluster that leads from a gateway or VPC to a peer. Of several the oldest, as everywhere.
    pub(super) fn tunnel_between(&self, own: &Place, other: &objects::Far) -> Option<&Tunnel> {
        let leads = |tunnel: &&Tunnel| {
            let ends = tunnel.spec.as_ref().map(|spec| (spec.ends.near(), spec.ends.far()));
            ends.is_ok_and(|(near, far)| near == *own && far == *other)
        };
        self.seen.state.tunnels().filter(leads).min_by_key(|tunnel| (tunnel.created, tunnel.key.clone()))
    }

    /// What lies behind the peer of a tunnel, where that is known.
    pub(super) fn range_behind(&self, tunnel: &Tunnel) -> Option<Ipv4Cidr> {
        let state = &self.seen.state;
        let task = compile::gateway(state, state.gateway_of(tunnel)?)?;
        wanted(&task.want, &tunnel.key).map(|wanted| wanted.tunnel.remote_range)
    }

    /// One end of a tunnel; packets are asked about it only where its link is up.
    pub(super) async fn end(&self, tunnel: &Tunnel, beyond: Beyond) -> End {
        let state = &self.seen.state;
        let mut end = End {
            cluster: self.name.clone(),
            tunnel: tunnel.clone(),
            trouble: None,
            role: self.role(tunnel),
            pod: None,
            want: None,
            held: None,
            routed: None,
            answers: None,
            leader: self.seen.leader.clone(),
        };
        let Some(gateway) = state.gateway_of(tunnel) else {
            end.trouble = self.trouble(tunnel);
            return end;
        };
        let task = compile::gateway(state, gateway);
        let wanted = task.as_ref().and_then(|task| wanted(&task.want, &tunnel.key));
        let (Some(task), Some(wanted)) = (task, wanted) else {
            end.trouble = self.trouble(tunnel);
            return end;
        };
        // It may go on with what was last known; what is wrong is named all the same.
        end.trouble = state
            .doubt(gateway, &tunnel.key)
            .map(|doubt| Reason { reason: doubt.reason().into(), message: doubt.to_string() });
        let routed = state.routed(gateway, wanted.tunnel.remote_range);
        end.routed = routed.map(|(vpc, lan, leads)| (vpc.to_owned(), lan, leads));
        let held = self.held(&task.pod.key).await.map(|have| holds(&task.want, &tunnel.key, have));
        if let Some(question) = held.as_ref().ok().and_then(|held| question(&wanted, held, beyond)) {
            let answers = self.commands(&task.pod.key).examine(&question).await;
            end.answers = Some(answers.map_err(unlooked));
        }
        (end.pod, end.want, end.held) = (Some(task.pod.key), Some(wanted), Some(held));
        end
    }

    /// By VPC: who its main gateway is, and should be.
    fn role(&self, tunnel: &Tunnel) -> Option<Role> {
        let Ends::ByVpc { local, .. } = &tunnel.spec.as_ref().ok()?.ends else { return None };
        let known = self.seen.state.overview(local);
        let main = self.seen.state.gateway_of(tunnel)?;
        let unfit = known.main.as_ref().and_then(|recorded| known.gateway(recorded)?.unfit.clone());
        let others = known.gateways.iter().filter(|it| it.unfit.is_none() && it.name != *main);
        Some(Role {
            standbys: others.map(|it| it.name.clone()).collect(),
            vpc: known.vpc,
            main: main.clone(),
            recorded: known.main,
            unfit,
        })
    }

    /// What a gateway that stands by for a tunnel lacks of it, in words; nothing where it has all or cannot be looked at.
    pub(super) async fn lacking(&self, tunnel: &Tunnel, standby: &GatewayName) -> Option<String> {
        let task = compile::gateway(&self.seen.state, standby)?;
        let held = self.held(&task.pod.key).await.ok()?;
        let held = holds(&task.want, &tunnel.key, held);
        let missing: Vec<String> =
            held.steps.iter().filter(|step| !step.is_clamp()).map(ToString::to_string).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }

    fn commands(&self, pod: &ObjectKey) -> Commands<PodExec> {
        Commands::new(PodExec::of(&self.cluster.client, pod, Some(GATEWAY_CONTAINER), LIMIT))
    }

    async fn held(&self, pod: &ObjectKey) -> Result<Have, Unlooked> {
        let mut known = self.held.lock().await;
        if let Some(held) = known.get(pod) {
            return held.clone();
        }
        let looked = self.commands(pod).observe(None).await;
        let held = looked.map(Looked::listing).map(|listing| listing.unwrap_or_default().have);
        let held = held.map_err(unlooked);
        known.insert(pod.clone(), held.clone());
        held
    }

    /// Why a tunnel is not among those that its gateway should hold, in the words of the controller.
    fn trouble(&self, tunnel: &Tunnel) -> Option<Reason> {
        if tunnel.deleting {
            return None;
        }
        let status = status::tunnel(&self.seen.state, &tunnel.key).and_then(|task| task.status);
        let ready = status.as_ref().and_then(|status| status.conditions.get(READY));
        Some(match ready.filter(|ready| !ready.is_true()) {
            Some(ready) => Reason { reason: ready.reason.clone(), message: ready.message.clone() },
            None => Reason { reason: "NotBuilt".into(), message: "its gateway is not to hold it".into() },
        })
    }
}

/// What a gateway should hold for one tunnel.
fn wanted(want: &Want, key: &ObjectKey) -> Option<Wanted> {
    let (link, tunnel) = want.tunnels.iter().find(|(_, tunnel)| tunnel.owner == *key)?;
    Some(Wanted { link: link.clone(), tunnel: tunnel.clone(), inbound: want.inbound })
}

/// What a gateway holds, seen from one tunnel.
fn holds(want: &Want, key: &ObjectKey, have: Have) -> Held {
    let plan = plan(want, &have);
    let ours = plan.steps.iter().filter(|step| step.owner.as_ref().is_none_or(|owner| owner == key));
    Held {
        steps: ours.map(|step| step.action.clone()).collect(),
        problem: plan.problems.get(key).or(plan.fallen.get(key)).cloned(),
        hindrance: Hindrance::find(want, &have).remove(key),
        have,
    }
}

/// What to ask packets; nothing where there is no link to ask through.
fn question(wanted: &Wanted, held: &Held, beyond: Beyond) -> Option<Question> {
    held.have.links.get(wanted.link.as_str()).filter(|link| link.up)?;
    let range = wanted.tunnel.remote_range;
    Some(Question {
        link: wanted.link.clone(),
        remote: wanted.tunnel.remote,
        anybody: somewhere(range, RandomState::new().hash_one(range)),
        beyond: match beyond {
            // One that is behind another tunnel says nothing of this.
            Beyond::Target(target) if !range.contains(target) => Beyond::Router,
            beyond => beyond,
        },
        mtu: held.have.links.get(UNDERLAY_LINK)?.mtu,
        router: wanted.inbound.map(|way| way.via),
    })
}

/// An address of a range, by chance: what the kernel remembers of earlier questions must not answer this one.
fn somewhere(range: Ipv4Cidr, chance: u64) -> Ipv4Addr {
    let hosts = u64::from(u32::MAX.checked_shr(range.prefix().into()).unwrap_or_default());
    let first: u32 = range.first().into();
    // Without the first and the last, where there are others.
    let offset = if hosts > 2 { 1 + chance % (hosts - 1) } else { chance % (hosts + 1) };
    first.saturating_add(u32::try_from(offset).unwrap_or_default()).into()
}

/// Why a gateway could not be looked at. Who may not run commands learns nothing about it.
fn unlooked(trouble: Trouble) -> Unlooked {
    let is_ours = match &trouble {
        Trouble::Run(RunError::Refused(why)) => {
            why.contains("forbidden") || why.contains("cannot create resource")
        }
        Trouble::Run(RunError::Unreachable(_)) => true,
        _ => false,
    };
    Unlooked { is_ours, message: trouble.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_by_chance_is_one_of_the_range(address in any::<u32>(), prefix in 0u8..=32, chance in any::<u64>()) {
            let range: Ipv4Cidr = format!("{}/{prefix}", Ipv4Addr::from(address)).parse().expect("a range");
            let chosen = somewhere(range, chance);
            prop_assert!(range.contains(chosen), "{chosen} of {range}");
            prop_assert!(prefix > 30 || !range.to_string().starts_with(&format!("{chosen}/")), "{chosen}");
        }
    }
}
