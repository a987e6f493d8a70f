//! `--demo broker`: the broker falls silent under traffic. While nobody can learn anything from it, the far VPC loses its main
//! gateway: packets find the standby all the same, since its first frame shows the near gateway the way. Afterwards what could
//! not be told is made up for.

use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_api::vpc::VpcNatTunnel;
use causeway_apiserver::{Fault, Faults, Switch};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use tokio::time::{sleep, sleep_until, timeout};

use super::super::addresses::{Gateway, Role, SYSTEM, VPC};
use super::super::site::Site;
use super::forwarded::Forwarded;
use super::seen::{self, when};
use super::story::{Draft, Story, ms};
use super::traffic::Traffic;
use super::{AFTERWARDS, BEFORE, Stage};

/// How long the broker is away before a gateway is lost, and altogether.
const QUIET: Duration = Duration::from_secs(1);
const AWAY: Duration = Duration::from_secs(3);

/// A broker that answers nobody; it does again when this is dropped.
struct Cut(Faults);

impl Cut {
    fn make(faults: Faults) -> anyhow::Result<Cut> {
        faults.set(vec![Fault::new(Switch::Freeze)])?;
        Ok(Cut(faults))
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// See the module's documentation.
pub(super) async fn run(stage: &Stage<'_>) -> anyhow::Result<Story> {
    let [near, far] = stage.pair()?;
    let [from, to] = Gateway::ALL;
    stage.progress.stage("waiting until both clusters have a standby");
    stage.stands_by(near, to).await?;
    stage.stands_by(far, to).await?;
    let faults = stage.broker.faults().context("only the sandbox's own broker can be cut off")?;
    let forwarded = Forwarded::watch(far.running.clone()).await?;
    let traffic = stage.traffic().await?;
    sleep(BEFORE).await;
    stage.progress.say("the broker does not answer any more");
    let zero = Instant::now();
    let cut = Cut::make(faults)?;
    let mut moments = vec![(zero, "the broker answers nobody".to_owned())];
    sleep_until((zero + QUIET).into()).await;
    stage.progress.say(&format!("killing {}'s main gateway {} meanwhile", far.cluster, from.name()));
    let told = timeout(stage.patience, lose(near, far, [from, to], &traffic, &forwarded));
    moments.extend(told.await.context("the standby did not take over without a broker")??);
    sleep_until((zero + AWAY).into()).await;
    let said = [(near, seen::tunnels(near).get("demo").await?), (far, seen::tunnels(far).get("demo").await?)]
        .map(|(site, tunnel)| says(site, &tunnel));
    stage.progress.say("the broker answers again");
    let restored = Instant::now();
    drop(cut);
    moments.push((restored, "the broker answers again".to_owned()));
    moments.extend(timeout(stage.patience, made_up_for(near, far, to)).await.context("nobody caught up")??);
    sleep(AFTERWARDS).await;
    let packets = traffic.end().await;
    let until = moments.iter().map(|(at, _)| *at).max().unwrap_or(restored);
    let away = ms(zero, restored);
    let mut said = said.to_vec();
    said.insert(0, format!("after {away:.0} ms without a broker:"));
    let draft = Draft {
        demo: "broker",
        about: format!(
            "the broker is away for {:.0} s, and {}'s main gateway {} is lost meanwhile",
            AWAY.as_secs_f64(),
            far.cluster,
            from.name()
        ),
        zero,
        packets,
        forwarded: vec![(far.cluster.id(), forwarded.samples())],
        moments,
        said,
        until,
    };
    Ok(draft.finish())
}

/// Kills the far VPC's main gateway, whose cluster cannot tell anybody who is the new one.
async fn lose(
    near: &Site,
    far: &Site,
    [from, to]: [Gateway; 2],
    traffic: &Traffic,
    forwarded: &Forwarded,
) -> anyhow::Result<Vec<(Instant, String)>> {
    let (from_name, to_name) = (from.name(), to.name());
    let pods: Api<Pod> = Api::namespaced(far.client.clone(), SYSTEM);
    let signal = Instant::now();
    pods.delete(&Role::Gateway(from).pod(), &DeleteParams::default()).await?;
    let led = far.led(near.cluster.globalnet(), to.lan()).await?;
    let first = forwarded.first(to, signal).await;
    let answered = traffic.answer_since(first).await;
    Ok(vec![
        (signal, format!("{}'s main gateway {from_name} is killed", far.cluster)),
        (led.min(first), format!("{}'s VPC sends to {to_name}", far.cluster)),
        (first, format!("the first packet goes through {to_name}")),
        (answered, "its answer, or a later one, is here".into()),
    ])
}

/// What a tunnel says of itself.
fn says(site: &Site, tunnel: &VpcNatTunnel) -> String {
    let status = tunnel.status.clone().unwrap_or_default();
    let (gateway, remote) = (status.local_gw.unwrap_or_default(), status.remote_ip.unwrap_or_default());
    let word = |kind: &str| {
        seen::condition(tunnel, kind).map(|(status, message)| format!("{kind}={status}: {message}"))
    };
    let words: Vec<String> = ["Ready", "LastKnown"].into_iter().filter_map(word).collect();
    format!("  {}'s tunnel goes by {gateway} to {remote}; {}", site.cluster, words.join("; "))
}

/// What was written while nobody could hear of it arrives.
async fn made_up_for(near: &Site, far: &Site, to: Gateway) -> anyhow::Result<Vec<(Instant, String)>> {
    let (record, address) = (format!("{VPC}.{}", far.cluster), far.cluster.external(to).to_string());
    let (known, followed) = tokio::try_join!(
        when(seen::records(near), &record, |record| record.spec.address() == address),
        when(seen::tunnels(near), "demo", |tunnel| seen::leads_to(tunnel, &address)),
    )?;
    Ok(vec![
        (known, format!("{} has the record that names {}", near.cluster, to.name())),
        (followed, format!("{}'s end leads to {address}", near.cluster)),
    ])
}
