//! One change at a time, and none of a former leader's.

mod lab;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use causeway_core::vpc::{Plan, TunnelKind, Variant, Want, plan};
use causeway_datapath::vpc::{Commands, Datapath, Listing, Looked};
use causeway_datapath::{Output, Run, RunError, Trouble};
use lab::want::{VXLAN, add, demo};
use lab::{BOTH, Lab, Local, Netns, joined, observed, require};
use tokio::sync::Notify;

/// What `lo` of a gateway is called beside its name.
fn alias(gateway: &Netns) -> String {
    let said = gateway.sh("ip link show dev lo");
    let alias = said.lines().find_map(|line| line.trim().strip_prefix("alias "));
    alias.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_term_older_than_the_newest_seen_changes_nothing() {
    require(&[("flock", &["--version"])]);
    let lab = Lab::new(Variant::Nft);
    let (gateway, datapath) = (&lab.gateways[0], lab.datapath(0));
    let build = plan(&demo(0, VXLAN), &observed(&datapath).await);
    datapath.apply(&Plan::default(), Some(7)).await.expect("accepted");
    assert_eq!(alias(gateway), "causeway-term:7");
    let before = gateway.listing();
    assert_eq!(datapath.apply(&build, Some(6)).await, Err(Trouble::Superseded { by: 7 }));
    assert_eq!(gateway.listing(), before);

    assert_eq!(datapath.apply(&build, Some(7)).await.expect("accepted").failures, [].into());
    let back = plan(&Want::default(), &observed(&datapath).await);
    assert_eq!(datapath.apply(&back, Some(6)).await, Err(Trouble::Superseded { by: 7 }));
    assert!(observed(&datapath).await.links.contains_key("demo"));
    assert_eq!(datapath.apply(&back, Some(10)).await.expect("accepted").failures, [].into());
    assert_eq!(alias(gateway), "causeway-term:10");
    assert_eq!(datapath.apply(&build, Some(9)).await, Err(Trouble::Superseded { by: 10 }));
    assert_eq!(datapath.apply(&build, None).await.expect("accepted").failures, [].into());
    assert_eq!(alias(gateway), "causeway-term:10");
}

#[tokio::test]
async fn what_somebody_else_calls_lo_is_kept() {
    require(&[("flock", &["--version"])]);
    let netns = Netns::new();
    netns.sh("ip link set dev lo alias 'the loop'");
    let datapath = Commands::new(netns.runner());
    for term in [3, 4] {
        datapath.apply(&Plan::default(), Some(term)).await.expect("accepted");
        assert_eq!(alias(&netns), format!("the loopcauseway-term:{term}"));
    }
}

/// A runner whose input stops before its last byte until it may go on.
struct Late<'a> {
    inner: Local,
    go_on: &'a Notify,
}

#[async_trait::async_trait]
impl Run for Late<'_> {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        let (early, late) = stdin.split_at(stdin.len() - 1);
        let pieces = [(early, None), (late, Some(self.go_on))];
        self.inner.run_in_pieces(argv, &pieces).await
    }
}

#[tokio::test]
async fn input_that_ends_after_a_successors_change_is_refused() {
    require(&[("flock", &["--version"])]);
    let lab = Lab::new(Variant::Nft);
    let (gateway, datapath, go_on) = (&lab.gateways[0], lab.datapath(0), Notify::new());
    let build = plan(&demo(0, VXLAN), &observed(&datapath).await);
    let late = Commands::new(Late { inner: gateway.runner(), go_on: &go_on });
    let successor = async {
        // The other one has begun and waits for the end of its input.
        let head = "for f in /proc/[0-9]*; do [[ $(readlink $f/ns/net) == \"$(readlink /proc/self/ns/net)\" ]] && cat $f/comm; done 2>/dev/null; true";
        let started = Instant::now();
        while !gateway.sh(head).lines().any(|name| name == "head") {
            assert!(started.elapsed() < Duration::from_secs(10), "it never began");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        datapath.apply(&Plan::default(), Some(2)).await.expect("accepted");
        let before = gateway.listing();
        go_on.notify_one();
        before
    };
    let (refused, before) = tokio::join!(late.apply(&build, Some(1)), successor);
    assert_eq!(refused, Err(Trouble::Superseded { by: 2 }));
    assert_eq!(gateway.listing(), before);
}

/// A folder whose `ip` marks the beginning and the end of each batch in a file, with a while in between; the rest is
/// found where it always is.
fn marking_ip() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let marks = dir.path().join("marks");
    let script = format!(
        "#!/bin/bash\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
         if [[ $1 != -force ]]; then exec ip \"$@\"; fi\n\
         echo begin >>{0}; ip \"$@\"; status=$?; sleep 0.3; echo end >>{0}; exit $status\n",
        marks.display()
    );
    std::fs::write(dir.path().join("ip"), script).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path().join("ip"), mode).expect("executable");
    dir
}

/// A change whose turn may be longer in coming than a script waits for it.
async fn in_its_turn(datapath: &impl Datapath, plan: &Plan) {
    for _ in 0..5 {
        match datapath.apply(plan, Some(1)).await {
            Err(Trouble::Busy) => {}
            done => return drop(done.expect("applied")),
        }
    }
    panic!("its turn never came");
}

#[tokio::test]
async fn two_changes_at_once_come_one_after_the_other() {
    require(&[("flock", &["--version"])]);
    let lab = Lab::new(Variant::Nft);
    let tools = marking_ip();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", tools.path().display());
    let slow = || Commands::new(Local { path: Some(path.clone().into()), ..lab.gateways[0].runner() });
    let have = observed(&lab.datapath(0)).await;
    let mut other = demo(0, VXLAN);
    add(&mut other, "far", 1, TunnelKind::Vxlan { vni: 201, port: 4789 });
    other.tunnels.remove(&"demo".parse().expect("name"));
    let (one, two) = (plan(&demo(0, VXLAN), &have), plan(&other, &have));
    let (first, second) = (slow(), slow());
    tokio::join!(in_its_turn(&first, &one), in_its_turn(&second, &two));
    let marks = std::fs::read_to_string(tools.path().join("marks")).expect("marked");
    let marks: Vec<&str> = marks.lines().collect();
    assert_eq!(marks, ["begin", "end"].repeat(4), "two batches of each, never at once");
    let have = observed(&lab.datapath(0)).await;
    assert!(have.links.contains_key("demo") && have.links.contains_key("far"));
}

#[tokio::test]
async fn a_change_that_hangs_stops_others_for_a_while_and_not_for_ever() {
    require(&[("flock", &["--version"])]);
    let netns = Netns::new();
    let datapath = Commands::new(netns.runner());
    let mut command = std::process::Command::new("nsenter");
    command.args(["-t", &netns.pid().to_string(), "-n", "flock", "/proc/self/ns/net", "cat"]);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    let started = Instant::now();
    while netns.try_sh("flock -n /proc/self/ns/net true").0 {
        assert!(started.elapsed() < Duration::from_secs(10), "it never held the lock");
    }
    let busy = datapath.apply(&Plan::default(), Some(1)).await;
    assert!(matches!(busy, Err(Trouble::Busy)), "{busy:?}");
    assert_eq!(alias(&netns), "");
    assert!(matches!(datapath.observe(None).await, Ok(Looked::Listed(_))), "looking needs no lock");
    drop(holder.stdin.take());
    holder.wait().expect("ended");
    datapath.apply(&Plan::default(), Some(1)).await.expect("accepted");
}

#[tokio::test]
async fn a_reader_that_stopped_reading_holds_nobody_up() {
    require(&[("flock", &["--version"])]);
    let lab = joined(Variant::Nft).await;
    let (go_on, runner) = (Notify::new(), lab.gateways[0].runner());
    let stuck = Commands::new(Deaf { inner: runner, go_on: &go_on });
    // More than a pipe holds.
    lab.gateways[0].sh(
        "for i in {0..9999}; do echo route add 9.$((i / 250)).$((i % 250)).0/24 dev eth0; done | ip -batch -",
    );
    let build = plan(&Want::default(), &observed(&lab.datapath(0)).await);
    let other = async {
        let started = Instant::now();
        // Its change is done, and it cannot print its answer.
        while observed(&lab.datapath(0)).await.links.contains_key("demo") {
            assert!(started.elapsed() < Duration::from_secs(20), "nothing was done");
        }
        let done = lab.datapath(0).apply(&Plan::default(), Some(2)).await;
        go_on.notify_one();
        done
    };
    let (applied, other) = tokio::join!(stuck.apply(&build, Some(1)), other);
    other.expect("not held up");
    assert!(applied.expect("applied").failures.is_empty());
}

#[tokio::test]
async fn a_tool_that_hangs_is_ended_and_the_next_change_goes_on() {
    require(&[("flock", &["--version"]), ("timeout", &["--version"])]);
    let lab = Lab::new(Variant::Nft);
    let dir = tempfile::tempdir().expect("a folder");
    let tool = dir.path().join("iptables-nft-restore");
    std::fs::write(&tool, "#!/bin/bash\nexec sleep 1000\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&tool, mode).expect("executable");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.path().display());
    let hanging = Commands::new(Local { path: Some(path.into()), ..lab.gateways[0].runner() });
    let build = plan(&demo(0, VXLAN), &observed(&lab.datapath(0)).await);
    let applied = hanging.apply(&build, Some(1)).await.expect("an answer");
    let failed: Vec<String> = applied.failures.keys().map(|at| build.steps[*at].action.to_string()).collect();
    assert_eq!(failed, ["SNAT rule for 242.1.0.0/16", "segment size rule"]);
    let (_, have) = lab.converge(0, &demo(0, VXLAN)).await;
    assert!(have.links.contains_key("demo"));
}

/// A runner that reads nothing of the answer until it may.
struct Deaf<'a> {
    inner: Local,
    go_on: &'a Notify,
}

#[async_trait::async_trait]
impl Run for Deaf<'_> {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        self.inner.run_in_pieces(argv, &[(stdin, None), (b"", Some(self.go_on))]).await
    }
}

#[tokio::test]
async fn a_listing_that_the_reader_has_is_not_sent_again() {
    let lab = joined(Variant::Legacy).await;
    let datapath = lab.datapath(0);
    let looked = datapath.observe(None).await.expect("observed");
    let Some(Listing { have, digest: Some(digest) }) = looked.listing() else { panic!("a listing") };
    assert_eq!(datapath.observe(Some(&digest)).await, Ok(Looked::Same));
    lab.gateways[0].sh("ip link set demo down");
    let changed = datapath.observe(Some(&digest)).await.expect("observed").listing().expect("another one");
    assert_ne!((&changed.have, changed.digest.as_ref()), (&have, Some(&digest)));
    // What a change lists is named in the same way.
    let applied = datapath.apply(&plan(&demo(0, VXLAN), &changed.have), None).await.expect("applied");
    assert_eq!((applied.listing.have, applied.listing.digest.as_ref()), (have, Some(&digest)));
}

#[tokio::test]
async fn an_answer_is_whole_whether_the_input_stays_open_or_ends_at_once() {
    let lab = joined(Variant::Nft).await;
    let open = lab.datapath(0);
    let closed = Commands::new(Closing(lab.gateways[0].runner()));
    assert_eq!(at_once(open.observe(None)).await, at_once(closed.observe(None)).await);
    let nothing = Plan::default();
    assert_eq!(at_once(open.apply(&nothing, None)).await, at_once(closed.apply(&nothing, None)).await);
}

/// A script that waited for a line that never comes would take five seconds and some.
async fn at_once<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), answer).await.expect("nobody waits for a line")
}

struct Closing(Local);

#[async_trait::async_trait]
impl Run for Closing {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        self.0.run_to_end_of_input(argv, stdin).await
    }
}

/// Counts what commands print.
struct Counting(Local, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Run for Counting {
    async fn run(&self, argv: &[&str], stdin: &[u8]) -> Result<Output, RunError> {
        let output = self.0.run(argv, stdin).await?;
        self.1.fetch_add(output.stdout.len(), Ordering::Relaxed);
        Ok(output)
    }
}

#[tokio::test]
async fn a_listing_is_some_three_hundred_bytes_per_tunnel() {
    require(&[]);
    for variant in BOTH {
        let lab = Lab::new(variant);
        let mut want = demo(0, VXLAN);
        (0..100).for_each(|n| {
            let kind = TunnelKind::Vxlan { vni: 200 + u32::from(n), port: 4789 };
            add(&mut want, &format!("tunnel{n}"), n, kind);
        });
        lab.converge(0, &want).await;
        let printed = Arc::new(AtomicUsize::new(0));
        observed(&Commands::new(Counting(lab.gateways[0].runner(), printed.clone()))).await;
        let each = printed.load(Ordering::Relaxed) / want.tunnels.len();
        assert!((100..400).contains(&each), "{each} bytes per tunnel");
    }
}
