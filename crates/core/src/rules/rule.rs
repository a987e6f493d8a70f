//! Rules as values: what the spec of each kind says, parsed.

use std::fmt;
use std::str::FromStr;

use super::Kind;

/// Why a rule cannot be sent: the field, and a sentence about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Refusal {
    /// The field's path, as in `spec.http[0].route`.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

impl Refusal {
    /// Of a field.
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

/// A rule of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// Which strategies guard which resources.
    FaultTolerance(FaultTolerance),
    /// So many requests in so much time.
    RateLimit(RateLimit),
    /// Requests at even intervals.
    Throttling(Throttling),
    /// So many requests at once.
    ConcurrencyLimit(ConcurrencyLimit),
    /// No requests for a while after too many slow or failed ones.
    CircuitBreaker(CircuitBreaker),
    /// Which requests go where.
    Router(Router),
}

impl Rule {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::FaultTolerance(_) => Kind::FaultToleranceRule,
            Self::RateLimit(_) => Kind::RateLimitStrategy,
            Self::Throttling(_) => Kind::ThrottlingStrategy,
            Self::ConcurrencyLimit(_) => Kind::ConcurrencyLimitStrategy,
            Self::CircuitBreaker(_) => Kind::CircuitBreakerStrategy,
            Self::Router(_) => Kind::TrafficRouter,
        }
    }
}

/// Which strategies guard which resources, and what is done when they refuse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultTolerance {
    /// The resources, by name.
    pub targets: Vec<String>,
    /// The strategies.
    pub strategies: Vec<Reference>,
    /// What is done instead.
    pub action: Option<Reference>,
}

/// Another object, by name and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
}

/// Whether a limit is for one process or for all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitMode {
    /// Each process counts for itself.
    Local,
    /// All count together.
    Global,
}

/// So many requests in so much time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// Who counts.
    pub limit_mode: LimitMode,
    /// How many.
    pub threshold: i64,
    /// In how many seconds.
    pub stat_duration_seconds: i32,
}

/// Requests at even intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttling {
    /// The least time between two.
    pub min_interval: Span,
    /// The longest wait.
    pub queue_timeout: Span,
}

/// So many requests at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    /// How many.
    pub max_concurrency: i64,
    /// Who counts.
    pub limit_mode: LimitMode,
}

/// What makes a circuit breaker open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerStrategy {
    /// The share of slow requests.
    SlowRequestRatio,
    /// The share of failed requests.
    ErrorRequestRatio,
}

/// No requests for a while after too many slow or failed ones.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitBreaker {
    /// What is counted.
    pub strategy: BreakerStrategy,
    /// The share that is too much.
    pub trigger_ratio: Ratio,
    /// Over how long it is taken.
    pub stat_duration: Span,
    /// How long the breaker stays open.
    pub recovery_timeout: Span,
    /// The fewest requests to judge by.
    pub min_request_amount: i32,
    /// What is slow, where that is said.
    pub max_allowed_rt: Option<Span>,
    /// Whether conditions for errors were given.
    pub error_conditions: bool,
}

/// Which requests go where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Router {
    /// For which hosts.
    pub hosts: Vec<String>,
    /// The routes, the first that matches counts.
    pub http: Vec<HttpRoute>,
}

/// Some requests and their destinations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRoute {
    /// Which requests: any of these; all if there is none.
    pub matches: Vec<RequestMatch>,
    /// Where they go.
    pub destinations: Vec<Destination>,
}

/// Which requests: all of these must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestMatch {
    /// The path.
    pub uri: Option<StringMatch>,
    /// Headers, by name.
    pub headers: Vec<(String, StringMatch)>,
    /// Query parameters, by name.
    pub query_params: Vec<(String, StringMatch)>,
}

/// Which texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StringMatch {
    /// This one.
    Exact(String),
    /// Those that begin so.
    Prefix(String),
    /// Those that an expression matches.
    Regex(String),
}

/// Where requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destination {
    /// A service.
    pub to: Cluster,
    /// Where they go when nobody is there.
    pub fallback: Option<Cluster>,
    /// Its share.
    pub weight: Option<u32>,
}

/// A service, or a named part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The service.
    pub host: String,
    /// The part; empty for all of it.
    pub subset: String,
}

/// A length of time, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// In milliseconds.
    pub fn millis(self) -> u64 {
        self.0
    }
}

/// Not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: use a whole number and one of ms, s, m, min, minute, h, d, like 500ms")]
pub struct NoSpan(String);

impl FromStr for Span {
    type Err = NoSpan;

    /// A number without leading zeros and a unit. Zero is `0` followed by a unit: whether it is allowed depends on the
    /// field.
    fn from_str(text: &str) -> Result<Self, NoSpan> {
        let error = || NoSpan(text.into());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let millis = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" | "minute" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(error()),
        };
        if number.len() > 1 && number.starts_with('0') {
            return Err(error());
        }
        let number: u64 = number.parse().map_err(|_| error())?;
        number.checked_mul(millis).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// A share, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// As a number from 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Not a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a ratio: use whole percents, like 60%, or a number from 0 to 1, like 0.6")]
pub struct NoRatio(String);

impl FromStr for Ratio {
    type Err = NoRatio;

    fn from_str(text: &str) -> Result<Self, NoRatio> {
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let ratio = match text.strip_suffix('%') {
            Some(percent) if percent.bytes().all(|byte| byte.is_ascii_digit()) => {
                percent.parse::<f64>().ok().map(|percent| percent / 100.0)
            }
            None if plain(text) => text.parse::<f64>().ok(),
            _ => None,
        };
        ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).map(Self).ok_or_else(|| NoRatio(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        let millis = |text: &str| text.parse::<Span>().map(Span::millis).ok();
        assert_eq!(millis("5s"), Some(5000), "seconds are not multiplied by ten");
        let units = ["1ms", "1m", "1min", "1minute", "1h", "1d", "0ms", "0s"].map(millis);
        assert_eq!(units, [1, 60_000, 60_000, 60_000, 3_600_000, 86_400_000, 0, 0].map(Some));
        for text in
            ["", "5", "s", "05s", "-1s", "1.5s", "1 s", "1S", "5sec", "+1s", "99999999999999999999s", "1d1h"]
        {
            assert_eq!(millis(text), None, "{text}");
        }
        assert_eq!(millis("213503982334602d"), None, "more milliseconds than there are numbers");
    }

    #[test]
    fn ratios_are_percents_or_numbers() {
        let ratio = |text: &str| text.parse::<Ratio>().map(Ratio::get).ok();
        assert_eq!(
            ["0%", "60%", "100%", "0.6", "1", "0", "1.0"].map(ratio),
            [0.0, 0.6, 1.0, 0.6, 1.0, 0.0, 1.0].map(Some)
        );
        for text in ["", "%", "101%", "60.5%", "-1%", "1.1", "nan", "inf", "1e-1", "6O%", "60 %", "."] {
            assert_eq!(ratio(text), None, "{text}");
        }
    }
}
