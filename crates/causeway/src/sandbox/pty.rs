//! A command on a terminal: `kubectl exec -it`.
//!
//! `setsid --ctty` (which the caller has put in front of the command) makes the terminal the
//! command's own, so that Ctrl-C and job control work as in any shell.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use causeway_apiserver::ExecIo;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::unistd::ttyname;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::netns::Namespace;
use super::tools;

/// The terminal's last words after the command's end.
const DRAIN: Duration = Duration::from_millis(500);

/// Runs the command on a new terminal.
pub(super) async fn run(mut command: Command, namespace: &Namespace, io: ExecIo) -> io::Result<ExitStatus> {
    let pty = openpty(None, None)?;
    let terminal = ttyname(&pty.slave)?;
    fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    // A terminal is read and written like a pipe, and tokio has no type of its own for it.
    let screen = Receiver::from_owned_fd_unchecked(pty.master.try_clone()?)?;
    let keyboard = Sender::from_owned_fd_unchecked(pty.master)?;
    command.stdin(Stdio::from(pty.slave.try_clone()?)).stdout(Stdio::from(pty.slave.try_clone()?));
    command.stderr(Stdio::from(pty.slave)).env("TERM", "xterm-256color").kill_on_drop(true);
    // The command goes with the closure: it holds the terminal's other end, which must close
    // here for the last process's exit to be noticed.
    let spawned = namespace.run(move || command.spawn()).await;
    let mut child = spawned.map_err(io::Error::other)??;
    let ExecIo { stdin, stdout, stderr: _stderr, resize } = io;
    let shown = show(screen, stdout);
    tokio::pin!(shown);
    let work = async {
        tokio::select! {
            status = child.wait() => {
                let status = status?;
                let _ = timeout(DRAIN, &mut shown).await;
                Ok(status)
            }
            () = &mut shown => child.wait().await,
        }
    };
    tokio::select! {
        status = work => status,
        () = type_in(keyboard, stdin) => unreachable!("typing never ends by itself"),
        () = follow_size(&terminal, resize) => unreachable!("resizing never ends by itself"),
    }
}

/// Ends when nobody has the terminal open any more: it then says EIO.
async fn show(mut terminal: Receiver, mut stdout: Box<dyn AsyncWrite + Send + Unpin>) {
    let _ = tokio::io::copy(&mut terminal, &mut stdout).await;
    let _ = stdout.flush().await;
}

async fn type_in(mut terminal: Sender, mut stdin: Box<dyn AsyncRead + Send + Unpin>) {
    let _ = tokio::io::copy(&mut stdin, &mut terminal).await;
    std::future::pending::<()>().await;
}

/// `stty` sets the size, since the system call behind it has no safe wrapper among our
/// dependencies; the kernel then signals the foreground process.
async fn follow_size(terminal: &Path, mut sizes: mpsc::Receiver<(u16, u16)>) {
    let terminal = PathBuf::from(terminal);
    while let Some((columns, rows)) = sizes.recv().await {
        let mut stty = tools::command("stty");
        stty.arg("-F").arg(&terminal).args(["cols", &columns.to_string(), "rows", &rows.to_string()]);
        // A terminal of the wrong size is still a terminal.
        let _ = stty.stderr(Stdio::null()).status().await;
    }
    std::future::pending::<()>().await;
}
