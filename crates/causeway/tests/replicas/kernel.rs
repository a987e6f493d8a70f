//! What the kernel of a gateway says has changed there, in its order.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::task::AbortOnDropHandle;

use super::support::{Cluster, PATIENCE};

/// Changes of links and addresses, a line each.
pub(crate) struct Changes {
    lines: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Changes {
    /// From now on.
    pub(crate) async fn of(cluster: &Cluster, gateway: &str) -> Changes {
        let pod = format!("vpc-nat-gw-{gateway}-0");
        let argv = ["ip", "-o", "-ts", "monitor", "link", "address"];
        let mut process = cluster.start("kube-system", &pod, &argv).await;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = lines.clone();
        let task = tokio::spawn(async move {
            let _stdin = process.stdin();
            let mut stdout = BufReader::new(process.stdout().expect("stdout")).lines();
            while let Ok(Some(line)) = stdout.next_line().await {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let changes = Changes { lines, _task: AbortOnDropHandle::new(task) };
        cluster
            .until("a change that the test makes is seen", PATIENCE, async || {
                cluster
                    .in_gateway(gateway, "ip link set lo txqueuelen 999; ip link set lo txqueuelen 1000")
                    .await
                    .ok();
                if changes.lines().is_empty() { Err("nothing".to_owned()) } else { Ok(()) }
            })
            .await;
        changes
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
