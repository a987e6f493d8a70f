//! Leader election by a Lease: only its holder writes.
//!
//! Every write is an update guarded by resourceVersion, so two candidates can never both succeed. A
//! holder that can not renew in time ends the process rather than go on writing.

use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::ObjectMeta;
use tokio::time::{Instant, sleep};

use crate::status::posting;

/// How long a silent holder keeps the lease.
const LEASE: Duration = Duration::from_secs(15);
/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(5);
/// How often others look whether it is free.
const RETRY: Duration = Duration::from_secs(2);

/// A candidate for a lease.
#[derive(Clone)]
pub struct Candidate {
    /// Where leases live.
    pub leases: Api<Lease>,
    /// The lease's name.
    pub name: String,
    /// Who we are; a restart under the same name takes its own lease up at once.
    pub identity: String,
}

/// What was last seen of somebody else's lease, and when by our own clock: clocks are not compared.
struct Seen {
    version: Option<String>,
    at: Instant,
}

impl Candidate {
    /// Waits until the lease is ours.
    pub async fn acquire(&self) -> anyhow::Result<Lease> {
        let mut seen: Option<Seen> = None;
        loop {
            match self.try_acquire(&mut seen).await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "the lease can not be read or written; trying again"),
            }
            sleep(RETRY).await;
        }
    }

    async fn try_acquire(&self, seen: &mut Option<Seen>) -> kube::Result<Option<Lease>> {
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.claim(None)) };
            return won(self.leases.create(&posting(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone();
        if seen.as_ref().is_none_or(|seen| seen.version != version) {
            *seen = Some(Seen { version, at: Instant::now() });
        }
        let silent = seen.as_ref().is_some_and(|seen| seen.at.elapsed() > LEASE);
        if holder.is_empty() || holder == self.identity || silent {
            return won(self.write(&lease).await);
        }
        tracing::debug!(holder, "another replica leads");
        Ok(None)
    }

    /// Renews the lease until that fails for too long or somebody else has it.
    pub async fn hold(&self, mut lease: Lease) -> anyhow::Result<()> {
        let mut renewed = Instant::now();
        loop {
            sleep(RENEW).await;
            match self.write(&lease).await {
                Ok(written) => {
                    lease = written;
                    renewed = Instant::now();
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    lease = self.leases.get(&self.name).await.context("reading the lease")?;
                    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
                    if holder.as_ref() != Some(&self.identity) {
                        bail!("the lease went to {}", holder.unwrap_or_default());
                    }
                }
                Err(error) if renewed.elapsed() + RENEW < LEASE => {
                    tracing::warn!(%error, "the lease could not be renewed; trying again");
                }
                Err(error) => return Err(error).context("the lease could not be renewed in time"),
            }
        }
    }

    /// Gives the lease up, so that another replica need not wait for it to run out.
    pub async fn release(&self) -> kube::Result<()> {
        let mut lease = self.leases.get(&self.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = Some(String::new());
            self.leases.replace(&self.name, &posting(), &lease).await?;
        }
        Ok(())
    }

    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        let claimed = Lease { spec: Some(self.claim(lease.spec.as_ref())), ..lease.clone() };
        self.leases.replace(&self.name, &posting(), &claimed).await
    }

    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let same = before.filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let terms = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            acquire_time: same.and_then(|spec| spec.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if same.is_some() { terms } else { terms + 1 }),
            ..LeaseSpec::default()
        }
    }
}

/// A conflict means that somebody else was faster, which is no error.
fn won(result: kube::Result<Lease>) -> kube::Result<Option<Lease>> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}
