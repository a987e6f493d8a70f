//! GRE for real: many machines' kernels cannot make GRE links, so a kernel that can is booted in
//! an emulator, with the program in its initial file system, and the sandbox runs in there. It is a distribution's own
//! kernel, so nodes run in there too, over vxlan and host-gw.
//!
//! ```text
//!  hack/setup.sh ─▶ .cache/guest/kernel ─┐
//!  this machine's tools ─────────────────┼─ guest/image.sh ─▶ initrd ─▶ qemu ─▶ guest/init
//!  the program, samples/, guest/*.sh ────┘                                        │
//!                            this test ◀── serial line ── GUEST ok|FAIL … ◀── guest/checks.sh
//! ```
//!
//! Invariant: a check that does not say `GUEST ok` has failed, whatever else was said.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What `guest/checks.sh` must have said, in its order.
const CHECKS: [&str; 17] = [
    "kernel-gre",
    "once",
    "nodes-vxlan",
    "nodes-host-gw",
    "stays",
    "status",
    "gateway-holds",
    "ping",
    "drift-link",
    "drift-address",
    "drift-route-out",
    "drift-route-in",
    "drift-snat",
    "ping-again",
    "delete",
    "gateway-clean",
    "end",
];

/// Emulation is ten to twenty times slower than the machine, which may be busy besides.
const PATIENCE: Duration = Duration::from_secs(900);

/// Tools that this test or `guest/image.sh` runs or packs.
const TOOLS: [&str; 14] = [
    "qemu-system-x86_64",
    "cpio",
    "busybox",
    "dash",
    "bash",
    "kmod",
    "depmod",
    "ip",
    "nft",
    "xtables-nft-multi",
    "xtables-legacy-multi",
    "ping",
    "setsid",
    "kubectl",
];

#[test]
fn in_a_guest_kernel_a_gre_tunnel_and_nodes_carry_packets_are_repaired_and_go_without_a_trace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = root.join(".cache/guest");
    let path = search_path(&root);
    let missing = missing(&path, &cache);
    assert!(
        missing.is_empty(),
        "neither GRE nor nodes on a stock kernel can be tested: no {}; `hack/setup.sh test` gets them",
        missing.join(", no ")
    );
    let work = tempfile::tempdir().expect("a temporary folder");
    let initrd = work.path().join("initrd");
    pack(&root, &cache, &initrd, &path);
    let guest = Guest::boot(&cache.join("kernel/vmlinuz"), &initrd, &path);
    let console = guest.watch();
    verify(&console);
}

/// The places where tools are: our own builds first, root's folders last.
fn search_path(root: &Path) -> String {
    let given = std::env::var("PATH").unwrap_or_default();
    format!("{}:{given}:/usr/local/sbin:/usr/sbin:/sbin", root.join(".cache/bin").display())
}

fn missing(path: &str, cache: &Path) -> Vec<String> {
    let absent = |tool: &&str| !path.split(':').any(|place| Path::new(place).join(tool).exists());
    let mut missing: Vec<String> = TOOLS.iter().copied().filter(absent).map(String::from).collect();
    if !cache.join("kernel/vmlinuz").exists() {
        missing.push("guest kernel".into());
    }
    missing
}

fn pack(root: &Path, cache: &Path, initrd: &Path, path: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/image.sh");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_causeway"));
    let parts: [&Path; 5] = [&script, cache, &program, &root.join("samples"), initrd];
    let status = Command::new("bash").args(parts).env("PATH", path).status();
    assert!(status.expect("bash runs").success(), "the guest's files could not be packed");
}

/// A running guest; it ends with the value.
struct Guest {
    qemu: Child,
    console: Receiver<String>,
}

impl Guest {
    fn boot(kernel: &Path, initrd: &Path, path: &str) -> Guest {
        let mut qemu = Command::new("qemu-system-x86_64");
        // An old processor and a trusting kernel: less to emulate.
        qemu.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "Nehalem,+rdrand"]);
        qemu.args(["-smp", "2", "-m", "1024"]);
        qemu.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]);
        qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
        qemu.args(["-append", "console=ttyS0 panic=-1 quiet mitigations=off nokaslr audit=0"]);
        qemu.env("PATH", path).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut qemu = qemu.spawn().expect("qemu starts");
        let serial = BufReader::new(qemu.stdout.take().expect("it was piped"));
        let (sender, console) = mpsc::channel();
        // It ends with the serial line, so with the guest.
        std::thread::spawn(move || {
            for line in serial.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Guest { qemu, console }
    }

    /// All that it says until it is off.
    fn watch(self) -> Vec<String> {
        let started = Instant::now();
        let mut lines = Vec::new();
        loop {
            match self.console.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
                Ok(line) => {
                    eprintln!("{:6.1} {line}", started.elapsed().as_secs_f32());
                    lines.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => return lines,
                Err(RecvTimeoutError::Timeout) => {
                    lines.push(format!("GUEST FAIL off not within {PATIENCE:?}"));
                    return lines;
                }
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // One that is off already is as good.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// The console was printed as it came; here only what is wrong with it.
fn verify(console: &[String]) {
    let said = |start: &str| console.iter().filter_map(|line| line.strip_prefix(start)).collect::<Vec<_>>();
    let failed = said("GUEST FAIL ");
    let passed: BTreeSet<&str> = said("GUEST ok ").into_iter().collect();
    let silent: Vec<&str> = CHECKS.into_iter().filter(|check| !passed.contains(check)).collect();
    assert!(failed.is_empty() && silent.is_empty(), "failed: {failed:#?}\nnot ok: {silent:?}");
    assert!(!said("GUEST end ").is_empty(), "the guest went before its end");
}
