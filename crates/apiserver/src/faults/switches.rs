//! The faults that are on, and what they do to a request.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Fault, FaultError, Match, Switch};
use crate::ids::Ids;
use crate::status::{ApiError, Qualified};

/// What a request is about and who sent it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// The Kubernetes verb; the method where there is no resource.
    pub(crate) verb: String,
    pub(crate) group: String,
    /// The plural; the path where there is no resource.
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) user_agent: String,
    pub(crate) field_manager: String,
    pub(crate) dry_run: bool,
    /// The version that a list shows in place of the present.
    pub(crate) as_of: Option<u64>,
}

impl Asked {
    /// The plural with its subresource, as a role would name it.
    fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    fn is_matched(&self, wanted: &Match) -> bool {
        let among = |list: &[String], value: &str| list.is_empty() || list.iter().any(|item| item == value);
        among(&wanted.verbs, &self.verb)
            && (wanted.resources.is_empty() || among(&wanted.resources, &self.full_resource()))
            && among(&wanted.names, &self.name)
            && wanted.user_agent.as_ref().is_none_or(|part| self.user_agent.contains(part.as_str()))
            && wanted.user.as_ref().is_none_or(|user| *user == self.user)
    }

    /// The refusal that a real server would word so.
    fn refusal(&self, code: u16, retry_after: u32) -> ApiError {
        let what = Qualified::new(&self.group, &self.resource);
        let mut error = match code {
            403 => ApiError::new(403, "Forbidden", self.forbidden(&what)),
            409 => ApiError::conflict(
                &what,
                &self.name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            429 => {
                let message = "the server has received too many requests and has asked us to try again later";
                ApiError::new(429, "TooManyRequests", message)
            }
            503 => {
                let message = "the server is currently unable to handle the request";
                ApiError::new(503, "ServiceUnavailable", message)
            }
            _ => ApiError::new(500, "InternalError", "Internal error occurred: a fault was switched on"),
        };
        let details = error.details.get_or_insert_default();
        details.retry_after = if code == 429 { retry_after.max(1) } else { retry_after };
        error
    }

    fn forbidden(&self, what: &Qualified) -> String {
        let resource = self.full_resource();
        let name = if self.name.is_empty() { String::new() } else { format!(" {:?}", self.name) };
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!(
            "{what}{name} is forbidden: User {:?} cannot {} resource {resource:?} in API group {:?} {place}",
            self.user, self.verb, self.group
        )
    }
}

struct Active {
    fault: Fault,
    /// The store's version when it was switched on.
    version: u64,
    since: Instant,
    until: Option<Instant>,
    /// How often it may still strike.
    left: AtomicU32,
}

impl Active {
    fn new(fault: Fault, version: u64) -> Arc<Active> {
        let since = Instant::now();
        let until = fault.for_ms.and_then(|ms| since.checked_add(Duration::from_millis(ms)));
        let left = AtomicU32::new(fault.times.unwrap_or(u32::MAX));
        Arc::new(Active { fault, version, since, until, left })
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now()) || self.left.load(Ordering::Relaxed) == 0
    }

    /// Counts one strike; whether there was one left.
    fn strike(&self) -> bool {
        if self.fault.times.is_none() {
            return true;
        }
        let take = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Says when other faults are on.
pub(crate) struct Changes(watch::Receiver<Vec<Arc<Active>>>);

impl Changes {
    /// All changes so far are known.
    pub(crate) fn seen(&mut self) {
        self.0.mark_unchanged();
    }

    /// Returns with the next change.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The server is gone; others say so.
            std::future::pending::<()>().await;
        }
    }
}

/// See the module.
pub(crate) struct Switches {
    active: watch::Sender<Vec<Arc<Active>>>,
    chance: Mutex<Ids>,
}

impl Switches {
    /// With none on.
    pub(crate) fn none(seed: Option<u64>) -> Switches {
        Switches { active: watch::Sender::new(Vec::new()), chance: Mutex::new(Ids::new(seed)) }
    }

    /// With these on from the start.
    pub(crate) fn new(faults: Vec<Fault>, version: u64, seed: Option<u64>) -> Result<Switches, FaultError> {
        faults.iter().try_for_each(Fault::check)?;
        let switches = Switches::none(seed);
        switches.replace(faults, version);
        Ok(switches)
    }

    pub(crate) fn all(&self) -> Vec<Fault> {
        let active = self.active.borrow();
        active.iter().filter(|active| !active.is_over()).map(|active| active.fault.clone()).collect()
    }

    pub(crate) fn replace(&self, faults: Vec<Fault>, version: u64) {
        let active = faults.into_iter().map(|fault| Active::new(fault, version)).collect();
        self.active.send_replace(active);
    }

    pub(crate) fn add(&self, faults: Vec<Fault>, version: u64) {
        self.active.send_modify(|active| {
            active.retain(|active| !active.is_over());
            active.extend(faults.into_iter().map(|fault| Active::new(fault, version)));
        });
    }

    /// Says when the list changes.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.active.subscribe())
    }

    /// The first of these that is on for the request, with what `pick` makes of it.
    fn find<T>(&self, asked: &Asked, pick: impl Fn(&Active) -> Option<T>) -> Option<T> {
        let active = self.active.borrow();
        let on = active.iter().filter(|active| !active.is_over() && asked.is_matched(&active.fault.matching));
        on.filter_map(|active| pick(active)).next()
    }

    /// Waits while the request is frozen.
    pub(crate) async fn thawed(&self, asked: &Asked) {
        if self.active.borrow().is_empty() {
            return;
        }
        let mut list = self.active.subscribe();
        loop {
            list.mark_unchanged();
            let frozen = |active: &Active| (active.fault.switch == Switch::Freeze).then_some(active.until);
            match self.find(asked, frozen) {
                None => return,
                Some(None) => drop(list.changed().await),
                Some(Some(until)) => {
                    tokio::select! {
                        biased;
                        _ = list.changed() => {}
                        () = tokio::time::sleep_until(until) => {}
                    }
                }
            }
        }
    }

    /// What happens to a request before anything else looks at it.
    pub(crate) async fn admit(&self, asked: &Asked) -> Result<(), ApiError> {
        self.thawed(asked).await;
        let delay = self.find(asked, |active| match active.fault.switch {
            Switch::Delay { ms } if active.strike() => Some(Duration::from_millis(ms)),
            _ => None,
        });
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        let refusal = self.find(asked, |active| match active.fault.switch {
            Switch::Refuse { code, percent, retry_after_seconds }
                if self.chance(percent) && active.strike() =>
            {
                Some((code, retry_after_seconds))
            }
            _ => None,
        });
        match refusal {
            Some((code, retry_after)) => Err(asked.refusal(code, retry_after)),
            None => Ok(()),
        }
    }

    fn chance(&self, percent: u8) -> bool {
        percent >= 100 || {
            let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
            chance.next() % 100 < u64::from(percent)
        }
    }

    /// The version that a list shows in place of the present.
    pub(crate) fn stale(&self, asked: &Asked) -> Option<u64> {
        self.find(asked, |active| match active.fault.switch {
            Switch::StaleLists { resource_version } if active.strike() => {
                Some(resource_version.unwrap_or(active.version))
            }
            _ => None,
        })
    }

    /// The version before which a watch may not begin.
    pub(crate) fn compacted(&self, asked: &Asked) -> Option<u64> {
        self.find(asked, |active| match active.fault.switch {
            Switch::Compacted => Some(active.version),
            _ => None,
        })
    }

    /// Whether a watch that began then has to end.
    pub(crate) fn closes(&self, asked: &Asked, began: Instant) -> bool {
        let closes = |active: &Active| {
            (active.fault.switch == Switch::CloseWatches && began < active.since).then_some(())
        };
        self.find(asked, closes).is_some()
    }

    /// How late the output of a command arrives, if it does.
    pub(crate) fn late_output(&self, asked: &Asked) -> Option<Duration> {
        self.find(asked, |active| match active.fault.switch {
            Switch::LateOutput { ms } if active.strike() => Some(Duration::from_millis(ms)),
            _ => None,
        })
    }

    /// Whether a client gets nothing newer than v4.
    pub(crate) fn only_v4(&self, asked: &Asked) -> bool {
        self.find(asked, |active| (active.fault.switch == Switch::ExecV4).then_some(())).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verb: &str, resource: &str) -> Asked {
        Asked { verb: verb.into(), resource: resource.into(), user: "admin".into(), ..Asked::default() }
    }

    fn refuse(percent: u8) -> Switch {
        Switch::Refuse { code: 429, percent, retry_after_seconds: 0 }
    }

    #[tokio::test]
    async fn only_what_matches_is_refused_and_only_so_often() {
        let matching =
            Match { verbs: vec!["patch".into()], resources: vec!["pods/status".into()], ..Match::default() };
        let fault = Fault { times: Some(2), ..Fault::new(refuse(100)).on(matching) };
        let switches = Switches::new(vec![fault], 1, Some(1)).unwrap();
        let mut status = asked("patch", "pods");
        assert!(switches.admit(&status).await.is_ok());
        status.subresource = "status".into();
        for left in [1, 0] {
            let error = switches.admit(&status).await.unwrap_err();
            assert_eq!((error.code, error.details.unwrap().retry_after), (429, 1), "{left} left");
        }
        assert!(switches.admit(&status).await.is_ok());
        assert_eq!(switches.all(), []);
    }

    #[tokio::test]
    async fn a_rate_is_kept_on_the_whole() {
        let switches = Switches::new(vec![Fault::new(refuse(30))], 1, Some(1)).unwrap();
        let mut refused = 0;
        for _ in 0..1000 {
            refused += usize::from(switches.admit(&asked("patch", "pods")).await.is_err());
        }
        assert!((250..350).contains(&refused), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_frozen_request_waits_until_it_is_thawed_or_the_time_is_over() {
        let start = Instant::now();
        let frozen = Fault { for_ms: Some(500), ..Fault::new(Switch::Freeze) };
        let switches = Switches::new(vec![frozen], 1, Some(1)).unwrap();
        switches.thawed(&asked("get", "pods")).await;
        assert_eq!(start.elapsed().as_millis(), 500);
        switches.replace(vec![Fault::new(Switch::Freeze)], 1);
        let asked = asked("get", "pods");
        let thaw = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            switches.replace(Vec::new(), 1);
        };
        tokio::join!(switches.thawed(&asked), thaw);
        assert_eq!(start.elapsed().as_millis(), 3500);
    }
}
