//! `pods/exec` over WebSocket, in both protocol versions: channels, half-close, terminal, exit status,
//! and refusals before the upgrade.
//!
//! Our server runs the commands on this machine. A real one hands them to the kubelet of the pod's
//! node: `API_SUITE_KUBELET=<ip>:<port>` names one (a stand-in does) that runs commands as they are and
//! answers the command `suite-window` with the size of the terminal, `<columns>x<rows>`. Without it the
//! tests that need a command to run do not apply to a real server.

use futures::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::AttachParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::client::generate_key, protocol::Role},
};

use crate::{
    cluster::{Cluster, say},
    harness::{Answer, DEADLINE, MERGE, Read, Scene, assert_says, ours_only, scene},
    ours::FORBIDDEN,
    workloads::pod,
};

pub(crate) const V4: &str = "v4.channel.k8s.io";
pub(crate) const V5: &str = "v5.channel.k8s.io";
/// In v5, a frame on this channel closes the one named in its payload.
const CLOSE: u8 = 255;

pub(crate) struct Session {
    pub(crate) socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
}

#[derive(Default)]
struct Outcome {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: Value,
}

impl Session {
    /// Opens an exec session for a command given as words, with the streams given as a query.
    pub(crate) async fn open(t: &Scene, protocol: &str, streams: &str, command: &[&str]) -> Session {
        Session::offering(t, protocol, protocol, streams, command).await
    }

    /// The same, offering several protocols of which this one must be chosen.
    pub(crate) async fn offering(
        t: &Scene,
        offered: &str,
        chosen: &str,
        streams: &str,
        command: &[&str],
    ) -> Session {
        let path = exec_path(t, "p", streams, command);
        let call = t.get(&path).header("connection", "Upgrade").header("upgrade", "websocket");
        let call = call.header("sec-websocket-version", "13").header("sec-websocket-key", &generate_key());
        let response = call.header("sec-websocket-protocol", offered).response().await;
        assert_eq!(response.status(), 101, "{:?}", response.headers());
        assert_eq!(response.headers()["sec-websocket-protocol"], chosen);
        let upgraded = hyper::upgrade::on(response).await.expect("an upgraded connection");
        Session { socket: WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await }
    }

    async fn send(&mut self, channel: u8, data: &[u8]) {
        let frame = [&[channel], data].concat();
        self.socket.send(Message::binary(frame)).await.expect("the session takes input");
    }

    /// Reads up to the status on channel 3, which is the last word.
    async fn finish(mut self) -> Outcome {
        let mut outcome = Outcome::default();
        let reading = async {
            while let Some(message) = self.socket.next().await {
                match message.expect("a whole message") {
                    Message::Binary(frame) => match frame.split_first() {
                        Some((1, data)) => outcome.stdout.extend_from_slice(data),
                        Some((2, data)) => outcome.stderr.extend_from_slice(data),
                        Some((3, [])) => {}
                        Some((3, data)) => outcome.status = serde_json::from_slice(data).expect("a Status"),
                        other => panic!("unexpected frame {other:?}"),
                    },
                    Message::Close(_) => break,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, reading).await.expect("the command ends in time");
        outcome
    }
}

pub(crate) fn exec_path(t: &Scene, pod: &str, streams: &str, command: &[&str]) -> String {
    let encode = |word: &&str| word.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
    let command: String = command.iter().map(|word| format!("&command={}", encode(word))).collect();
    t.core(&format!("pods/{pod}/exec?{streams}{command}"))
}

/// A scene with a running pod `p`, where commands can be run.
async fn running(body: impl AsyncFnOnce(&Scene)) {
    let kubelet = std::env::var("API_SUITE_KUBELET").ok();
    if !Cluster::get().ours && kubelet.is_none() {
        let name = std::thread::current().name().unwrap_or("test").to_owned();
        return say(&format!("not applicable to this server: {name}: no kubelet, see API_SUITE_KUBELET"));
    }
    let kubelet = kubelet.unwrap_or("127.0.0.1:10250".to_owned());
    scene(async |t: &Scene| {
        let (ip, port) = kubelet.rsplit_once(':').expect("ip:port");
        let port: u16 = port.parse().expect("a port");
        t.forget_later(&format!("/api/v1/nodes/{}", t.id));
        t.post("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": t.id}})).await.expect(201);
        let status = json!({"addresses": [{"type": "InternalIP", "address": ip}], "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}});
        t.patch(&format!("/api/v1/nodes/{}/status", t.id), MERGE, json!({"status": status})).await.expect(200);
        make_pod(t, pod("p"), "Running").await;
        body(t).await;
    })
    .await;
}

pub(crate) async fn make_pod(t: &Scene, mut pod: Value, phase: &str) {
    pod["spec"]["nodeName"] = json!(t.id);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    let made = t.post(&t.core("pods"), pod).await.expect(201);
    let status = json!({"status": {"phase": phase}});
    t.patch(&t.core(&format!("pods/{}/status", made.name())), MERGE, status).await.expect(200);
}

#[tokio::test]
async fn output_and_errors_come_on_channels_of_their_own() {
    running(async |t: &Scene| {
        for protocol in [V4, V5] {
            let script = ["sh", "-c", "printf out; printf err >&2"];
            let outcome = Session::open(t, protocol, "stdout=true&stderr=true", &script).await.finish().await;
            assert_eq!(
                (outcome.stdout.as_slice(), outcome.stderr.as_slice()),
                (&b"out"[..], &b"err"[..]),
                "{protocol}"
            );
            assert_eq!(outcome.status["status"], "Success", "{protocol}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_exit_code_is_reported_as_a_cause() {
    running(async |t: &Scene| {
        for protocol in [V4, V5] {
            let session =
                Session::open(t, protocol, "stdout=true&stderr=true", &["sh", "-c", "exit 3"]).await;
            let status = session.finish().await.status;
            assert_eq!(
                (&status["status"], &status["reason"]),
                (&json!("Failure"), &json!("NonZeroExitCode"))
            );
            assert_eq!(status["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
            assert_says(status.text("/message"), &["command terminated with non-zero exit code"]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_command_that_cannot_start_is_an_internal_error() {
    running(async |t: &Scene| {
        for protocol in [V4, V5] {
            let session =
                Session::open(t, protocol, "stdout=true&stderr=true", &["no-such-command-here"]).await;
            let status = session.finish().await.status;
            assert_eq!((&status["status"], &status["reason"]), (&json!("Failure"), &json!("InternalError")));
        }
    })
    .await;
}

#[tokio::test]
async fn input_reaches_the_command() {
    running(async |t: &Scene| {
        for protocol in [V4, V5] {
            let streams = "stdin=true&stdout=true&stderr=true";
            let mut session =
                Session::open(t, protocol, streams, &["sh", "-c", "read line; echo got $line"]).await;
            session.send(0, b"hel").await;
            session.send(0, b"lo\n").await;
            let outcome = session.finish().await;
            assert_eq!(String::from_utf8_lossy(&outcome.stdout), "got hello\n", "{protocol}");
            assert_eq!(outcome.status["status"], "Success");
        }
    })
    .await;
}

#[tokio::test]
async fn closing_input_lets_the_command_finish_its_output() {
    running(async |t: &Scene| {
        let mut session =
            Session::open(t, V5, "stdin=true&stdout=true&stderr=true", &["sh", "-c", "cat; echo end"]).await;
        session.send(0, b"all of it\n").await;
        session.send(CLOSE, &[0]).await;
        let outcome = session.finish().await;
        assert_eq!(String::from_utf8_lossy(&outcome.stdout), "all of it\nend\n");
        assert_eq!(outcome.status["status"], "Success");
    })
    .await;
}

#[tokio::test]
async fn a_large_binary_stream_arrives_whole() {
    running(async |t: &Scene| {
        let mut session = Session::open(t, V5, "stdin=true&stdout=true", &["cat"]).await;
        let data: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let reader = async {
            for chunk in data.chunks(30_000) {
                session.send(0, chunk).await;
            }
            session.send(CLOSE, &[0]).await;
            session.finish().await
        };
        let outcome = reader.await;
        assert_eq!(outcome.stdout.len(), data.len());
        assert!(outcome.stdout == data);
    })
    .await;
}

#[tokio::test]
async fn a_terminal_has_one_output_and_a_size() {
    running(async |t: &Scene| {
        for protocol in [V4, V5] {
            let streams = "stdin=true&stdout=true&tty=true";
            let script = ["sh", "-c", "echo out; echo err >&2"];
            let outcome = Session::open(t, protocol, streams, &script).await.finish().await;
            let text = String::from_utf8_lossy(&outcome.stdout).replace('\r', "");
            assert_eq!((text.as_str(), outcome.stderr.len()), ("out\nerr\n", 0), "{protocol}");
            let mut session = Session::open(t, protocol, streams, &["suite-window"]).await;
            session.send(4, br#"{"Width":91,"Height":17}"#).await;
            assert_eq!(String::from_utf8_lossy(&session.finish().await.stdout).trim(), "91x17", "{protocol}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_rust_client_runs_a_command() {
    running(async |t: &Scene| {
        let api = Api::<Pod>::namespaced(t.client.clone(), &t.ns);
        let params = AttachParams::default().stdin(true).stdout(true).stderr(true);
        let mut process = api.exec("p", ["sh", "-c", "cat; exit 4"], &params).await.expect("a session");
        let mut stdin = process.stdin().expect("stdin");
        let mut stdout = process.stdout().expect("stdout");
        let status = process.take_status().expect("a status");
        stdin.write_all(b"through").await.expect("written");
        stdin.shutdown().await.expect("closed");
        drop(stdin);
        let mut text = String::new();
        stdout.read_to_string(&mut text).await.expect("read");
        assert_eq!(text, "through");
        let status = status.await.expect("the end is reported");
        assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
    })
    .await;
}

/// An exec request that must be refused before the upgrade.
async fn refused(t: &Scene, pod: &str, streams: &str, command: &[&str]) -> Answer {
    let path = exec_path(t, pod, streams, command);
    let call = t.get(&path).header("connection", "Upgrade").header("upgrade", "websocket");
    let call = call.header("sec-websocket-version", "13").header("sec-websocket-key", &generate_key());
    call.header("sec-websocket-protocol", V5).await
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_the_upgrade() {
    scene(async |t: &Scene| {
        let status = refused(t, "none", "stdout=true", &["id"]).await.refused(404, "NotFound");
        assert_eq!(status["message"], r#"pods "none" not found"#);
        make_pod(t, pod("p"), "Running").await;
        let status = refused(t, "p", "stdout=true&container=other", &["id"]).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &["container other is not valid for pod p"]);
        let mut two = pod("two");
        let container = json!({"name": "second", "image": "example.com/none"});
        two["spec"]["containers"].as_array_mut().unwrap().push(container);
        make_pod(t, two, "Running").await;
        let status = refused(t, "two", "stdout=true", &["id"]).await.refused(400, "BadRequest");
        assert_says(
            status.text("/message"),
            &["a container name must be specified for pod two, choose one of: [main second]"],
        );
    })
    .await;
}

#[tokio::test]
async fn an_exec_request_must_name_a_command_a_stream_and_a_pod_that_can_run() {
    ours_only("a real server leaves this to the kubelet", async |t: &Scene| {
        make_pod(t, pod("done"), "Succeeded").await;
        let status = refused(t, "done", "stdout=true", &["id"]).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &["completed pod; current phase is Succeeded"]);
        make_pod(t, pod("p"), "Running").await;
        let status = refused(t, "p", "stdout=true", &[]).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &["command"]);
        let status = refused(t, "p", "stdout=false", &["id"]).await.refused(400, "BadRequest");
        assert_says(status.text("/message"), &["stdin, stdout, stderr"]);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_is_the_same_whatever_the_protocol() {
    ours_only("a real server asks its admission plugins", async |t: &Scene| {
        make_pod(t, pod("p"), "Running").await;
        let path = exec_path(t, "p", "stdout=true", &[FORBIDDEN]);
        // What kubectl does: WebSocket first, SPDY after any refusal of that.
        let spdy = || {
            t.call(http::Method::POST, &path).header("connection", "Upgrade").header("upgrade", "SPDY/3.1")
        };
        for answer in [refused(t, "p", "stdout=true", &[FORBIDDEN]).await, spdy().await, t.get(&path).await] {
            let status = answer.refused(403, "Forbidden");
            assert_eq!(status["message"], "this command is not for you");
        }
        let path = exec_path(t, "p", "stdout=true", &["id"]);
        let spdy =
            t.call(http::Method::POST, &path).header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
        assert_says(spdy.await.refused(400, "BadRequest").text("/message"), &["SPDY/3.1 is not served"]);
    })
    .await;
}

#[tokio::test]
async fn an_exec_request_without_an_upgrade_is_a_bad_request() {
    running(async |t: &Scene| {
        let path = exec_path(t, "p", "stdout=true", &["id"]);
        for call in [t.get(&path), t.call(http::Method::POST, &path)] {
            let answer = call.await;
            assert_eq!((answer.code, &answer.json["kind"]), (400, &json!("Status")), "{answer:?}");
            assert_says(answer.json.text("/message"), &["pgrade request required"]);
        }
    })
    .await;
}
