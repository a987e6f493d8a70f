//! A data plane, as an SDK would be one.

use std::net::SocketAddr;
use std::time::Duration;

use causeway_core::rules::Kind;
use causeway_core::rules::wire::transport::v1::{
    Status, SubscribeLabelKv, SubscribeOpType, SubscribeRequest, SubscribeRequestTarget, SubscribeResponse,
};
use futures::StreamExt;
use futures::channel::mpsc;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

/// The simplest kind.
pub(crate) const LIMIT: Kind = Kind::RateLimitStrategy;
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const METHOD: &str = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/SubscribeConfig";

/// One stream on a connection of its own.
pub(crate) struct Plane {
    pub(crate) requests: mpsc::UnboundedSender<SubscribeRequest>,
    pub(crate) responses: Streaming<SubscribeResponse>,
}

pub(crate) fn target(kind: Kind, namespace: &str, app: &str) -> SubscribeRequestTarget {
    SubscribeRequestTarget {
        namespace: namespace.into(),
        app: app.into(),
        kinds: vec![kind.full_name().into()],
        ..SubscribeRequestTarget::default()
    }
}

impl Plane {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let channel = endpoint.connect().await.expect("it listens");
        Self::on(channel).await.expect("a stream")
    }

    pub(crate) async fn on(channel: tonic::transport::Channel) -> Result<Self, tonic::Status> {
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.expect("a connection");
        let (requests, outgoing) = mpsc::unbounded();
        // Each request in a frame of its own, as other clients send them: this one joins what it has at once.
        let outgoing = outgoing.then(async |request| {
            tokio::task::yield_now().await;
            request
        });
        let codec = ProstCodec::<SubscribeRequest, SubscribeResponse>::default();
        let response =
            grpc.streaming(Request::new(outgoing), PathAndQuery::from_static(METHOD), codec).await?;
        Ok(Self { requests, responses: response.into_inner() })
    }

    /// A stream that has asked for one kind of one app.
    pub(crate) async fn subscribed(address: SocketAddr, kind: Kind, app: &str) -> Self {
        let plane = Self::connect(address).await;
        plane.subscribe(target(kind, "default", app));
        plane
    }

    pub(crate) fn send(&self, request: SubscribeRequest) {
        self.requests.unbounded_send(request).expect("the stream is open");
    }

    pub(crate) fn subscribe(&self, target: SubscribeRequestTarget) {
        self.send(SubscribeRequest { target: Some(target), ..SubscribeRequest::default() });
    }

    pub(crate) fn subscribe_labelled(&self, target: SubscribeRequestTarget, labels: &[(&str, &str)]) {
        let label =
            |(key, value): &(&str, &str)| SubscribeLabelKv { key: (*key).into(), value: (*value).into() };
        self.subscribe(SubscribeRequestTarget { labels: labels.iter().map(label).collect(), ..target });
    }

    pub(crate) fn unsubscribe(&self, target: SubscribeRequestTarget) {
        let op_type = SubscribeOpType::Unsubscribe.into();
        self.send(SubscribeRequest { target: Some(target), op_type, ..SubscribeRequest::default() });
    }

    /// The next response.
    pub(crate) async fn next(&mut self) -> SubscribeResponse {
        let next = timeout(PATIENCE, self.responses.next()).await.expect("a response in time");
        next.expect("the stream goes on").expect("no error")
    }

    /// That nothing comes for a while.
    pub(crate) async fn is_silent(&mut self, wait: Duration) {
        if let Ok(response) = timeout(wait, self.responses.next()).await {
            panic!("it was sent {response:?}");
        }
    }

    /// Whether anything comes before the stream ends.
    pub(crate) async fn is_answered(&mut self) -> bool {
        let next = timeout(PATIENCE, self.responses.next()).await.expect("an answer or an end in time");
        matches!(next, Some(Ok(_)))
    }

    /// How the stream ends.
    pub(crate) async fn end(&mut self) -> Option<tonic::Status> {
        loop {
            match timeout(PATIENCE, self.responses.next()).await.expect("an end in time") {
                None => return None,
                Some(Err(status)) => return Some(status),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Answers a response.
    pub(crate) fn answer(&self, to: &SubscribeResponse, ack: &str, code: i32, message: &str) {
        self.send(SubscribeRequest {
            response_ack: ack.into(),
            status: Some(Status { code, message: message.into(), details: Vec::new() }),
            request_id: to.response_id.clone(),
            ..SubscribeRequest::default()
        });
    }

    pub(crate) fn ack(&self, to: &SubscribeResponse) {
        self.answer(to, "ACK", 1, "");
    }

    /// Takes responses, with an ACK each, until one has so many rules.
    pub(crate) async fn until_rules(&mut self, count: usize) -> SubscribeResponse {
        loop {
            let response = self.next().await;
            self.ack(&response);
            if rules(&response) == count {
                return response;
            }
        }
    }
}

/// How many rules a response brings.
pub(crate) fn rules(response: &SubscribeResponse) -> usize {
    response.data_with_version.as_ref().map_or(0, |data| data.data.len())
}

/// The version of what a response brings.
pub(crate) fn version(response: &SubscribeResponse) -> i64 {
    response.data_with_version.as_ref().map_or(0, |data| data.version)
}

/// Code, ack and text of a response.
pub(crate) fn said(response: &SubscribeResponse) -> (i32, &str, &str) {
    let status = response.status.as_ref().expect("every response has a status");
    (status.code, &response.ack, &status.message)
}
