//! The wire between a controller and an API server: the real client on one side, the real server on the other, and between
//! them all that can go wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::json;
use tower::{BoxError, Service, ServiceExt};

use causeway_apiserver::AsOf;

use crate::asked::Asked;
use crate::bugs;
use crate::replica::Who;
use crate::site::{LEASES, Reach, whole};
use crate::watchdog;
use crate::weather::Fault;
use crate::world::{Place, World};

type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// See the module.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) world: Arc<World>,
    pub(crate) who: Arc<Who>,
    pub(crate) place: Place,
}

impl Service<Request<kube::client::Body>> for Wire {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Answer>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let wire = self.clone();
        Box::pin(async move { wire.carry(request).await })
    }
}

fn full(bytes: impl Into<Bytes>) -> Answer {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The words of a server that refuses.
fn refusal(code: u16, reason: &str) -> serde_json::Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault", "reason": reason, "code": code,
    })
}

impl Wire {
    async fn carry(self, request: Request<kube::client::Body>) -> Result<Response<Answer>, BoxError> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let asked = Asked::of(&head, &body);
        self.arrive(&asked).await?;
        if let Some(refused) = self.refuse(&asked) {
            return Ok(refused);
        }
        if let Some(past) = self.past(&asked) {
            head.extensions.insert(past);
        }
        let body = bugs::tampered(self.world.bug, &asked, body);
        let before = asked.is_write().then(|| self.object(&asked)).flatten();
        let site = self.world.site(self.place);
        let request = Request::from_parts(head, Body::from(body.clone()));
        let response = site.router().oneshot(request).await?;
        let code = response.status().as_u16();
        let Asked { method, path, .. } = &asked;
        self.world.note(format!("{} {} {method} {path} {code}", self.who.name, self.place));
        if asked.watches && code < 400 {
            return Ok(response.map(|body| self.watched(&asked, body)));
        }
        let (parts, answer) = response.into_parts();
        let answer = bugs::shown(self.world.bug, &asked, whole(answer).await);
        if asked.is_write() && asked.kind != Some(LEASES) {
            self.world.writes.fetch_add(1, Ordering::Relaxed);
        }
        if asked.is_write() && code < 400 {
            let write = watchdog::Write { who: &self.who, place: self.place, asked: &asked };
            watchdog::look_at(&self.world, &write, before.as_ref(), self.object(&asked).as_ref());
        }
        self.return_home(&asked).await;
        Ok(Response::from_parts(parts, full(answer)))
    }

    /// The object that a request is about.
    fn object(&self, asked: &Asked) -> Option<serde_json::Value> {
        let kind = asked.kind?;
        self.world.site(self.place).get(kind, &asked.namespace, &asked.name)
    }

    /// The way of a request to its server.
    async fn arrive(&self, asked: &Asked) -> Result<(), BoxError> {
        self.who.alive().await;
        self.world.travel().await;
        self.who.alive().await;
        match self.who.reach(&self.world, self.place) {
            Reach::Open => {}
            Reach::Refused => return Err("connection refused".into()),
            Reach::Silent => std::future::pending().await,
        }
        if asked.is_write() && self.world.strikes(Fault::CrashBeforeWrite) {
            self.who.die(&self.world).await;
        }
        if self.world.strikes(Fault::RequestLost) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// The way of an answer to its reader.
    async fn return_home(&self, asked: &Asked) {
        if asked.is_write() && self.world.strikes(Fault::CrashAfterWrite) {
            self.who.die(&self.world).await;
        }
        if self.world.strikes(Fault::AnswerLost) {
            std::future::pending::<()>().await;
        }
        self.world.travel().await;
    }

    fn refuse(&self, asked: &Asked) -> Option<Response<Answer>> {
        let answer = |code: u16, body: String| {
            let response = Response::builder().status(code).header("content-type", "application/json");
            response.body(full(body)).ok()
        };
        if asked.watches && !asked.lists() && self.world.strikes(Fault::Compacted) {
            let line = json!({ "type": "ERROR", "object": refusal(410, "Expired") });
            return answer(200, format!("{line}\n"));
        }
        if !self.world.strikes(Fault::Refused) {
            return None;
        }
        let refusals = [(500, "InternalError"), (503, "ServiceUnavailable"), (409, "Conflict")];
        let (code, reason) = self.world.dice.pick(&refusals)?;
        let code = if code == 409 && asked.method == Method::GET { 500 } else { code };
        answer(code, refusal(code, reason).to_string())
    }

    /// The first list of a life may show what was a while ago.
    fn past(&self, asked: &Asked) -> Option<AsOf> {
        let is_first = asked.lists() && self.who.lists_first(&format!("{} {}", self.place, asked.path));
        let is_stale = is_first && self.world.strikes(Fault::StaleList);
        if is_stale {
            self.who.mislead();
        }
        let now = self.world.site(self.place).server().version();
        is_stale.then(|| AsOf(now.saturating_sub(self.world.dice.number(1..40))))
    }

    fn watched(&self, asked: &Asked, body: Body) -> Answer {
        let lines = StreamExt::boxed(TryStreamExt::map_err(body.into_data_stream(), BoxError::from));
        let lines = bugs::filtered(&self.world, &self.who, asked, lines);
        let watching = Watching { wire: self.clone(), lines, again: None, ended: false };
        let lines = stream::unfold(watching, async |mut watching: Watching| {
            let line = watching.next().await?;
            Some((line.map(Frame::data), watching))
        });
        BodyExt::boxed_unsync(StreamBody::new(lines))
    }
}

/// A watch on its way to its reader.
struct Watching {
    wire: Wire,
    lines: BoxStream<'static, Result<Bytes, BoxError>>,
    /// What is delivered a second time.
    again: Option<Bytes>,
    ended: bool,
}

impl Watching {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let Wire { world, who, place } = self.wire.clone();
        if self.ended {
            return None;
        }
        if let Some(again) = self.again.take() {
            return Some(Ok(again));
        }
        let line = loop {
            tokio::select! {
                biased;
                line = self.lines.next(), if who.reach(&world, place) == Reach::Open => break line?,
                () = who.other_reach(&world, place) => {}
            }
            if who.reach(&world, place) == Reach::Refused {
                self.ended = true;
                return Some(Err("connection reset".into()));
            }
        };
        if world.strikes(Fault::EventLate) {
            tokio::time::sleep(world.dice.millis(20..3000)).await;
        }
        if world.strikes(Fault::WatchCut) {
            self.ended = true;
            return Some(Err("connection reset".into()));
        }
        if world.strikes(Fault::WatchSilent) {
            std::future::pending::<()>().await;
        }
        if world.strikes(Fault::EventDoubled) {
            self.again = line.as_ref().ok().cloned();
        }
        Some(line)
    }
}
