//! A controller ends when it is asked to, whatever has become of whoever reads its log.

use std::fs::OpenOptions;
use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");
/// A cluster that answers to nobody.
const NOBODY: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "x",
    "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "x", "user": {"token": "x"}}],
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}"#;
const PATIENCE: Duration = Duration::from_secs(60);

/// A controller of no cluster, killed when a test fails.
struct Controller {
    child: Child,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Controller {
    /// Starts it; its log comes out of the pipe.
    fn start() -> (Controller, PipeReader) {
        let mut kubeconfig = tempfile::NamedTempFile::new().expect("a file");
        kubeconfig.write_all(NOBODY.as_bytes()).expect("written");
        let (reader, writer) = pipe().expect("a pipe");
        let mut command = Command::new(PROGRAM);
        command.args(["controller", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(kubeconfig.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
        (Controller { child: command.spawn().expect("it starts"), _kubeconfig: kubeconfig }, reader)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
    }

    /// Waits for its end.
    fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "it still runs {PATIENCE:?} after it was asked to end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the controller is at work, and so listens to signals.
fn hear_it_serve(log: &mut PipeReader) {
    let mut text = Vec::new();
    let mut piece = [0; 256];
    while !String::from_utf8_lossy(&text).contains("serving health and metrics") {
        let read = log.read(&mut piece).expect("its log");
        assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..read]);
    }
}

/// Fills the pipe, so that whoever writes to it must wait.
fn fill(log: &PipeReader) {
    let path = format!("/proc/self/fd/{}", log.as_raw_fd());
    let no_wait = OFlag::O_NONBLOCK.bits();
    let mut writer = OpenOptions::new().write(true).custom_flags(no_wait).open(path).expect("its other end");
    loop {
        match writer.write(b"x") {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("the pipe cannot be filled: {error}"),
        }
    }
}

#[test]
fn it_ends_when_the_reader_of_its_log_has_gone() {
    let (mut controller, mut log) = Controller::start();
    hear_it_serve(&mut log);
    drop(log);
    controller.signal(Signal::SIGTERM);
    assert_eq!(controller.end().code(), Some(0));
}

#[test]
fn it_ends_when_nobody_reads_its_log_any_more() {
    let (mut controller, mut log) = Controller::start();
    hear_it_serve(&mut log);
    fill(&log);
    controller.signal(Signal::SIGTERM);
    assert_eq!(controller.end().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (mut controller, mut log) = Controller::start();
    hear_it_serve(&mut log);
    // The orderly end would wait a second for the log.
    fill(&log);
    controller.signal(Signal::SIGTERM);
    controller.signal(Signal::SIGINT);
    let code = controller.end().code().expect("no signal ended it, it did itself");
    assert!([128 + 2, 128 + 15].contains(&code), "{code}");
}
