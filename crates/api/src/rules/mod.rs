//! The room `rules`: the objects that say how data planes should treat requests.
//!
//! The six kinds are OpenSergo's. Our definitions accept whatever the stock ones accept, and add a status:
//! [`tolerance`], [`strategies`] and [`router`] are their specs, [`mod@status`] is what all of them report. What is
//! read never goes through those types: another definition may be installed, so [`LooseRule`] takes an object as it
//! is and [`parse`] names the field that makes no sense.

mod definition;
mod field;
pub mod loose;
pub mod parse;
pub mod router;
pub mod status;
pub mod strategies;
pub mod tolerance;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use loose::{LooseRule, resource};
pub use router::TrafficRouter;
pub use status::Status;
pub use strategies::{
    CircuitBreakerStrategy, ConcurrencyLimitStrategy, RateLimitStrategy, ThrottlingStrategy,
};
pub use tolerance::FaultToleranceRule;

/// The definitions of the room's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let crds = [
        CircuitBreakerStrategy::crd(),
        ConcurrencyLimitStrategy::crd(),
        FaultToleranceRule::crd(),
        RateLimitStrategy::crd(),
        ThrottlingStrategy::crd(),
        TrafficRouter::crd(),
    ];
    crds.map(definition::completed).into()
}
