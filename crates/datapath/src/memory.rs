//! A gateway in memory, for tests that are about the loop and not about Linux.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use causeway_core::vpc::{Have, Plan, model};

use crate::{Applied, Datapath, StepError, Trouble};

/// A [`Datapath`] over [`model::apply`].
#[derive(Debug, Default)]
pub struct Memory {
    have: Mutex<Have>,
}

impl Memory {
    /// A gateway that holds this.
    pub fn new(have: Have) -> Self {
        Self { have: Mutex::new(have) }
    }

    /// What it holds now.
    pub fn have(&self) -> Have {
        self.lock().clone()
    }

    /// Changes what it holds behind everybody's back.
    pub fn change(&self, change: impl FnOnce(&mut Have)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Have> {
        // Every change is one call that leaves a whole value, so a panic elsewhere spoils nothing.
        self.have.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Datapath for Memory {
    async fn observe(&self) -> Result<Have, Trouble> {
        Ok(self.have())
    }

    async fn apply(&self, plan: &Plan) -> Result<Applied, Trouble> {
        let mut have = self.lock();
        let mut failures = BTreeMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            if let Err(why) = model::apply(&mut have, &step.action) {
                failures.insert(index, StepError::Refused(why));
            }
        }
        Ok(Applied { have: have.clone(), failures })
    }
}

#[cfg(test)]
mod tests {
    use causeway_core::vpc::{Action, Step};

    use super::*;

    #[tokio::test]
    async fn a_step_that_fails_is_named_and_the_others_are_done() {
        let memory = Memory::new(Have::default());
        let up = Action::LinkUp { link: "demo".parse().expect("name") };
        let steps = [up, Action::Forward].map(|action| Step { owner: None, action }).into();
        let applied = memory.apply(&Plan { steps, ..Plan::default() }).await.expect("applied");
        assert_eq!(applied.failures.keys().collect::<Vec<_>>(), [&0]);
        assert!(applied.have.forwarding && memory.have().forwarding);
        memory.change(|have| have.forwarding = false);
        assert_eq!(memory.observe().await, Ok(Have::default()));
    }
}
