//! Commands in a gateway's pod through the API server's exec, each bounded in time.

use std::time::Duration;

use async_trait::async_trait;
use causeway_api::vpc::parse::GATEWAY_CONTAINER;
use causeway_core::ObjectKey;
use causeway_core::vpc::objects::PodRef;
use causeway_datapath::{Output, Run, RunError, SEEN, end_of};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, AttachedProcess};
use kube::{Api, Client};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::words::describe;

/// Pipes of an exec hold this much: an observation of a few dozen tunnels.
const PIPE: usize = 64 * 1024;

/// A command that has heard that its output has arrived ends within this.
const FAREWELL: Duration = Duration::from_secs(5);

/// A gateway is not trusted with more of our memory: ten times what ten thousand tunnels make it print.
const LONGEST_OUTPUT: usize = 32 * 1024 * 1024;
/// Of what it complains.
const LONGEST_COMPLAINT: u64 = 64 * 1024;

/// What a command that has much to do may take longer.
const PER_BYTE: Duration = Duration::from_micros(10);

/// Runs commands in one pod.
pub struct PodExec {
    pods: Api<Pod>,
    pod: String,
    /// The container, where it is not up to the pod.
    container: Option<String>,
    limit: Duration,
    farewells: TaskTracker,
}

impl PodExec {
    /// For a pod of a gateway.
    pub(super) fn in_gateway(client: &Client, pod: &PodRef, limit: Duration, farewells: TaskTracker) -> Self {
        Self { farewells, ..Self::of(client, &pod.key, Some(GATEWAY_CONTAINER), limit) }
    }

    /// For any pod and one of its containers, or the one that the pod has chosen, on behalf of a person.
    pub fn of(client: &Client, pod: &ObjectKey, container: Option<&str>, limit: Duration) -> Self {
        let pods = Api::namespaced(client.clone(), pod.namespace());
        let (pod, container) = (pod.name().into(), container.map(Into::into));
        Self { pods, pod, container, limit, farewells: TaskTracker::new() }
    }

    /// Starts a command whose end is the caller's business; dropping the process ends it. Whoever asks for its
    /// stderr must read it, or the command stops when the pipe is full.
    pub async fn start(&self, argv: &[&str], stderr: bool) -> Result<AttachedProcess, RunError> {
        let container = self.container.clone();
        let params = AttachParams { container, ..AttachParams::default() }
            .stdin(true)
            .stdout(true)
            .stderr(stderr)
            .max_stdin_buf_size(PIPE)
            .max_stdout_buf_size(PIPE)
            .max_stderr_buf_size(PIPE);
        let started = timeout(self.limit, self.pods.exec(&self.pod, argv.to_vec(), &params)).await;
        started.map_err(|_| RunError::TimedOut(self.limit))?.map_err(|error| refusal(&error))
    }

    async fn converse(&self, argv: &[&str], input: &[u8]) -> Result<Output, RunError> {
        let mut process = self.start(argv, true).await?;
        let lost = || RunError::Lost("the exec stream is incomplete".into());
        let mut stdin = process.stdin().ok_or_else(lost)?;
        let mut stdout = process.stdout().ok_or_else(lost)?;
        let mut stderr = process.stderr().ok_or_else(lost)?;
        let status = process.take_status().ok_or_else(lost)?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let talk = async {
            // A command may end without having read all; what it printed says how it went.
            let _ = stdin.write_all(input).await;
            while end_of(&out).is_none()
                && out.len() < LONGEST_OUTPUT
                && stdout.read_buf(&mut out).await.is_ok_and(|count| count > 0)
            {}
        };
        let complaints = async {
            let _ = (&mut stderr).take(LONGEST_COMPLAINT).read_to_end(&mut err).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = talk => {}
            () = complaints => {}
        }
        if end_of(&out).is_some() {
            self.farewells.spawn(farewell(process, stdin, status));
            return Ok(Output { status: None, stdout: out, stderr: err });
        }
        if out.len() >= LONGEST_OUTPUT {
            return Err(RunError::Lost(format!("it printed more than {LONGEST_OUTPUT} bytes")));
        }
        let status = status.await;
        let left = LONGEST_COMPLAINT.saturating_sub(err.len() as u64);
        let _ = stderr.take(left).read_to_end(&mut err).await;
        let status = status.map(|status| exit_status(&status, &mut err)).transpose()?;
        Ok(Output { status, stdout: out, stderr: err })
    }
}

/// Lets a command end whose output is here. Nobody waits for it, and its input is not closed first: without the
/// fifth version of the protocol that would close the connection, and the command would wait for its time-out.
async fn farewell(
    process: AttachedProcess,
    mut stdin: impl AsyncWrite + Unpin,
    status: impl Future<Output = Option<Status>>,
) {
    let _ = timeout(FAREWELL, async {
        let _ = stdin.write_all(SEEN).await;
        status.await
    })
    .await;
    drop(process);
}

#[async_trait]
impl Run for PodExec {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        // Five thousand tunnels at once are three megabytes and take the kernel a quarter of a minute.
        let limit = self.limit + PER_BYTE * u32::try_from(stdin.len()).unwrap_or(u32::MAX);
        timeout(limit, self.converse(argv, stdin)).await.unwrap_or(Err(RunError::TimedOut(limit)))
    }
}

fn refusal(error: &kube::Error) -> RunError {
    match error {
        // The server has too much to do, or is about to start or to end.
        kube::Error::Api(status) if matches!(status.code, 408 | 429 | 503 | 504) => {
            RunError::Unreachable(status.message.clone())
        }
        kube::Error::Api(status) if status.code >= 500 => RunError::Lost(status.message.clone()),
        kube::Error::Api(status) => RunError::Refused(status.message.clone()),
        kube::Error::UpgradeConnection(error) => RunError::Refused(error.to_string()),
        other => RunError::Unreachable(describe(other)),
    }
}

/// The exit status in the words of `v4.channel.k8s.io`. A container runtime that cannot start the command
/// at all says so in a message, which stands for status 127.
fn exit_status(status: &Status, stderr: &mut Vec<u8>) -> Result<i32, RunError> {
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let mut codes = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    if let Some(code) = codes.find_map(|cause| cause.message.as_ref()?.parse().ok()) {
        return Ok(code);
    }
    let message = status.message.clone().unwrap_or_default();
    if message.contains("executable file not found") || message.contains("no such file or directory") {
        stderr.extend_from_slice(message.as_bytes());
        return Ok(127);
    }
    Err(RunError::Refused(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{StatusCause, StatusDetails};

    fn failure(message: &str, code: Option<&str>) -> Status {
        let cause = |code: &str| StatusCause {
            reason: Some("ExitCode".into()),
            message: Some(code.into()),
            ..StatusCause::default()
        };
        let details =
            StatusDetails { causes: code.map(|code| vec![cause(code)]), ..StatusDetails::default() };
        Status {
            status: Some("Failure".into()),
            message: Some(message.into()),
            details: Some(details),
            ..Status::default()
        }
    }

    #[test]
    fn exit_codes_are_read_and_a_missing_shell_is_127() {
        let mut stderr = Vec::new();
        assert_eq!(exit_status(&failure("exited", Some("3")), &mut stderr), Ok(3));
        let missing = "exec: \"bash\": executable file not found in $PATH";
        assert_eq!(exit_status(&failure(missing, None), &mut stderr), Ok(127));
        assert_eq!(stderr, missing.as_bytes());
        assert!(exit_status(&failure("container not running", None), &mut stderr).is_err());
    }
}
