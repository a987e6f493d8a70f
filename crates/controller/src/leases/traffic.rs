//! What the kernel does with packets of pods: kept by commands on this very node.

use std::time::Duration;

use causeway_core::Family;
use causeway_core::leases::Traffic;
use causeway_datapath::leases::traffic::{self, Trouble};
use tokio::time::Instant;

use super::report::REPAIRED;
use super::{Leases, lock};
use crate::election::Term;
use crate::local::Here;
use crate::queue::Next;

/// A look starts a dozen processes.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// Nothing tells that somebody changed rules of the older iptables, where it is in use.
const CHECK_LEGACY_EVERY: Duration = Duration::from_secs(5);

/// How soon it is tried again what failed: a tool that is missing may be missing for long.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
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
                Next::After(AGAIN_AFTER)
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
