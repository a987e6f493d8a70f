//! On a terminal: reasons are wrapped to its width, and a watch is drawn in one place.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::site::{Site, down, tunnel};

const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of some columns, what it shows, and the command in it.
struct Terminal {
    child: tokio::process::Child,
    shown: tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn start(site: &Site, columns: u16, args: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a terminal");
        let mut command = site.command(&["status", "--kubeconfig"]);
        command.arg(site.kubeconfig()).args(args).stdout(Stdio::from(pty.slave));
        let child = command.spawn().expect("it starts");
        drop(command);
        let (sender, shown) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let (mut master, mut bytes) = (File::from(pty.master), [0; 4096]);
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                let _ = sender.send(bytes[..count].to_vec());
            }
        });
        Self { child, shown, text: String::new() }
    }

    /// Reads until it has shown this.
    async fn until(&mut self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.text.contains(words) {
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = tokio::time::timeout(left, self.shown.recv()).await;
            let bytes = bytes.ok().flatten().unwrap_or_else(|| panic!("{words:?} in: {:?}", self.text));
            self.text += &String::from_utf8_lossy(&bytes);
        }
    }

    async fn rest(mut self) -> String {
        let read = async {
            while let Some(bytes) = self.shown.recv().await {
                self.text += &String::from_utf8_lossy(&bytes);
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("it ends");
        self.text.replace('\r', "")
    }
}

#[tokio::test]
async fn long_reasons_are_wrapped_beside_the_table_or_below_it() {
    let site = Site::with_tunnels("one").await;
    site.put("ns1", tunnel("demo")).await;
    site.put("ns1", down("lost")).await;
    for columns in [200, 100, 80, 60] {
        let shown = Terminal::start(&site, columns, &[]).rest().await;
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= columns.into()), "{columns}: {shown}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert!(words.join(" ").contains("is the peer joined to the broker?"), "{columns}: {shown}");
        assert_eq!(lines.len() == 3, columns == 200, "{columns}: {shown}");
    }
}

#[tokio::test]
async fn a_watch_is_drawn_over_what_was_there() {
    let site = Site::with_tunnels("one").await;
    site.put("ns1", tunnel("demo")).await;
    let mut terminal = Terminal::start(&site, 100, &["-w"]);
    terminal.until("ns1/demo").await;
    assert!(terminal.text.starts_with("\u{1b}[H\u{1b}[J"), "{:?}", terminal.text);
    site.put("ns1", down("lost")).await;
    terminal.until("PeerUnknown").await;
    assert!(terminal.text.matches("\u{1b}[H").count() >= 2);
    let id = terminal.child.id().and_then(|id| i32::try_from(id).ok()).expect("it runs");
    kill(Pid::from_raw(id), Signal::SIGINT).expect("a signal");
    let ended = tokio::time::timeout(PATIENCE, terminal.child.wait()).await.expect("in time");
    assert_eq!(ended.expect("it ended").code(), Some(1));
}
