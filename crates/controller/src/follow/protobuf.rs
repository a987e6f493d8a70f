//! Lists in the protobuf form of Kubernetes, read as they arrive: never more is held than one object of them.
//!
//! ```text
//! bytes, however they were cut ─▶ `k8s\0` ─▶ envelope { type, raw = list { metadata, item, item, … } } ─▶ item by item
//! ```
//!
//! The messages themselves are prost's business. This only finds where one ends and the next begins, which is four
//! kinds of field; whatever it does not know it passes over.

use prost::{DecodeError, Message};
use thiserror::Error;

/// What every answer in this form begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The most that an object may have. An API server takes a tenth of that.
const OBJECT: usize = 16 << 20;
/// The most that anything else may have that is read.
const SMALL: usize = 64 << 10;

/// Why a list cannot be read.
#[derive(Debug, Error)]
pub(super) enum Unreadable {
    #[error("it is not in the protobuf form of Kubernetes")]
    Form,
    #[error("it is a {0}")]
    Kind(String),
    #[error("a field of {0} bytes is too long")]
    TooLong(u64),
    #[error("a field that makes no sense: {0}")]
    Field(&'static str),
    #[error(transparent)]
    Message(#[from] DecodeError),
    #[error("it is not all of the list")]
    Partial,
    /// More was announced than came.
    #[error("it ended in the middle")]
    Incomplete,
}

/// What the envelope says of what is in it.
#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// What a list says of itself.
#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    r#continue: String,
}

/// A whole answer of which the list is no part: a refusal.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

/// What a server says when it refuses.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Refusal {
    #[prost(string, tag = "3")]
    pub(super) message: String,
    #[prost(string, tag = "4")]
    pub(super) reason: String,
}

impl Refusal {
    /// From a whole answer, if it has this form.
    pub(super) fn read(answer: &[u8]) -> Option<Refusal> {
        let envelope = Envelope::decode(answer.strip_prefix(MAGIC)?).ok()?;
        Refusal::decode(&envelope.raw[..]).ok()
    }
}

/// Where in the answer the next byte belongs.
#[derive(Debug, Clone, Copy)]
enum Place {
    Beginning,
    Envelope,
    /// So much of the list is still to come.
    List(u64),
}

/// Reads one list.
#[derive(Debug)]
pub(super) struct Reader {
    /// What the list's type has to be.
    api_version: String,
    kind: String,
    place: Place,
    /// What has come of a field that is not complete.
    rest: Vec<u8>,
    /// So much of a field that nobody reads is still to come.
    skip: u64,
    is_typed: bool,
    is_listed: bool,
    version: String,
}

impl Reader {
    /// Of a list of that kind.
    pub(super) fn new(api_version: &str, kind: &str) -> Reader {
        Reader {
            api_version: api_version.to_owned(),
            kind: format!("{kind}List"),
            place: Place::Beginning,
            rest: Vec::new(),
            skip: 0,
            is_typed: false,
            is_listed: false,
            version: String::new(),
        }
    }

    /// Takes in what has come, and gives each object that is complete.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        object: &mut dyn FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), Unreadable> {
        if self.rest.is_empty() {
            // As a rule most of what comes is complete, and need not be copied.
            let taken = self.take(bytes, object)?;
            self.rest.extend_from_slice(&bytes[taken..]);
        } else {
            let mut rest = std::mem::take(&mut self.rest);
            rest.extend_from_slice(bytes);
            let taken = self.take(&rest, object)?;
            rest.drain(..taken);
            self.rest = rest;
        }
        Ok(())
    }

    /// That was all: the list's version.
    pub(super) fn end(self) -> Result<String, Unreadable> {
        let is_whole = self.rest.is_empty() && self.skip == 0 && matches!(self.place, Place::Envelope);
        if !is_whole || !self.is_listed {
            return Err(Unreadable::Incomplete);
        }
        // A watch could not go on from there.
        if self.version.is_empty() { Err(Unreadable::Partial) } else { Ok(self.version) }
    }

    /// Takes field after field; returns how many bytes those were.
    fn take(
        &mut self,
        bytes: &[u8],
        object: &mut dyn FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<usize, Unreadable> {
        let mut taken = 0;
        while let Some(more) = self.step(&bytes[taken..], object)? {
            taken += more;
        }
        Ok(taken)
    }

    /// Takes one field, if it is complete; returns how many bytes it was.
    fn step(
        &mut self,
        bytes: &[u8],
        object: &mut dyn FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<Option<usize>, Unreadable> {
        if self.skip > 0 {
            let now = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
            self.skip -= now as u64;
            return Ok(Some(now).filter(|now| *now > 0));
        }
        match self.place {
            Place::Beginning => match bytes.split_at_checked(MAGIC.len()) {
                Some((MAGIC, _)) => {
                    self.place = Place::Envelope;
                    Ok(Some(MAGIC.len()))
                }
                None if MAGIC.starts_with(bytes) => Ok(None),
                _ => Err(Unreadable::Form),
            },
            Place::Envelope => self.in_envelope(bytes),
            Place::List(0) => {
                self.place = Place::Envelope;
                Ok(Some(0))
            }
            Place::List(left) => self.in_list(left, bytes, object),
        }
    }

    fn in_envelope(&mut self, bytes: &[u8]) -> Result<Option<usize>, Unreadable> {
        let Some(field) = Field::read(bytes)? else { return Ok(None) };
        match (field.number, field.is_sized) {
            (1, true) => {
                let Some(body) = field.body(bytes, SMALL)? else { return Ok(None) };
                let TypeMeta { api_version, kind } = TypeMeta::decode(body)?;
                if (&api_version, &kind) != (&self.api_version, &self.kind) {
                    return Err(Unreadable::Kind(format!("{api_version} {kind}")));
                }
                self.is_typed = true;
                Ok(Some(field.head + body.len()))
            }
            // What is in it nobody knows before its type.
            (2, true) if self.is_typed && !self.is_listed => {
                (self.is_listed, self.place) = (true, Place::List(field.size));
                Ok(Some(field.head))
            }
            (1 | 2, _) => Err(Unreadable::Field("it is out of place")),
            // The list would be encoded once more.
            (3, true) if field.size > 0 => Err(Unreadable::Form),
            _ => Ok(Some(self.pass_over(&field))),
        }
    }

    fn in_list(
        &mut self,
        left: u64,
        bytes: &[u8],
        object: &mut dyn FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<Option<usize>, Unreadable> {
        let Some(field) = Field::read(bytes)? else { return Ok(None) };
        let all = field.size.checked_add(field.head as u64);
        let left = all.and_then(|all| left.checked_sub(all));
        let left = left.ok_or(Unreadable::Field("it is longer than what it is in"))?;
        let taken = match (field.number, field.is_sized) {
            (1, true) => {
                let Some(body) = field.body(bytes, SMALL)? else { return Ok(None) };
                let meta = ListMeta::decode(body)?;
                if !meta.r#continue.is_empty() {
                    return Err(Unreadable::Partial);
                }
                self.version = meta.resource_version;
                field.head + body.len()
            }
            (2, true) => {
                let Some(body) = field.body(bytes, OBJECT)? else { return Ok(None) };
                object(body)?;
                field.head + body.len()
            }
            (1 | 2, false) => return Err(Unreadable::Field("it is a number")),
            _ => self.pass_over(&field),
        };
        self.place = Place::List(left);
        Ok(Some(taken))
    }

    /// Has the field's body skipped as it comes; returns what is before it.
    fn pass_over(&mut self, field: &Field) -> usize {
        self.skip = field.size;
        field.head
    }
}

/// How a field begins.
#[derive(Debug)]
struct Field {
    number: u64,
    /// How many bytes are before its body.
    head: usize,
    /// How many bytes its body has.
    size: u64,
    /// Whether it says itself how many: text, or a message.
    is_sized: bool,
}

impl Field {
    /// The field that begins here, if enough of it has come.
    fn read(bytes: &[u8]) -> Result<Option<Field>, Unreadable> {
        let Some((key, head)) = varint(bytes)? else { return Ok(None) };
        let number = key >> 3;
        let fixed = |size| Ok(Some(Field { number, head, size, is_sized: false }));
        match (number, key & 7) {
            (0, _) => Err(Unreadable::Field("it has no number")),
            (_, 0) => {
                let value = varint(&bytes[head..])?;
                Ok(value.map(|(_, more)| Field { number, head: head + more, size: 0, is_sized: false }))
            }
            (_, 1) => fixed(8),
            (_, 5) => fixed(4),
            (_, 2) => {
                let size = varint(&bytes[head..])?;
                Ok(size.map(|(size, more)| Field { number, head: head + more, size, is_sized: true }))
            }
            _ => Err(Unreadable::Field("its kind is unknown")),
        }
    }

    /// Its body, if all of it has come. One that is too long is not waited for.
    fn body<'a>(&self, bytes: &'a [u8], most: usize) -> Result<Option<&'a [u8]>, Unreadable> {
        let size = usize::try_from(self.size).ok().filter(|size| *size <= most);
        let size = size.ok_or(Unreadable::TooLong(self.size))?;
        Ok(bytes.get(self.head..self.head + size))
    }
}

/// A number and how many bytes it takes, if all of them have come.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Unreadable> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(Unreadable::Field("a number without an end")) }
}

#[cfg(test)]
mod tests;
