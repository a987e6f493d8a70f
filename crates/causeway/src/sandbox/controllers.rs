//! The real controllers: one child process per cluster, brought back whenever it dies.
//!
//! A child is a plain `causeway controller` with a kubeconfig; it gets nothing else from the
//! sandbox. Its pid is in `<dir>/<cluster>.controller.pid`, so that anybody may kill it. While there
//! is a file `<dir>/<cluster>.hold`, a controller that ended is not brought back.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::addresses::Cluster;
use super::progress::Progress;
use super::rules::Ports;
use super::supervise::{Process, log_file};
use super::tools;

/// What the controllers do besides tunnels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rooms {
    pub(super) dns: bool,
    pub(super) rules: bool,
    pub(super) networks: bool,
}

/// What is needed to run one cluster's controller.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    pub(super) cluster: Cluster,
    pub(super) program: PathBuf,
    /// The account it works as.
    pub(super) kubeconfig: PathBuf,
    /// Where its lease lives, where that is not the default.
    pub(super) lease_namespace: Option<&'static str>,
    /// Whether it keeps forwards of names.
    pub(super) dns: bool,
    /// Where it serves rules, if it does.
    pub(super) rules: Option<Ports>,
    /// What it is told of networks, if it keeps any.
    pub(super) networks: Option<Vec<OsString>>,
    /// Holds the kubeconfig, the pid file and the log.
    pub(super) folder: PathBuf,
    pub(super) sandbox: String,
}

impl Controller {
    /// Keeps the controller running until `stop`, then ends it politely.
    pub(super) async fn supervise(self, stop: CancellationToken, progress: Progress) -> anyhow::Result<()> {
        self.process().supervise(stop, progress).await
    }

    fn process(&self) -> Process {
        let Controller { cluster, folder, .. } = self;
        Process {
            title: format!("the controller of {cluster}"),
            program: self.program.clone(),
            args: self.args(),
            // Where its tools are, also for users whose PATH does not say so.
            env: vec![("PATH", tools::path().into())],
            namespace: None,
            log: log_file(folder, &format!("{cluster}-controller")),
            pid_file: folder.join(format!("{cluster}.controller.pid")),
            hold: folder.join(format!("{cluster}.hold")),
            sandbox: self.sandbox.clone(),
        }
    }

    fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["controller".into(), "--kubeconfig".into()];
        args.push(self.kubeconfig.clone().into());
        args.extend(self.lease_namespace.iter().flat_map(|name| ["--lease-namespace", name]).map(Into::into));
        args.extend(["--identity".into(), format!("sandbox-{}", self.cluster).into()]);
        args.extend(["--listen", "127.0.0.1:0", "--exit-with-parent"].map(Into::into));
        let rooms = [
            self.dns.then_some("dns"),
            self.rules.is_some().then_some("rules"),
            self.networks.is_some().then_some("networks"),
        ];
        let rooms: Vec<&str> = ["vpc"].into_iter().chain(rooms.into_iter().flatten()).collect();
        args.extend(["--enable".into(), rooms.join(",").into()]);
        if let Some(Ports { listen, clients, .. }) = &self.rules {
            args.extend(["--rules-listen".into(), listen.to_string().into()]);
            args.extend(["--rules-clients-listen".into(), clients.to_string().into()]);
        }
        args.extend(self.networks.iter().flatten().cloned());
        args
    }
}

/// A cluster's kubeconfig in the sandbox's folder.
pub(super) fn kubeconfig(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.kubeconfig"))
}
