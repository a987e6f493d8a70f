//! The six kinds of rules.

use std::fmt;
use std::str::FromStr;

/// A kind of rule that data planes subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Which strategies guard which resources.
    FaultToleranceRule,
    /// So many requests in so much time.
    RateLimitStrategy,
    /// Requests at even intervals.
    ThrottlingStrategy,
    /// So many requests at once.
    ConcurrencyLimitStrategy,
    /// No requests for a while after too many slow or failed ones.
    CircuitBreakerStrategy,
    /// Which requests go where.
    TrafficRouter,
}

/// A name that is none of the kinds'.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no kind `{0}`")]
pub struct UnknownKind(pub String);

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::FaultToleranceRule,
        Self::RateLimitStrategy,
        Self::ThrottlingStrategy,
        Self::ConcurrencyLimitStrategy,
        Self::CircuitBreakerStrategy,
        Self::TrafficRouter,
    ];

    /// As Kubernetes calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FaultToleranceRule => "FaultToleranceRule",
            Self::RateLimitStrategy => "RateLimitStrategy",
            Self::ThrottlingStrategy => "ThrottlingStrategy",
            Self::ConcurrencyLimitStrategy => "ConcurrencyLimitStrategy",
            Self::CircuitBreakerStrategy => "CircuitBreakerStrategy",
            Self::TrafficRouter => "TrafficRouter",
        }
    }

    /// As data planes call it: group, version and kind.
    pub fn full_name(self) -> &'static str {
        match self {
            Self::FaultToleranceRule => "fault-tolerance.opensergo.io/v1alpha1/FaultToleranceRule",
            Self::RateLimitStrategy => "fault-tolerance.opensergo.io/v1alpha1/RateLimitStrategy",
            Self::ThrottlingStrategy => "fault-tolerance.opensergo.io/v1alpha1/ThrottlingStrategy",
            Self::ConcurrencyLimitStrategy => {
                "fault-tolerance.opensergo.io/v1alpha1/ConcurrencyLimitStrategy"
            }
            Self::CircuitBreakerStrategy => "fault-tolerance.opensergo.io/v1alpha1/CircuitBreakerStrategy",
            Self::TrafficRouter => "traffic.opensergo.io/v1alpha1/TrafficRouter",
        }
    }

    /// As its API is called.
    pub fn plural(self) -> &'static str {
        match self {
            Self::FaultToleranceRule => "faulttolerancerules",
            Self::RateLimitStrategy => "ratelimitstrategies",
            Self::ThrottlingStrategy => "throttlingstrategies",
            Self::ConcurrencyLimitStrategy => "concurrencylimitstrategies",
            Self::CircuitBreakerStrategy => "circuitbreakerstrategies",
            Self::TrafficRouter => "trafficrouters",
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// By its full name.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.full_name() == text).ok_or_else(|| UnknownKind(text.into()))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
