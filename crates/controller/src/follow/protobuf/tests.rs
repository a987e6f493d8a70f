//! Whatever comes, in whatever pieces.

use proptest::prelude::*;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::*;

/// A field with a length.
fn field(number: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut bytes);
    encode_varint(body.len() as u64, &mut bytes);
    [bytes, body.to_vec()].concat()
}

fn type_meta(kind: &str) -> Vec<u8> {
    let meta = TypeMeta { api_version: "v1".into(), kind: kind.into() };
    field(1, &meta.encode_to_vec())
}

fn list_meta(version: &str, more: &str) -> Vec<u8> {
    let meta = ListMeta { resource_version: version.into(), r#continue: more.into() };
    field(1, &meta.encode_to_vec())
}

/// As a server writes it, empty fields at the end too.
fn answer(meta: &[u8], objects: &[Vec<u8>]) -> Vec<u8> {
    let objects: Vec<u8> = objects.iter().flat_map(|object| field(2, object)).collect();
    let raw = field(2, &[meta, &objects].concat());
    [MAGIC, &type_meta("NodeList"), &raw, &field(3, b""), &field(4, b"")].concat()
}

fn reader() -> Reader {
    Reader::new("v1", "Node")
}

/// What is read of bytes that come in these pieces, the last one taking all that is left.
fn read(mut bytes: &[u8], pieces: &[usize]) -> Result<(String, Vec<Vec<u8>>), Unreadable> {
    let (mut reader, mut objects) = (reader(), Vec::new());
    let mut keep = |object: &[u8]| {
        objects.push(object.to_vec());
        Ok(())
    };
    for piece in pieces {
        let (now, later) = bytes.split_at((*piece).min(bytes.len()));
        reader.feed(now, &mut keep)?;
        bytes = later;
    }
    reader.feed(bytes, &mut keep)?;
    Ok((reader.end()?, objects))
}

fn refused(bytes: &[u8]) -> String {
    read(bytes, &[]).expect_err("it is refused").to_string()
}

#[test]
fn what_is_no_list_of_the_kind_is_refused_and_says_why() {
    let meta = list_meta("7", "");
    let typed = |kind: &str, raw: &[u8]| [MAGIC, &type_meta(kind), &field(2, raw)].concat();
    let cases = [
        (b"{\"kind\":".to_vec(), "it is not in the protobuf form"),
        (typed("Status", b""), "it is a v1 Status"),
        ([MAGIC, &field(2, &meta)].concat(), "it is out of place"),
        ([typed("NodeList", &meta), field(2, &meta)].concat(), "it is out of place"),
        ([typed("NodeList", &meta), field(3, b"gzip")].concat(), "it is not in the protobuf form"),
        (answer(&list_meta("7", "more"), &[]), "it is not all of the list"),
        (answer(b"", &[]), "it is not all of the list"),
        // An object that goes on after the list.
        (typed("NodeList", &[0x12, 5, 0]), "it is longer than what it is in"),
        (typed("NodeList", &[0x12; 11]), "it is longer than what it is in"),
        (typed("NodeList", &[0x10, 5]), "it is a number"),
        (typed("NodeList", &[0xff; 11]), "a number without an end"),
        (typed("NodeList", &[0x0b]), "its kind is unknown"),
        (typed("NodeList", &[0x02]), "it has no number"),
    ];
    for (bytes, expected) in cases {
        let said = refused(&bytes);
        assert!(said.contains(expected), "{said}: {bytes:?}");
    }
}

#[test]
fn an_object_that_is_too_long_is_not_waited_for() {
    let mut begins = [MAGIC, &type_meta("NodeList")[..], &[0x12]].concat();
    encode_varint(u64::MAX, &mut begins);
    begins.push(0x12);
    encode_varint(OBJECT as u64 + 1, &mut begins);
    let error = reader().feed(&begins, &mut |_| Ok(())).expect_err("it is refused");
    assert!(matches!(error, Unreadable::TooLong(_)), "{error}");
}

#[test]
fn a_list_that_was_cut_anywhere_is_not_complete() {
    let whole = answer(&list_meta("7", ""), &[b"one".to_vec(), b"two".to_vec()]);
    // The two empty fields at its end may be missing.
    let end = whole.len() - 4;
    for at in 0..end {
        let error = read(&whole[..at], &[]).expect_err("it is not complete");
        assert!(matches!(error, Unreadable::Incomplete), "{at}: {error}");
    }
    let (version, objects) = read(&whole[..end], &[]).expect("complete");
    assert_eq!((version.as_str(), objects.len()), ("7", 2));
}

#[test]
fn what_is_not_known_is_passed_over() {
    // A number, eight bytes, four bytes, and text.
    let unknown = [&[0x48, 0x96, 0x01, 0x51][..], &[1; 8], &[0x5d], &[1; 4], &field(12, b"text")].concat();
    let list = [&unknown[..], &list_meta("7", ""), &unknown, &field(2, b"one"), &unknown].concat();
    let bytes = [MAGIC, &unknown, &type_meta("NodeList"), &unknown, &field(2, &list), &unknown].concat();
    for piece in 1..bytes.len() {
        let (version, objects) = read(&bytes, &vec![piece; bytes.len() / piece]).expect("a list");
        assert_eq!((version.as_str(), &objects[..]), ("7", &[b"one".to_vec()][..]));
    }
}

#[test]
fn a_refusal_is_read_and_nothing_else_is_taken_for_one() {
    let said = Refusal { message: "nodes is forbidden".into(), reason: "Forbidden".into() };
    let bytes = [MAGIC, &type_meta("Status"), &field(2, &said.encode_to_vec())].concat();
    assert_eq!(Refusal::read(&bytes), Some(said));
    assert_eq!(Refusal::read(b"{\"kind\":\"Status\"}"), None);
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..50_usize, 0..40)
}

proptest! {
    #[test]
    fn a_list_is_the_same_however_it_comes(
        objects in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
        version in "[0-9]{1,8}",
        pieces in pieces(),
    ) {
        let bytes = answer(&list_meta(&version, ""), &objects);
        let read = read(&bytes, &pieces).expect("a list");
        prop_assert_eq!(read, (version, objects));
    }

    /// Bytes of chance rarely get past the beginning: some are put into a list.
    #[test]
    fn whatever_comes_has_an_answer_and_no_more_is_held_than_came(
        objects in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..4),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..100),
        is_cut in any::<bool>(),
        pieces in pieces(),
    ) {
        let mut bytes = answer(&list_meta("7", ""), &objects);
        for (at, byte) in noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(pieces.len() * 3);
        }
        bytes.extend(tail);
        let (mut reader, mut given, mut at) = (reader(), 0, 0);
        for piece in pieces {
            let next = (at + piece).min(bytes.len());
            let fed = reader.feed(&bytes[at..next], &mut |object| {
                given += object.len();
                Ok(())
            });
            at = next;
            if fed.is_err() {
                return Ok(());
            }
            prop_assert!(reader.rest.len() + given <= at);
            prop_assert!(reader.rest.capacity() <= 2 * bytes.len().max(8));
        }
        let _ = reader.end();
    }

    #[test]
    fn any_bytes_at_all_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200), pieces in pieces()) {
        let _ = read(&bytes, &pieces);
        let _ = read(&[MAGIC, &bytes].concat(), &pieces);
        let _ = read(&[MAGIC, &type_meta("NodeList"), &[0x12, 0x7f], &bytes].concat(), &pieces);
        let _ = Refusal::read(&[MAGIC, &bytes].concat());
    }
}
