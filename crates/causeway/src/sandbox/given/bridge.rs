//! Where the kubelet's stand-in has commands run: a Unix socket, one connection for each.
//!
//! ```text
//!  kube-apiserver ──▶ causeway-kubelet ──REQUEST──▶ admit ──ANSWER──▶ … GO ──▶ run ──▶ END
//!                     (protocols)         STDIN, RESIZE ──▶  ◀── STDOUT, STDERR
//! ```
//!
//! As with a container runtime, a caller that goes away does not end its command: the input ends.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use causeway_apiserver::{Exec, ExecEnd, ExecIo, ExecRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::frames::{ANSWER, END, GO, REQUEST, RESIZE, STDERR, STDIN, STDOUT, receive, send};

/// How much of a stream is under way at once.
const PIPE: usize = 64 * 1024;

/// Listens where the stand-in connects to.
pub(super) fn listen(socket: &Path) -> anyhow::Result<UnixListener> {
    UnixListener::bind(socket).with_context(|| format!("cannot listen at {}", socket.display()))
}

/// Runs what is asked for, until dropped.
pub(super) async fn serve(listener: UnixListener, exec: Arc<impl Exec>) -> anyhow::Result<()> {
    let mut execs = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("the kubelet's socket")?;
                let exec = exec.clone();
                execs.spawn(async move {
                    if let Err(error) = converse(stream, exec.as_ref()).await {
                        tracing::warn!(%error, "an exec over the kubelet's socket");
                    }
                });
            }
            Some(_) = execs.join_next() => {}
        }
    }
}

/// A request as the stand-in writes it.
#[derive(Debug, Deserialize)]
struct Wire {
    namespace: String,
    pod: String,
    container: String,
    command: Option<Vec<String>>,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl From<Wire> for ExecRequest {
    fn from(wire: Wire) -> ExecRequest {
        let Wire { namespace, pod, container, command, stdin, stdout, stderr, tty } = wire;
        let command = command.unwrap_or_default();
        // Who asked is not passed on to a kubelet.
        let user = String::new();
        ExecRequest { user, namespace, pod, container: Some(container), command, stdin, stdout, stderr, tty }
    }
}

async fn converse(stream: UnixStream, exec: &impl Exec) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let Some((REQUEST, text)) = receive(&mut reader).await? else {
        return Err(io::Error::other("it does not begin with a request"));
    };
    let request: ExecRequest = serde_json::from_slice::<Wire>(&text).map_err(io::Error::other)?.into();
    let refusal = match exec.admit(&request).await {
        Ok(()) => json!({}),
        Err((code, reason, message)) => json!({"code": code, "reason": reason, "message": message}),
    };
    send(&mut writer, ANSWER, refusal.to_string().as_bytes()).await?;
    if refusal != json!({}) {
        return Ok(());
    }
    // Without it the caller went away before its connection was complete.
    let Some((GO, _)) = receive(&mut reader).await? else { return Ok(()) };
    let end = run(request, exec, reader, &Mutex::new(&mut writer)).await;
    send(&mut writer, END, end.to_string().as_bytes()).await
}

async fn run(
    request: ExecRequest,
    exec: &impl Exec,
    reader: impl AsyncRead + Unpin,
    writer: &Mutex<&mut (impl AsyncWrite + Unpin)>,
) -> Value {
    let ((input, stdin), (out, stdout), (err, stderr)) = (duplex(PIPE), duplex(PIPE), duplex(PIPE));
    let (sizes, resize) = mpsc::channel(8);
    let io = ExecIo { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr: Box::new(stderr), resize };
    let work = async {
        let all = tokio::join!(exec.run(request, io), pass(out, STDOUT, writer), pass(err, STDERR, writer));
        all.0
    };
    let end = tokio::select! {
        end = work => end,
        () = feed(reader, input, sizes) => unreachable!("feeding never ends by itself"),
    };
    match end {
        ExecEnd::Exited(code) => json!({"code": code}),
        ExecEnd::Failed(message) => json!({"failed": message}),
    }
}

/// Passes input on. When it has ended, or the caller is gone, the command sees its end and goes on.
async fn feed(mut from: impl AsyncRead + Unpin, input: DuplexStream, sizes: mpsc::Sender<(u16, u16)>) {
    let mut input = Some(input);
    while let Ok(Some((kind, data))) = receive(&mut from).await {
        match (kind, &mut input) {
            (STDIN, Some(to)) if !data.is_empty() => {
                // A command that does not read to the end is no failure of ours.
                let _ = to.write_all(&data).await;
            }
            (STDIN, to) => drop(to.take()),
            (RESIZE, _) if data.len() == 4 => {
                let number = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
                let _ = sizes.try_send((number(0), number(2)));
            }
            _ => {}
        }
    }
    drop(input);
    std::future::pending::<()>().await;
}

/// Passes output on to a caller who may be gone: the command is not held up by that.
async fn pass(mut from: DuplexStream, kind: u8, to: &Mutex<&mut (impl AsyncWrite + Unpin)>) {
    let mut buffer = vec![0; PIPE];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let _ = send(&mut **to.lock().await, kind, &buffer[..length]).await;
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    /// Says what it reads, then how much that was; `refuse` is not admitted.
    struct Echo;

    #[async_trait]
    impl Exec for Echo {
        async fn admit(&self, request: &ExecRequest) -> Result<(), (u16, String, String)> {
            match request.command.first().map(String::as_str) {
                Some("refuse") => Err((403, "Forbidden".into(), "not here".into())),
                _ => Ok(()),
            }
        }

        async fn run(&self, _: ExecRequest, mut io: ExecIo) -> ExecEnd {
            let mut text = Vec::new();
            let _ = io.stdin.read_to_end(&mut text).await;
            let _ = io.stdout.write_all(&text).await;
            ExecEnd::Exited(i32::try_from(text.len()).unwrap_or(-1))
        }
    }

    async fn ask(command: &str) -> (UnixStream, Value) {
        let (mut near, far) = UnixStream::pair().expect("a pair");
        tokio::spawn(async move { converse(far, &Echo).await });
        let request = json!({
            "namespace": "ns1", "pod": "client", "container": "workload", "command": [command],
            "stdin": true, "stdout": true, "stderr": true, "tty": false,
        });
        send(&mut near, REQUEST, request.to_string().as_bytes()).await.expect("sent");
        let (kind, answer) = receive(&mut near).await.expect("an answer").expect("an answer");
        assert_eq!(kind, ANSWER);
        (near, serde_json::from_slice(&answer).expect("JSON"))
    }

    #[tokio::test]
    async fn input_output_and_exit_status_cross_the_socket() {
        let (mut near, answer) = ask("cat").await;
        assert_eq!(answer, json!({}));
        send(&mut near, GO, b"").await.expect("sent");
        send(&mut near, STDIN, b"some text").await.expect("sent");
        send(&mut near, STDIN, b"").await.expect("sent");
        assert_eq!(receive(&mut near).await.expect("output"), Some((STDOUT, b"some text".to_vec())));
        assert_eq!(receive(&mut near).await.expect("its end"), Some((END, br#"{"code":9}"#.to_vec())));
    }

    #[tokio::test]
    async fn what_is_not_admitted_is_answered_with_the_reason() {
        let (_, answer) = ask("refuse").await;
        assert_eq!(answer, json!({"code": 403, "reason": "Forbidden", "message": "not here"}));
    }
}
