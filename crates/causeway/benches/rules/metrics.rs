//! What the controller counts itself.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How many streams it ended because nothing was taken from them.
pub(crate) async fn stuck_streams(address: SocketAddr) -> anyhow::Result<u64> {
    read(address, "causeway_rules_stuck_streams_total").await
}

async fn read(address: SocketAddr, name: &str) -> anyhow::Result<u64> {
    let mut socket = TcpStream::connect(address).await?;
    let question = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(question.as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let value = answer.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).with_context(|| format!("no metric {name}"))
}
