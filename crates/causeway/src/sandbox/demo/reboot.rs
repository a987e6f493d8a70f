//! `--demo reboot`: a gateway without a standby restarts under traffic, as with its node. Its pod keeps its name and uid, and
//! its network is empty.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::super::addresses::{Gateway, Role, SYSTEM};
use super::super::site::Site;
use super::super::views::REBOOT;
use super::forwarded::Forwarded;
use super::logged;
use super::seen::{self, when};
use super::story::{Draft, Story};
use super::traffic::Traffic;
use super::{AFTERWARDS, BEFORE, Stage};

const GATEWAY: Gateway = Gateway::Gw1;

/// See the module's documentation.
pub(super) async fn run(stage: &Stage<'_>) -> anyhow::Result<Story> {
    let [near, far] = stage.pair()?;
    let name = GATEWAY.name();
    let forwarded = Forwarded::watch(near.running.clone()).await?;
    let traffic = stage.traffic().await?;
    sleep(BEFORE).await;
    stage.progress.say(&format!("restarting {}'s gateway {name} under traffic", near.cluster));
    let (zero, wall) = (Instant::now(), SystemTime::now());
    let watched = timeout(stage.patience, restart(near, zero, &traffic, &forwarded));
    let (mut moments, answered) = watched.await.context("the gateway was not rebuilt in time")??;
    let up = when(seen::tunnels(near), "demo", |tunnel| seen::is_up_on(tunnel, GATEWAY));
    timeout(stage.patience, up).await.context("the tunnel does not say that it is up")??;
    sleep(AFTERWARDS).await;
    for (kind, what) in [("observe", "the controller looks at it"), ("apply", "and builds the tunnel anew")] {
        moments.extend(command(stage, near, kind, wall).map(|after| (zero + after, what.to_owned())));
    }
    let draft = Draft {
        demo: "reboot",
        about: format!(
            "{}'s gateway {name}, which has no standby, restarts with an empty network while packets cross to {}",
            near.cluster, far.cluster
        ),
        zero,
        packets: traffic.end().await,
        forwarded: vec![(near.cluster.id(), forwarded.samples())],
        moments,
        said: Vec::new(),
        until: answered,
    };
    Ok(draft.finish())
}

type Moments = Vec<(Instant, String)>;

/// Restarts it; gives what was seen, and when the first answer came.
async fn restart(
    site: &Site,
    zero: Instant,
    traffic: &Traffic,
    forwarded: &Forwarded,
) -> anyhow::Result<(Moments, Instant)> {
    let (name, role) = (GATEWAY.name(), Role::Gateway(GATEWAY));
    let before = site.running.get(role).context("the gateway does not run")?.mark.clone();
    let pods: Api<Pod> = Api::namespaced(site.client.clone(), SYSTEM);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {REBOOT: "demo"}}}));
    pods.patch_metadata(&role.pod(), &PatchParams::default(), &patch).await?;
    let gone = site.running.left(role, &before).await?;
    site.running.wait_for(role).await;
    let runs = Instant::now();
    let astray = forwarded.first(GATEWAY, runs).await;
    let answered = traffic.answer_since(runs).await;
    let moments = vec![
        (zero, format!("{name} is told to restart")),
        (gone, "its network is gone, with all that was in it".into()),
        (runs, "its pod runs again, and holds nothing of ours".into()),
        (astray, format!("{name} forwards again, though not into a tunnel")),
        (answered, "the first answer is here".into()),
    ];
    Ok((moments, answered))
}

/// How long after a time of day the controller's first command of a kind began in the gateway.
fn command(stage: &Stage<'_>, site: &Site, kind: &str, since: SystemTime) -> Option<Duration> {
    let log = stage.folder.join("logs").join(format!("{}-execs.jsonl", site.cluster));
    let pod = Role::Gateway(GATEWAY).pod();
    logged::first(&log, since, "at", |line| {
        line["pod"] == pod.as_str() && line["kind"] == kind && line["event"] == "start"
    })
}
