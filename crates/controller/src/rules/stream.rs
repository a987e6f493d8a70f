//! One data plane's stream: what it asks for, what it is sent, what it answers.
//!
//! The stream itself owns all of that, and is read and written by a task of its own: when the client takes nothing,
//! nothing is read from it either, so it can make nobody keep anything.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use causeway_core::rules::state::Target;
use causeway_core::rules::subscription::{
    Answer, OUTDATED, Push, Resent, Unanswered, Verdict, Versions, verdict,
};
use causeway_core::rules::wire::transport::v1::{SubscribeOpType, SubscribeRequest, SubscribeRequestTarget};
use causeway_core::rules::{Failure, Kind};
use futures::{Stream, StreamExt};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::{Status, Streaming};

use super::Rules;
use super::cell::{Cell, Current, LastAnswer, Said, shortened};
use super::mailbox::{Farewell, Mailbox};
use super::message::{ANSWER, About, LARGEST, PUSH, Response, Shared};

/// A request that makes no sense.
const INVALID: i32 = 4002;
/// A kind that there is not.
const NO_SUCH_KIND: i32 = 4003;
/// More than a stream may ask for.
const TOO_MANY: i32 = 4004;
/// A set that is larger than what clients take.
const TOO_LARGE: i32 = 4005;
/// How much a stream may ask for.
const MOST_SUBSCRIPTIONS: usize = 8192;
/// How many kinds a request may name; there are six.
const MOST_KINDS: usize = 64;
/// How long namespace, app and labels may be together, in bytes.
const LONGEST_TARGET: usize = 4096;
/// The same for all that a stream asks for.
const LONGEST_TARGETS: usize = 1024 * 1024;
/// Requests that are read in one turn.
const TURN: usize = 32;
/// How soon something else is tried for a client that still holds a newer version.
const NEXT_LIFT: Duration = Duration::from_secs(1);

/// A stream.
pub(super) struct Subscriber {
    room: Arc<Rules>,
    mailbox: Arc<Mailbox>,
    requests: Streaming<SubscribeRequest>,
    /// Most streams have one, and a map has room for eleven from the first.
    subscriptions: BTreeMap<u64, Box<Subscription>>,
    /// By kind, namespace and app, which is all that a client can tell them apart by.
    names: BTreeMap<(Kind, Arc<str>, Arc<str>), u64>,
    /// How long all that it asks for is, in bytes.
    length: usize,
    refusals: VecDeque<Response>,
    unanswered: Unanswered,
    last: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

struct Subscription {
    cell: Arc<Cell>,
    /// An answer is owed, also if nothing changed.
    owed: bool,
    sent: Option<Arc<Shared>>,
    versions: Versions,
    outdated: Option<Outdated>,
}

impl Subscription {
    fn was_sent(&self, shared: &Arc<Shared>) -> bool {
        self.sent.as_ref().is_some_and(|sent| Arc::ptr_eq(sent, shared))
    }
}

/// The client holds a newer version.
#[derive(Clone, Copy)]
struct Outdated {
    /// When something is done about it.
    due: Instant,
    /// How often the kind had been listed when that was noticed.
    lists: u64,
}

impl Subscriber {
    pub(super) fn new(
        room: Arc<Rules>,
        mailbox: Arc<Mailbox>,
        requests: Streaming<SubscribeRequest>,
    ) -> Self {
        Self {
            room,
            mailbox,
            requests,
            subscriptions: BTreeMap::new(),
            names: BTreeMap::new(),
            length: 0,
            refusals: VecDeque::new(),
            unanswered: Unanswered::default(),
            last: 0,
            timer: None,
        }
    }

    pub(super) fn take(&mut self, request: &SubscribeRequest) {
        match request.response_ack.as_str() {
            "" => self.take_request(request),
            "ACK" => self.take_answer(request, true),
            "NACK" => self.take_answer(request, false),
            _ => self.refuse_invalid(request),
        }
    }

    fn take_request(&mut self, request: &SubscribeRequest) {
        self.mailbox.call(&request.identifier);
        let target = request.target.as_ref();
        let target = target.filter(|target| makes_sense(target));
        let (Some(target), Ok(op)) = (target, SubscribeOpType::try_from(request.op_type)) else {
            return self.refuse_invalid(request);
        };
        let (namespace, app): (Arc<str>, Arc<str>) =
            (target.namespace.as_str().into(), target.app.as_str().into());
        let labels: BTreeMap<String, String> =
            target.labels.iter().map(|label| (label.key.clone(), label.value.clone())).collect();
        let labels = Arc::new(labels);
        for name in &target.kinds {
            let about = About { namespace: &namespace, app: &app, kind: name };
            match (name.parse::<Kind>(), op) {
                (Err(unknown), _) => self.refuse(NO_SUCH_KIND, &unknown.to_string(), &about),
                (Ok(kind), SubscribeOpType::Unsubscribe) => {
                    self.unsubscribe(&(kind, namespace.clone(), app.clone()));
                }
                (Ok(kind), SubscribeOpType::Subscribe) => {
                    let (namespace, app, labels) = (namespace.clone(), app.clone(), labels.clone());
                    self.subscribe(Target { kind, namespace, app, labels });
                }
            }
        }
    }

    fn subscribe(&mut self, target: Target) {
        let name = (target.kind, target.namespace.clone(), target.app.clone());
        if let Some(number) = self.names.get(&name).copied()
            && let Some(subscription) = self.subscriptions.get_mut(&number)
            && subscription.cell.target == target
        {
            subscription.owed = true;
            self.mailbox.add(number);
            return;
        }
        // To the client it is the same: versions go on from where they are.
        let versions = self.unsubscribe(&name).unwrap_or_default();
        if self.subscriptions.len() >= MOST_SUBSCRIPTIONS {
            let why = format!("one stream has at most {MOST_SUBSCRIPTIONS} subscriptions");
            return self.refuse(TOO_MANY, &why, &about(&target));
        }
        if self.length + length(&target) > LONGEST_TARGETS {
            let why = format!(
                "one stream's subscriptions have at most {LONGEST_TARGETS} bytes of names and labels"
            );
            return self.refuse(TOO_MANY, &why, &about(&target));
        }
        self.length += length(&target);
        self.last += 1;
        let number = self.last;
        let cell = self.room.join(&target, &self.mailbox, number);
        // The cell's texts are everybody's; those of the request are let go.
        let Target { kind, namespace, app, .. } = &cell.target;
        self.names.insert((*kind, namespace.clone(), app.clone()), number);
        let (owed, sent, outdated) = (true, None, None);
        let subscription = Subscription { cell, owed, sent, versions, outdated };
        self.subscriptions.insert(number, Box::new(subscription));
    }

    fn unsubscribe(&mut self, name: &(Kind, Arc<str>, Arc<str>)) -> Option<Versions> {
        let number = self.names.remove(name)?;
        let subscription = self.subscriptions.remove(&number)?;
        self.length -= length(&subscription.cell.target);
        self.unanswered.forget(number);
        self.room.leave(&subscription.cell, self.mailbox.stream, number);
        Some(subscription.versions)
    }

    fn take_answer(&mut self, request: &SubscribeRequest, is_ack: bool) {
        // Ids are `stream-number`; what is not ours ties the answer to nothing.
        let number = match request.request_id.as_str() {
            "" => None,
            id => match id.rsplit_once('-').map(|(stream, number)| (stream.parse::<u64>(), number.parse())) {
                Some((Ok(stream), Ok(number))) if self.mailbox.stream == stream => Some(number),
                _ => return,
            },
        };
        let Some(push) = self.unanswered.answered(number) else { return };
        let Some(subscription) = self.subscriptions.get_mut(&push.subscription) else { return };
        // Only the newest counts: whoever answers an older one will answer that as well.
        if subscription.versions.last() != Some(push.version) {
            return;
        }
        let status = request.status.as_ref().map(|status| (status.code, status.message.as_str()));
        let verdict = verdict(is_ack, status);
        let now = self.room.house.clock.now();
        let last = LastAnswer { version: push.version, at: now, said: Said::from(&verdict) };
        let (stream, cell) = (self.mailbox.stream, subscription.cell.clone());
        let (answer, failure) = match verdict {
            Verdict::Applied => (Answer::Acked, None),
            Verdict::Outdated => {
                cell.noted(stream, push.subscription, last);
                let lists = self.room.lists(cell.target.kind);
                let again = subscription.versions.was_raised();
                let due = Instant::now() + if again { NEXT_LIFT } else { self.room.options.outdated_for };
                subscription.outdated.get_or_insert(Outdated { due, lists });
                self.wake_at(due);
                return;
            }
            Verdict::Failed { code, message } => {
                let (client, message) = (self.mailbox.client(), shortened(&message));
                (Answer::Failed, Some(Failure { client, code, message, at: now.as_second() }))
            }
        };
        subscription.outdated = None;
        self.room.metrics.count_answer(answer);
        if cell.answered(stream, push.subscription, answer, failure, last) {
            self.room.tally(&cell.target);
        }
    }

    fn refuse_invalid(&mut self, request: &SubscribeRequest) {
        let own = self.next_id();
        let id = if request.request_id.is_empty() { &own } else { &request.request_id };
        let refusal =
            Response::refusal(INVALID, "Request is invalid", &About::default(), self.room.name(), id);
        self.refusals.push_back(refusal);
    }

    fn refuse(&mut self, code: i32, message: &str, about: &About<'_>) {
        let id = self.next_id();
        self.refusals.push_back(Response::refusal(code, message, about, self.room.name(), &id));
    }

    /// An id for what needs no answer.
    fn next_id(&mut self) -> String {
        self.last += 1;
        format!("{}-r{}", self.mailbox.stream, self.last)
    }

    /// The next that there is to send.
    pub(super) fn next_response(&mut self) -> Option<Response> {
        loop {
            if let Some(refusal) = self.refusals.pop_front() {
                return Some(refusal);
            }
            let number = self.mailbox.take()?;
            let Some(subscription) = self.subscriptions.get_mut(&number) else { continue };
            match subscription.cell.current() {
                Current::Unknown => {
                    if let Some(size) = subscription.cell.oversize().filter(|_| subscription.owed) {
                        subscription.owed = false;
                        let cell = subscription.cell.clone();
                        let why = format!("the set has {size} bytes, more than data planes take ({LARGEST})");
                        self.refuse(TOO_LARGE, &why, &about(&cell.target));
                    }
                }
                // What is known stays for whoever has it.
                current
                    if is_new(subscription, &current)
                        && self.room.is_missing(subscription.cell.target.kind) =>
                {
                    subscription.owed = false;
                    let cell = subscription.cell.clone();
                    let why = format!("the definition of {} is not installed", cell.target.kind.full_name());
                    self.refuse(NO_SUCH_KIND, &why, &about(&cell.target));
                }
                Current::Missing => {}
                Current::Set(shared) => {
                    let again = subscription.was_sent(&shared);
                    if again && !subscription.owed {
                        continue;
                    }
                    let version = subscription.versions.of(shared.version(), again);
                    return Some(self.send(number, shared, version));
                }
            }
        }
    }

    fn send(&mut self, number: u64, shared: Arc<Shared>, version: i64) -> Response {
        let push = self.unanswered.sent(Push { subscription: number, version });
        let id = format!("{}-{push}", self.mailbox.stream);
        let mut code = PUSH;
        if let Some(subscription) = self.subscriptions.get_mut(&number) {
            if std::mem::take(&mut subscription.owed) {
                code = ANSWER;
            }
            subscription.cell.sent(self.mailbox.stream, number, &shared, version);
            subscription.versions.sent(version);
            subscription.sent = Some(shared.clone());
        }
        self.room.metrics.count_push();
        shared.response(code, version, self.room.name(), &id)
    }

    fn wake_at(&mut self, due: Instant) {
        if self.timer.as_ref().is_none_or(|timer| timer.deadline() > due) {
            self.timer = Some(Box::pin(sleep_until(due)));
        }
    }

    /// Sends again to clients that hold a newer version than this replica's, once a list was made after they said so.
    fn raise(&mut self) {
        let now = Instant::now();
        for (number, subscription) in &mut self.subscriptions {
            let Some(outdated) = subscription.outdated.filter(|outdated| outdated.due <= now) else {
                continue;
            };
            let kind = subscription.cell.target.kind;
            if !subscription.versions.was_raised() && self.room.lists(kind) == outdated.lists {
                self.room.list_anew(kind);
                subscription.outdated = Some(Outdated { due: now + NEXT_LIFT, ..outdated });
                continue;
            }
            subscription.outdated = None;
            let listed = self.room.version(&subscription.cell.target).unwrap_or_default();
            match subscription.versions.raise(listed) {
                Resent::AsListed => {}
                Resent::Lifted(lift) => {
                    let client = self.mailbox.client();
                    tracing::warn!(client, %kind, lift, "it holds a newer version than the API server has: sending above that");
                }
                Resent::GivenUp => {
                    let (client, now) = (self.mailbox.client(), self.room.house.clock.now());
                    tracing::warn!(client, %kind, "it holds a newer version than any");
                    let message = "it says that it holds a newer version than any that can be sent".into();
                    let failure = Failure { client, code: OUTDATED, message, at: now.as_second() };
                    let version = subscription.versions.last().unwrap_or_default();
                    let last = LastAnswer { version, at: now, said: Said::Outdated };
                    let cell = &subscription.cell;
                    if cell.answered(self.mailbox.stream, *number, Answer::Failed, Some(failure), last) {
                        self.room.tally(&cell.target);
                    }
                    continue;
                }
            }
            subscription.owed = true;
            self.mailbox.add(*number);
        }
        self.timer = None;
        let due = self.subscriptions.values().filter_map(|it| it.outdated.map(|outdated| outdated.due)).min();
        if let Some(due) = due {
            self.wake_at(due);
        }
    }
}

/// Whether somebody waits for a first answer.
fn is_new(subscription: &Subscription, current: &Current) -> bool {
    matches!(current, Current::Missing) || subscription.owed && subscription.sent.is_none()
}

fn about(target: &Target) -> About<'_> {
    About { namespace: &target.namespace, app: &target.app, kind: target.kind.full_name() }
}

/// How long namespace, app and labels are together, in bytes.
fn length(target: &Target) -> usize {
    let labels = target.labels.iter().map(|(key, value)| key.len() + value.len());
    target.namespace.len() + target.app.len() + labels.sum::<usize>()
}

/// Whether a request says whose rules of which kinds, in few enough words to be kept and repeated.
fn makes_sense(target: &SubscribeRequestTarget) -> bool {
    let labels = target.labels.iter().map(|label| label.key.len() + label.value.len());
    let length = target.namespace.len() + target.app.len() + labels.sum::<usize>();
    let is_complete = !target.namespace.is_empty() && !target.app.is_empty() && !target.kinds.is_empty();
    is_complete && target.kinds.len() <= MOST_KINDS && length <= LONGEST_TARGET
}

impl Stream for Subscriber {
    type Item = Result<Response, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.mailbox.register(context);
        if let Some(farewell) = this.mailbox.farewell() {
            return Poll::Ready(Some(Err(match farewell {
                Farewell::Stopping => Status::unavailable("this replica is stopping; another one serves"),
                Farewell::Silent => Status::deadline_exceeded("nothing was asked for in time"),
            })));
        }
        for _ in 0..TURN {
            if let Some(timer) = &mut this.timer
                && timer.as_mut().poll(context).is_ready()
            {
                this.raise();
                continue;
            }
            if let Some(response) = this.next_response() {
                return Poll::Ready(Some(Ok(response)));
            }
            match this.requests.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(request))) => this.take(&request),
                // It has gone, or said something that is no request: its own stream ends, and no other.
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Some(Err(status))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        for (number, subscription) in &self.subscriptions {
            self.room.leave(&subscription.cell, self.mailbox.stream, *number);
        }
        self.room.hub.close(self.mailbox.stream);
    }
}
