//! Clients that are no good neighbours, each a process of its own.

use std::net::SocketAddr;
use std::time::Duration;

use crate::process::Process;
use crate::unruly::Vice;

/// Those processes.
pub(crate) struct Bad(Vec<Process>);

impl Bad {
    /// Starts one for each vice, and waits until each has shown it.
    pub(crate) async fn join(vices: &[Vice], address: SocketAddr) -> anyhow::Result<Bad> {
        let address = address.to_string();
        let start = |vice: &Vice| Process::of_role(["unruly", vice.name(), &address]);
        let mut bad = Bad(vices.iter().map(start).collect::<anyhow::Result<_>>()?);
        for process in &mut bad.0 {
            process.line().await?;
        }
        Ok(bad)
    }

    /// How often each has shown it.
    pub(crate) async fn times(&mut self) -> anyhow::Result<Vec<u64>> {
        let mut times = Vec::new();
        for process in &mut self.0 {
            process.tell("how often").await?;
            times.push(process.line().await?.parse()?);
        }
        Ok(times)
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
