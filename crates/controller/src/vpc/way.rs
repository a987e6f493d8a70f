//! The way into gateways' pods: commands that end, and the one that goes on.
//!
//! In a cluster that is the API server's exec ([`PodWay`]); a simulation has gateways in memory instead. Whoever visits a
//! gateway or listens to it knows no other way in.

use std::any::Any;
use std::time::Duration;

use async_trait::async_trait;
use causeway_core::vpc::objects::PodRef;
use causeway_datapath::RunError;
use causeway_datapath::vpc::{Commands, Datapath, Monitor, Watch};
use kube::Client;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::TaskTracker;

use super::exec::PodExec;

/// The way into pods of gateways.
#[async_trait]
pub trait Way: Send + Sync {
    /// What a pod holds, to be looked at and changed.
    fn datapath(&self, pod: &PodRef) -> Box<dyn Datapath>;

    /// Starts the command that reports what changes in a pod ([`Monitor`]), and has not been told anything yet.
    async fn monitor(&self, pod: &PodRef) -> Result<Conversation, RunError>;

    /// Starts the command by which a pod listens to other gateways ([`Watch`]), the same.
    async fn watch(&self, pod: &PodRef) -> Result<Conversation, RunError>;
}

/// A command that goes on: it ends with its input, or when this is dropped.
pub struct Conversation {
    /// What it reads.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it prints.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// What it lives by.
    pub life: Box<dyn Any + Send>,
}

/// By commands through the API server's exec.
pub struct PodWay {
    client: Client,
    limit: Duration,
    /// Execs that have said all and are about to end.
    farewells: TaskTracker,
}

impl PodWay {
    /// Each command, or its beginning, may take so long.
    pub fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit, farewells: TaskTracker::new() }
    }

    fn exec(&self, pod: &PodRef) -> PodExec {
        PodExec::in_gateway(&self.client, pod, self.limit, self.farewells.clone())
    }

    async fn converse(&self, pod: &PodRef, argv: &[&str]) -> Result<Conversation, RunError> {
        let mut process = self.exec(pod).start(argv, false).await?;
        let lost = || RunError::Lost("the exec stream is incomplete".into());
        let input = Box::new(process.stdin().ok_or_else(lost)?);
        let output = Box::new(process.stdout().ok_or_else(lost)?);
        Ok(Conversation { input, output, life: Box::new(process) })
    }
}

#[async_trait]
impl Way for PodWay {
    fn datapath(&self, pod: &PodRef) -> Box<dyn Datapath> {
        Box::new(Commands::new(self.exec(pod)))
    }

    async fn monitor(&self, pod: &PodRef) -> Result<Conversation, RunError> {
        self.converse(pod, &Monitor::argv()).await
    }

    async fn watch(&self, pod: &PodRef) -> Result<Conversation, RunError> {
        self.converse(pod, &Watch::argv()).await
    }
}
