//! What the kernel does with packets of pods: kept by commands on this very node.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use causeway_core::Family;
use causeway_core::leases::Traffic;
use causeway_datapath::leases::traffic::{self, Trouble};
use causeway_datapath::{Output, Run, RunError, SEEN, end_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdout, Command};
use tokio::time::{Instant, timeout};

use super::report::REPAIRED;
use super::{Leases, lock};
use crate::election::Term;
use crate::queue::Next;

/// The longest that a command may take.
const LIMIT: Duration = Duration::from_secs(60);
/// A look starts a dozen processes.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// Nothing tells that somebody changed rules of the older iptables, where it is in use.
const CHECK_LEGACY_EVERY: Duration = Duration::from_secs(5);

/// Nor more often than this.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

const FORWARDING_OFF: &str = "ForwardingOff";

impl Leases {
    /// Has the kernel treat packets of pods as it should.
    pub(super) async fn keep_traffic(&self, term: &Term) -> Next {
        // Somebody else may undo it as fast as it is done.
        let last = lock(&self.traffic_seen).map(|at| at.elapsed());
        if let Some(early) = last.and_then(|last| AT_MOST_EVERY.checked_sub(last)) {
            return Next::After(early);
        }
        // What is waited for is said where routes are kept; meanwhile what was right stays so.
        let known = self.desk.state().traffic().ok();
        let Some(want) = known.or_else(|| lock(&self.traffic).clone()) else { return Next::Done };
        *lock(&self.traffic_seen) = Some(Instant::now());
        let (changed, trouble) = match traffic::keep(&Here, &want).await {
            Ok(changed) => (changed, None),
            Err(Trouble::Partly { changed, failed }) => (changed, Some(failed.join("; "))),
            Err(trouble) => (Vec::new(), Some(trouble.to_string())),
        };
        self.say_forwarding(&want, term);
        for what in &changed {
            tracing::info!(what, "changed");
        }
        if !changed.is_empty() && *lock(&self.traffic) == Some(want.clone()) {
            self.metrics.count_rules(changed.len());
            self.tell(term, false, REPAIRED, changed.join(", "));
        }
        match trouble {
            None => {
                *lock(&self.traffic) = Some(want);
                Next::After(if is_legacy_in_use() { CHECK_LEGACY_EVERY } else { CHECK_EVERY })
            }
            Some(why) => {
                if self.tell(term, true, "TrafficRules", why.clone()) {
                    tracing::warn!(why, "packets of pods are not treated as they should be");
                }
                Next::Retry
            }
        }
    }

    /// Pods' packets stop here where the kernel forwards nothing, whatever its routes say.
    fn say_forwarding(&self, want: &Traffic, term: &Term) {
        let file = |family| match family {
            Family::V4 => "/proc/sys/net/ipv4/ip_forward",
            Family::V6 => "/proc/sys/net/ipv6/conf/all/forwarding",
        };
        let files = want.ranges.iter().map(|(network, _)| file(network.family()));
        let is_off = |file: &&str| std::fs::read_to_string(file).is_ok_and(|text| text.trim() == "0");
        let off: Vec<&str> = files.filter(is_off).collect();
        if off.is_empty() {
            return self.forget_all(FORWARDING_OFF);
        }
        let why = format!("this node forwards no packets: write 1 to {}", off.join(" and "));
        if self.tell(term, true, FORWARDING_OFF, why.clone()) {
            tracing::warn!(why);
        }
    }
}

fn is_legacy_in_use() -> bool {
    let lists = |file: &str| std::fs::read_to_string(file).is_ok_and(|tables| tables.contains("filter"));
    lists("/proc/net/ip_tables_names") || lists("/proc/net/ip6_tables_names")
}

/// Commands in this process's own network namespace.
pub(super) struct Here;

#[async_trait]
impl Run for Here {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        timeout(LIMIT, run(argv, stdin)).await.unwrap_or(Err(RunError::TimedOut(LIMIT)))
    }
}

async fn run(argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
    let lost = |error: std::io::Error| RunError::Lost(error.to_string());
    let [program, arguments @ ..] = argv else { return Err(RunError::Refused("no command".into())) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A program that is not there answers as a shell would.
    let mut child = match command.kill_on_drop(true).spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Output { status: Some(127), ..Output::default() });
        }
        spawned => spawned.map_err(lost)?,
    };
    let mut input = child.stdin.take().ok_or_else(|| RunError::Lost("no stdin".into()))?;
    let output = child.stdout.take().ok_or_else(|| RunError::Lost("no stdout".into()))?;
    let feed = async {
        // That it did not read all of it is no failure.
        let _ = input.write_all(stdin).await;
        input
    };
    let (mut input, stdout) = tokio::join!(feed, read(output));
    let stdout = stdout.map_err(lost)?;
    let _ = input.write_all(SEEN).await;
    drop(input);
    let status = child.wait().await.map_err(lost)?.code();
    Ok(Output { stdout, status, stderr: Vec::new() })
}

/// All until its end, or until it says that this is all.
async fn read(mut output: ChildStdout) -> std::io::Result<Vec<u8>> {
    let mut stdout = Vec::new();
    while output.read_buf(&mut stdout).await? > 0 && end_of(&stdout).is_none() {}
    Ok(stdout)
}
