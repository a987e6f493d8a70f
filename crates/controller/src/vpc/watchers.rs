//! Gateways that listen whether others of their VPC are alive: one long-lived command in each that could take over.
//!
//! A node that dies in silence shows in its pods only after the better part of a minute. Whoever would take over hears it within
//! a second, and says only what changes, so no heartbeat loads the API server. What it says counts while it is so placed that
//! it would hear (`watch.sh` in the datapath decides that); that its own stream ends says nothing of others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use causeway_core::GatewayName;
use causeway_core::vpc::compile::{self, WatchTask};
use causeway_core::vpc::{Event, Scope};
use causeway_datapath::vpc::{Watch, Watched, Word};
use futures::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::task::AbortOnDropHandle;

use super::Vpc;
use super::way::Conversation;
use crate::election::Term;
use crate::queue::Next;

/// Longer than any that it prints.
const LONGEST_LINE: usize = 1024;
/// It says every 5 s that it listens: one that has not for so long is begun anew.
const QUIET: Duration = Duration::from_secs(11);
/// One that ended is begun again no sooner than this after its start.
const SHORTEST_LIFE: Duration = Duration::from_secs(1);
/// And one that never said that it listens, than this.
const NEVER_BEGAN: Duration = Duration::from_secs(60);

/// Those that listen. Dropping one ends its command.
#[derive(Default)]
pub(super) struct Watchers(Mutex<BTreeMap<GatewayName, Watcher>>);

struct Watcher {
    task: WatchTask,
    life: AbortOnDropHandle<()>,
}

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GatewayName, Watcher>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listens(&self, gateway: &GatewayName, task: &WatchTask) -> bool {
        fn asked(task: &WatchTask) -> impl PartialEq + use<'_> {
            (&task.pod, task.router, &task.others)
        }
        self.lock().get(gateway).is_some_and(|it| asked(&it.task) == asked(task) && !it.life.is_finished())
    }

    /// Ends all of them.
    pub(super) fn close(&self) {
        self.lock().clear();
    }
}

impl Vpc {
    /// Has a gateway listen to those it should.
    pub(super) async fn watch_others(self: &Arc<Self>, gateway: &GatewayName, term: &Term) -> Next {
        let task = compile::watch(&self.desk.state(), gateway);
        let Some(task) = task.filter(|_| term.is_held()) else {
            self.watchers.lock().remove(gateway);
            return Next::Done;
        };
        if self.watchers.listens(gateway, &task) {
            return Next::Done;
        }
        let opened = self.way.watch(&task.pod).await;
        self.metrics.count_exec("watch", &opened);
        let conversation = match opened {
            Ok(conversation) => conversation,
            Err(error) => {
                tracing::info!(%gateway, pod = %task.pod.key, "cannot listen to other gateways there: {error}");
                return Next::Retry;
            }
        };
        let (room, listener, others) = (Arc::downgrade(self), gateway.clone(), task.clone());
        let life = AbortOnDropHandle::new(tokio::spawn(async move {
            let start = Instant::now();
            let listened = listen(&room, &listener, &others, conversation).await;
            if let Some(room) = room.upgrade() {
                room.desk.tell(Event::Listening(listener.clone(), false));
            }
            let pause = if listened {
                SHORTEST_LIFE
            } else {
                tracing::warn!(gateway = %listener, pod = %others.pod.key, "it cannot listen to other gateways (has its image iputils' ping?): one that dies in silence is missed only by Kubernetes");
                NEVER_BEGAN
            };
            tokio::time::sleep_until(start + pause).await;
            if let Some(room) = room.upgrade() {
                room.desk.add(Scope::Watch(listener));
            }
        }));
        self.watchers.lock().insert(gateway.clone(), Watcher { task, life });
        Next::Done
    }
}

/// Takes in what a gateway says of others until it ends or falls silent; whether it ever listened.
async fn listen(room: &Weak<Vpc>, by: &GatewayName, task: &WatchTask, conversation: Conversation) -> bool {
    // The command ends when its input does: hold it.
    let Conversation { mut input, output, life: _life } = conversation;
    let numbered: Vec<(&GatewayName, Watched)> = task
        .others
        .iter()
        .enumerate()
        .map(|(number, (name, (lan, outside)))| {
            let lost = task.lost.contains(name);
            (name, Watched { number, lan: *lan, outside: *outside, router: task.router, lost })
        })
        .collect();
    let watched: Vec<Watched> = numbered.iter().map(|(_, watched)| *watched).collect();
    let mut listened = false;
    if input.write_all(&Watch::input(&watched)).await.is_err() {
        return listened;
    }
    let mut lines = FramedRead::new(output, LinesCodec::new_with_max_length(LONGEST_LINE));
    while let Ok(Some(Ok(line))) = timeout(QUIET, lines.next()).await {
        let (number, silent) = match Word::of(&line) {
            Some(Word::Lost(number)) => (number, true),
            Some(Word::Back(number)) => (number, false),
            Some(Word::Listening) => {
                if let Some(room) = room.upgrade().filter(|_| !listened) {
                    room.desk.tell(Event::Listening(by.clone(), true));
                }
                listened = true;
                continue;
            }
            None => continue,
        };
        let (Some((of, _)), Some(room)) = (numbered.get(number), room.upgrade()) else { continue };
        match silent {
            true => tracing::warn!(gateway = %of, %by, "a gateway fell silent"),
            false => tracing::info!(gateway = %of, %by, "a gateway is heard again"),
        }
        let (of, by) = ((*of).clone(), by.clone());
        room.desk.tell(Event::Silence { of, by, silent });
    }
    listened
}
