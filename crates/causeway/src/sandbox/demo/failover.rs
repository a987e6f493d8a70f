//! `--demo failover`: the main gateway of cluster1's VPC is killed under traffic, and the standby takes over.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use causeway_api::vpc::foreign::kube_ovn;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
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

/// When each thing was seen that a loss of the main gateway brings about.
pub(super) struct Loss {
    pub(super) from: Gateway,
    pub(super) to: Gateway,
    /// Just before its pod's deletion was asked for.
    pub(super) signal: Instant,
    pub(super) accepted: Instant,
    /// Its cables were cut.
    pub(super) unplugged: Instant,
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
    traffic: &Traffic,
    forwarded: &Forwarded,
) -> anyhow::Result<Loss> {
    let (record, peer) = (format!("{VPC}.{}", near.cluster), near.cluster.external(to).to_string());
    let vpcs: Api<kube_ovn::Vpc> = Api::all(near.client.clone());
    let life = near.running.get(Role::Gateway(from)).context("the main gateway does not run")?.mark.clone();
    let (asked, asking) = tokio::sync::watch::channel(None);
    let kill = async {
        // Whoever watches has listed by then.
        sleep(BEFORE).await;
        let pods: Api<Pod> = Api::namespaced(near.client.clone(), SYSTEM);
        let (signal, wall) = (Instant::now(), SystemTime::now());
        asked.send_replace(Some(signal));
        pods.delete(&Role::Gateway(from).pod(), &DeleteParams::default()).await?;
        anyhow::Ok((signal, wall, Instant::now()))
    };
    let packets = async {
        let signal = asking.clone().wait_for(Option::is_some).await?.context("it was asked for")?;
        let forwarded = forwarded.first(to, signal).await;
        anyhow::Ok((forwarded, traffic.answer_since(forwarded).await))
    };
    let all = async {
        tokio::try_join!(
            kill,
            near.running.left(Role::Gateway(from), &life),
            when(seen::records(near), &record, |it| seen::names(it, to)),
            when(vpcs, VPC, |vpc| leads(vpc, far.cluster.globalnet().to_string(), to.lan())),
            near.led(far.cluster.globalnet(), to.lan()),
            packets,
            when(seen::tunnels(near), "demo", |tunnel| seen::is_up_on(tunnel, to)),
            when(seen::tunnels(far), "demo", |tunnel| seen::leads_to(tunnel, &peer)),
        )
    };
    let all = timeout(stage.patience, all).await.context("the standby did not take over in time")??;
    let ((signal, wall, accepted), unplugged, recorded, routed, led, (forwarded, answered), told, followed) =
        all;
    let elected = elected(stage, near, to, wall).map(|after| signal + after);
    Ok(Loss {
        from,
        to,
        signal,
        accepted,
        unplugged,
        elected,
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

/// How long after a time of day the controller logged whom it elected.
fn elected(stage: &Stage<'_>, site: &Site, to: Gateway, since: SystemTime) -> Option<Duration> {
    let log = log_file(stage.folder, &format!("{}-controller", site.cluster));
    logged::first(&log, since, "timestamp", |line| {
        line["message"] == "another gateway is the main one" && line["to"] == to.name() && line["vpc"] == VPC
    })
}

/// See the module's documentation.
pub(super) async fn run(stage: &Stage<'_>) -> anyhow::Result<Story> {
    let [near, far] = stage.pair()?;
    let [from, to] = Gateway::ALL;
    stage.progress.stage("waiting until both clusters have a standby");
    stage.stands_by(near, to).await?;
    stage.stands_by(far, to).await?;
    let forwarded = Forwarded::watch(near.running.clone()).await;
    let traffic = stage.traffic().await?;
    stage.progress.say(&format!("killing {}'s main gateway {} under traffic", near.cluster, from.name()));
    let loss = lose(stage, [near, far], [from, to], &traffic, &forwarded).await?;
    stage.stands_by(near, from).await?;
    let back = Instant::now();
    sleep(AFTERWARDS).await;
    let packets = traffic.end().await;
    let mut moments = loss.moments(near, far);
    moments.push((back, format!("{} is back, and stands by", from.name())));
    let draft = Draft {
        demo: "failover",
        about: format!(
            "the main gateway {} of {}'s VPC is killed while packets cross to {} and back",
            from.name(),
            near.cluster,
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
    fn moments(&self, near: &Site, far: &Site) -> Vec<(Instant, String)> {
        let (from, to) = (self.from.name(), self.to.name());
        let mut moments = vec![
            (self.signal, format!("the deletion of {from}'s pod is asked for")),
            (self.accepted, "the API server has answered".into()),
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
        moments.extend(self.elected.map(|at| (at, format!("the controller elects {to}"))));
        moments
    }
}
