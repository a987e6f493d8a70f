//! Where commands run: the controller supplies exec in a pod, tests a local process.

use std::time::Duration;

use async_trait::async_trait;

/// A process's end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Its exit status.
    pub status: i32,
    /// All it printed.
    pub stdout: Vec<u8>,
    /// All it complained.
    pub stderr: Vec<u8>,
}

/// Runs a command in a gateway.
#[async_trait]
pub trait Run: Send + Sync {
    /// Runs a constant command, feeding `stdin`. The commands here do not wait for the end of their input,
    /// so it may stay open; nor do they always read all of it, so a broken pipe is no failure.
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError>;
}

/// Why a command's end is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The API server or the kubelet said no.
    #[error("running a command in the gateway was refused: {0}")]
    Refused(String),
    /// No end in time.
    #[error("a command in the gateway did not end within {0:?}")]
    TimedOut(Duration),
    /// The connection broke.
    #[error("the connection to the gateway was lost: {0}")]
    Lost(String),
}
