//! Leadership by a Lease, as a value: a [`Term`] says that this replica leads, under which number, and until when.
//!
//! Every write is an update guarded by resourceVersion, so two candidates cannot both succeed. A holder stops its
//! work a fifth of the lease's time before anybody else may take it, and counts from the moment that it *sent*
//! its last successful renewal. The number of a term grows with every change of hands (the Lease's
//! `leaseTransitions`); commands carry it, and a gateway refuses an older one. Whoever was asleep finds by
//! [`Term::is_held`] that its term is over before it does anything else.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{ObjectMeta, WatchEvent, WatchParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::words::describe;
use crate::write::posting;

/// The times of a lease.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// How long a silent holder keeps it.
    pub lease: Duration,
    /// How often it is renewed, and how long a renewal may take.
    pub renew: Duration,
    /// How soon a candidate that cannot watch the lease reads it again.
    pub retry: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self::of(Duration::from_secs(15))
    }
}

impl Times {
    /// The usual shares of a lease's time.
    pub fn of(lease: Duration) -> Self {
        Self { lease, renew: lease / 3, retry: lease / 8 }
    }

    /// Until when the work may go on after a renewal was sent.
    fn safe(&self) -> Duration {
        self.lease - self.lease / 5
    }
}

/// No holder keeps a lease in silence for longer than this, whatever it has written there.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// The greatest number of a term: a thousand million of them do not pass. A Lease with a greater one was edited; its
/// number counts as unknown, and whoever has seen the true one says so.
const LAST_NUMBER: u64 = 1_000_000_000;
/// So many terms newer than ours may one be that somebody reports: whoever reports a newer one errs, or lies.
const BELIEVED_AHEAD: u64 = 1_000_000;

/// The right to act as leader, for a while.
#[derive(Debug, Clone)]
pub struct Term {
    number: Option<u64>,
    /// None: for ever.
    until: Option<Arc<Mutex<Instant>>>,
    over: CancellationToken,
    superseded: watch::Sender<u64>,
}

impl Term {
    /// For work that needs no election: always held, without a number.
    pub fn unelected() -> Self {
        Self { number: None, until: None, over: CancellationToken::new(), superseded: watch::Sender::new(0) }
    }

    fn elected(number: u64, until: Instant) -> Self {
        Self { number: Some(number), until: Some(Arc::new(Mutex::new(until))), ..Self::unelected() }
    }

    /// Grows with every change of hands; none without an election.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Whether we may still act. Asked right before every command and every write.
    pub fn is_held(&self) -> bool {
        let in_time = |until: &Arc<Mutex<Instant>>| {
            Instant::now() < *until.lock().unwrap_or_else(PoisonError::into_inner)
        };
        !self.over.is_cancelled() && self.until.as_ref().is_none_or(in_time)
    }

    /// Ends with the term.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Reports that somewhere a term of this number has been seen. If it is newer than ours although the Lease
    /// is ours (it was deleted and made anew), we need a newer one still. Returns whether that is believed.
    pub fn superseded_by(&self, number: u64) -> bool {
        let ahead = self.number.and_then(|own| number.checked_sub(own)).unwrap_or(0);
        let believed = (1..=BELIEVED_AHEAD).contains(&ahead) && number < LAST_NUMBER;
        if believed {
            self.superseded.send_if_modified(|known| {
                let newer = number > *known;
                *known = number.max(*known);
                newer
            });
        }
        believed
    }

    fn extend(&self, until: Instant) {
        if let Some(held) = &self.until {
            *held.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
    }
}

/// A candidate for a lease.
#[derive(Clone)]
pub struct Candidate {
    /// Where leases live.
    pub leases: Api<Lease>,
    /// The lease's name.
    pub name: String,
    /// Who we are; a restart under the same name takes its own lease up at once.
    pub identity: String,
    /// Its times.
    pub times: Times,
    /// The time of day that is written on it.
    pub clock: Clock,
}

/// A lease that is ours.
pub struct Held<'a> {
    candidate: &'a Candidate,
    lease: Lease,
    sent: Instant,
    term: Term,
}

/// Why a term ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Somebody else has it.
    #[error("the lease went to {0}")]
    To(String),
    /// The API server did not answer in time.
    #[error("the lease could not be renewed in time")]
    NotRenewed,
    /// A gateway has seen a newer term.
    #[error("term {0} has been seen; ours must be newer")]
    Superseded(u64),
}

/// What was last seen of somebody else's lease, and when by our own clock: clocks are not compared.
struct Seen {
    version: String,
    at: Instant,
    lasts: Duration,
}

/// What a candidate knows while it waits.
struct Waiting {
    seen: Option<Seen>,
    /// The greatest number that is known: ours will be greater, also when the lease is deleted meanwhile.
    newer_than: u64,
    /// Whether it was reported that the lease cannot be watched.
    warned: bool,
}

impl Candidate {
    /// Waits until the lease is ours; the term's number will be greater than `newer_than`.
    pub async fn acquire(&self, newer_than: u64) -> Held<'_> {
        let mut waiting = Waiting { seen: None, newer_than, warned: false };
        loop {
            let sent = Instant::now();
            match timeout(self.times.renew, self.try_acquire(&mut waiting)).await {
                Ok(Ok(Some(lease))) => {
                    let term = Term::elected(number(&lease), sent + self.times.safe());
                    return Held { candidate: self, lease, sent, term };
                }
                Ok(Ok(None)) => self.until_it_may_be_free(&mut waiting).await,
                // It may be free as it is, so that no watch would report anything.
                Ok(Err(error)) => {
                    tracing::warn!(
                        lease = self.name,
                        error = describe(&error),
                        "the lease cannot be read or written; trying again"
                    );
                    sleep(self.times.retry).await;
                }
                Err(_) => tracing::warn!(lease = self.name, "no answer about the lease; trying again"),
            }
        }
    }

    async fn try_acquire(&self, waiting: &mut Waiting) -> kube::Result<Option<Lease>> {
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
            waiting.seen = None;
            let claim = self.claim(None, waiting.newer_than.saturating_add(1));
            return won(self.leases.create(&posting(), &claim).await);
        };
        self.note(waiting, &lease);
        let silent = waiting.seen.as_ref().is_some_and(|seen| seen.at.elapsed() >= seen.lasts);
        if self.is_free(&lease) || silent {
            let claim = self.claim(Some(&lease), waiting.newer_than.saturating_add(1));
            return won(self.leases.replace(&self.name, &posting(), &claim).await);
        }
        tracing::debug!(lease = self.name, holder = holder(&lease), "another replica leads");
        Ok(None)
    }

    fn is_free(&self, lease: &Lease) -> bool {
        let holder = holder(lease);
        holder.is_empty() || holder == self.identity
    }

    fn note(&self, waiting: &mut Waiting, lease: &Lease) {
        waiting.newer_than = waiting.newer_than.max(number(lease));
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let theirs = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let theirs = Duration::from_secs(theirs.try_into().unwrap_or(0)).min(LONGEST);
        let lasts = self.times.lease.max(theirs);
        if waiting.seen.as_ref().is_none_or(|seen| seen.version != version) {
            waiting.seen = Some(Seen { version, at: Instant::now(), lasts });
        }
    }

    /// Returns when the lease was given up or deleted, or when its holder has been silent for its time.
    async fn until_it_may_be_free(&self, waiting: &mut Waiting) {
        let Some(version) = waiting.seen.as_ref().map(|seen| seen.version.clone()) else { return };
        let only = WatchParams::default().fields(&format!("metadata.name={}", self.name)).timeout(290);
        let opened = match timeout(self.times.renew, self.leases.watch(&only, &version)).await {
            Ok(Ok(events)) => Ok(events),
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err("no answer".into()),
        };
        let events = match opened {
            Ok(events) => events,
            Err(why) => {
                self.warn_of_polling(waiting, &why);
                return sleep(self.times.retry).await;
            }
        };
        let mut events = std::pin::pin!(events);
        while let Some(last) = waiting.seen.as_ref() {
            match timeout_at(last.at + last.lasts, events.next()).await {
                Ok(Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)))) => {
                    self.note(waiting, &lease);
                    if self.is_free(&lease) {
                        return;
                    }
                }
                Ok(Some(Ok(WatchEvent::Bookmark(_)))) => {}
                Ok(Some(Ok(WatchEvent::Deleted(_)))) | Err(_) => return,
                Ok(Some(Ok(WatchEvent::Error(_)) | Err(_)) | None) => return sleep(self.times.retry).await,
            }
        }
    }

    /// Says once that a hand-over will be noticed late.
    fn warn_of_polling(&self, waiting: &mut Waiting, why: &str) {
        if !std::mem::replace(&mut waiting.warned, true) {
            let every = self.times.retry.as_millis();
            tracing::warn!(
                lease = self.name,
                why,
                "the lease cannot be watched; it is read every {every} ms"
            );
        }
    }

    /// Gives the lease up if it is ours, so that another replica need not wait for it to run out.
    pub async fn release(&self) {
        match timeout(self.times.renew, self.give_up()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(
                    lease = self.name,
                    error = describe(&error),
                    "the lease could not be given up"
                );
            }
            Err(_) => tracing::warn!(lease = self.name, "no answer to giving the lease up"),
        }
    }

    async fn give_up(&self) -> kube::Result<()> {
        loop {
            let Some(mut lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_ref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            // A renewal that nobody waits for any more may have come in between.
            if won(self.leases.replace(&self.name, &posting(), &lease).await)?.is_some() {
                return Ok(());
            }
        }
    }

    fn claim(&self, before: Option<&Lease>, number: u64) -> Lease {
        let now = MicroTime(self.clock.now());
        let seconds = self.times.lease.as_millis().div_ceil(1000);
        let same = before.filter(|lease| holder(lease) == self.identity);
        let acquired = same.and_then(|lease| lease.spec.as_ref()?.acquire_time.clone());
        let name = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        Lease {
            metadata: before.map_or(name, |lease| lease.metadata.clone()),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(seconds).ok(),
                acquire_time: acquired.or(Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: i32::try_from(number.min(LAST_NUMBER)).ok(),
                ..LeaseSpec::default()
            }),
        }
    }
}

impl Held<'_> {
    /// The term that began.
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// Renews the lease until that fails for too long, or somebody else has it; then the term is over.
    pub async fn hold(mut self) -> Lost {
        let lost = self.renew_for_ever().await;
        self.term.over.cancel();
        lost
    }

    async fn renew_for_ever(&mut self) -> Lost {
        let times = self.candidate.times;
        let number = self.term.number.unwrap_or_default();
        let mut superseded = self.term.superseded.subscribe();
        let mut next = self.sent + times.renew;
        loop {
            let deadline = self.sent + times.safe();
            tokio::select! {
                biased;
                () = sleep_until(deadline) => return Lost::NotRenewed,
                by = superseded.wait_for(|by| *by > number) => {
                    return Lost::Superseded(by.map_or(number, |by| *by));
                }
                () = sleep_until(next) => {}
            }
            let sent = Instant::now();
            match timeout_at(deadline.min(sent + times.renew), self.renew(number)).await {
                Ok(Ok(lease)) if holder(&lease) != self.candidate.identity => {
                    return Lost::To(holder(&lease).to_owned());
                }
                // Taken by another process that goes by our name.
                Ok(Ok(lease)) if self::number(&lease) > number => {
                    return Lost::Superseded(self::number(&lease));
                }
                Ok(Ok(lease)) => {
                    (self.lease, self.sent) = (lease, sent);
                    self.term.extend(sent + times.safe());
                    next = sent + times.renew;
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = describe(&error), "the lease could not be renewed; trying again");
                    next = Instant::now() + times.retry;
                }
                Err(_) => {
                    tracing::warn!("no answer to a renewal of the lease; trying again");
                    next = Instant::now();
                }
            }
        }
    }

    /// The lease as it is after an attempt to renew it: ours, or whosever it is now.
    async fn renew(&mut self, number: u64) -> kube::Result<Lease> {
        let Candidate { leases, name, identity, .. } = self.candidate;
        let claim = self.candidate.claim(Some(&self.lease), number);
        match leases.replace(name, &posting(), &claim).await {
            // One that was deleted is a conflict too: it is not the one that has our uid.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            other => return other,
        }
        let Some(now) = leases.get_opt(name).await? else {
            return leases.create(&posting(), &self.candidate.claim(None, number)).await;
        };
        if holder(&now) != identity || self::number(&now) > number {
            return Ok(now);
        }
        // Written by a renewal whose answer was lost, or edited by somebody.
        let claim = self.candidate.claim(Some(&now), number);
        self.lease = now;
        leases.replace(name, &posting(), &claim).await
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// The number of the term that a lease stands for.
fn number(lease: &Lease) -> u64 {
    let number = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
    number.try_into().ok().filter(|number| *number <= LAST_NUMBER).unwrap_or(0)
}

/// A conflict means that somebody else was faster, which is no error.
fn won(result: kube::Result<Lease>) -> kube::Result<Option<Lease>> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}
