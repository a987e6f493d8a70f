//! The released Java SDK as a data plane, on the port that it is documented with: `make sdk`.
#![cfg(feature = "sandbox")]

#[path = "rules_wire/site.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod site;

use std::process::Stdio;
use std::time::{Duration, Instant};

use causeway_core::rules::Kind;
use site::{Site, project};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// The SDK ends its stream after this, whatever a server does.
const DEADLINE: Duration = Duration::from_secs(10);
/// For the virtual machine to start and to compile the program.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a JDK and the Java SDK: make sdk"]
async fn the_java_sdk_gets_a_rule_and_a_change_within_its_ten_seconds() {
    let jars = project().join(".cache/sdk/java");
    assert!(jars.exists(), "there is no {}: `hack/setup.sh sdk` fetches it", jars.display());
    let site = Site::set_up().await;
    let _replica = site.replica("a", ([127, 0, 0, 1], 10246).into()).await;
    site.limit("ten", 10).await;

    let mut command = Command::new("java");
    command.arg("-cp").arg(jars.join("*")).arg(project().join("hack/sdk/Watch.java"));
    command.args(["127.0.0.1", "10246", "default", "foo"]).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("java starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
    let mut says = async |wanted: &str, within: Duration| loop {
        let line = timeout(within, lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("it says nothing; awaited: {wanted}"));
        let line = line.expect("its output").unwrap_or_else(|| panic!("it ended; awaited: {wanted}"));
        eprintln!("the Java SDK's {line}");
        if line.ends_with(wanted) {
            return line;
        }
    };
    says(" ten=10", PATIENCE).await;
    let start = Instant::now();
    site.set_threshold("ten", 20).await;
    let change = says(" ten=20", DEADLINE).await;
    eprintln!("the change was there after {:.0?}", start.elapsed());
    assert!(change.starts_with("handler:"), "its handler is called with the change: {change}");
    site.says(Kind::RateLimitStrategy, "ten", [1, 0, 0]).await;
    assert!(start.elapsed() < DEADLINE, "its answer was counted while it was there");
    drop(child.stdin.take());
    assert!(timeout(PATIENCE, child.wait()).await.expect("it ends").expect("its end").success());
    site.says(Kind::RateLimitStrategy, "ten", [0, 0, 0]).await;
}
