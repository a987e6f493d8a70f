//! Real gateways: network namespaces with a gateway's links, addresses and NAT chains.
//!
//! Each is held by a process that ends when its input does, so also when this one is killed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Where iptables keeps its lock; the machine's own would make the gateways wait for each other.
pub(crate) const LOCK: &str = "XTABLES_LOCKFILE";

/// All gateways; they vanish with this value.
pub(crate) struct Gateways {
    all: Vec<Gateway>,
    folder: tempfile::TempDir,
}

/// One gateway's namespace.
pub(crate) struct Gateway {
    holder: Child,
    lock: PathBuf,
}

/// What the kernels hold of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Held {
    links: usize,
    routes: usize,
    rules: usize,
}

impl Held {
    /// What so many tunnels need.
    pub(crate) fn of(tunnels: usize) -> Held {
        Held { links: tunnels, routes: tunnels, rules: tunnels }
    }
}

impl Gateways {
    /// Makes them, as kube-ovn leaves a gateway: two links, addresses, a way out, empty chains.
    pub(crate) fn create(count: usize) -> anyhow::Result<Gateways> {
        let folder = tempfile::tempdir()?;
        let make = |number| Gateway::create(number, folder.path());
        let all = (1..=count).map(make).collect::<anyhow::Result<_>>()?;
        Ok(Gateways { all, folder })
    }

    /// The gateway whose pod has this name.
    pub(crate) fn by_pod(&self, pod: &str) -> Option<&Gateway> {
        let number: usize = pod.strip_prefix("vpc-nat-gw-g")?.strip_suffix("-0")?.parse().ok()?;
        self.all.get(number.checked_sub(1)?)
    }

    /// Counts what is in the kernels.
    pub(crate) fn held(&self) -> anyhow::Result<Held> {
        let mut held = Held::of(0);
        for gateway in &self.all {
            let text = gateway.sh(
                "ip -o link show type vxlan | wc -l; ip -4 route show | grep -c 'dev t.*proto 157'
                 { iptables-legacy -t nat -S POSTROUTING; iptables-nft -t nat -S POSTROUTING; } \
                 2>/dev/null | grep -c causeway: ; true",
            )?;
            let counts: Vec<usize> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [links, routes, rules] = counts[..] else { bail!("three counts, not {text:?}") };
            held.links += links;
            held.routes += routes;
            held.rules += rules;
        }
        Ok(held)
    }

    /// A place that lives as long as the gateways.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Gateway {
    fn create(number: usize, folder: &Path) -> anyhow::Result<Gateway> {
        let mut unshare = Command::new("unshare");
        unshare.args(["-n", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let holder = unshare.spawn().context("cannot run unshare")?;
        let mut gateway = Gateway { holder, lock: folder.join(format!("xtables-{number}.lock")) };
        gateway.entered()?;
        gateway.sh(&set_up(number))?;
        Ok(gateway)
    }

    /// The process exists before its namespace does: waits until it has left ours.
    fn entered(&mut self) -> anyhow::Result<()> {
        let ours = std::fs::read_link("/proc/self/ns/net")?;
        let theirs = format!("/proc/{}/ns/net", self.holder.id());
        while std::fs::read_link(&theirs).is_ok_and(|theirs| theirs == ours) {
            if let Some(status) = self.holder.try_wait()? {
                bail!("no network namespace can be made here ({status}): this needs root");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// A command line that runs in here; its arguments are still to be added.
    pub(crate) fn enter(&self) -> (Vec<String>, &Path) {
        let pid = self.holder.id().to_string();
        (["nsenter", "-t", &pid, "-n", "--"].map(String::from).to_vec(), &self.lock)
    }

    /// Runs a script of our own, which must succeed; gives what it printed.
    fn sh(&self, script: &str) -> anyhow::Result<String> {
        let (enter, lock) = self.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg("bash").env(LOCK, lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot run nsenter")?;
        child.stdin.take().context("no stdin")?.write_all(script.as_bytes())?;
        let output = child.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "in a gateway: {stderr}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Addresses of a gateway: on its VPC's subnet and on the underlay.
pub(crate) fn addresses(number: usize) -> (String, String) {
    (format!("10.{number}.1.254"), format!("172.50.16.{number}"))
}

/// kube-ovn uses legacy iptables where it works, and so does this.
fn set_up(number: usize) -> String {
    let (lan, external) = addresses(number);
    format!(
        "set -e
        ip -batch - <<END
link set dev lo up
link add name eth0 type veth peer name eth0-far
link add name net1 type veth peer name net1-far
address add {lan}/24 dev eth0
address add {external}/16 dev net1
link set dev eth0 up
link set dev eth0-far up
link set dev net1 up
link set dev net1-far up
route add default via 172.50.0.1 dev net1
END
        echo 1 >/proc/sys/net/ipv4/ip_forward
        kind=nft
        iptables-legacy -t nat -S INPUT 1 >/dev/null 2>&1 && kind=legacy
        iptables-$kind-restore --noflush <<END
*nat
:DNAT_FILTER - [0:0]
:EXCLUSIVE_DNAT - [0:0]
:SHARED_DNAT - [0:0]
-A PREROUTING -j DNAT_FILTER
-A DNAT_FILTER -j EXCLUSIVE_DNAT
-A DNAT_FILTER -j SHARED_DNAT
:SNAT_FILTER - [0:0]
:EXCLUSIVE_SNAT - [0:0]
:SHARED_SNAT - [0:0]
-A POSTROUTING -j SNAT_FILTER
-A SNAT_FILTER -j EXCLUSIVE_SNAT
-A SNAT_FILTER -j SHARED_SNAT
COMMIT
END
"
    )
}

/// The least that any controller must spend: the same links, routes and rules by bare commands,
/// one batch per gateway, nothing asked and nothing checked.
pub(crate) fn floor(count: usize, peers: usize) -> anyhow::Result<Duration> {
    let gateways = Gateways::create(count)?;
    let script = &bare_commands(peers);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let work = |gateway| scope.spawn(move || Gateway::sh(gateway, script));
        let all: Vec<_> = gateways.all.iter().map(work).collect();
        all.into_iter().try_for_each(|one| match one.join() {
            Ok(done) => done.map(drop),
            Err(_) => bail!("a thread panicked"),
        })
    })?;
    Ok(start.elapsed())
}

fn bare_commands(peers: usize) -> String {
    let (mut links, mut rules) = (String::new(), String::new());
    for peer in 1..=peers {
        links += &format!(
            "link add t{peer} type vxlan remote 172.50.17.{peer} id {peer} dstport 4789 dev net1\n\
             address add 10.100.{peer}.1/24 dev t{peer}\nlink set dev t{peer} up\n\
             route add 242.{peer}.0.0/16 dev t{peer}\n"
        );
        rules += &format!("-A POSTROUTING -d 242.{peer}.0.0/16 -j SNAT --to-source 242.0.0.1-242.0.0.8\n");
    }
    format!(
        "set -e\nip -batch - <<END\n{links}END\nkind=nft\n\
         iptables-legacy -t nat -S SNAT_FILTER >/dev/null 2>&1 && kind=legacy\n\
         iptables-$kind-restore --noflush <<END\n*nat\n{rules}COMMIT\nEND\n"
    )
}
