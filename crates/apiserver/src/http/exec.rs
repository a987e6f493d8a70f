//! `pods/exec` over WebSocket: one connection, one byte of channel before every message.
//!
//! The session is one task: it runs the command, carries its output to the client and the client's
//! input to it. The command's end is reported after all its output, unless a fault makes that late. When
//! the client leaves first, the command is dropped.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Call, Shared};
use crate::exec::{Exec, ExecEnd, ExecIo, ExecRequest};
use crate::faults::Asked;
use crate::resource::{Nature, Resource};
use crate::status::ApiError;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// In v5, followed by the channel that its sender will not use any more.
const CLOSE: u8 = 255;

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";
const BUFFER: usize = 32 * 1024;
/// Input that the command does not read yet. While it is full the client is not listened to.
const INPUT_BUFFER: usize = 1024 * 1024;
const PING_EVERY: Duration = Duration::from_secs(30);

pub(super) fn is_served(resource: &Resource) -> bool {
    matches!(resource.nature, Nature::Pod)
}

pub(super) async fn exec(call: &Call, request: Request<Body>) -> Result<Response, ApiError> {
    let wanted = wanted(call)?;
    let Some(exec) = call.shared.exec.clone() else {
        return Err(ApiError::new(
            501,
            "NotImplemented",
            "this server runs no commands: it was started without exec",
        ));
    };
    // Before the protocol is looked at, as admission is in a cluster: a client whose WebSocket is
    // refused tries SPDY next, and shows the answer to that.
    exec.admit(&wanted).await.map_err(|(code, reason, message)| ApiError::new(code, &reason, message))?;
    let protocols: &[&str] = if call.shared.faults.only_v4(&call.asked) { &[V4] } else { &[V5, V4] };
    let upgrade = upgrade(request, protocols).await?;
    let v5 = upgrade.selected_protocol().is_some_and(|protocol| protocol == V5);
    let late = call.shared.faults.late_output(&call.asked);
    let gate = Gate { shared: call.shared.clone(), asked: call.asked.clone() };
    let stopping = call.shared.stopping.clone();
    let sessions = call.shared.sessions.token();
    Ok(upgrade.on_upgrade(move |socket| async move {
        tokio::select! {
            () = session(socket, exec, wanted, Manner { v5, late, gate }) => {}
            () = stopping.cancelled() => {}
        }
        drop(sessions);
    }))
}

/// Closed while the session is frozen.
struct Gate {
    shared: Arc<Shared>,
    asked: Arc<Asked>,
}

impl Gate {
    async fn pass(&self) {
        self.shared.faults.thawed(&self.asked).await;
    }
}

/// How a session goes, apart from what it runs.
struct Manner {
    v5: bool,
    /// How much later than its end the command's output arrives.
    late: Option<Duration>,
    gate: Gate,
}

/// The handshake, for either method that clients use.
async fn upgrade(request: Request<Body>, protocols: &[&'static str]) -> Result<WebSocketUpgrade, ApiError> {
    let (mut head, _) = request.into_parts();
    let protocol =
        head.headers.get(http::header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if protocol.is_empty() {
        return Err(ApiError::bad_request("unable to upgrade: Upgrade request required"));
    }
    if !protocol.eq_ignore_ascii_case("websocket") {
        return Err(ApiError::bad_request(format!(
            "unable to upgrade: Upgrade request required to websocket ({V5} or {V4}); {protocol} is not served"
        )));
    }
    head.method = Method::GET;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut head, &())
        .await
        .map_err(|why| ApiError::bad_request(format!("unable to upgrade: {why}")))?
        .protocols(protocols.iter().copied());
    if upgrade.selected_protocol().is_none() {
        let served = protocols.join(", ");
        return Err(ApiError::bad_request(format!(
            "unable to upgrade: none of the subprotocols {served} is offered"
        )));
    }
    Ok(upgrade)
}

/// What is to be run, checked against the pod.
fn wanted(call: &Call) -> Result<ExecRequest, ApiError> {
    let (target, query) = (call.target(), &call.query);
    let pod = call.shared.read().get(&target)?.clone();
    let name = &target.key.name;
    if let Some(phase @ ("Succeeded" | "Failed")) = pod.value["status"]["phase"].as_str() {
        return Err(ApiError::bad_request(format!(
            "cannot exec into a container in a completed pod; current phase is {phase}"
        )));
    }
    let container = container(&pod.value, name, query.text("container"))?;
    let request = ExecRequest {
        user: call.asked.user.clone(),
        namespace: target.key.namespace.clone(),
        pod: name.clone(),
        container: Some(container),
        command: query.all("command"),
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr"),
        tty: query.flag("tty"),
    };
    if request.command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least 1 command for the exec to run"));
    }
    if !request.stdin && !request.stdout && !request.stderr {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(request)
}

/// The container asked for, or the only one.
pub(super) fn container(pod: &Value, name: &str, asked: &str) -> Result<String, ApiError> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
    };
    if asked.is_empty() {
        let main = names("containers");
        return match main.as_slice() {
            [only] => Ok(only.clone()),
            several => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                several.join(" ")
            ))),
        };
    }
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    if lists.iter().any(|list| names(list).iter().any(|have| have == asked)) {
        return Ok(asked.to_owned());
    }
    Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
}

async fn session(socket: WebSocket, exec: Arc<dyn Exec>, request: ExecRequest, manner: Manner) {
    let Manner { v5, late, gate } = manner;
    let (sink, mut incoming) = socket.split();
    let (stdin, stdin_end) = tokio::io::duplex(INPUT_BUFFER);
    let (stdout, stdout_end) = tokio::io::duplex(BUFFER);
    let (stderr, stderr_end) = tokio::io::duplex(BUFFER);
    let (resized, resize) = mpsc::channel(4);
    let (frames, outgoing) = mpsc::channel::<Message>(4);
    let input = request.stdin.then_some(stdin);
    let (wants_stdout, wants_stderr) = (request.stdout, request.stderr && !request.tty);
    let io = ExecIo {
        stdin: Box::new(stdin_end),
        stdout: Box::new(stdout_end),
        stderr: Box::new(stderr_end),
        resize,
    };
    let work = async {
        // An empty message says to the client that the streams are open.
        let first = if wants_stdout { STDOUT } else { STATUS };
        let _ = frames.send(frame(first, &[])).await;
        let report = async |end: ExecEnd| {
            let _ = frames.send(frame(STATUS, status(&end).to_string().as_bytes())).await;
        };
        let stderr = carry(stderr, STDERR, wants_stderr, &frames);
        match late {
            None => {
                let stdout = carry(stdout, STDOUT, wants_stdout, &frames);
                let (end, (), ()) = tokio::join!(exec.run(request, io), stdout, stderr);
                report(end).await;
            }
            Some(late) => {
                let stdout = carry_late(stdout, wants_stdout, &frames, late);
                let run = async { report(exec.run(request, io).await).await };
                tokio::join!(run, stdout, stderr);
            }
        }
        drop(frames);
        // The rest is up to the sender, which ends when it has sent all.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work => {}
        () = send(sink, outgoing, &gate) => {}
        () = receive(&mut incoming, input, &resized, v5, &gate) => {}
    }
}

/// Sends frames until there are no more, or nobody to send them to. A client that vanished without
/// a word while its input is stuck is noticed by the pings it does not take.
async fn send(mut sink: SplitSink<WebSocket, Message>, mut outgoing: mpsc::Receiver<Message>, gate: &Gate) {
    let mut pulse = tokio::time::interval(PING_EVERY);
    pulse.tick().await;
    loop {
        let frame = tokio::select! {
            frame = outgoing.recv() => frame,
            _ = pulse.tick() => Some(Message::Ping(Bytes::new())),
        };
        gate.pass().await;
        match frame {
            Some(frame) => {
                if sink.send(frame).await.is_err() {
                    return;
                }
            }
            None => break,
        }
    }
    // The client may have gone already; then there is nobody to say goodbye to.
    let normal = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    let _ = sink.send(Message::Close(Some(normal))).await;
    let _ = sink.close().await;
}

fn frame(channel: u8, data: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(data.len() + 1);
    bytes.push(channel);
    bytes.extend_from_slice(data);
    Message::Binary(bytes.into())
}

/// Output to the client until the command drops its end.
async fn carry(mut from: DuplexStream, channel: u8, wanted: bool, frames: &mpsc::Sender<Message>) {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) if !wanted => {}
            Ok(read) => {
                if frames.send(frame(channel, &buffer[..read])).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Standard output, each part of it so much later than it was written.
async fn carry_late(mut from: DuplexStream, wanted: bool, frames: &mpsc::Sender<Message>, late: Duration) {
    let (parts, mut due) = mpsc::unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; BUFFER];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            if wanted && parts.send((Instant::now() + late, frame(STDOUT, &buffer[..read]))).is_err() {
                return;
            }
        }
    };
    let pass = async {
        while let Some((at, part)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if frames.send(part).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, pass);
}

/// Input from the client until it leaves.
async fn receive(
    incoming: &mut SplitStream<WebSocket>,
    mut input: Option<DuplexStream>,
    resized: &mpsc::Sender<(u16, u16)>,
    v5: bool,
    gate: &Gate,
) {
    while let Some(Ok(message)) = incoming.next().await {
        gate.pass().await;
        let data = match message {
            Message::Binary(data) => data,
            Message::Text(text) => text.into(),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return,
        };
        match Incoming::parse(&data, v5) {
            Incoming::Input(data) => {
                if let Some(stdin) = &mut input
                    && stdin.write_all(data).await.is_err()
                {
                    // The command reads no more; what else is sent has no reader.
                    input = None;
                }
            }
            Incoming::Resize(columns, rows) => {
                // Only the latest size matters; a full queue means that nobody looks.
                let _ = resized.try_send((columns, rows));
            }
            Incoming::EndOfInput => input = None,
            Incoming::Nothing => {}
        }
    }
}

/// What a message of the client means.
#[derive(Debug, PartialEq, Eq)]
enum Incoming<'a> {
    Input(&'a [u8]),
    Resize(u16, u16),
    EndOfInput,
    /// Kubernetes ignores what it does not know, too.
    Nothing,
}

impl Incoming<'_> {
    fn parse(message: &[u8], v5: bool) -> Incoming<'_> {
        match message.split_first() {
            Some((&STDIN, data)) => Incoming::Input(data),
            Some((&RESIZE, data)) => terminal_size(data)
                .map_or(Incoming::Nothing, |(columns, rows)| Incoming::Resize(columns, rows)),
            Some((&CLOSE, [STDIN])) if v5 => Incoming::EndOfInput,
            _ => Incoming::Nothing,
        }
    }
}

fn terminal_size(data: &[u8]) -> Option<(u16, u16)> {
    let size: Value = serde_json::from_slice(data).ok()?;
    let side = |name: &str| u16::try_from(size[name].as_u64()?).ok();
    Some((side("Width")?, side("Height")?))
}

fn status(end: &ExecEnd) -> Value {
    match end {
        ExecEnd::Exited(0) => json!({ "metadata": {}, "status": "Success" }),
        ExecEnd::Exited(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
        }),
        ExecEnd::Failed(why) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": format!("Internal error occurred: {why}"),
            "details": { "causes": [{ "message": why }] },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_distinguished_by_their_channel() {
        assert_eq!(Incoming::parse(b"\0hi", false), Incoming::Input(b"hi"));
        assert_eq!(Incoming::parse(b"\x04{\"Width\":91,\"Height\":17}", true), Incoming::Resize(91, 17));
        assert_eq!(Incoming::parse(b"\x04{\"Width\":-1,\"Height\":70000}", true), Incoming::Nothing);
        assert_eq!(Incoming::parse(&[CLOSE, STDIN], true), Incoming::EndOfInput);
        assert_eq!(Incoming::parse(&[CLOSE, STDIN], false), Incoming::Nothing);
        assert_eq!(Incoming::parse(b"", true), Incoming::Nothing);
    }

    proptest! {
        #[test]
        fn any_message_means_something_or_nothing(
            mut message in prop::collection::vec(any::<u8>(), 0..40), channel in 0u8..6, v5 in any::<bool>(),
        ) {
            Incoming::parse(&message, v5);
            message.insert(0, channel);
            let meant = Incoming::parse(&message, v5);
            prop_assert_eq!(channel == STDIN, meant == Incoming::Input(&message[1..]));
        }
    }
}
