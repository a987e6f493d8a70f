//! One long-lived `ip monitor` per gateway: a change that it reports means "observe again".
//!
//! On a new gateway it is opened a moment after what the gateway lacks was put there, and first confirms what was
//! observed then; so nothing changes unseen in between. Each line is counted the moment it arrives: an observation made
//! while the count stood still is still true while it does. What no monitor reports, as of iptables, the digest of a
//! listing shows, which is made every drift interval and comes when it is another one, now and then, and when it is asked
//! for ([`Vpc::held`]); that is also the sign that the monitor is alive. When it falls silent or ends, the gateway is
//! visited again, which opens it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use causeway_core::vpc::objects::PodRef;
use causeway_core::vpc::{Answer, Event, Probed, Scope};
use causeway_core::{GatewayName, LinkName};
use causeway_datapath::RunError;
use causeway_datapath::vpc::{Digest, Heard, Monitor as Script, Traffic};
use futures::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::task::AbortOnDropHandle;

use super::Vpc;
use super::changes::Changes;
use super::way::Conversation;

/// Changes come in bursts: an observation follows the first of them by this much.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// Longer than any that `ip` prints.
const LONGEST_LINE: usize = 64 * 1024;
/// A heartbeat comes after four intervals at the latest: so many must not pass without one.
const MISSED: u32 = 6;
/// And no sooner than this after the one before: a routing daemon may change something all the time.
const FLOOR: Duration = Duration::from_millis(250);
/// One that ended is opened again no sooner than this after its start.
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// Whoever asks the tunnels' peers says something every 10 s at least, in a round of a thousand silent ones some seconds
/// apart. One that falls silent is begun anew.
const QUIET: Duration = Duration::from_secs(25);
/// And of one that has said nothing at all since its beginning, nothing is known.
const UNHEARD: Duration = Duration::from_secs(40);
/// Answers come under the number that was announced by now, or it is announced again: a question and its time-out take a second.
const HEEDED: Duration = Duration::from_secs(5);

/// The open monitors. Dropping one ends its command in the gateway.
#[derive(Default)]
pub(super) struct Monitors {
    open: Mutex<BTreeMap<GatewayName, Monitor>>,
    changes: Mutex<Changes>,
}

struct Monitor {
    pod_uid: String,
    task: AbortOnDropHandle<()>,
    lines: Arc<AtomicU64>,
    questions: mpsc::Sender<Question>,
    changed: watch::Sender<Announcement>,
    closed: Arc<AtomicBool>,
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// What is said of changes to whoever asks the tunnels' peers.
#[derive(Default)]
struct Announcement {
    /// The number of the last one.
    number: u64,
    /// Which links changed with which, not long ago.
    links: Vec<(u64, LinkName)>,
}

impl Announcement {
    /// More at a time are not named.
    const LINKS: usize = 100;

    fn add<'a>(&mut self, number: u64, links: impl IntoIterator<Item = &'a LinkName>) {
        self.number = number;
        self.links.extend(links.into_iter().map(|link| (number, link.clone())));
        let before = self.links.len().saturating_sub(Self::LINKS);
        self.links.drain(..before);
    }

    /// What is new to somebody who has heard of everything up to a number.
    fn news_since(&self, number: u64) -> Option<(u64, String)> {
        (self.number != number).then(|| (self.number, self.since(number)))
    }

    /// What is to be said to somebody who has heard of everything up to a number.
    fn since(&self, number: u64) -> String {
        let links: BTreeSet<&str> =
            self.links.iter().filter(|(at, _)| *at > number).map(|(_, link)| link.as_str()).collect();
        Script::announce(self.number, links)
    }
}

/// Is answered with the digest of what the gateway holds, if it can make one.
type Question = oneshot::Sender<Option<Digest>>;

impl Monitors {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GatewayName, Monitor>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a gateway's last change.
    pub(super) fn change(&self, gateway: &GatewayName) -> u64 {
        self.changes().now(gateway)
    }

    /// A gateway is about to be changed: only what its tunnels' peers answer under a new number counts, whatever becomes of
    /// the change.
    pub(super) fn begin<'a>(&self, gateway: &GatewayName, links: impl IntoIterator<Item = &'a LinkName>) {
        let number = self.changes().next(gateway);
        if let Some(monitor) = self.lock().get(gateway) {
            monitor.changed.send_if_modified(|said| {
                said.add(number, links);
                false
            });
        }
    }

    /// Says that a gateway was changed, if it was: its tunnels' peers are asked soon. Whoever takes the answers in knows of the
    /// change by then.
    pub(super) fn announce(&self, gateway: &GatewayName) {
        let number = self.change(gateway);
        if let Some(monitor) = self.lock().get(gateway) {
            monitor.changed.send_modify(|said| said.number = number);
        }
    }

    /// How many lines the monitor of a pod has printed, while it runs.
    pub(super) fn lines(&self, gateway: &GatewayName, pod: &PodRef) -> Option<u64> {
        let monitors = self.lock();
        // One that has ended may not be gone yet.
        let runs = |monitor: &&Monitor| !monitor.questions.is_closed() && !monitor.task.is_finished();
        let monitor = monitors.get(gateway).filter(|monitor| monitor.pod_uid == pod.uid).filter(runs)?;
        Some(monitor.lines.load(Ordering::Acquire))
    }

    /// Whether a pod has a monitor, which may have ended.
    pub(super) fn is_opened(&self, gateway: &GatewayName, pod: &PodRef) -> bool {
        self.lock().get(gateway).is_some_and(|monitor| monitor.pod_uid == pod.uid)
    }

    fn questions(&self, gateway: &GatewayName, pod: &PodRef) -> Option<mpsc::Sender<Question>> {
        let monitors = self.lock();
        Some(monitors.get(gateway).filter(|monitor| monitor.pod_uid == pod.uid)?.questions.clone())
    }

    fn set(&self, gateway: &GatewayName, monitor: Option<Monitor>) {
        match monitor {
            Some(monitor) => drop(self.lock().insert(gateway.clone(), monitor)),
            None => drop(self.lock().remove(gateway)),
        }
    }

    /// Ends that of a gateway that is gone.
    fn forget(&self, gateway: &GatewayName) {
        self.set(gateway, None);
        self.changes().forget(gateway);
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
    closed: Arc<AtomicBool>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(room) = self.room.upgrade().filter(|_| self.began && !self.closed.load(Ordering::Acquire))
        {
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
        let opened = self.way.monitor(pod).await;
        self.metrics.count_exec("monitor", &opened);
        let (alive, mut is_alive) = watch::channel(false);
        let (questions, asked) = mpsc::channel(1);
        let number = self.monitors.change(gateway);
        let (changed, announced) = watch::channel(Announcement { number, ..Announcement::default() });
        let (conversation, lines, closed) =
            (opened?, Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        // Nobody has listened since the last one ended.
        self.looks.outdate(gateway);
        let mut session = Session {
            ending: Ending {
                room: Arc::downgrade(self),
                gateway: gateway.clone(),
                began: false,
                closed: closed.clone(),
            },
            pod_uid: pod.uid.clone(),
            interval: self.options.drift_interval,
            pace: self.options.probe_interval,
            announced,
            alive,
            lines: lines.clone(),
        };
        let task = tokio::spawn(async move {
            let start = Instant::now();
            session.follow(conversation, asked).await;
            if session.ending.began {
                tokio::time::sleep_until(start + SHORTEST_LIFE).await;
            }
        });
        let task = AbortOnDropHandle::new(task);
        self.monitors.set(
            gateway,
            Some(Monitor { pod_uid: pod.uid.clone(), task, lines, questions, changed, closed }),
        );
        // One that came between the two.
        self.monitors.announce(gateway);
        match timeout(limit, is_alive.wait_for(|alive| *alive)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(RunError::Lost("the monitor ended before it began".into())),
            Err(_) => {
                self.monitors.set(gateway, None);
                Err(RunError::TimedOut(limit))
            }
        }
    }

    /// Asks the monitor what the gateway holds: the digest of a listing made now. None where there is none to be had.
    pub(super) async fn held(&self, gateway: &GatewayName, pod: &PodRef) -> Result<Option<Digest>, RunError> {
        let limit = self.options.exec_timeout;
        let Some(questions) = self.monitors.questions(gateway, pod) else { return Ok(None) };
        let answer = async {
            let (question, answer) = oneshot::channel();
            questions.send(question).await.ok()?;
            answer.await.ok()?
        };
        timeout(limit, answer).await.map_err(|_| {
            self.monitors.set(gateway, None);
            RunError::TimedOut(limit)
        })
    }

    /// Stops listening to a gateway that is gone.
    pub(super) fn forget(&self, gateway: &GatewayName) {
        self.monitors.forget(gateway);
        self.looks.forget(gateway);
        self.metrics.forget_gateway(gateway);
    }
}

/// A monitor's end of the conversation.
struct Session {
    ending: Ending,
    pod_uid: String,
    interval: Duration,
    pace: Duration,
    announced: watch::Receiver<Announcement>,
    alive: watch::Sender<bool>,
    lines: Arc<AtomicU64>,
}

impl Session {
    /// Reads lines until the monitor ends or falls silent; a burst of them becomes one visit.
    async fn follow(&mut self, conversation: Conversation, mut asked: mpsc::Receiver<Question>) {
        // The command ends when its input does: hold it.
        let Conversation { input: mut stdin, output: stdout, life: _life } = conversation;
        let mut change = self.announced.borrow_and_update().number;
        if stdin.write_all(&Script::input(self.interval, change, self.pace)).await.is_err() {
            return;
        }
        let mut lines = FramedRead::new(stdout, LinesCodec::new_with_max_length(LONGEST_LINE));
        let mut question: (u64, Option<Question>) = (0, None);
        let mut due: Option<Instant> = None;
        let mut earliest = Instant::now();
        let mut silence = Instant::now() + MISSED * self.interval;
        let (mut unheard, mut spoke) = (Instant::now() + UNHEARD, false);
        let mut told = Instant::now();
        loop {
            let line = tokio::select! {
                // What we have to say comes first: there is little of it, however much the gateway says.
                biased;
                Ok(()) = self.announced.changed() => {
                    let said = self.announced.borrow_and_update().news_since(change);
                    let Some((number, said)) = said else { continue };
                    (change, told) = (number, Instant::now());
                    if stdin.write_all(said.as_bytes()).await.is_err() {
                        return;
                    }
                    continue;
                }
                Some(next) = asked.recv() => {
                    question = (question.0 + 1, Some(next));
                    if stdin.write_all(Script::ask(question.0).as_bytes()).await.is_err() {
                        return;
                    }
                    continue;
                }
                line = timeout_at(due.unwrap_or(silence.min(unheard)), lines.next()) => line,
            };
            let heard = match line {
                Ok(Some(Ok(line))) => Heard::of(&line),
                Ok(None | Some(Err(_))) => return,
                Err(_) if due.take().is_some() => {
                    earliest = Instant::now() + FLOOR;
                    self.visit();
                    continue;
                }
                // Whoever asks is gone or hangs: it begins anew with the monitor.
                Err(_) => {
                    if unheard < silence && !spoke {
                        self.tell(Event::Unheard);
                    }
                    return;
                }
            };
            if !matches!(heard, Heard::Probed { .. }) {
                silence = Instant::now() + MISSED * self.interval;
            }
            match heard {
                Heard::Listening => {
                    self.ending.began = true;
                    self.alive.send_replace(true);
                }
                Heard::Held { digest, asked: Some(number) } if number == question.0 => {
                    // Whoever asked may have gone.
                    question.1.take().map(|question| question.send(digest));
                }
                Heard::Held { digest, .. } => self.compare(digest),
                Heard::Probed { change: known, answers } => {
                    (unheard, spoke) = (Instant::now() + QUIET, true);
                    self.take(known, answers);
                    // What was said has not arrived, or not as it was said.
                    if known != change && told.elapsed() > HEEDED {
                        told = Instant::now();
                        let said = self.announced.borrow().since(known);
                        if stdin.write_all(said.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                }
                // What comes before it listens is in the digest that it is asked for next.
                Heard::Change if self.ending.began => {
                    self.lines.fetch_add(1, Ordering::AcqRel);
                    due = due.or_else(|| Some(earliest.max(Instant::now() + DEBOUNCE)));
                }
                Heard::Change => {}
            }
        }
    }

    /// What the gateway holds, unasked.
    fn compare(&self, digest: Option<Digest>) {
        let (Some(digest), Some(room)) = (digest, self.ending.room.upgrade()) else { return };
        let (gateway, lines) = (&self.ending.gateway, self.lines.load(Ordering::Acquire));
        if !room.looks.confirm(gateway, &self.pod_uid, lines, &digest) {
            self.visit();
        }
    }

    /// What the peers of some tunnels answered.
    fn take(&self, asked: u64, answers: Vec<(Answer, Traffic)>) {
        let Some(room) = self.ending.room.upgrade() else { return };
        room.metrics.count_traffic(&self.ending.gateway, &answers);
        let answers = answers.into_iter().map(|(answer, _)| answer).collect();
        self.tell(|gateway, pod_uid| Event::Probed(gateway, Probed { pod_uid, asked, answers }));
    }

    fn tell(&self, event: impl FnOnce(GatewayName, String) -> Event) {
        if let Some(room) = self.ending.room.upgrade() {
            room.desk.tell(event(self.ending.gateway.clone(), self.pod_uid.clone()));
        }
    }

    fn visit(&self) {
        if let Some(room) = self.ending.room.upgrade() {
            room.desk.add(Scope::Gateway(self.ending.gateway.clone()));
        }
    }
}
