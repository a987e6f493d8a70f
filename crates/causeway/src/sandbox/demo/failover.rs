//! `--demo failover`: the main gateway of cluster1's VPC is killed under traffic, and the standby takes over.

use std::net::Ipv4Addr;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use causeway_api::vpc::foreign::kube_ovn;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::super::addresses::{Gateway, Role, SYSTEM, VPC};
use super::super::site::Site;
use super::super::supervise::log_file;
use super::forwarded::Forwarded;
use super::logged;
use super::seen::{self, when};
use super::story::{Draft, Story};
use super::traffic::Traffic;
use super::{AFTERWARDS, BEFORE, Stage};

/// How a gateway is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) enum Cause {
    /// Its pod is deleted, and everybody is told.
    Deleted,
    /// Its cables carry nothing any more, as when its node dies. Its pod says that it is ready.
    Silent,
}

/// When each thing was seen that a loss of the main gateway brings about.
pub(super) struct Loss {
    pub(super) from: Gateway,
    pub(super) to: Gateway,
    cause: Cause,
    /// Just before its pod's deletion was asked for, or its cables were cut.
    pub(super) signal: Instant,
    /// The deletion was accepted.
    accepted: Option<Instant>,
    /// Its cables were cut.
    pub(super) unplugged: Instant,
    /// The controller heard that nobody hears it.
    missed: Option<Instant>,
    /// The controller said whom it elected.
    pub(super) elected: Option<Instant>,
    /// The VPC's record, and then its routes, were written.
    pub(super) recorded: Instant,
    pub(super) routed: Instant,
    /// The VPC's router had the new next hop.
    pub(super) led: Instant,
    /// The new one forwarded its first packet, and an answer came back.
    pub(super) forwarded: Instant,
    pub(super) answered: Instant,
    /// The tunnel's status speaks of it.
    pub(super) told: Instant,
    /// The peer's end leads to it.
    pub(super) followed: Instant,
}

/// Kills the main gateway of a cluster's VPC and watches what comes of it.
pub(super) async fn lose(
    stage: &Stage<'_>,
    [near, far]: [&Site; 2],
    [from, to]: [Gateway; 2],
    cause: Cause,
    traffic: &Traffic,
    forwarded: &Forwarded,
) -> anyhow::Result<Loss> {
    let (record, peer) = (format!("{VPC}.{}", near.cluster), near.cluster.external(to).to_string());
    let vpcs: Api<kube_ovn::Vpc> = Api::all(near.client.clone());
    let (asked, asking) = tokio::sync::watch::channel(None);
    let kill = async {
        // Whoever watches has listed by then.
        sleep(BEFORE).await;
        let (signal, wall) = (Instant::now(), SystemTime::now());
        asked.send_replace(Some(signal));
        let (accepted, unplugged) = kill(near, from, cause).await?;
        anyhow::Ok((signal, wall, accepted, unplugged))
    };
    let packets = async {
        let signal = asking.clone().wait_for(Option::is_some).await?.context("it was asked for")?;
        let forwarded = forwarded.first(to, signal).await;
        anyhow::Ok((forwarded, traffic.answer_since(forwarded).await))
    };
    let all = async {
        tokio::try_join!(
            kill,
            when(seen::records(near), &record, |it| seen::names(it, to)),
            when(vpcs, VPC, |vpc| leads(vpc, far.cluster.globalnet().to_string(), to.lan())),
            near.led(far.cluster.globalnet(), to.lan()),
            packets,
            when(seen::tunnels(near), "demo", |tunnel| seen::is_up_on(tunnel, to)),
            when(seen::tunnels(far), "demo", |tunnel| seen::leads_to(tunnel, &peer)),
        )
    };
    let all = timeout(stage.patience, all).await.context("the standby did not take over in time")??;
    let ((signal, wall, accepted, unplugged), recorded, routed, led, (forwarded, answered), told, followed) =
        all;
    let log = log_file(stage.folder, &format!("{}-controller", near.cluster));
    let logged = |message: &str, key: &str, gateway: Gateway| {
        let fits = |line: &Value| line["message"] == message && line[key] == gateway.name();
        logged::first(&log, wall, "timestamp", fits).map(|after| signal + after)
    };
    Ok(Loss {
        from,
        to,
        cause,
        signal,
        accepted,
        unplugged,
        missed: logged("a gateway fell silent", "gateway", from).filter(|_| cause == Cause::Silent),
        elected: logged("another gateway is the main one", "to", to),
        recorded,
        routed,
        led,
        forwarded,
        answered,
        told,
        followed,
    })
}

fn leads(vpc: &kube_ovn::Vpc, range: String, hop: Ipv4Addr) -> bool {
    let hop = hop.to_string();
    vpc.spec.static_routes.iter().any(|route| route.cidr == range && route.next_hop_ip == hop)
}

/// Loses a gateway; says when the API server had accepted that, if it was told, and when the gateway was cut off.
async fn kill(site: &Site, gateway: Gateway, cause: Cause) -> anyhow::Result<(Option<Instant>, Instant)> {
    let role = Role::Gateway(gateway);
    let pod = site.running.get(role).context("the main gateway does not run")?;
    match cause {
        Cause::Deleted => {
            let pods: Api<Pod> = Api::namespaced(site.client.clone(), SYSTEM);
            let left = site.running.left(role, &pod.mark);
            let delete = async {
                pods.delete(&role.pod(), &DeleteParams::default()).await?;
                anyhow::Ok(Instant::now())
            };
            let (accepted, unplugged) = tokio::try_join!(delete, left)?;
            Ok((Some(accepted), unplugged))
        }
        Cause::Silent => {
            site.fabric().context("there is no network")?.mute(&pod.net, true).await?;
            Ok((None, Instant::now()))
        }
    }
}

/// See the module's documentation.
pub(super) async fn run(stage: &Stage<'_>, cause: Cause) -> anyhow::Result<Story> {
    let [near, far] = stage.pair()?;
    let [from, to] = Gateway::ALL;
    stage.progress.stage("waiting until both clusters have a standby");
    stage.stands_by(near, to).await?;
    stage.stands_by(far, to).await?;
    let forwarded = Forwarded::watch(near.running.clone()).await?;
    let traffic = stage.traffic().await?;
    stage.progress.say(&format!("killing {}'s main gateway {} under traffic", near.cluster, from.name()));
    let loss = lose(stage, [near, far], [from, to], cause, &traffic, &forwarded).await?;
    loss.undo(near).await?;
    stage.stands_by(near, from).await?;
    let back = Instant::now();
    sleep(AFTERWARDS).await;
    let packets = traffic.end().await;
    let mut moments = loss.moments(near, far);
    moments.push((back, format!("{} is back, and stands by", from.name())));
    let draft = Draft {
        demo: "failover",
        about: format!(
            "the main gateway {} of {}'s VPC {} while packets cross to {} and back",
            from.name(),
            near.cluster,
            match cause {
                Cause::Deleted => "is killed",
                Cause::Silent => "dies in silence",
            },
            far.cluster
        ),
        zero: loss.signal,
        packets,
        forwarded: vec![(near.cluster.id(), forwarded.samples())],
        moments,
        said: Vec::new(),
        until: loss.answered.max(loss.unplugged),
    };
    Ok(draft.finish())
}

impl Loss {
    /// Lets a gateway be heard again that fell silent; another pod takes the place of one that was deleted anyway.
    pub(super) async fn undo(&self, site: &Site) -> anyhow::Result<()> {
        if self.cause == Cause::Silent {
            let pod = site.running.get(Role::Gateway(self.from)).context("the gateway does not run")?;
            site.fabric().context("there is no network")?.mute(&pod.net, false).await?;
        }
        Ok(())
    }

    fn moments(&self, near: &Site, far: &Site) -> Vec<(Instant, String)> {
        let (from, to) = (self.from.name(), self.to.name());
        let first = match self.cause {
            Cause::Deleted => format!("the deletion of {from}'s pod is asked for"),
            Cause::Silent => format!("{from} dies, and its pod still says that it is ready"),
        };
        let mut moments = vec![
            (self.signal, first),
            (self.unplugged, format!("{from} is cut off")),
            (self.recorded, format!("written: the VPC's record names {to}")),
            (self.routed, format!("written: the VPC's routes lead to {to}")),
            // A packet that went there proves it earlier than the command that has put the route, which ends after that.
            (self.led.min(self.forwarded), format!("the VPC's router sends to {to}")),
            (self.forwarded, format!("the first packet goes through {to}")),
            (self.answered, "its answer, or a later one, is here".into()),
            (self.told, format!("the tunnel says: up, by {to}")),
            (self.followed, format!("{}'s end leads to {}", far.cluster, near.cluster.external(self.to))),
        ];
        moments.extend(self.accepted.map(|at| (at, "the API server has answered".into())));
        moments.extend(self.missed.map(|at| (at, format!("{to} says that {from} is silent"))));
        moments.extend(self.elected.map(|at| (at, format!("the controller elects {to}"))));
        moments
    }
}
