//! What was last observed on each gateway, and whether it still holds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_core::GatewayName;
use causeway_core::vpc::Have;
use causeway_datapath::vpc::Digest;
use tokio::time::Instant;

/// A gateway whose monitor confirms what it holds is visited after so many drift intervals, and is heard of by then.
pub(super) const RARELY: u32 = 4;

/// The last observation of each gateway, and since when a pod of it has not answered.
#[derive(Default)]
pub(super) struct Looks(Mutex<BTreeMap<GatewayName, Look>>);

#[derive(Default)]
struct Look {
    observed: Option<Observed>,
    /// Since when a pod has not answered, by its uid.
    unanswered: BTreeMap<String, Instant>,
}

/// An observation of a pod.
pub(super) struct Observed {
    pub(super) pod_uid: String,
    /// The count of the monitor's lines that it was made at; none where there is no monitor, or where it has printed
    /// more meanwhile or will, as of changes of ours.
    pub(super) lines: Option<u64>,
    /// Whether a change has begun since, of which nothing was heard yet.
    pub(super) void: bool,
    /// When it was made or last confirmed.
    pub(super) at: Instant,
    pub(super) have: Arc<Have>,
    pub(super) digest: Option<Digest>,
    /// Whether the monitor has said so too, and so will say when it is no longer true.
    pub(super) confirmed: bool,
}

impl Looks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GatewayName, Look>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn forget(&self, gateway: &GatewayName) {
        self.lock().remove(gateway);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// The last listing of a pod, whether or not it still holds.
    pub(super) fn last(&self, gateway: &GatewayName, pod_uid: &str) -> Option<(Arc<Have>, Option<Digest>)> {
        let looks = self.lock();
        let observed = looks.get(gateway)?.observed.as_ref().filter(|it| it.pod_uid == pod_uid)?;
        Some((observed.have.clone(), observed.digest.clone()))
    }

    /// What a pod held, if that was observed less than so long ago and nothing was begun since.
    pub(super) fn since(&self, gateway: &GatewayName, pod_uid: &str, limit: Duration) -> Option<Arc<Have>> {
        let looks = self.lock();
        let observed = looks.get(gateway)?.observed.as_ref()?;
        let counts = observed.pod_uid == pod_uid && !observed.void && observed.at.elapsed() < limit;
        counts.then(|| observed.have.clone())
    }

    /// What a pod holds, as far as a monitor that has printed so many lines can say.
    pub(super) fn known(
        &self,
        gateway: &GatewayName,
        pod_uid: &str,
        lines: u64,
        drift_interval: Duration,
    ) -> Option<Arc<Have>> {
        let looks = self.lock();
        let observed = looks.get(gateway)?.observed.as_ref()?;
        // The monitor may confirm it a moment after a visit is due. One that cannot make digests never does.
        let age = if observed.confirmed { RARELY + 1 } else { 2 } * drift_interval;
        let holds =
            observed.pod_uid == pod_uid && observed.lines == Some(lines) && observed.at.elapsed() < age;
        holds.then(|| observed.have.clone())
    }

    /// Whether the monitor of a pod has confirmed what was last observed.
    pub(super) fn is_confirmed(&self, gateway: &GatewayName, pod_uid: &str) -> bool {
        let looks = self.lock();
        let observed = looks.get(gateway).and_then(|look| look.observed.as_ref());
        observed.is_some_and(|observed| observed.pod_uid == pod_uid && observed.confirmed)
    }

    pub(super) fn remember(&self, gateway: &GatewayName, observed: Observed) {
        self.lock().entry(gateway.clone()).or_default().observed = Some(observed);
    }

    /// The monitor of a pod, having printed so many lines, says unasked what the pod holds. False where that is
    /// another thing than was observed, and nothing said so: somebody has to look.
    pub(super) fn confirm(&self, gateway: &GatewayName, pod_uid: &str, lines: u64, digest: &Digest) -> bool {
        let mut looks = self.lock();
        let observed = looks.get_mut(gateway).and_then(|look| look.observed.as_mut());
        // Otherwise somebody is about to look.
        let Some(observed) = observed.filter(|it| it.pod_uid == pod_uid && it.lines == Some(lines)) else {
            return true;
        };
        let same = observed.digest.as_ref() == Some(digest);
        if same {
            (observed.at, observed.confirmed) = (Instant::now(), true);
        } else {
            // To ask once more would only say the same: it has to be listed.
            (observed.lines, observed.digest) = (None, None);
        }
        same
    }

    /// What was observed no longer holds, whatever the monitor says.
    pub(super) fn outdate(&self, gateway: &GatewayName) {
        if let Some(observed) = self.lock().get_mut(gateway).and_then(|look| look.observed.as_mut()) {
            (observed.lines, observed.void) = (None, true);
        }
    }

    /// For how long a pod has not answered; at the first time in a row for no time.
    pub(super) fn unanswered(&self, gateway: &GatewayName, pod_uid: &str) -> Duration {
        let mut looks = self.lock();
        let unanswered = &mut looks.entry(gateway.clone()).or_default().unanswered;
        unanswered.entry(pod_uid.to_owned()).or_insert_with(Instant::now).elapsed()
    }

    pub(super) fn answered(&self, gateway: &GatewayName, pod_uid: &str) {
        if let Some(look) = self.lock().get_mut(gateway) {
            look.unanswered.remove(pod_uid);
        }
    }

    /// Forgets which pods have not answered but for these: the others are gone.
    pub(super) fn keep_pods(&self, gateway: &GatewayName, uids: &[&str]) {
        if let Some(look) = self.lock().get_mut(gateway) {
            look.unanswered.retain(|uid, _| uids.contains(&uid.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_datapath::vpc::{Datapath, Memory};

    const MINUTE: Duration = Duration::from_secs(60);
    const QUARTER: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn an_observation_holds_while_its_monitor_is_silent_or_confirms_it() {
        let gateway: GatewayName = "gw1".parse().expect("a name");
        let of = async |memory: Memory| {
            let looked = memory.observe(None).await.expect("an answer");
            looked.listing().expect("a listing")
        };
        let (looks, listing) = (Looks::default(), of(Memory::default()).await);
        let other = of(Memory::new(Have { forwarding: true, ..Have::default() })).await;
        let (digest, other) = (listing.digest.expect("one"), other.digest.expect("one"));
        let observed = Observed {
            pod_uid: "a".into(),
            lines: Some(3),
            void: false,
            at: Instant::now(),
            have: Arc::new(listing.have),
            digest: Some(digest.clone()),
            confirmed: false,
        };
        looks.remember(&gateway, observed);
        let known = |lines| looks.known(&gateway, "a", lines, QUARTER).is_some();
        assert!(known(3) && !known(4) && looks.known(&gateway, "b", 3, QUARTER).is_none());

        tokio::time::advance(QUARTER).await;
        assert!(looks.confirm(&gateway, "a", 3, &digest));
        tokio::time::advance(MINUTE / 2).await;
        assert!(known(3), "confirmed half a minute ago");
        assert!(looks.confirm(&gateway, "a", 4, &other), "a visit is due already");
        assert!(known(3));
        assert!(!looks.confirm(&gateway, "a", 3, &other), "nothing said so");
        assert!(!known(3));
        assert!(looks.last(&gateway, "a").is_some_and(|(_, last)| last.is_none()), "it has to be listed");
        tokio::time::advance(MINUTE).await;
        assert!(!known(3));
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_monitor_confirms_is_observed_again_after_two_intervals() {
        let gateway: GatewayName = "gw1".parse().expect("a name");
        let looks = Looks::default();
        let listing = Memory::default().observe(None).await.expect("an answer").listing().expect("a listing");
        for confirmed in [false, true] {
            looks.remember(
                &gateway,
                Observed {
                    pod_uid: "a".into(),
                    lines: Some(3),
                    void: false,
                    at: Instant::now(),
                    have: Arc::default(),
                    digest: listing.digest.clone(),
                    confirmed,
                },
            );
            assert!(looks.known(&gateway, "a", 3, QUARTER).is_some());
            tokio::time::advance(2 * QUARTER).await;
            assert_eq!(looks.known(&gateway, "a", 3, QUARTER).is_some(), confirmed);
            assert_eq!(looks.is_confirmed(&gateway, "a"), confirmed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_a_moment_ago_counts_until_a_change_begins() {
        let gateway: GatewayName = "gw1".parse().expect("a name");
        let looks = Looks::default();
        let moment = Duration::from_millis(300);
        let see = || {
            let (pod_uid, at, have) = ("a".into(), Instant::now(), Arc::default());
            let seen =
                Observed { pod_uid, lines: None, void: false, at, have, digest: None, confirmed: false };
            looks.remember(&gateway, seen);
        };
        let counts = |pod_uid| looks.since(&gateway, pod_uid, moment).is_some();
        see();
        assert!(counts("a") && !counts("b"));
        looks.outdate(&gateway);
        assert!(!counts("a"), "whatever came of the change is not known");
        see();
        assert!(counts("a"));
        tokio::time::advance(moment).await;
        assert!(!counts("a"));
    }
}
