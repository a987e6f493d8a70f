//! All clients, which are spread over two processes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::framing::Wire;
use crate::process::Process;

const PROCESSES: usize = 2;

/// The clients' processes.
pub(crate) struct Crowd(Vec<Process>);

impl Crowd {
    /// Connects so many clients, which ask for the rules of so many apps, and waits until each was answered.
    pub(crate) async fn join(
        wire: Wire,
        address: SocketAddr,
        size: usize,
        apps: usize,
    ) -> anyhow::Result<Crowd> {
        let (wire, address, apps) = (wire.to_string(), address.to_string(), apps.to_string());
        let part = |number: usize| {
            let (first, end) = (size * number / PROCESSES, size * (number + 1) / PROCESSES);
            let args = ["clients", &wire, &address, &first.to_string(), &end.to_string(), &apps];
            Process::of_role(args)
        };
        let mut crowd = Crowd((0..PROCESSES).map(part).collect::<anyhow::Result<_>>()?);
        crowd.all_have(0).await.context("the first answers")?;
        Ok(crowd)
    }

    /// Waits until all have the rule that was edited then.
    pub(crate) async fn all_have(&mut self, instant: u64) -> anyhow::Result<()> {
        let wanted = format!("all {instant}");
        for process in &mut self.0 {
            let line = process.line().await?;
            if line != wanted {
                bail!("clients should have said {wanted}, and said {line}");
            }
        }
        Ok(())
    }

    /// From an edit to its receipt, of every client and edit since this was last asked, in microseconds and in order.
    pub(crate) async fn latencies(&mut self) -> anyhow::Result<Vec<u64>> {
        let mut all = self.numbers("latencies").await?;
        all.sort_unstable();
        Ok(all)
    }

    /// What each client has: the sum of its rules' instants.
    pub(crate) async fn states(&mut self) -> anyhow::Result<Vec<u64>> {
        self.numbers("states").await
    }

    /// How many messages they got.
    pub(crate) async fn messages(&mut self) -> anyhow::Result<u64> {
        Ok(self.numbers("messages").await?.iter().sum())
    }

    /// All numbers that the processes answer.
    async fn numbers(&mut self, question: &str) -> anyhow::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for process in &mut self.0 {
            process.tell(question).await?;
            for number in process.line().await?.split_whitespace() {
                numbers.push(number.parse()?);
            }
        }
        Ok(numbers)
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.0.iter().map(Process::cpu).sum()
    }

    /// Ends them.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        for process in self.0 {
            process.end().await?;
        }
        Ok(())
    }
}
