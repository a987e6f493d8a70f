//! A data plane: asks for rules as the SDKs do, answers what it is sent, and comes back when its stream ends.
//!
//! Like an SDK it keeps the version of what it holds across connections, and drops what is older.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use causeway_core::rules::Kind;
use causeway_core::rules::subscription::{OUTDATED, SUCCESS};
use causeway_core::rules::wire::transport::v1::{
    Status, SubscribeLabelKv, SubscribeRequest, SubscribeRequestTarget, SubscribeResponse,
};
use futures::channel::mpsc;
use hyper_util::rt::TokioIo;
use tokio::time::sleep;
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Streaming};
use tonic_prost::ProstCodec;

use super::decode::{Message, decode};
use super::reach::{Io, Reach, heeding};

const METHOD: &str = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/SubscribeConfig";
/// The code of a client that cannot make sense of what it was sent.
const UNKNOWN: i32 = 4000;
/// A connection that is silent is asked whether it lives, and has as long to answer.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Pauses between tries to connect.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) namespace: String,
    pub(crate) app: String,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) labels: Vec<(String, String)>,
    /// What the client calls itself.
    pub(crate) identifier: String,
}

impl Wanted {
    fn request(&self) -> SubscribeRequest {
        let label =
            |(key, value): &(String, String)| SubscribeLabelKv { key: key.clone(), value: value.clone() };
        let target = SubscribeRequestTarget {
            namespace: self.namespace.clone(),
            app: self.app.clone(),
            labels: self.labels.iter().map(label).collect(),
            kinds: self.kinds.iter().map(|kind| kind.full_name().to_owned()).collect(),
        };
        SubscribeRequest {
            target: Some(target),
            identifier: self.identifier.clone(),
            request_id: "1".into(),
            ..SubscribeRequest::default()
        }
    }
}

/// What came, and what was made of it.
pub(crate) struct Arrival {
    pub(crate) response: SubscribeResponse,
    pub(crate) taken: Taken,
}

/// What was made of a response.
pub(crate) enum Taken {
    /// The rules that count from now on.
    Rules(Vec<Message>),
    /// A version lower than the one that is held.
    Outdated(i64),
    /// Something that is no rule.
    Undecodable(String),
    /// It brings no rules: the request, or a kind, was refused.
    Refusal,
}

impl Arrival {
    pub(crate) fn version(&self) -> i64 {
        self.response.data_with_version.as_ref().map_or(0, |data| data.version)
    }

    /// Code and words of the response.
    pub(crate) fn status(&self) -> (i32, &str) {
        self.response.status.as_ref().map_or((0, ""), |status| (status.code, &status.message))
    }
}

/// A data plane.
pub(crate) struct Plane {
    reach: Reach,
    wanted: Wanted,
    held: BTreeMap<String, i64>,
    stream: Option<Stream>,
    pause: Duration,
}

struct Stream {
    requests: mpsc::UnboundedSender<SubscribeRequest>,
    responses: Streaming<SubscribeResponse>,
}

impl Plane {
    pub(crate) fn new(reach: Reach, wanted: Wanted) -> Self {
        Self { reach, wanted, held: BTreeMap::new(), stream: None, pause: SHORTEST }
    }

    /// Connects and asks.
    pub(crate) async fn connect(&mut self) -> anyhow::Result<()> {
        let (io, last_word) = self.reach.any().await?.split();
        self.stream = Some(heeding(open(io, self.wanted.request()), last_word).await?);
        Ok(())
    }

    /// Connects, as often as it takes; `note` is told why not.
    pub(crate) async fn reconnect(&mut self, note: impl Fn(&anyhow::Error)) {
        loop {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST);
            match self.connect().await {
                Ok(()) => return,
                Err(error) => note(&error),
            }
        }
    }

    /// The next that comes, answered; an error when the stream has ended.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Arrival> {
        let stream = self.stream.as_mut().context("it is not connected")?;
        let response = match stream.responses.message().await {
            Ok(Some(response)) => response,
            ended => {
                self.stream = None;
                return Err(ended
                    .err()
                    .map_or_else(|| anyhow::anyhow!("the stream ended"), |it| in_words(&it)));
            }
        };
        self.pause = SHORTEST;
        let taken = taken(&response, self.held.get(&response.kind).copied());
        let version = response.data_with_version.as_ref().map_or(0, |data| data.version);
        match &taken {
            Taken::Rules(_) => {
                self.held.insert(response.kind.clone(), version);
                stream.answer(&response, "ACK", SUCCESS, "");
            }
            Taken::Outdated(held) => {
                stream.answer(&response, "ACK", OUTDATED, &format!("version {held} is held"));
            }
            Taken::Undecodable(why) => stream.answer(&response, "NACK", UNKNOWN, why),
            Taken::Refusal => {}
        }
        Ok(Arrival { response, taken })
    }
}

impl Stream {
    fn answer(&self, to: &SubscribeResponse, ack: &str, code: i32, message: &str) {
        // A stream that ended says so when it is read.
        let _ = self.requests.unbounded_send(SubscribeRequest {
            response_ack: ack.into(),
            status: Some(Status { code, message: message.into(), details: Vec::new() }),
            request_id: to.response_id.clone(),
            ..SubscribeRequest::default()
        });
    }
}

fn taken(response: &SubscribeResponse, held: Option<i64>) -> Taken {
    let data = response.data_with_version.as_ref().filter(|_| response.ack.is_empty());
    let Some(data) = data else { return Taken::Refusal };
    if let Some(held) = held.filter(|held| data.version < *held) {
        return Taken::Outdated(held);
    }
    match data.data.iter().map(decode).collect() {
        Ok(rules) => Taken::Rules(rules),
        Err(why) => Taken::Undecodable(why.to_string()),
    }
}

/// Asks on a connection.
async fn open(io: Box<dyn Io>, request: SubscribeRequest) -> anyhow::Result<Stream> {
    let mut grpc = Grpc::new(channel(io).await?);
    grpc.ready().await?;
    let (requests, outgoing) = mpsc::unbounded();
    let _ = requests.unbounded_send(request);
    let codec = ProstCodec::<SubscribeRequest, SubscribeResponse>::default();
    let opened = grpc.streaming(Request::new(outgoing), PathAndQuery::from_static(METHOD), codec).await;
    let responses = opened.map_err(|status| in_words(&status))?.into_inner();
    Ok(Stream { requests, responses })
}

/// One connection; it does not come back by itself.
async fn channel(io: Box<dyn Io>) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_static("http://rules")
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .keep_alive_while_idle(true);
    let mut io = Some(TokioIo::new(io));
    let connector = tower::service_fn(move |_: Uri| {
        let io = io.take().ok_or("the connection is over");
        async move { io }
    });
    endpoint.connect_with_connector(connector).await
}

fn in_words(status: &tonic::Status) -> anyhow::Error {
    match (status.code(), status.message()) {
        (Code::Unimplemented, words) => anyhow::anyhow!("no rules are served there: {words}"),
        (code, "") => anyhow::anyhow!("{code}"),
        (_, words) => anyhow::anyhow!("{words}"),
    }
}
