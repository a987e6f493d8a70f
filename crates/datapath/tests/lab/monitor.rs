//! The long-lived command in a gateway, and what it says.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use causeway_core::vpc::Answer;
use causeway_datapath::vpc::{Digest, Heard, Monitor as Script};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::Netns;

/// A running monitor.
pub(crate) struct Monitor {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Monitor {
    pub(crate) async fn start(netns: &Netns, interval: Duration) -> Self {
        Self::start_with(netns, interval, None, "").await
    }

    /// With the tools of one folder, if not with all, and with something said to it before it listens.
    pub(crate) async fn start_with(
        netns: &Netns,
        interval: Duration,
        tools: Option<&Path>,
        early: &str,
    ) -> Self {
        let mut command = tokio::process::Command::new("/usr/bin/nsenter");
        if let Some(tools) = tools {
            command.env("PATH", tools);
        }
        command.args(["-t", &netns.pid().to_string(), "-n"]).args(Script::argv());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("nsenter starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut monitor = Self { child, lines };
        monitor.write(&Script::input(interval, 1, Duration::from_secs(1))).await;
        monitor.write(early.as_bytes()).await;
        assert_eq!(monitor.heard().await, Heard::Listening);
        monitor
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().expect("open").write_all(bytes).await.expect("taken");
    }

    /// The next word about what the gateway holds.
    pub(crate) async fn heard(&mut self) -> Heard {
        loop {
            match Heard::of(&self.line().await.expect("still running")) {
                Heard::Probed { .. } => {}
                heard => return heard,
            }
        }
    }

    /// The next answer of a link's peer, under a number at least.
    pub(crate) async fn answer(&mut self, link: &str, at_least: u64) -> Answer {
        loop {
            let line = self.line().await.expect("still running");
            let Heard::Probed { change, answers } = Heard::of(&line) else { continue };
            let mut answers = answers.into_iter().map(|(answer, _)| answer).filter(|_| change >= at_least);
            if let Some(answer) = answers.find(|answer| answer.link == link) {
                return answer;
            }
        }
    }

    /// The next heartbeat's digest.
    pub(crate) async fn held(&mut self, number: Option<u64>) -> Digest {
        loop {
            match self.heard().await {
                Heard::Held { digest, asked } if asked == number => return digest.expect("a digest"),
                Heard::Change => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(Duration::from_secs(20), self.lines.next_line()).await;
        line.expect("a line in time").expect("readable")
    }

    /// The next line that is no heartbeat; those come for ever, so it has a deadline of its own.
    pub(crate) async fn line_of_a_change(&mut self) -> String {
        let change = async {
            loop {
                let line = self.line().await.expect("still running");
                if Heard::of(&line) == Heard::Change {
                    return line;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), change).await.expect("a change in time")
    }

    pub(crate) async fn end(mut self) -> Option<i32> {
        while self.line().await.is_some() {}
        let status = tokio::time::timeout(Duration::from_secs(20), self.child.wait()).await;
        status.expect("it ends").expect("waited").code()
    }
}
