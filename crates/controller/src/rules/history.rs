//! Random histories of rules, of who asks for them and of what is delivered when: in the end everybody has what there is,
//! and it is counted right.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Buf;
use causeway_core::ObjectKey;
use causeway_core::room::Change;
use causeway_core::rules::rule::{LimitMode, RateLimit};
use causeway_core::rules::state::{Event, Target};
use causeway_core::rules::wire::transport::v1::{
    Status, SubscribeLabelKv, SubscribeOpType, SubscribeRequest, SubscribeRequestTarget, SubscribeResponse,
};
use causeway_core::rules::{Kind, Rule, RuleObject, RuleStatus};
use futures::future::AbortHandle;
use proptest::prelude::*;
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tonic::codec::BufferSettings;
use tonic_prost::ProstDecoder;

use super::mailbox::Connection;
use super::message::Pieces;
use super::stream::Subscriber;
use super::{Options, Rules};
use crate::clock::Clock;
use crate::election::Times;
use crate::events::Announcer;
use crate::health::Readiness;
use crate::metrics::Metrics;
use crate::room::House;

const KIND: Kind = Kind::RateLimitStrategy;
const RULES: [&str; 3] = ["one", "two", "three"];
/// All of them, an app, another, and the first with a label.
const TARGETS: [(&str, Option<&str>); 4] = [("*", None), ("a", None), ("b", None), ("a", Some("x"))];
const CLIENTS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    /// A rule is made or edited.
    Put {
        rule: usize,
        app: &'static str,
        label: &'static str,
        threshold: i64,
    },
    Delete {
        rule: usize,
    },
    /// Everything is listed: also what was not heard of.
    List,
    /// The definition is gone.
    Missing,
    /// The sets are brought up to date.
    Refresh,
    Subscribe {
        client: usize,
        target: usize,
    },
    Unsubscribe {
        client: usize,
        target: usize,
    },
    /// A client is sent what waits for it, so many times.
    Deliver {
        client: usize,
        count: usize,
    },
    /// It answers all that it got.
    Answer {
        client: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (rule, client, target) = (0..RULES.len(), 0..CLIENTS, 0..TARGETS.len());
    let put =
        (rule.clone(), prop::sample::select(vec!["a", "b"]), prop::sample::select(vec!["x", "y"]), 0..2i64);
    let put = put.prop_map(|(rule, app, label, threshold)| Step::Put { rule, app, label, threshold });
    let step = prop_oneof![
        5 => put,
        2 => rule.prop_map(|rule| Step::Delete { rule }),
        1 => Just(Step::List),
        1 => Just(Step::Missing),
        4 => Just(Step::Refresh),
        3 => (client.clone(), target.clone()).prop_map(|(client, target)| Step::Subscribe { client, target }),
        1 => (client.clone(), target).prop_map(|(client, target)| Step::Unsubscribe { client, target }),
        4 => (client.clone(), 1..3usize).prop_map(|(client, count)| Step::Deliver { client, count }),
        3 => client.prop_map(|client| Step::Answer { client }),
    ];
    prop::collection::vec(step, 1..40)
}

/// A room without a cluster.
fn room() -> Arc<Rules> {
    let nobody = tower::service_fn(async |_: http::Request<kube::client::Body>| {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("there is no cluster"))
    });
    let house = House {
        client: kube::Client::new(nobody, "default"),
        identity: "test".into(),
        lease_namespace: None,
        lease_times: Times::default(),
        clock: Clock::System,
        seed: 1,
        metrics: Arc::new(Metrics::default()),
        readiness: Readiness::default(),
        announcer: Announcer::new().0,
        stop: CancellationToken::new(),
    };
    let second = Duration::from_secs(1);
    let options = Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        tls: None,
        window: second,
        stuck_after: second,
        asks_within: second,
        drain: second,
        most_streams: CLIENTS,
        outdated_for: second,
        on_demand: None,
        name: "test".into(),
        clients: None,
    };
    Rules::new(options, &house)
}

/// A data plane, as far as it asks, gets and answers.
struct Client {
    subscriber: Subscriber,
    refuses: bool,
    /// What it asks for: an app, maybe with a label.
    asked: BTreeMap<&'static str, Option<&'static str>>,
    /// What it has, by app.
    held: BTreeMap<String, (i64, Vec<u8>)>,
    unanswered: Vec<String>,
}

impl Client {
    fn new(room: &Arc<Rules>, refuses: bool) -> Self {
        let connection = Connection { over: AbortHandle::new_pair().0, streams: 0.into() };
        let (now, end) = (room.house.clock.now(), AbortHandle::new_pair().0);
        let mailbox = room.hub.open(None, now, end, Arc::new(connection));
        let decoder = ProstDecoder::<SubscribeRequest>::new(BufferSettings::default());
        let requests = Streaming::new_empty(decoder, tonic::body::Body::empty());
        let subscriber = Subscriber::new(room.clone(), mailbox, requests);
        let (asked, held) = (BTreeMap::new(), BTreeMap::new());
        Self { subscriber, refuses, asked, held, unanswered: Vec::new() }
    }

    fn ask(&mut self, (app, label): (&'static str, Option<&'static str>), op: SubscribeOpType) {
        match op {
            SubscribeOpType::Subscribe => drop(self.asked.insert(app, label)),
            SubscribeOpType::Unsubscribe => {
                self.asked.remove(app);
                self.held.remove(app);
            }
        }
        let label = |value: &str| SubscribeLabelKv { key: "label".into(), value: value.into() };
        let target = SubscribeRequestTarget {
            namespace: "default".into(),
            app: app.into(),
            kinds: vec![KIND.full_name().into()],
            labels: self.asked.get(app).copied().flatten().map(label).into_iter().collect(),
        };
        let (target, op_type) = (Some(target), op.into());
        self.subscriber.take(&SubscribeRequest { target, op_type, ..SubscribeRequest::default() });
    }

    /// Gets the next that waits for it; whether there was anything.
    fn get(&mut self) -> bool {
        let Some(response) = self.subscriber.next_response() else { return false };
        let mut bytes = Pieces::from(response);
        bytes.advance(5);
        let response = SubscribeResponse::decode(bytes).expect("a response");
        if let Some(data) = response.data_with_version {
            let rules = data.data.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
            if let Some((version, held)) = self.held.get(&response.app) {
                assert!(data.version >= *version, "an older one after a newer one");
                assert!(data.version > *version || *held == rules, "two sets of one version");
            }
            self.held.insert(response.app, (data.version, rules));
            self.unanswered.push(response.response_id);
        }
        true
    }

    fn answer(&mut self) {
        let (ack, code) = if self.refuses { ("NACK", 4000) } else { ("ACK", 1) };
        for request_id in self.unanswered.drain(..) {
            let status = Some(Status { code, ..Status::default() });
            let response_ack = ack.into();
            self.subscriber.take(&SubscribeRequest {
                request_id,
                response_ack,
                status,
                ..SubscribeRequest::default()
            });
        }
    }
}

struct World {
    room: Arc<Rules>,
    clients: Vec<Client>,
    rules: BTreeMap<ObjectKey, RuleObject>,
    version: i64,
    /// Whether changes are heard of.
    followed: bool,
}

fn key(rule: usize) -> ObjectKey {
    ObjectKey::new("default", RULES[rule]).expect("a key")
}

impl World {
    fn new() -> Self {
        let room = room();
        let clients = (0..CLIENTS).map(|at| Client::new(&room, at == 0)).collect();
        Self { room, clients, rules: BTreeMap::new(), version: 1, followed: false }
    }

    fn tell(&mut self, change: Change<ObjectKey, RuleObject>) {
        self.version += 1;
        if self.followed {
            self.room.desk.tell(Event::Rules { kind: KIND, change, version: self.version });
        }
    }

    fn refresh(&self) {
        self.room.hub.of_kind(KIND).iter().for_each(|cell| self.room.refresh(cell));
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::Put { rule, app, label, threshold } => {
                let key = key(rule);
                let before = self.rules.get(&key);
                let limit = RateLimit { limit_mode: LimitMode::Local, threshold, stat_duration_seconds: 1 };
                let labels = [("app", app), ("label", label)].map(|(key, value)| (key.into(), value.into()));
                let object = RuleObject {
                    key: key.clone(),
                    uid: before
                        .map_or_else(|| format!("since {}", self.version), |before| before.uid.clone()),
                    resource_version: (self.version + 1).to_string(),
                    generation: before.map_or(1, |before| before.generation + 1),
                    labels: Arc::new(BTreeMap::from(labels)),
                    rule: Ok(Rule::RateLimit(limit)),
                    status: RuleStatus::default(),
                };
                self.rules.insert(key.clone(), object.clone());
                self.tell(Change::Put(key, object));
            }
            Step::Delete { rule } => {
                if self.rules.remove(&key(rule)).is_some() {
                    self.tell(Change::Gone(key(rule)));
                }
            }
            Step::List => {
                self.followed = true;
                self.tell(Change::Reset(self.rules.clone()));
            }
            Step::Missing => {
                self.followed = false;
                self.room.desk.tell(Event::Missing(KIND));
            }
            Step::Refresh => self.refresh(),
            Step::Subscribe { client, target } => {
                self.clients[client].ask(TARGETS[target], SubscribeOpType::Subscribe);
            }
            Step::Unsubscribe { client, target } => {
                self.clients[client].ask(TARGETS[target], SubscribeOpType::Unsubscribe);
            }
            Step::Deliver { client, mut count } => {
                let client = &mut self.clients[client];
                while count > 0 && client.get() {
                    count -= 1;
                }
            }
            Step::Answer { client } => self.clients[client].answer(),
        }
    }

    /// What is said of a rule: how many run it, refused it and have not answered.
    fn counted(&self, object: &RuleObject) -> [u32; 3] {
        let is_current = |target: &Target, version| self.room.desk.state().is_current(target, version);
        let app = object.app().expect("an app").into();
        let share = self.room.hub.share(KIND, &object.key, &app, is_current);
        [share.acked, share.failed, share.pending]
    }

    /// Nobody is counted twice, whenever it is.
    fn check(&self) {
        for object in self.rules.values() {
            let asks = |client: &&Client| {
                client.asked.contains_key("*") || client.asked.contains_key(object.app().expect("an app"))
            };
            let most = self.clients.iter().filter(asks).count();
            let counted = self.counted(object);
            assert!(
                counted.iter().sum::<u32>() <= u32::try_from(most).expect("few"),
                "{counted:?} of {most}"
            );
        }
    }

    /// Everything comes to rest.
    fn settle(&mut self) {
        if !self.followed {
            self.carry_out(Step::List);
        }
        self.refresh();
        for client in &mut self.clients {
            while client.get() {}
            client.answer();
        }
    }

    fn check_settled(&self) {
        let mut wanted: BTreeMap<&ObjectKey, [BTreeSet<usize>; 2]> = BTreeMap::new();
        for (at, client) in self.clients.iter().enumerate() {
            for (app, label) in &client.asked {
                let labels = label.map(|label| ("label".to_owned(), label.to_owned()));
                let fits = |object: &&RuleObject| {
                    (*app == "*" || object.app() == Some(app))
                        && labels.iter().all(|(key, value)| object.labels.get(key) == Some(value))
                };
                let objects: Vec<&RuleObject> = self.rules.values().filter(fits).collect();
                let target = Target {
                    kind: KIND,
                    namespace: "default".into(),
                    app: (*app).into(),
                    labels: Arc::new(labels.clone().into_iter().collect()),
                };
                let set = self.room.desk.state().set(&target).expect("it was listed");
                assert!(set.rules.iter().eq(objects.iter().map(|object| &object.key)));
                let entries = SubscribeResponse::decode(&*with_data(&set.data)).expect("entries");
                let entries = entries.data_with_version.unwrap_or_default().data;
                let entries: Vec<u8> =
                    entries.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
                let held = client.held.get(*app).map(|(_, held)| held);
                assert_eq!(held, Some(&entries), "client {at} has what there is of {app}");
                for object in objects {
                    wanted.entry(&object.key).or_default()[usize::from(client.refuses)].insert(at);
                }
            }
        }
        for (key, object) in &self.rules {
            let [acked, failed] =
                wanted.remove(key).unwrap_or_default().map(|it| u32::try_from(it.len()).expect("few"));
            assert_eq!(self.counted(object), [acked, failed, 0], "of {key}");
        }
    }
}

/// A response that brings these rules and nothing else.
fn with_data(data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_key(6, prost::encoding::WireType::LengthDelimited, &mut bytes);
    prost::encoding::encode_varint(data.len() as u64, &mut bytes);
    bytes.extend_from_slice(data);
    bytes
}

proptest! {
    #[test]
    fn in_the_end_everybody_has_what_there_is_and_is_counted_once(steps in steps()) {
        static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
        let _inside = RUNTIME.get_or_init(|| tokio::runtime::Runtime::new().expect("a runtime")).enter();
        let mut world = World::new();
        for step in steps {
            world.carry_out(step);
            world.check();
        }
        world.settle();
        world.check_settled();
    }
}
