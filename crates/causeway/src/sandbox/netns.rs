//! An unnamed network namespace, held by a thread and a descriptor.
//!
//! The thread leaves the caller's network namespace and then runs closures sent to it: a process
//! spawned there, a socket made there or a file opened below `/proc/sys/net` there belongs to the
//! namespace. The rest of this process never leaves the caller's, so that its own listeners stay
//! reachable. The namespace ends with the value: its links, rules and routes vanish with it.

use std::fs::File;
use std::future::Future;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::{io, thread};

use nix::sched::{CloneFlags, unshare};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::tools;

type Job = Box<dyn FnOnce() + Send>;

/// Why something did not work inside a namespace.
#[derive(Debug, Error)]
pub(super) enum NamespaceError {
    #[error("cannot make a network namespace for {name}: {source}")]
    Create { name: String, source: io::Error },
    #[error("the network namespace of {0} is gone")]
    Gone(String),
    #[error("cannot run {command} in the namespace of {name}: {source}")]
    Spawn { name: String, command: String, source: io::Error },
    #[error("{command} failed in the namespace of {name}: {stderr}")]
    Failed { name: String, command: String, stderr: String },
    #[error("cannot write {value} to /proc/sys/net/{path} in the namespace of {name}: {source}")]
    Sysctl { name: String, path: String, value: String, source: io::Error },
}

/// A network namespace; see the module's documentation.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
    jobs: mpsc::Sender<Job>,
    descriptor: File,
}

impl Namespace {
    /// Makes a namespace. `name` is only for messages.
    pub(super) async fn create(name: &str) -> Result<Namespace, NamespaceError> {
        let failed = |source| NamespaceError::Create { name: name.into(), source };
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (made, making) = oneshot::channel();
        let runtime = Handle::current();
        thread::Builder::new()
            .name(format!("netns {name}"))
            .stack_size(512 * 1024)
            .spawn(move || hold(&runtime, made, &inbox))
            .map_err(failed)?;
        let descriptor =
            making.await.unwrap_or_else(|_| Err(io::Error::other("its thread ended"))).map_err(failed)?;
        Ok(Namespace { name: name.into(), jobs, descriptor })
    }

    /// A path that `ip link … netns <path>` of another process can open.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor.as_raw_fd())
    }

    /// Runs `job` on the namespace's thread. It must be short: jobs of one namespace queue up.
    ///
    /// The job is sent when this is called, not when the result is awaited.
    pub(super) fn run<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        job: F,
    ) -> impl Future<Output = Result<T, NamespaceError>> + use<T, F> {
        let (reply, result) = oneshot::channel();
        let name = self.name.clone();
        // A send fails only when the thread is gone; then `reply` is dropped and `result` says so.
        let _ = self.jobs.send(Box::new(move || drop(reply.send(job()))));
        async move { result.await.map_err(|_| NamespaceError::Gone(name)) }
    }

    /// Runs a command to its end, feeding it `stdin`.
    pub(super) async fn output(&self, mut command: Command, stdin: &str) -> Result<Output, NamespaceError> {
        let what = shown(&command);
        let failed =
            |source| NamespaceError::Spawn { name: self.name.clone(), command: what.clone(), source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let mut child = self.run(move || command.spawn()).await?.map_err(failed)?;
        let mut pipe = child.stdin.take().expect("stdin was asked to be a pipe");
        let feed = async {
            // A command that ends without reading all says more with its exit status.
            let _ = pipe.write_all(stdin.as_bytes()).await;
            drop(pipe);
        };
        let ((), output) = tokio::join!(feed, child.wait_with_output());
        output.map_err(failed)
    }

    /// Like [`Namespace::output`], but an exit status other than zero is an error.
    pub(super) async fn checked(&self, command: Command, stdin: &str) -> Result<String, NamespaceError> {
        let what = shown(&command);
        let output = self.output(command, stdin).await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(NamespaceError::Failed { name: self.name.clone(), command: what, stderr })
    }

    /// Feeds lines to one `ip -batch`, which stops at the first that fails.
    pub(super) async fn ip(&self, lines: &[String]) -> Result<(), NamespaceError> {
        let mut ip = tools::command("ip");
        ip.args(["-batch", "-"]);
        let mut batch = lines.join("\n");
        batch.push('\n');
        self.checked(ip, &batch).await.map(drop)
    }

    /// Writes values below `/proc/sys/net`. A missing file of IPv6 means there is no IPv6: fine.
    pub(super) async fn sysctl(&self, values: &[(&'static str, &'static str)]) -> Result<(), NamespaceError> {
        let values = values.to_vec();
        let written = self.run(move || write_all(&values)).await?;
        written.map_err(|(path, value, source)| NamespaceError::Sysctl {
            name: self.name.clone(),
            path: path.into(),
            value: value.into(),
            source,
        })
    }
}

/// The thread's life: leave the caller's namespace, say so, work until nobody can send any more.
fn hold(runtime: &Handle, made: oneshot::Sender<io::Result<File>>, inbox: &mpsc::Receiver<Job>) {
    let _entered = runtime.enter();
    let entered = unshare(CloneFlags::CLONE_NEWNET)
        .map_err(io::Error::from)
        .and_then(|()| File::open("/proc/thread-self/ns/net"));
    let usable = entered.is_ok();
    if made.send(entered).is_err() || !usable {
        return;
    }
    for job in inbox {
        job();
    }
}

type SysctlFailure = (&'static str, &'static str, io::Error);

fn write_all(values: &[(&'static str, &'static str)]) -> Result<(), SysctlFailure> {
    for &(path, value) in values {
        match std::fs::write(Path::new("/proc/sys/net").join(path), value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.starts_with("ipv6/") => {}
            Err(error) => return Err((path, value, error)),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
