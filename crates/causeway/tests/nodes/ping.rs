//! Packets between pods: one to see whether it arrives, many to see whether all do, and what the kernel says meanwhile.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::until;
use super::net::Netns;

/// Those of the addresses that are not reached from the namespace beside them.
pub(crate) fn unreached(pings: &[(&Netns, String)]) -> Vec<String> {
    let reached = |pod: &Netns, address: &str| pod.try_sh(&format!("ping -q -c 1 -W 1 {address}")).0;
    std::thread::scope(|scope| {
        let started = pings.iter().map(|(pod, address)| (address, scope.spawn(|| reached(pod, address))));
        let started: Vec<_> = started.collect();
        let ended = started.into_iter().map(|(address, ping)| (address, ping.join().expect("no panic")));
        ended.filter(|(_, reached)| !reached).map(|(address, _)| address.clone()).collect()
    })
}

/// A hundred packets a second from a pod to an address. Dropping it ends it.
pub(crate) struct Steady {
    child: Child,
    address: String,
    said: PathBuf,
}

/// The interval in seconds.
const INTERVAL: &str = "0.01";
/// So many answers are awaited before and after what is tried.
const SOME: usize = 100;

impl Steady {
    /// Begins; nothing is awaited.
    pub(crate) fn begin(folder: &Path, from: &Netns, address: &str) -> Self {
        let said = folder.join(format!("ping-{}-{address}", from.pid()));
        let file = File::create(&said).expect("a file");
        let mut command = Command::new("nsenter");
        command.args(["-t", &from.pid().to_string(), "-n", "ping", "-n", "-i", INTERVAL, address]);
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        Self { child: command.spawn().expect("nsenter starts"), address: address.to_owned(), said }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).expect("what ping said")
    }

    /// Waits for some more answers.
    pub(crate) async fn goes_on(&self) {
        let begun = answers(&self.said()).len();
        until(&format!("{} goes on answering", self.address), async || {
            let said = self.said();
            let last = || said.lines().last().unwrap_or_default().to_owned();
            (answers(&said).len() >= begun + SOME).then_some(()).ok_or_else(last)
        })
        .await;
    }

    /// Ends it; tells how many packets were sent, all of which were answered.
    pub(crate) async fn none_was_lost(mut self) -> usize {
        kill(Pid::from_raw(self.child.id().try_into().expect("a process id")), Signal::SIGINT)
            .expect("it runs");
        until("ping ends", async || self.child.try_wait().expect("its state").ok_or_else(|| self.said()))
            .await;
        let said = self.said();
        let sent = sent(&said).unwrap_or_else(|| panic!("no summary: {said}"));
        let answered = answers(&said);
        // The last one may have been on its way when ping was ended, which does not wait for it.
        let lost: Vec<usize> = (1..sent).filter(|number| !answered.contains(number)).collect();
        let rest: Vec<&str> = said.lines().filter(|line| !line.contains(" bytes from ")).collect();
        assert!(lost.is_empty(), "{}: of {sent} packets these were lost: {lost:?}\n{rest:#?}", self.address);
        sent
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a node's kernel says of links, addresses, routes and neighbours. Dropping it ends it.
pub(crate) struct Monitor {
    child: Child,
    said: PathBuf,
}

impl Monitor {
    pub(crate) fn begin(folder: &Path, node: &Netns) -> Self {
        let said = folder.join(format!("monitor-{}", node.pid()));
        let file = File::create(&said).expect("a file");
        let mut command = Command::new("nsenter");
        command.args(["-t", &node.pid().to_string(), "-n", "ip", "-o", "monitor"]);
        command.args(["link", "address", "route", "neigh", "label"]).stdin(Stdio::null()).stdout(file);
        Self { child: command.spawn().expect("nsenter starts"), said }
    }

    /// What was deleted since then, but for neighbours that the kernel finds and forgets by itself.
    pub(crate) fn deleted(&self) -> Vec<String> {
        let said = std::fs::read_to_string(&self.said).expect("what the kernel said");
        let deleted = said.lines().filter(|line| line.contains("]Deleted "));
        let ours = |line: &&str| !line.starts_with("[NEIGH]") || line.contains(" dev flannel");
        deleted.filter(ours).map(str::to_owned).collect()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The numbers of the packets that were answered.
fn answers(said: &str) -> BTreeSet<usize> {
    let answered = said.lines().filter(|line| line.contains(" bytes from "));
    let number = |line: &str| line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok();
    let numbers: Vec<usize> = answered.filter_map(number).collect();
    // The protocol counts to 65,535: a ping of ten minutes.
    assert!(numbers.len() < 65_535, "it went on for too long");
    numbers.into_iter().collect()
}

/// How many were sent, as the summary has it.
fn sent(said: &str) -> Option<usize> {
    let summary = said.lines().find(|line| line.contains(" packets transmitted"))?;
    summary.split(' ').next()?.parse().ok()
}
