//! How messages lie on a connection, as a client sees it.

use std::fmt;
use std::str::FromStr;

use bytes::{Buf, Bytes, BytesMut};

/// Which way a server frames messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// gRPC.
    Grpc,
    /// Each message after its length.
    Plain,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Grpc => "grpc",
            Wire::Plain => "plain",
        })
    }
}

impl FromStr for Wire {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Wire> {
        [Wire::Grpc, Wire::Plain]
            .into_iter()
            .find(|wire| wire.to_string() == text)
            .ok_or_else(|| anyhow::anyhow!("no such framing: {text}"))
    }
}

/// One side of a connection.
pub(crate) trait Framing {
    /// What is said before the first message.
    fn hello(&mut self, output: &mut Vec<u8>);
    /// Sends a message.
    fn put(&mut self, message: &[u8], output: &mut Vec<u8>);
    /// The next message that has arrived as a whole. What the protocol itself has to answer goes to the output.
    fn take(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> anyhow::Result<Option<Bytes>>;
}

/// Each message after its length.
#[derive(Default)]
pub(crate) struct Lengths;

impl Framing for Lengths {
    fn hello(&mut self, _: &mut Vec<u8>) {}

    fn put(&mut self, message: &[u8], output: &mut Vec<u8>) {
        output.extend_from_slice(&length(message).to_be_bytes());
        output.extend_from_slice(message);
    }

    fn take(&mut self, input: &mut BytesMut, _: &mut Vec<u8>) -> anyhow::Result<Option<Bytes>> {
        let Some(length) = input.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes) as usize) else {
            return Ok(None);
        };
        if input.len() < 4 + length {
            return Ok(None);
        }
        input.advance(4);
        Ok(Some(input.split_to(length).freeze()))
    }
}

/// Messages here are far shorter than what a length can say.
pub(crate) fn length(message: &[u8]) -> u32 {
    u32::try_from(message.len()).unwrap_or(u32::MAX)
}
