//! `--demo failover --rounds N`: the main gateway is lost again and again, each time the one that took over before.

use anyhow::Context;
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::time::sleep;

use super::super::addresses::Gateway;
use super::super::measure::Measurement;
use super::crowd::Crowd;
use super::failover::{self, Cause};
use super::forwarded::Forwarded;
use super::{AFTERWARDS, Stage};

/// Between rounds, so that none finds the gateways still busy with the one before.
const REST: Duration = Duration::from_secs(1);

/// What the rounds showed; all times are from the loss.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::sandbox) struct Rounds {
    /// Whether nobody was told of the loss.
    silent: bool,
    /// On the gateway that was lost.
    tunnels: u32,
    /// Until the write of the VPC's routes was accepted.
    written: Measurement,
    /// Until the new main gateway forwarded its first packet.
    first_packet: Measurement,
    /// Until an answer came back through it.
    first_answer: Measurement,
    /// Of each round.
    lost: Vec<usize>,
}

impl Rounds {
    /// For a terminal.
    pub(in crate::sandbox) fn text(&self) -> String {
        let cause = if self.silent { "falls silent" } else { "is deleted" };
        let line = |what: &str, of: &Measurement| {
            format!("  {what:42} p50 {:7.1} ms, worst {:7.1} ms of {}\n", of.p50_ms, of.worst_ms, of.rounds)
        };
        let lost: Vec<String> = self.lost.iter().map(ToString::to_string).collect();
        let tunnels = self.tunnels;
        format!("the main gateway, with {tunnels} tunnels, {cause}:\n")
            + &line("the VPC's routes are written", &self.written)
            + &line("the first packet goes through the standby", &self.first_packet)
            + &line("an answer is here", &self.first_answer)
            + &format!("  packets lost in each round: {}\n", lost.join(" "))
    }
}

/// Loses the main gateway so many times, with so many tunnels on it.
pub(in crate::sandbox) async fn measure(
    stage: &Stage<'_>,
    rounds: u16,
    tunnels: u32,
    cause: Cause,
) -> anyhow::Result<Rounds> {
    let [near, far] = stage.pair()?;
    let [mut main, mut standby] = Gateway::ALL;
    stage.stands_by(near, standby).await?;
    stage.stands_by(far, standby).await?;
    let crowd = match tunnels.saturating_sub(1) {
        0 => None,
        more => Some(Crowd::raise(stage, more).await?),
    };
    let (mut written, mut first_packet, mut first_answer, mut lost) = (vec![], vec![], vec![], vec![]);
    for round in 1..=rounds {
        stage.progress.stage(&format!("round {round} of {rounds}"));
        sleep(REST).await;
        let forwarded = Forwarded::watch(near.running.clone()).await?;
        let traffic = stage.traffic().await?;
        let loss = failover::lose(stage, [near, far], [main, standby], cause, &traffic, &forwarded);
        let loss = loss.await.with_context(|| format!("round {round}"))?;
        sleep(AFTERWARDS).await;
        let packets = traffic.end().await;
        let after = |at: Instant| at.saturating_duration_since(loss.signal);
        written.push(after(loss.routed));
        first_packet.push(after(loss.forwarded));
        first_answer.push(after(loss.answered));
        lost.push(packets.iter().filter(|packet| packet.answered.is_none()).count());
        loss.undo(near).await?;
        (main, standby) = (standby, main);
        match &crowd {
            Some(crowd) => crowd.settled(stage, near, standby).await?,
            None => stage.stands_by(near, standby).await?,
        }
    }
    Ok(Rounds {
        silent: cause == Cause::Silent,
        tunnels,
        written: Measurement::of(&written),
        first_packet: Measurement::of(&first_packet),
        first_answer: Measurement::of(&first_answer),
        lost,
    })
}
