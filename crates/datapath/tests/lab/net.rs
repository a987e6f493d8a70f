//! Network namespaces held by a process, commands and sockets inside them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use causeway_datapath::{Output, Run, RunError, SEEN, end_of};
use nix::sched::{CloneFlags, setns};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

/// What is missing to run the tests, if anything.
pub(crate) fn prerequisites(more: &[(&str, &[&str])]) -> Option<String> {
    let works = |program: &str, args: &[&str]| {
        let quiet = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    };
    let always: [(&str, &[&str]); 5] = [
        ("unshare", &["-n", "true"]),
        ("nsenter", &["--version"]),
        ("ip", &["-V"]),
        ("iptables-nft", &["-V"]),
        ("iptables-legacy", &["-V"]),
    ];
    for (program, args) in always.iter().chain(more) {
        if !works(program, args) {
            return Some(format!(
                "these tests need to be root with a working `{program} {}`",
                args.join(" ")
            ));
        }
    }
    None
}

/// A network namespace, held by a process that ends when its input does: so also when the test is killed.
pub(crate) struct Netns {
    holder: Child,
}

impl Netns {
    pub(crate) fn new() -> Self {
        let holder =
            Command::new("unshare").args(["-n", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let netns = Self { holder: holder.expect("unshare starts") };
        // The process exists before its namespace does: wait until it has left ours.
        let ours = std::fs::read_link("/proc/self/ns/net").expect("own namespace");
        while std::fs::read_link(netns.path()).is_ok_and(|theirs| theirs == ours) {
            std::thread::yield_now();
        }
        netns
    }

    pub(crate) fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.pid()).into()
    }

    /// Runs a script of the test's own, which must succeed; gives what it printed.
    pub(crate) fn sh(&self, script: &str) -> String {
        let (status, text) = self.try_sh(script);
        assert!(status, "{script}: {text}");
        text
    }

    /// Runs a script of the test's own.
    pub(crate) fn try_sh(&self, script: &str) -> (bool, String) {
        let pid = self.pid().to_string();
        let output = Command::new("nsenter").args(["-t", &pid, "-n", "bash", "-c", script]).output();
        let output = output.expect("nsenter starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// A runner of commands in here.
    pub(crate) fn runner(&self) -> Local {
        Local { pid: self.pid(), path: None }
    }

    /// Calls `work` on a thread that lives in here.
    pub(crate) fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let namespace = File::open(self.path()).expect("the namespace");
        std::thread::spawn(move || {
            setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET).expect("entered");
            work()
        })
    }

    /// Everything a person would list, to compare before and after.
    pub(crate) fn listing(&self) -> String {
        self.sh("ip -d link | sed 's/ qlen.*//'; ip -4 addr; ip -4 route
                 iptables-legacy -t nat -S; iptables-nft -t nat -S 2>/dev/null
                 iptables-legacy -t mangle -S; iptables-nft -t mangle -S 2>/dev/null
                 grep -H . /proc/sys/net/ipv4/conf/*/{rp_filter,proxy_arp}")
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Runs commands in a namespace. Their stdin stays open until they end, as with exec through an API server.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    pub(crate) pid: u32,
    /// The only folder in which tools are found, if not everywhere.
    pub(crate) path: Option<PathBuf>,
}

impl Local {
    /// As `run`, but the input ends after what is given.
    pub(crate) async fn run_to_end_of_input(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        self.run_with(argv, &[(stdin, None)], false).await
    }

    /// As `run`, but each piece of the input waits for its permission; what the command says is read afterwards.
    pub(crate) async fn run_in_pieces(
        &self,
        argv: &[&str],
        pieces: &[(&[u8], Option<&Notify>)],
    ) -> Result<Output, RunError> {
        self.run_with(argv, pieces, true).await
    }

    async fn run_with(
        &self,
        argv: &[&str],
        pieces: &[(&[u8], Option<&Notify>)],
        keep_open: bool,
    ) -> Result<Output, RunError> {
        let mut command = tokio::process::Command::new("/usr/bin/nsenter");
        command.args(["-t", &self.pid.to_string(), "-n"]);
        // The tools of another image can be tried: its unpacked root folder, with /proc mounted in it.
        if let Ok(root) = std::env::var("GATEWAY_ROOT") {
            command.arg(format!("--root={root}"));
        }
        command.args(argv);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        let limit = Duration::from_secs(30);
        let child = command.spawn().map_err(|error| RunError::Lost(error.to_string()))?;
        let output = tokio::time::timeout(limit, converse(child, pieces, keep_open)).await;
        output.map_err(|_| RunError::TimedOut(limit))?.map_err(|error| RunError::Lost(error.to_string()))
    }
}

/// Feeds a command and reads what it says until it has said all, then lets it end; its input stays open until
/// then, unless that is part of the test.
async fn converse(
    mut child: tokio::process::Child,
    pieces: &[(&[u8], Option<&Notify>)],
    keep_open: bool,
) -> std::io::Result<Output> {
    let mut input = child.stdin.take();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let feed = async {
        for (piece, permission) in pieces {
            if let Some(permission) = permission {
                permission.notified().await;
            }
            if let Some(pipe) = &mut input {
                let _ = pipe.write_all(piece).await;
            }
        }
        if !keep_open {
            input = None;
        }
        while end_of(&stdout).is_none() && out.read_buf(&mut stdout).await? > 0 {}
        if let Some(pipe) = &mut input {
            let _ = pipe.write_all(SEEN).await;
        }
        out.read_to_end(&mut stdout).await
    };
    let (read, complained) = tokio::join!(feed, err.read_to_end(&mut stderr));
    read.and(complained)?;
    Ok(Output { status: child.wait().await?.code(), stdout, stderr })
}

#[async_trait]
impl Run for Local {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        self.run_with(argv, &[(stdin, None)], true).await
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// A socket in a namespace.
pub(crate) fn socket(netns: &Netns, address: SocketAddrV4) -> UdpSocket {
    let socket = netns.inside(move || UdpSocket::bind(address).expect("bound")).join().expect("made");
    socket.set_read_timeout(Some(PATIENCE)).expect("time-out");
    socket
}

/// Sends a packet from a client to a server and returns the source that the server saw, as its
/// answer says, which has to come back too.
pub(crate) fn ask(client: &UdpSocket, server: &UdpSocket) -> Option<Ipv4Addr> {
    let to = server.local_addr().expect("bound");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 8];
            let Ok((_, from)) = server.recv_from(&mut buffer) else { return };
            let _ = server.send_to(from.ip().to_string().as_bytes(), from);
        });
        client.send_to(b"hello", to).ok()?;
        let mut buffer = [0; 64];
        let length = client.recv(&mut buffer).ok()?;
        String::from_utf8_lossy(&buffer[..length]).parse().ok()
    })
}

/// Sends so many bytes over TCP from one namespace to a server in another; says how many arrived in time.
pub(crate) fn transfer(from: &Netns, to: &Netns, server: SocketAddrV4, bytes: usize) -> usize {
    let listener = to.inside(move || TcpListener::bind(server).expect("bound")).join().expect("made");
    let sending = from.inside(move || {
        let mut stream = TcpStream::connect_timeout(&server.into(), PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&vec![b'x'; bytes])
    });
    listener.set_nonblocking(true).expect("set");
    let deadline = Instant::now() + PATIENCE;
    let mut received = 0;
    while Instant::now() < deadline {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        stream.set_nonblocking(false).expect("set");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            received += length;
        }
        break;
    }
    let _ = sending.join().expect("sent or not");
    received
}
