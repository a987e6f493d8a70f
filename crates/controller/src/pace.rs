//! Pauses between tries, which grow and are spread by a seed.

use std::time::Duration;

/// Pauses between tries.
#[derive(Debug, Clone)]
pub struct Pace {
    chance: fastrand::Rng,
    failures: u32,
}

impl Pace {
    pub(crate) const MIN: Duration = Duration::from_millis(200);
    pub(crate) const MAX: Duration = Duration::from_secs(30);

    /// A number from 0 to 1.
    pub(crate) fn chance(&mut self) -> f64 {
        self.chance.f64()
    }

    /// With all chance from a seed.
    pub fn seeded(seed: u64) -> Self {
        Self { chance: fastrand::Rng::with_seed(seed), failures: 0 }
    }

    /// The next pause: it doubles each time, up to half a minute, and is spread over half of itself.
    pub fn pause(&mut self) -> Duration {
        let longest = Self::MIN.saturating_mul(1 << self.failures.min(16)).min(Self::MAX);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(self.chance.f64().mul_add(0.5, 0.5))
    }

    /// All is well again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
