//! A gateway in memory, for tests that are about the loop and not about Linux.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use causeway_core::vpc::{Action, Have, Plan, model};

use super::{Applied, Datapath, Digest, Listing, Looked, StepError};
use crate::Trouble;

/// A [`Datapath`] over [`model::apply`].
#[derive(Debug, Default)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    have: Have,
    /// The highest term that it was given.
    term: Option<u64>,
}

impl Inner {
    fn listing(&self) -> Listing {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.have).hash(&mut hasher);
        Listing { have: self.have.clone(), digest: Some(Digest(format!("{:016x}", hasher.finish()))) }
    }
}

impl Memory {
    /// A gateway that holds this.
    pub fn new(have: Have) -> Self {
        Self { inner: Mutex::new(Inner { have, term: None }) }
    }

    /// What it holds now.
    pub fn have(&self) -> Have {
        self.lock().have.clone()
    }

    /// Changes what it holds behind everybody's back.
    pub fn change(&self, change: impl FnOnce(&mut Have)) {
        change(&mut self.lock().have);
    }

    /// The highest term that it was given.
    pub fn term(&self) -> Option<u64> {
        self.lock().term
    }

    /// What an observer sees.
    pub fn listing(&self) -> Listing {
        self.lock().listing()
    }

    /// Takes note of a term, or refuses an older one than it was given before.
    pub fn admit(&self, term: Option<u64>) -> Result<(), Trouble> {
        let mut inner = self.lock();
        if let (Some(term), Some(by)) = (term, inner.term)
            && term < by
        {
            return Err(Trouble::Superseded { by });
        }
        inner.term = inner.term.max(term);
        Ok(())
    }

    /// Does one step of a plan.
    pub fn step(&self, action: &Action) -> Result<(), StepError> {
        model::apply(&mut self.lock().have, action).map_err(StepError::Refused)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is one call that leaves a whole value, so a panic elsewhere spoils nothing.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Datapath for Memory {
    async fn observe(&self, known: Option<&Digest>) -> Result<Looked, Trouble> {
        let listing = self.listing();
        let is_known = known.is_some() && known == listing.digest.as_ref();
        Ok(if is_known { Looked::Same } else { Looked::Listed(listing) })
    }

    async fn apply(&self, plan: &Plan, term: Option<u64>) -> Result<Applied, Trouble> {
        self.admit(term)?;
        let failures = plan.steps.iter().enumerate();
        let failures =
            failures.filter_map(|(index, step)| Some((index, self.step(&step.action).err()?))).collect();
        Ok(Applied { listing: self.listing(), failures })
    }
}

#[cfg(test)]
mod tests {
    use causeway_core::vpc::Step;

    use super::*;

    #[tokio::test]
    async fn a_step_that_fails_is_named_and_the_others_are_done() {
        let memory = Memory::new(Have::default());
        let up = Action::LinkUp { link: "demo".parse().expect("name") };
        let steps = [up, Action::Forward].map(|action| Step { owner: None, action }).into();
        let applied = memory.apply(&Plan { steps, ..Plan::default() }, None).await.expect("applied");
        assert_eq!(applied.failures.keys().collect::<Vec<_>>(), [&0]);
        assert!(applied.listing.have.forwarding && memory.have().forwarding);
        memory.change(|have| have.forwarding = false);
        let seen = memory.observe(applied.listing.digest.as_ref()).await.expect("observed");
        assert_eq!(seen.clone().listing().map(|listing| listing.have), Some(Have::default()));
        let known = seen.listing().and_then(|listing| listing.digest);
        assert_eq!(memory.observe(known.as_ref()).await, Ok(Looked::Same));
    }

    #[tokio::test]
    async fn an_older_term_changes_nothing() {
        let memory = Memory::default();
        let forward = Plan { steps: vec![Step { owner: None, action: Action::Forward }], ..Plan::default() };
        memory.apply(&Plan::default(), Some(7)).await.expect("accepted");
        assert_eq!(memory.apply(&forward, Some(6)).await, Err(Trouble::Superseded { by: 7 }));
        assert!(!memory.have().forwarding);
        for term in [Some(7), None, Some(8)] {
            memory.change(|have| have.forwarding = false);
            memory.apply(&forward, term).await.expect("accepted");
            assert!(memory.have().forwarding);
        }
        assert_eq!(memory.term(), Some(8));
    }
}
