//! Rules as they arrive become messages again.

use causeway_core::rules::Kind;
use causeway_core::rules::convert::type_url_of;
use causeway_core::rules::wire::Any;
use causeway_core::rules::wire::envoy::config::route::v3::RouteConfiguration;
use causeway_core::rules::wire::fault_tolerance::v1::{
    CircuitBreakerStrategy, ConcurrencyLimitStrategy, FaultToleranceRule, RateLimitStrategy,
    ThrottlingStrategy,
};
use prost::Message as _;

/// A rule as data planes get it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    Tolerance(FaultToleranceRule),
    RateLimit(RateLimitStrategy),
    Throttling(ThrottlingStrategy),
    ConcurrencyLimit(ConcurrencyLimitStrategy),
    CircuitBreaker(CircuitBreakerStrategy),
    Routes(RouteConfiguration),
}

/// What is no rule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecodable {
    #[error("there is no rule of type {0}")]
    Type(String),
    #[error("a {0} cannot be decoded: {1}")]
    Bytes(Kind, prost::DecodeError),
}

/// A rule by its type's URL.
pub(crate) fn decode(any: &Any) -> Result<Message, Undecodable> {
    let kind = Kind::ALL.into_iter().find(|kind| type_url_of(*kind) == any.type_url);
    let kind = kind.ok_or_else(|| Undecodable::Type(any.type_url.clone()))?;
    let bytes = any.value.as_slice();
    let message = match kind {
        Kind::FaultToleranceRule => FaultToleranceRule::decode(bytes).map(Message::Tolerance),
        Kind::RateLimitStrategy => RateLimitStrategy::decode(bytes).map(Message::RateLimit),
        Kind::ThrottlingStrategy => ThrottlingStrategy::decode(bytes).map(Message::Throttling),
        Kind::ConcurrencyLimitStrategy => {
            ConcurrencyLimitStrategy::decode(bytes).map(Message::ConcurrencyLimit)
        }
        Kind::CircuitBreakerStrategy => CircuitBreakerStrategy::decode(bytes).map(Message::CircuitBreaker),
        Kind::TrafficRouter => RouteConfiguration::decode(bytes).map(Message::Routes),
    };
    message.map_err(|error| Undecodable::Bytes(kind, error))
}
