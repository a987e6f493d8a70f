//! As much of HTTP/2 as a client with one gRPC stream needs, so that ten thousand of them leave the cores to the server.
//! Windows are those of the protocol, and headers are put into the server's table, as SDKs do.

use anyhow::bail;
use bytes::{Buf, Bytes, BytesMut};

use crate::framing::{Framing, length};

const METHOD: &str = "/io.opensergo.proto.transport.v1.OpenSergoUniversalTransportService/SubscribeConfig";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The only stream.
const STREAM: u32 = 1;
/// What was read is given back to the server's window when it is so much.
const GIVE_BACK: u32 = 32 * 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// A connection with one stream.
#[derive(Default)]
pub(crate) struct Http2 {
    /// What arrived of messages.
    arrived: BytesMut,
    /// What was read since the window was last refilled.
    read: u32,
}

impl Framing for Http2 {
    fn hello(&mut self, output: &mut Vec<u8>) {
        output.extend_from_slice(PREFACE);
        // The server may not push.
        frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 0], output);
        frame(HEADERS, END_HEADERS, STREAM, &headers(), output);
    }

    fn put(&mut self, message: &[u8], output: &mut Vec<u8>) {
        let mut payload = Vec::with_capacity(5 + message.len());
        payload.push(0);
        payload.extend_from_slice(&length(message).to_be_bytes());
        payload.extend_from_slice(message);
        frame(DATA, 0, STREAM, &payload, output);
    }

    fn take(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> anyhow::Result<Option<Bytes>> {
        loop {
            if let Some(message) = self.message() {
                return Ok(Some(message));
            }
            let Some(&[a, b, c, kind, flags, ..]) = input.first_chunk::<9>() else { return Ok(None) };
            let length = u32::from_be_bytes([0, a, b, c]);
            let end = 9 + length as usize;
            if input.len() < end {
                return Ok(None);
            }
            let mut payload = input.split_to(end);
            payload.advance(9);
            match kind {
                DATA => {
                    // A frame has at most one message, and then needs no copy.
                    if self.arrived.is_empty() {
                        self.arrived = payload;
                    } else {
                        self.arrived.extend_from_slice(&payload);
                    }
                    self.give_back(length, output);
                }
                HEADERS if flags & END_STREAM != 0 => bail!("the stream ended"),
                RESET | GO_AWAY => bail!("the server ended it"),
                SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[], output),
                PING if flags & ACK == 0 => frame(PING, ACK, 0, &payload, output),
                _ => {}
            }
        }
    }
}

impl Http2 {
    fn message(&mut self) -> Option<Bytes> {
        let [_, length @ ..] = *self.arrived.first_chunk::<5>()?;
        let length = u32::from_be_bytes(length) as usize;
        if self.arrived.len() < 5 + length {
            return None;
        }
        self.arrived.advance(5);
        let message = self.arrived.split_to(length).freeze();
        if self.arrived.is_empty() {
            // Lets go of what was read.
            self.arrived = BytesMut::new();
        }
        Some(message)
    }

    fn give_back(&mut self, length: u32, output: &mut Vec<u8>) {
        self.read += length;
        if self.read >= GIVE_BACK {
            let more = self.read.to_be_bytes();
            frame(WINDOW_UPDATE, 0, 0, &more, output);
            frame(WINDOW_UPDATE, 0, STREAM, &more, output);
            self.read = 0;
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(&length(payload).to_be_bytes()[1..]);
    output.extend_from_slice(&[kind, flags]);
    output.extend_from_slice(&stream.to_be_bytes());
    output.extend_from_slice(payload);
}

/// A frame of a kind that there is not, which servers have to ignore.
pub(crate) fn nothing() -> Vec<u8> {
    let mut output = Vec::new();
    frame(u8::MAX, 0, 0, &[], &mut output);
    output
}

/// The headers of a gRPC request: `POST` and `http` by their numbers, the others with names by number where there is one.
fn headers() -> Vec<u8> {
    const ADD: u8 = 0x40;
    let mut block = vec![0x83, 0x86];
    let mut put = |first: &[u8], texts: &[&str]| {
        block.extend_from_slice(first);
        for text in texts {
            block.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            block.extend_from_slice(text.as_bytes());
        }
    };
    put(&[ADD | 4], &[METHOD]);
    put(&[ADD | 1], &["localhost"]);
    put(&[ADD | 31], &["application/grpc"]);
    put(&[ADD | 58], &["causeway-bench/1"]);
    put(&[ADD], &["te", "trailers"]);
    block
}
