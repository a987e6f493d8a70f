//! Who is connected to this replica: asked on a port that only this machine, or this pod, can reach.
//!
//! What is known is copied lock by lock and put into words afterwards, on a thread of its own, so ten thousand streams
//! hold up no push.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::Rules;
use super::cell::{Known, LastAnswer, Said};

/// Where it is asked.
pub const PATH: &str = "/clients";
/// How soon a port that was taken is tried again.
const NEXT_TRY: Duration = Duration::from_secs(5);

/// An address that cannot be reached from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loopback(SocketAddr);

/// Why an address is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLoopback {
    /// It is no address.
    #[error("`{0}` is no address with a port, such as 127.0.0.1:10249")]
    NoAddress(String),
    /// Others could ask.
    #[error(
        "{0} can be reached from elsewhere: only an address of loopback will do, such as 127.0.0.1:10249"
    )]
    Public(SocketAddr),
}

impl FromStr for Loopback {
    type Err = NotLoopback;

    fn from_str(text: &str) -> Result<Self, NotLoopback> {
        let address: SocketAddr = text.parse().map_err(|_| NotLoopback::NoAddress(text.into()))?;
        if address.ip().is_loopback() { Ok(Self(address)) } else { Err(NotLoopback::Public(address)) }
    }
}

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All data planes of a replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connected {
    /// The replica's name.
    pub replica: String,
    /// By the order in which they came.
    pub clients: Vec<Client>,
}

/// A data plane: one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    /// The number of its stream, unique while the replica lives.
    pub stream: u64,
    /// What it calls itself; many do not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identifier: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Since when.
    pub since: Timestamp,
    /// For so many seconds it has taken nothing although there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck_seconds: Option<u64>,
    /// What it asks for.
    pub subscriptions: Vec<Subscription>,
}

/// What a data plane asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// Rules of this kind.
    pub kind: String,
    /// In this namespace.
    pub namespace: String,
    /// For this app; `*` is all of them.
    pub app: String,
    /// With these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The version that it was sent last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<i64>,
    /// What it answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// A data plane's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// `acked`, `outdated` (it holds something newer) or `failed`.
    pub said: String,
    /// To which version.
    pub version: i64,
    /// When.
    pub at: Timestamp,
    /// The code of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl From<LastAnswer> for Answer {
    fn from(LastAnswer { version, at, said }: LastAnswer) -> Self {
        let (said, code, message) = match said {
            Said::Acked => ("acked", None, None),
            Said::Outdated => ("outdated", None, None),
            Said::Failed { code, message } => ("failed", Some(code), Some(message.to_string())),
        };
        Self { said: said.into(), version, at, code, message }
    }
}

impl Rules {
    /// Who is connected now.
    pub fn connected(&self) -> Connected {
        let streams = self.hub.streams();
        let mut asked: BTreeMap<u64, Vec<Subscription>> = BTreeMap::new();
        for cell in self.hub.cells() {
            let target = &cell.target;
            for Known { stream, version, last } in cell.members() {
                asked.entry(stream).or_default().push(Subscription {
                    kind: target.kind.name().into(),
                    namespace: target.namespace.to_string(),
                    app: target.app.to_string(),
                    labels: (*target.labels).clone(),
                    sent: version,
                    answer: last.map(Answer::from),
                });
            }
        }
        let client = |mailbox: &Arc<super::Mailbox>| Client {
            stream: mailbox.stream,
            identifier: mailbox.identifier(),
            address: mailbox.address,
            since: mailbox.since,
            stuck_seconds: mailbox.waiting().map(|since| since.elapsed().as_secs()).filter(|it| *it > 0),
            subscriptions: asked.remove(&mailbox.stream).unwrap_or_default(),
        };
        Connected { replica: self.house.identity.clone(), clients: streams.iter().map(client).collect() }
    }
}

/// Answers for as long as the process lives. A port that is taken ends nothing else: it is tried again.
pub(super) async fn run(room: Arc<Rules>, Loopback(listen): Loopback) -> anyhow::Result<()> {
    let listener = loop {
        match TcpListener::bind(listen).await {
            Ok(listener) => break listener,
            Err(error) => tracing::warn!(address = %listen, %error, "nobody can ask who is connected"),
        }
        sleep(NEXT_TRY).await;
    };
    tracing::info!(address = %listener.local_addr()?, "serving who is connected");
    let router = Router::new().route(PATH, get(move || answer(room.clone())));
    axum::serve(listener, router).await?;
    Ok(())
}

async fn answer(room: Arc<Rules>) -> Response {
    let written = tokio::task::spawn_blocking(move || serde_json::to_vec(&room.connected())).await;
    match written {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_nobody_else_can_reach_are_taken() {
        for good in ["127.0.0.1:10249", "[::1]:0"] {
            assert_eq!(good.parse::<Loopback>().map(|it| it.to_string()), Ok(good.into()));
        }
        for bad in ["0.0.0.0:10249", "[::]:1", "10.0.0.1:10249", "127.0.0.1", "localhost:1"] {
            assert!(bad.parse::<Loopback>().is_err(), "{bad}");
        }
    }
}
