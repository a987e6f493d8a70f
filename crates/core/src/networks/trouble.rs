//! What goes wrong with a cloud, and what follows from it.

use std::time::Duration;

/// Why something could not be seen or done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// No answer, or one that is the cloud's own failure; what became of the request is not known.
    #[error("the cloud does not answer: {why}")]
    Unreachable {
        /// In its words.
        why: String,
        /// When it wants to be asked again.
        after: Option<Duration>,
    },
    /// We are not known to it, or no longer.
    #[error("the cloud does not let us in: {0}")]
    Unauthorized(String),
    /// We are known, and may not do that.
    #[error("the cloud forbids it: {0}")]
    Forbidden(String),
    /// There may be no more of them.
    #[error("the cloud's quota is used up: {0}")]
    Quota(String),
    /// Something is attached.
    #[error("it is in use: {0}")]
    InUse(String),
    /// Somebody was faster: what was decided on is not so any more.
    #[error("somebody changed it meanwhile: {0}")]
    Stale(String),
    /// It is not there.
    #[error("it is not there: {0}")]
    Missing(String),
    /// Anything else that the cloud does not want.
    #[error("the cloud refused: {0}")]
    Refused(String),
}

/// What follows from trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It may pass by itself: soon again, later each time, or when the cloud said.
    Soon(Option<Duration>),
    /// Look again: what we know is old.
    Look,
    /// Somebody has to do something, here or in the cloud: now and then is enough.
    Seldom,
}

impl Trouble {
    /// Without a wish of when to be asked again.
    pub fn unreachable(why: impl Into<String>) -> Self {
        Self::Unreachable { why: why.into(), after: None }
    }

    /// The reason of a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "CloudUnreachable",
            Self::Unauthorized(_) => "Unauthorized",
            Self::Forbidden(_) => "Forbidden",
            Self::Quota(_) => "QuotaExceeded",
            Self::InUse(_) => "InUse",
            Self::Stale(_) => "Changed",
            Self::Missing(_) => "Missing",
            Self::Refused(_) => "Refused",
        }
    }

    /// What follows from it.
    pub fn next(&self) -> Next {
        match self {
            Self::Unreachable { after, .. } => Next::Soon(*after),
            Self::Unauthorized(_) => Next::Soon(None),
            Self::Stale(_) | Self::Missing(_) => Next::Look,
            Self::Forbidden(_) | Self::Quota(_) | Self::InUse(_) | Self::Refused(_) => Next::Seldom,
        }
    }
}
