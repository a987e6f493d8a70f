//! The program that keeps a node, as a process in the node's network namespace.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::until;
use super::net::Netns;

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Flanneld,
    Causeway,
    /// Ours without the right to change the kernel.
    Powerless,
}

/// Where `hack/peers-build.sh` has put flanneld and the plugins.
pub(crate) fn peers() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/peers-build.sh");
        let output = Command::new(&script).arg("--have").output().expect("the script starts");
        assert!(output.status.success(), "flanneld and the CNI plugins are not built: `make peers` does it");
        String::from_utf8(output.stdout).expect("a path").trim().into()
    })
}

/// It, with what people's manifests pass to flanneld, in the namespace of a node.
pub(crate) fn command(program: Program, folder: &Path, name: &str, node: &Netns) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &node.pid().to_string(), "-n"]);
    if program == Program::Powerless {
        command.args(["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
    }
    match program {
        Program::Flanneld => command.arg(peers().join("flanneld")),
        Program::Causeway | Program::Powerless => command.arg(env!("CARGO_BIN_EXE_causeway")).arg("node"),
    };
    command.args(["--kube-subnet-mgr", "--ip-masq", "--iface=eth0"]);
    for (flag, file) in [
        ("--kubeconfig-file", format!("{name}.kubeconfig")),
        ("--net-config-path", "net-conf.json".to_owned()),
        ("--subnet-file", format!("{name}.subnet.env")),
    ] {
        command.arg(format!("{flag}={}", folder.join(file).display()));
    }
    command.env("NODE_NAME", name).env_remove("KUBECONFIG");
    command
}

/// A running one. Dropping it kills it.
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    /// Starts it, with more flags.
    pub(crate) fn start(program: Program, folder: &Path, name: &str, node: &Netns, more: &[&str]) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = OpenOptions::new().create(true).append(true).open(&log).expect("a log");
        let mut command = command(program, folder, name, node);
        command.args(more).stdin(Stdio::null());
        command.stdout(file.try_clone().expect("a log")).stderr(file);
        Self { child: command.spawn().expect("nsenter starts"), log }
    }

    /// Everything it has said, and whoever was there before it.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().expect("a process id")), signal).expect("it runs");
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let status = until("the agent ends when it is asked to", async || {
            self.child.try_wait().expect("its state").ok_or_else(|| self.log())
        })
        .await;
        assert!(status.success(), "{status}: {}", self.log());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
