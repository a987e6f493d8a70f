//! An API server that knows pods and forwards their ports, and nothing else.
//!
//! A port is forwarded as the kubelet does it: by a WebSocket with two channels, one of bytes and one of errors, each of
//! which begins with the port's number.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path as Of, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const NAMESPACE: &str = "multi-vpc-system";
const LABEL: &str = "app=multi-vpc-controller-manager";
/// Bytes, and why there are none.
const DATA: u8 = 0;
const ERROR: u8 = 1;

/// A pod: whether it is ready, and where its ports really are.
pub(crate) struct Pod {
    pub(crate) name: &'static str,
    pub(crate) ready: bool,
    pub(crate) ports: BTreeMap<u16, SocketAddr>,
}

/// Serves these pods, and gives a kubeconfig that leads to them.
pub(crate) async fn serve(pods: Vec<Pod>, folder: &Path) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let all = "/api/v1/namespaces/{namespace}/pods";
    let router = Router::new()
        .route(all, get(list))
        .route(&format!("{all}/{{pod}}/portforward"), get(forward))
        .with_state(Arc::new(pods));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pods",
        "clusters": [{ "name": "pods", "cluster": { "server": url } }],
        "users": [{ "name": "somebody", "user": {} }],
        "contexts": [{ "name": "pods", "context": { "cluster": "pods", "user": "somebody" } }],
    });
    let file = folder.join("pods.config");
    std::fs::write(&file, config.to_string()).expect("a kubeconfig is written");
    file
}

type Pods = State<Arc<Vec<Pod>>>;

async fn list(
    State(pods): Pods,
    Of(namespace): Of<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Json<Value> {
    let asked = namespace == NAMESPACE && query.get("labelSelector").is_some_and(|it| it == LABEL);
    let pod = |pod: &Pod| {
        let ready = if pod.ready { "True" } else { "False" };
        json!({ "metadata": { "name": pod.name, "namespace": NAMESPACE },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] } })
    };
    let items: Vec<Value> = pods.iter().filter(|_| asked).map(pod).collect();
    Json(json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items }))
}

async fn forward(
    State(pods): Pods,
    Of((_, name)): Of<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let port = query.get("ports").and_then(|port| port.parse::<u16>().ok());
    let (Some(pod), Some(port)) = (pods.iter().find(|pod| pod.name == name), port) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let there = pod.ports.get(&port).copied();
    upgrade.protocols(["v4.channel.k8s.io"]).on_upgrade(move |socket| carry(socket, port, there))
}

async fn carry(mut socket: WebSocket, port: u16, there: Option<SocketAddr>) {
    let [low, high] = port.to_le_bytes();
    for channel in [DATA, ERROR] {
        let _ = socket.send(Message::Binary(vec![channel, low, high].into())).await;
    }
    let Some(there) = there else {
        let words = [&[ERROR], &b"connection refused in the pod"[..]].concat();
        let _ = socket.send(Message::Binary(words.into())).await;
        // It stays open until the other side has enough of it.
        while let Some(Ok(_)) = socket.recv().await {}
        return;
    };
    let mut stream = TcpStream::connect(there).await.expect("something listens");
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    let frame = [&[DATA], &buffer[..length]].concat();
                    if socket.send(Message::Binary(frame.into())).await.is_err() { break }
                }
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Binary(frame))) if frame.first() == Some(&DATA) => {
                    if stream.write_all(&frame[1..]).await.is_err() { break }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            },
        }
    }
}
