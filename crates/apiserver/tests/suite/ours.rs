//! The only place that names our server: started with an `exec` that runs commands on this machine,
//! as a kubelet would in a container.

use std::{process::Stdio, sync::Arc};

use causeway_apiserver::{Config, Exec, ExecEnd, ExecIo, ExecRequest, Server};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy},
    process::{Child, Command},
};

/// Events our shared server remembers: more than a whole run of the suite makes.
pub(crate) const HISTORY: usize = 100_000;

/// So few that a test can push one out.
pub(crate) const SHORT_HISTORY: usize = 64;

/// Starts our server on a port of its own.
pub(crate) async fn start(history: usize) -> Server {
    let config = Config { history, exec: Some(Arc::new(LocalExec)), ..Config::default() };
    Server::start(config).await.expect("our server starts")
}

/// A command that nobody may run.
pub(crate) const FORBIDDEN: &str = "suite-forbidden";

struct LocalExec;

#[async_trait::async_trait]
impl Exec for LocalExec {
    async fn admit(&self, request: &ExecRequest) -> Result<(), (u16, String, String)> {
        if request.command == [FORBIDDEN] {
            return Err((403, "Forbidden".to_owned(), "this command is not for you".to_owned()));
        }
        Ok(())
    }

    async fn run(&self, request: ExecRequest, mut io: ExecIo) -> ExecEnd {
        if request.command == ["suite-window"] {
            let (columns, rows) = io.resize.recv().await.unwrap_or_default();
            let size = format!("{columns}x{rows}\n");
            return match io.stdout.write_all(size.as_bytes()).await {
                Ok(()) => ExecEnd::Exited(0),
                Err(error) => ExecEnd::Failed(error.to_string()),
            };
        }
        let mut command = Command::new(&request.command[0]);
        command.args(&request.command[1..]).kill_on_drop(true);
        command.stdin(if request.stdin { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => attend(child, io, request.tty).await,
            Err(error) => ExecEnd::Failed(error.to_string()),
        }
    }
}

/// Carries the streams of a running command until it ends.
async fn attend(mut child: Child, mut io: ExecIo, tty: bool) -> ExecEnd {
    let mut out = child.stdout.take().expect("it was piped");
    let mut err = child.stderr.take().expect("it was piped");
    let stdin = child.stdin.take();
    let input = async {
        if let Some(mut stdin) = stdin {
            // The command may end without reading all of it.
            let _ = copy(&mut io.stdin, &mut stdin).await;
        }
    };
    let output = async {
        if tty {
            // A terminal has one output; the commands of the tests write to it in turn.
            carry(&mut out, &mut io.stdout).await;
            carry(&mut err, &mut io.stdout).await;
        } else {
            tokio::join!(carry(&mut out, &mut io.stdout), carry(&mut err, &mut io.stderr));
        }
    };
    let ended = async {
        output.await;
        child.wait().await
    };
    tokio::pin!(ended);
    // Input that is still open must not keep a finished command waiting.
    let status = tokio::select! {
        status = &mut ended => status,
        () = input => ended.await,
    };
    match status.map(|status| status.code()) {
        Ok(Some(code)) => ExecEnd::Exited(code),
        Ok(None) => ExecEnd::Failed("ended by a signal".to_owned()),
        Err(error) => ExecEnd::Failed(error.to_string()),
    }
}

async fn carry(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}
