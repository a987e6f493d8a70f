//! One long-lived `ip monitor` per gateway: any line it prints means "look again".
//!
//! It is opened before the first observation, so that nothing changes unseen in between. It speaks every
//! few seconds; when it falls silent or ends, the gateway is looked at again, which opens it anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_core::GatewayName;
use causeway_core::vpc::Scope;
use causeway_core::vpc::objects::PodRef;
use causeway_datapath::RunError;
use causeway_datapath::vpc::{HEARTBEAT, MONITOR};
use kube::api::AttachedProcess;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::Room;
use super::exec::PodExec;
use crate::metrics;

/// Changes come in bursts: an observation follows the last of them, or the first by this much.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The monitor speaks every 5 s; three in a row must not be missing.
const SILENCE: Duration = Duration::from_secs(15);
/// One that ended is opened again no sooner than this after its start.
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// The open monitors. Dropping one ends its command in the gateway.
#[derive(Default)]
pub(super) struct Monitors(Mutex<BTreeMap<GatewayName, Monitor>>);

struct Monitor {
    pod_uid: String,
    task: AbortOnDropHandle<()>,
}

impl Monitors {
    fn is_open(&self, gateway: &GatewayName, pod: &PodRef) -> bool {
        let monitors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        monitors.get(gateway).is_some_and(|m| m.pod_uid == pod.uid && !m.task.is_finished())
    }

    fn set(&self, gateway: &GatewayName, monitor: Option<Monitor>) {
        let mut monitors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match monitor {
            Some(monitor) => drop(monitors.insert(gateway.clone(), monitor)),
            None => drop(monitors.remove(gateway)),
        }
    }
}

impl Room {
    /// Makes sure that changes on a gateway are heard of from now on.
    pub(super) async fn listen_to(
        self: &Arc<Self>,
        gateway: &GatewayName,
        pod: &PodRef,
    ) -> Result<(), RunError> {
        if self.monitors.is_open(gateway, pod) {
            return Ok(());
        }
        let limit = self.options.exec_timeout;
        let opened = PodExec::new(&self.client, pod, limit).start(MONITOR, false).await;
        let result = if opened.is_ok() { metrics::Result::Success } else { metrics::Result::Failure };
        self.metrics.execs.get_or_create(&metrics::Exec { command: "monitor", result }).inc();
        let (alive, mut is_alive) = watch::channel(false);
        let room = Arc::downgrade(self);
        let (name, process) = (gateway.clone(), opened?);
        let start = Instant::now();
        let task = tokio::spawn(async move {
            let changed = || {
                if let Some(room) = room.upgrade() {
                    room.add(Scope::Gateway(name.clone()));
                }
            };
            follow(process, &alive, changed).await;
            tracing::debug!(gateway = %name, "the monitor ended");
            // One that never began is a failure of the visit that opened it, which comes again by itself.
            if *alive.borrow() {
                sleep_until(start + SHORTEST_LIFE).await;
                changed();
            }
        });
        self.monitors
            .set(gateway, Some(Monitor { pod_uid: pod.uid.clone(), task: AbortOnDropHandle::new(task) }));
        match timeout(limit, is_alive.wait_for(|alive| *alive)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(RunError::Lost("the monitor ended before it began".into())),
            Err(_) => {
                self.monitors.set(gateway, None);
                Err(RunError::TimedOut(limit))
            }
        }
    }

    /// Stops listening to a gateway that is gone.
    pub(super) fn forget(&self, gateway: &GatewayName) {
        self.monitors.set(gateway, None);
    }
}

/// Reads lines until the monitor ends or falls silent; bursts of them become one call of `changed`.
async fn follow(mut process: AttachedProcess, alive: &watch::Sender<bool>, changed: impl Fn()) {
    // The command ends when its stdin does: hold it.
    let _stdin = process.stdin();
    let Some(stdout) = process.stdout() else { return };
    let mut lines = BufReader::new(stdout).lines();
    let mut due: Option<Instant> = None;
    loop {
        let silence = Instant::now() + SILENCE;
        match timeout_at(due.unwrap_or(silence), lines.next_line()).await {
            Ok(Ok(Some(line))) if line == HEARTBEAT => drop(alive.send_replace(true)),
            // Until it is alive nobody has looked yet.
            Ok(Ok(Some(_))) if *alive.borrow() => due = due.or(Some(Instant::now() + DEBOUNCE)),
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None) | Err(_)) => return,
            Err(_) if due.take().is_some() => changed(),
            Err(_) => return,
        }
    }
}
