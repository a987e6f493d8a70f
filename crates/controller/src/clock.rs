//! Where the time of day comes from: the system, or a moment given plus what `tokio` says has passed since, so
//! that paused time moves it too. Deadlines never come from here: they are `tokio::time::Instant`s.

use jiff::Timestamp;
use tokio::time::Instant;

/// The time of day.
#[derive(Debug, Clone, Copy, Default)]
pub enum Clock {
    /// The machine's own.
    #[default]
    System,
    /// It was `base` at `start`.
    Given {
        /// The time of day then.
        base: Timestamp,
        /// Then.
        start: Instant,
    },
}

impl Clock {
    /// A clock that shows `base` now.
    pub fn starting_at(base: Timestamp) -> Self {
        Self::Given { base, start: Instant::now() }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Given { base, start } => base.checked_add(start.elapsed()).unwrap_or(*base),
        }
    }
}
