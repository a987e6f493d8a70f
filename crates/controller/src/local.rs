//! Commands on this very machine.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use causeway_datapath::{Output, Run, RunError, SEEN, end_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

/// The longest that a command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Commands in the network namespace of whoever runs them.
pub(crate) struct Here;

#[async_trait]
impl Run for Here {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        timeout(LIMIT, run(argv, stdin)).await.unwrap_or(Err(RunError::TimedOut(LIMIT)))
    }
}

async fn run(argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
    let lost = |error: std::io::Error| RunError::Lost(error.to_string());
    let [program, arguments @ ..] = argv else { return Err(RunError::Refused("no command".into())) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A program that is not there answers as a shell would.
    let mut child = match command.kill_on_drop(true).spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Output { status: Some(127), ..Output::default() });
        }
        spawned => spawned.map_err(lost)?,
    };
    let mut input = child.stdin.take().ok_or_else(|| RunError::Lost("no stdin".into()))?;
    let output = child.stdout.take().ok_or_else(|| RunError::Lost("no stdout".into()))?;
    let feed = async {
        // That it did not read all of it is no failure.
        let _ = input.write_all(stdin).await;
        input
    };
    let (mut input, stdout) = tokio::join!(feed, read(output));
    let stdout = stdout.map_err(lost)?;
    let _ = input.write_all(SEEN).await;
    drop(input);
    let status = child.wait().await.map_err(lost)?.code();
    Ok(Output { stdout, status, stderr: Vec::new() })
}

/// All until its end, or until it says that this is all.
async fn read(mut output: ChildStdout) -> std::io::Result<Vec<u8>> {
    let mut stdout = Vec::new();
    while output.read_buf(&mut stdout).await? > 0 && end_of(&stdout).is_none() {}
    Ok(stdout)
}
