//! Plain TCP: a task per connection, which writes ready bytes and reads answers without looking at them.

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{listen, publish};
use crate::framing::{Framing, Lengths};
use crate::sample;

pub(crate) async fn run(rules: usize) -> anyhow::Result<()> {
    let listener = listen().await?;
    let (news, reader) = watch::channel(message(rules, 0, 1));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, reader.clone()));
        }
    });
    publish(news, |instant, number| message(rules, instant, number)).await
}

fn message(rules: usize, instant: u64, number: i64) -> Bytes {
    let mut framed = Vec::new();
    Lengths.put(&sample::response(rules, instant, number).encode_to_vec(), &mut framed);
    framed.into()
}

async fn serve(mut socket: TcpStream, mut news: watch::Receiver<Bytes>) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    news.mark_changed();
    let mut input = BytesMut::with_capacity(1024);
    loop {
        tokio::select! {
            changed = news.changed() => {
                changed?;
                let message = news.borrow_and_update().clone();
                socket.write_all(&message).await?;
            }
            read = socket.read_buf(&mut input) => {
                if read? == 0 {
                    return Ok(());
                }
                while Lengths.take(&mut input, &mut Vec::new())?.is_some() {}
                input.reserve(1024);
            }
        }
    }
}
