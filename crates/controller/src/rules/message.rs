//! Responses as ready bytes: a set is encoded once, and each stream adds only what is its own.

use std::io::IoSlice;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::buf::Chain;
use bytes::{Buf, BufMut, Bytes};
use causeway_core::ObjectKey;
use causeway_core::rules::state::{Set, Target};
use prost::encoding::{self, WireType};

/// The largest message that data planes take; a larger one would end their stream, again and again.
pub(super) const LARGEST: usize = 4 * 1024 * 1024;
/// What is said with rules.
const SENT: &str = "Get and send rule success";
/// The answer to a subscription.
pub(super) const ANSWER: i32 = 1;
/// A push.
pub(super) const PUSH: i32 = 200;
/// What a response may need beside the rules: codes, names, ids.
const AROUND: usize = 4096;

/// A set, encoded for everybody who asks for it.
pub(super) struct Shared {
    /// Its version, which may rise while the rules stay.
    version: AtomicI64,
    /// Which rules it has.
    pub(super) rules: Vec<ObjectKey>,
    /// Namespace, app and kind.
    about: Bytes,
    data: Bytes,
}

impl Shared {
    /// Encodes a set.
    pub(super) fn new(target: &Target, set: Set) -> Self {
        let mut about = Vec::new();
        text(3, &target.namespace, &mut about);
        text(4, &target.app, &mut about);
        text(5, target.kind.full_name(), &mut about);
        let version = AtomicI64::new(set.version);
        Self { version, rules: set.rules, about: about.into(), data: set.data.into() }
    }

    /// Its version.
    pub(super) fn version(&self) -> i64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whoever asks from now on is told a later version of the same.
    pub(super) fn raise(&self, version: i64) {
        self.version.fetch_max(version, Ordering::AcqRel);
    }

    /// How large a response would be, where nobody could take it.
    pub(super) fn oversize(target: &Target, set: &Set) -> Option<usize> {
        let size = set.data.len() + target.namespace.len() + target.app.len() + AROUND;
        (size > LARGEST).then_some(size)
    }

    /// Whether it has the same rules.
    pub(super) fn has_data_of(&self, set: &Set) -> bool {
        self.data == set.data
    }

    /// The response that brings it.
    pub(super) fn response(&self, code: i32, version: i64, control_plane: &str, id: &str) -> Response {
        let mut head = beginning(192);
        status(code, SENT, &mut head);
        head.extend_from_slice(&self.about);
        // Zero is what a field has that is not there.
        let number = if version == 0 { 0 } else { 1 + encoding::encoded_len_varint(version.cast_unsigned()) };
        key(6, &mut head);
        encoding::encode_varint((self.data.len() + number) as u64, &mut head);
        let mut tail = Vec::with_capacity(96);
        if version != 0 {
            encoding::int64::encode(2, &version, &mut tail);
        }
        ending(control_plane, id, &mut tail);
        Response::new(head, self.data.clone(), tail)
    }
}

/// A response, ready to be sent: after its length, as gRPC has it. The rules are everybody's.
pub(super) struct Response {
    head: Vec<u8>,
    data: Bytes,
    tail: Vec<u8>,
}

/// What precedes a message: that it is not compressed, and its length.
const PREFIX: usize = 5;

fn beginning(capacity: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(capacity);
    head.extend_from_slice(&[0; PREFIX]);
    head
}

/// Bytes that are written one after another, without being copied together before.
pub(super) struct Pieces(Chain<Bytes, Chain<Bytes, Bytes>>);

impl From<Response> for Pieces {
    fn from(Response { head, data, tail }: Response) -> Self {
        Self(Bytes::from(head).chain(data.chain(Bytes::from(tail))))
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        Self(bytes.chain(Bytes::new().chain(Bytes::new())))
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.0.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.0.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.0.advance(count);
    }
}

/// Whom a refusal is about, as far as that was said.
#[derive(Default)]
pub(super) struct About<'a> {
    pub(super) namespace: &'a str,
    pub(super) app: &'a str,
    pub(super) kind: &'a str,
}

impl Response {
    fn new(mut head: Vec<u8>, data: Bytes, tail: Vec<u8>) -> Self {
        let length = head.len() - PREFIX + data.len() + tail.len();
        // Far less than that: what is larger than clients take is never sent.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        head[1..PREFIX].copy_from_slice(&length.to_be_bytes());
        Self { head, data, tail }
    }

    /// A refusal: clients ignore one with a code from 4000 to 4099 and an ack that is not empty.
    pub(super) fn refusal(
        code: i32,
        message: &str,
        about: &About<'_>,
        control_plane: &str,
        id: &str,
    ) -> Self {
        let mut head = beginning(PREFIX);
        status(code, message, &mut head);
        text(2, "NACK", &mut head);
        text(3, about.namespace, &mut head);
        text(4, about.app, &mut head);
        text(5, about.kind, &mut head);
        let mut tail = Vec::new();
        ending(control_plane, id, &mut tail);
        Self::new(head, Bytes::new(), tail)
    }
}

fn key(field: u32, buffer: &mut Vec<u8>) {
    encoding::encode_key(field, WireType::LengthDelimited, buffer);
}

/// A text; an empty one is not there.
fn text(field: u32, text: &str, buffer: &mut Vec<u8>) {
    if !text.is_empty() {
        key(field, buffer);
        encoding::encode_varint(text.len() as u64, buffer);
        buffer.put_slice(text.as_bytes());
    }
}

fn nested(field: u32, message: &[u8], buffer: &mut Vec<u8>) {
    key(field, buffer);
    encoding::encode_varint(message.len() as u64, buffer);
    buffer.put_slice(message);
}

fn status(code: i32, message: &str, buffer: &mut Vec<u8>) {
    let mut status = Vec::new();
    encoding::int32::encode(1, &code, &mut status);
    text(2, message, &mut status);
    nested(1, &status, buffer);
}

fn ending(control_plane: &str, id: &str, buffer: &mut Vec<u8>) {
    let mut described = Vec::new();
    text(1, control_plane, &mut described);
    nested(7, &described, buffer);
    text(8, id, buffer);
}

#[cfg(test)]
mod tests {
    use causeway_core::rules::Kind;
    use causeway_core::rules::wire::Any;
    use causeway_core::rules::wire::transport::v1::{
        ControlPlaneDesc, DataWithVersion, Status as Said, SubscribeResponse,
    };
    use prost::Message;

    use super::*;

    /// What is sent, without its length.
    fn message(response: Response) -> Vec<u8> {
        let mut pieces = Pieces::from(response);
        let all = pieces.copy_to_bytes(pieces.remaining());
        let (prefix, message) = all.split_at(PREFIX);
        let length = u32::try_from(message.len()).expect("it is short");
        assert_eq!(prefix, [&[0], &length.to_be_bytes()[..]].concat());
        message.to_vec()
    }

    fn expected(code: i32, message: &str) -> SubscribeResponse {
        SubscribeResponse {
            status: Some(Said { code, message: message.into(), details: Vec::new() }),
            namespace: "default".into(),
            app: "foo".into(),
            kind: Kind::RateLimitStrategy.full_name().into(),
            control_plane: Some(ControlPlaneDesc { identifier: "osg-host".into() }),
            response_id: "7-1".into(),
            ..SubscribeResponse::default()
        }
    }

    #[test]
    fn ready_bytes_are_those_of_the_message() {
        let target = Target {
            kind: Kind::RateLimitStrategy,
            namespace: "default".into(),
            app: "foo".into(),
            labels: std::sync::Arc::default(),
        };
        let rules = [vec![], vec![Any { type_url: "t".into(), value: vec![1, 2, 3] }; 3]];
        for (data, version) in
            rules.into_iter().flat_map(|data| [0, 1, 127, 128, i64::MAX].map(|v| (data.clone(), v)))
        {
            let encoded = DataWithVersion { data: data.clone(), version: 0 }.encode_to_vec();
            let shared = Shared::new(&target, Set { version, data: encoded, rules: Vec::new() });
            let response = shared.response(PUSH, version, "osg-host", "7-1");
            let whole = SubscribeResponse {
                data_with_version: Some(DataWithVersion { data, version }),
                ..expected(PUSH, SENT)
            };
            assert_eq!(message(response), whole.encode_to_vec());
        }
    }

    #[test]
    fn a_refusal_is_a_nack_with_its_code() {
        let kind = Kind::RateLimitStrategy.full_name();
        let about = About { namespace: "default", app: "foo", kind };
        let refusal = Response::refusal(4003, "no", &about, "osg-host", "7-1");
        let whole = SubscribeResponse { ack: "NACK".into(), ..expected(4003, "no") };
        assert_eq!(message(refusal), whole.encode_to_vec());
    }
}
