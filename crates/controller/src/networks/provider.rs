//! The seam between what is decided and the cloud that it is done in.

use std::future::Future;
use std::sync::Arc;

use causeway_core::networks::{Held, Home, Look, Seen, Step, Trouble};

/// A cloud that has networks.
///
/// Nothing here decides: a look says what is there, whoever's it is, and a step is carried out as it is, once. What may have
/// been done without an answer is [`Trouble::Unreachable`]; whoever asked looks before the next step.
pub trait NetworkProvider: Send + Sync + 'static {
    /// Its name, in statuses and metrics.
    const NAME: &'static str;

    /// All networks with a mark of ours ([`Look::All`]: those with our home's or our cluster's tag, or with the first mark), or all that
    /// may be one object's ([`Look::One`]: those with its tag, those with the first mark and its name, and those with one of the ids,
    /// whoever's they are). Each with all of its subnets.
    fn look(&self, home: &Home, look: &Look) -> impl Future<Output = Result<Vec<Held>, Trouble>> + Send;

    /// Carries out one step and says what is there afterwards.
    fn apply(&self, step: &Step) -> impl Future<Output = Result<Seen, Trouble>> + Send;
}

impl<P: NetworkProvider> NetworkProvider for Arc<P> {
    const NAME: &'static str = P::NAME;

    fn look(&self, home: &Home, look: &Look) -> impl Future<Output = Result<Vec<Held>, Trouble>> + Send {
        P::look(self, home, look)
    }

    fn apply(&self, step: &Step) -> impl Future<Output = Result<Seen, Trouble>> + Send {
        P::apply(self, step)
    }
}
