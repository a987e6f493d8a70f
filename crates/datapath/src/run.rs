//! Where commands run: the controller supplies exec in a pod, tests a local process.

use std::time::Duration;

use async_trait::async_trait;

/// What a command said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// What arrived of all it printed. That it is whole is known by [`end_of`](crate::end_of) alone.
    pub stdout: Vec<u8>,
    /// The exit status by the word of whatever ran it, where that is known: it tells only about commands
    /// that never began to speak.
    pub status: Option<i32>,
    /// What arrived of all it complained; the same goes for it.
    pub stderr: Vec<u8>,
}

/// Runs a command in a gateway.
#[async_trait]
pub trait Run: Send + Sync {
    /// Runs a constant command, feeding `stdin`, until [`end_of`](crate::end_of) finds the end of what it
    /// prints or the command itself ends, whichever comes first. At the end of the output it is sent
    /// [`SEEN`](crate::SEEN), or just left: it waits for that line for a few seconds only. Its input stays
    /// open until then; that it did not read all of it is no failure.
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
    /// The API server could not be asked: that says nothing about the gateway.
    #[error("the API server does not answer: {0}")]
    Unreachable(String),
    /// The connection broke, or the server could not serve just then.
    #[error("the connection to the gateway was lost: {0}")]
    Lost(String),
}
