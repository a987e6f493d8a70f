//! The roles of floors: the least that a server of the kind must spend. Each says on standard output where it listens,
//! and takes lines `INSTANT` on standard input: then it sends every client a rule that was edited then.

pub(crate) mod tcp;
pub(crate) mod tonic;

use std::io::Write;
use std::net::Ipv4Addr;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;

async fn listen() -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    Ok(listener)
}

/// Publishes what is to be sent until nobody says any more.
async fn publish<T>(news: watch::Sender<T>, make: impl Fn(u64, i64) -> T) -> anyhow::Result<()> {
    let (mut lines, mut number) = (BufReader::new(tokio::io::stdin()).lines(), 1);
    while let Some(line) = lines.next_line().await? {
        number += 1;
        news.send_replace(make(line.parse()?, number));
    }
    Ok(())
}
