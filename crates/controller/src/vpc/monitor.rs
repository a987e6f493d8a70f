//! One long-lived `ip monitor` per gateway: any line it prints means "observe again".
//!
//! It is opened before the first observation, so that nothing changes unseen in between. It prints a heartbeat
//! every few seconds; when it falls silent or ends, the gateway is visited again, which opens it anew. Each line
//! is counted the moment it arrives: an observation made while the count stood still is still true while it does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use causeway_core::GatewayName;
use causeway_core::vpc::Scope;
use causeway_core::vpc::objects::PodRef;
use causeway_datapath::RunError;
use causeway_datapath::vpc::{HEARTBEAT, MONITOR};
use kube::api::AttachedProcess;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::Vpc;
use super::exec::PodExec;

/// Changes come in bursts: an observation follows the first of them by this much.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The monitor prints a heartbeat every 5 s; three in a row must not be missing.
const SILENCE: Duration = Duration::from_secs(15);
/// One that ended is opened again no sooner than this after its start.
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// The open monitors. Dropping one ends its command in the gateway.
#[derive(Default)]
pub(super) struct Monitors(Mutex<BTreeMap<GatewayName, Monitor>>);

struct Monitor {
    pod_uid: String,
    task: AbortOnDropHandle<()>,
    lines: Arc<AtomicU64>,
}

impl Monitors {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GatewayName, Monitor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many lines the monitor of a pod has printed, while it runs.
    pub(super) fn lines(&self, gateway: &GatewayName, pod: &PodRef) -> Option<u64> {
        let monitors = self.lock();
        let monitor = monitors.get(gateway).filter(|m| m.pod_uid == pod.uid && !m.task.is_finished())?;
        Some(monitor.lines.load(Ordering::Acquire))
    }

    fn set(&self, gateway: &GatewayName, monitor: Option<Monitor>) {
        match monitor {
            Some(monitor) => drop(self.lock().insert(gateway.clone(), monitor)),
            None => drop(self.lock().remove(gateway)),
        }
    }

    /// Ends all of them.
    pub(super) fn close(&self) {
        self.lock().clear();
    }
}

/// Has the gateway visited again when the monitor's task ends for whatever reason, a panic included; not when
/// the monitor is closed on purpose, or when it never began: that is a failure of the visit that opened it.
struct Ending {
    room: Weak<Vpc>,
    gateway: GatewayName,
    began: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(room) = self.room.upgrade().filter(|_| self.began) {
            tracing::debug!(gateway = %self.gateway, "the monitor ended");
            room.desk.add(Scope::Gateway(self.gateway.clone()));
        }
    }
}

impl Vpc {
    /// Makes sure that changes on a gateway are heard of from now on.
    pub(super) async fn listen_to(
        self: &Arc<Self>,
        gateway: &GatewayName,
        pod: &PodRef,
    ) -> Result<(), RunError> {
        if self.monitors.lines(gateway, pod).is_some() {
            return Ok(());
        }
        let limit = self.options.exec_timeout;
        let opened = PodExec::new(self, pod).start(MONITOR, false).await;
        self.metrics.count_exec("monitor", &opened);
        let (alive, mut is_alive) = watch::channel(false);
        let (process, lines) = (opened?, Arc::new(AtomicU64::new(0)));
        let mut ending = Ending { room: Arc::downgrade(self), gateway: gateway.clone(), began: false };
        let counter = lines.clone();
        let task = tokio::spawn(async move {
            let start = Instant::now();
            follow(process, &alive, &counter, &mut ending).await;
            if ending.began {
                tokio::time::sleep_until(start + SHORTEST_LIFE).await;
            }
        });
        let task = AbortOnDropHandle::new(task);
        self.monitors.set(gateway, Some(Monitor { pod_uid: pod.uid.clone(), task, lines }));
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
        self.looks.forget(gateway);
    }
}

/// Reads lines until the monitor ends or falls silent; a burst of them becomes one visit.
async fn follow(
    mut process: AttachedProcess,
    alive: &watch::Sender<bool>,
    counter: &AtomicU64,
    ending: &mut Ending,
) {
    // The command ends when its stdin does: hold it.
    let _stdin = process.stdin();
    let Some(stdout) = process.stdout() else { return };
    let mut lines = BufReader::new(stdout).lines();
    let mut due: Option<Instant> = None;
    loop {
        let silence = Instant::now() + SILENCE;
        match timeout_at(due.unwrap_or(silence), lines.next_line()).await {
            Ok(Ok(Some(line))) if line == HEARTBEAT => {
                ending.began = true;
                alive.send_replace(true);
            }
            // Until it is alive nobody has observed yet.
            Ok(Ok(Some(_))) if ending.began => {
                counter.fetch_add(1, Ordering::AcqRel);
                due = due.or(Some(Instant::now() + DEBOUNCE));
            }
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None) | Err(_)) => return,
            Err(_) if due.take().is_some() => {
                let Some(room) = ending.room.upgrade() else { return };
                room.desk.add(Scope::Gateway(ending.gateway.clone()));
            }
            Err(_) => return,
        }
    }
}
