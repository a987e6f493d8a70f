//! Two replicas of cluster1's controller, a tunnel with packets in it, a tunnel to work on, and what is written
//! down about all that.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::MutexGuard;

use super::kernel::Changes;
use super::lease::{Reigns, Words, leases};
use super::proof::{self, Exec, Reign};
use super::support::packets::{Pings, RATE};
use super::support::tunnels::{join, vxlan, with_vni};
use super::support::{Cluster, PATIENCE, Replica, Sandbox};

/// The far server of cluster2.
const FAR: &str = "242.1.1.20";
const USERS: [&str; 2] = ["replica-a", "replica-b"];
/// The tunnel that is changed in every round, and its address when it is not.
const WORK: &str = "work0";
const AT_REST: &str = "10.100.77.1/24";

/// How often each fault strikes.
pub(crate) fn rounds() -> u32 {
    let asked = std::env::var("CAUSEWAY_ROUNDS").ok();
    asked.map_or(2, |text| text.parse().expect("CAUSEWAY_ROUNDS is a number"))
}

/// The lease's time: a tenth of the real one, unless asked for.
fn lease_time() -> Duration {
    let asked = std::env::var("CAUSEWAY_LEASE_MS").ok();
    Duration::from_millis(asked.map_or(1500, |text| text.parse().expect("CAUSEWAY_LEASE_MS is a number")))
}

pub(crate) struct Site {
    pub(crate) one: Cluster,
    pub(crate) replicas: [Arc<Replica>; 2],
    pub(crate) lease: Duration,
    pub(crate) reigns: Reigns,
    words: Words,
    changes: Changes,
    /// Addresses that were asked for in one term only.
    passing: Mutex<Vec<(String, u64)>>,
    pings: Option<Pings>,
    began: Instant,
    audit: PathBuf,
    broker_audit: PathBuf,
    execs: PathBuf,
    folder: Option<TempDir>,
    _sandbox: Sandbox,
    _turn: MutexGuard<'static, ()>,
}

/// One at a time: beside another one's processes a lease of a second and a half runs out by itself.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Site {
    /// Everything up and at rest.
    pub(crate) async fn set_up() -> Site {
        let turn = TURN.lock().await;
        let lease = lease_time();
        // Three clusters: two tunnels of one gateway cannot lead to the same one.
        let sandbox = Sandbox::start(&["--bare", "--clusters", "3"]).await;
        let (one, two) = (sandbox.cluster(1).await, sandbox.cluster(2).await);
        join(&one, &two, "calm0", "gw1", 1).await;
        one.create(&with_vni(vxlan(WORK, "gw1", "cluster3/gw1", AT_REST), 77)).await;
        one.built(WORK).await;
        sandbox.hold(&one).await;
        // Its controller was killed and would keep the Lease for its time; the number of its term stays.
        let given_up = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
        let patched = leases(&one).patch("causeway-controller", &PatchParams::default(), &given_up).await;
        patched.expect("the lease is given up");

        let folder = tempfile::Builder::new().prefix("causeway-replicas-").tempdir().expect("a folder");
        let broker = sandbox.broker().await;
        let audit = audited(&one, folder.path()).await;
        let broker_audit = audited(&broker, folder.path()).await;
        let reigns = Reigns::watch(&one).await;
        let start = |name| Arc::new(Replica::start(&one, &broker, folder.path(), name, lease));
        let replicas = USERS.map(start);
        for replica in &replicas {
            replica.is_ready(&one).await;
        }
        let pings = Some(one.pings(FAR).await);
        let execs = sandbox.folder().join("logs").join("cluster1-execs.jsonl");
        let words = Words::listen(&replicas);
        let changes = Changes::of(&one, "gw1").await;
        let site = Site {
            changes,
            passing: Mutex::default(),
            one,
            replicas,
            lease,
            reigns,
            words,
            pings,
            began: Instant::now(),
            audit,
            broker_audit,
            execs,
            folder: Some(folder),
            _sandbox: sandbox,
            _turn: turn,
        };
        site.leader().await;
        site
    }

    /// Waits until one replica leads by the Lease and by its own word, and the other one does not; the leader first.
    pub(crate) async fn leader(&self) -> (Reign, Arc<Replica>, Arc<Replica>) {
        self.one
            .until("one of the two leads, and both know it", self.patience(), async || {
                let reign = self.reigns.now();
                let [a, b] = &self.replicas;
                let (leader, other) = if reign.holder == a.name { (a, b) } else { (b, a) };
                let words = (leader.says_it_leads().await, other.says_it_leads().await);
                if reign.holder == leader.name && words == (Some(true), Some(false)) {
                    Ok((reign, leader.clone(), other.clone()))
                } else {
                    Err(format!("{reign:?} {words:?}"))
                }
            })
            .await
    }

    /// Waits until this replica holds the Lease in a later term.
    pub(crate) async fn succeeds(&self, replica: &Replica, after: &Reign) -> Reign {
        let what = format!("{} leads after term {}", replica.name, after.term);
        let look = async || {
            let now = self.reigns.now();
            if now.holder == replica.name && now.term > after.term {
                Ok(now)
            } else {
                Err(format!("{now:?}"))
            }
        };
        self.one.until(&what, self.patience(), look).await
    }

    /// Asks for another address of the tunnel.
    pub(crate) async fn ask_for(&self, address: &str) {
        self.one.patch_spec(WORK, json!({"interfaceAddr": address})).await;
    }

    /// An address that nobody else asks for.
    pub(crate) fn address(round: u32) -> String {
        format!("10.100.77.{}/24", 2 + round % 200)
    }

    /// Gives the tunnel its address at rest, and waits until it is up.
    pub(crate) async fn comes_to_rest(&self) {
        self.ask_for(AT_REST).await;
        self.one.built(WORK).await;
    }

    /// The same while nobody leads: what was asked for is wanted no more when this replica succeeds. Waits until it
    /// has had its first answer from the gateway.
    pub(crate) async fn comes_to_rest_with(&self, successor: &Replica, after: &Reign, since: Timestamp) {
        let asked = self.one.tunnel(WORK).await.spec.interface_addr;
        self.ask_for(AT_REST).await;
        if self.reigns.now() == *after {
            self.passing.lock().unwrap_or_else(PoisonError::into_inner).push((asked, after.term));
        }
        self.succeeds(successor, after).await;
        self.first_command(successor, since).await;
        self.one.built(WORK).await;
    }

    /// All commands of the replicas so far.
    pub(crate) fn execs(&self) -> Vec<Exec> {
        proof::execs(&whole_lines(&self.execs), &USERS)
    }

    /// Everything here takes a second or two, or a few leases.
    fn patience(&self) -> Duration {
        PATIENCE + 4 * self.lease
    }

    /// Waits for a command of a replica.
    pub(crate) async fn command(&self, what: &str, is: impl Fn(&Exec) -> bool) -> Exec {
        let look = async || {
            let execs = self.execs();
            execs.iter().find(|exec| is(exec)).cloned().ok_or_else(|| format!("{} commands", execs.len()))
        };
        self.one.until(what, self.patience(), look).await
    }

    /// Waits until a successor has had its first answer from the gateway since `since`.
    pub(crate) async fn first_command(&self, of: &Replica, since: Timestamp) -> Exec {
        let what = format!("an answer to {}", of.name);
        let is = |exec: &Exec| {
            exec.user == of.name && exec.start > since && exec.answer.is_some() && exec.pod.contains("gw1")
        };
        self.command(&what, is).await
    }

    /// A change by this leader that is under way and does not arrive before the fault is switched off.
    pub(crate) async fn held_command(&self, leader: &Replica, round: u32) -> Exec {
        loop {
            // One that does not listen yet would do that first, and would be held at that.
            let listens = |exec: &Exec| {
                exec.user == leader.name && exec.pod.contains("gw1") && exec.kind == "monitor" && !exec.ended
            };
            self.command("the leader listens", listens).await;
            let since = Timestamp::now();
            self.one.fault("gw1", &format!("hold:{}", leader.name)).await;
            self.ask_for(&Self::address(round)).await;
            let is_its = |exec: &Exec| {
                exec.user == leader.name
                    && exec.start > since
                    && exec.pod.contains("gw1")
                    && exec.kind != "monitor"
            };
            let first = self.command("the leader's command is on its way", is_its).await;
            if first.kind == "apply" {
                return first;
            }
            // It happened to look just then, and would not go on.
            self.one.fault("gw1", "").await;
            self.comes_to_rest().await;
        }
    }

    /// Switches a fault of cluster1's API server on.
    pub(crate) async fn switch(&self, fault: Value) {
        let request = Request::new("/faults").create(&PostParams::default(), fault.to_string().into_bytes());
        self.one.client.request_text(request.expect("a request")).await.expect("it is switched");
    }

    /// Switches all of them off.
    pub(crate) async fn switch_off(&self) {
        let all = Request::new("/faults").delete_collection(&DeleteParams::default(), &ListParams::default());
        self.one.client.request_text(all.expect("a request")).await.expect("they are switched off");
    }

    /// When the Lease was written so, by the API server's word.
    pub(crate) async fn written(&self, reign: &Reign) -> Timestamp {
        // Watches may hear of it first.
        let look = async || {
            let writes = proof::writes(&whole_lines(&self.audit), &USERS);
            let write = writes.iter().find(|write| write.version == reign.version);
            write.map(|write| write.at).ok_or_else(|| format!("{} writes", writes.len()))
        };
        self.one.until("the Lease's write in the audit", self.patience(), look).await
    }

    /// Judges all that was written down.
    pub(crate) fn judge(&self) {
        let (reigns, execs) = (self.reigns.all(), self.execs());
        let writes = proof::writes(&whole_lines(&self.audit), &USERS);
        let none = Vec::<String>::new();
        assert_eq!(proof::strange_writes(&writes, &reigns), none, "writes of a former leader; {reigns:?}");
        assert_eq!(proof::late_applies(&execs, &writes, &reigns), none, "changes by a former leader");
        let at_broker = proof::writes(&whole_lines(&self.broker_audit), &USERS);
        let strange = proof::strange_writes_elsewhere(&at_broker, &writes, &reigns);
        assert_eq!(strange, none, "writes of a former leader to the broker; {reigns:?}");
        for (address, term) in self.passing.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let late = proof::late_changes(&self.changes.lines(), address, *term);
            assert_eq!(late, none, "changes by the leader of term {term}, in the kernel's order");
        }
        let claimed = self.words.longest_error(&self.reigns, true);
        assert!(claimed <= self.lease, "a replica said for {claimed:?} that it leads, and it did not");
        // Who cannot reach the API server ends its work before the Lease goes to another, which takes whole seconds.
        let unaware = self.words.longest_error(&self.reigns, false);
        let bound = 2 * self.lease + Duration::from_secs(1);
        assert!(unaware <= bound, "a replica had the Lease for {unaware:?} and did not know it");
    }

    /// The end of the packets' stream, and a summary for people.
    pub(crate) async fn finish(mut self, fault: &str, rounds: u32) {
        let count = self.pings.take().expect("they run").end().await;
        let (execs, reigns) = (self.execs(), self.reigns.all());
        let refused = execs.iter().filter(|exec| exec.superseded.is_some()).count();
        let [claimed, unaware] = [true, false].map(|claim| self.words.longest_error(&self.reigns, claim));
        let terms = reigns.iter().map(|reign| reign.term).max().unwrap_or_default()
            - reigns.first().map(|reign| reign.term).unwrap_or_default();
        eprintln!(
            "{fault}: {rounds} rounds with leases of {:?} in {:.1} s, {terms} terms, {} commands in gateways \
             ({refused} refused there), {} writes, {} of {} packets lost; at most {claimed:.1?} of leading without the \
             Lease and {unaware:.1?} of having it without leading",
            self.lease,
            self.began.elapsed().as_secs_f64(),
            execs.len(),
            [&self.audit, &self.broker_audit]
                .map(|file| proof::writes(&whole_lines(file), &USERS).len())
                .iter()
                .sum::<usize>(),
            count.lost(),
            count.sent,
        );
        assert!(count.sent > RATE / 4, "they ran all the while: {count:?}");
        assert_eq!(count.lost(), 0, "{count:?}");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for replica in &self.replicas {
                eprintln!("--- the end of {}'s log\n{}", replica.name, replica.tail());
            }
            if let Some(folder) = self.folder.take() {
                eprintln!("the replicas' logs and the audit are in {}", folder.keep().display());
            }
        }
    }
}

/// Has a server write down who writes what.
async fn audited(cluster: &Cluster, folder: &Path) -> PathBuf {
    let file = folder.join(format!("{}-audit.jsonl", cluster.name));
    let body = json!({"file": file}).to_string().into_bytes();
    let request = Request::new("/audit").create(&PostParams::default(), body).expect("a request");
    cluster.client.request_text(request).await.expect("an audit");
    file
}

/// What is in a file up to its last line's end.
fn whole_lines(path: &Path) -> String {
    let mut text = std::fs::read_to_string(path).unwrap_or_default();
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    text
}
