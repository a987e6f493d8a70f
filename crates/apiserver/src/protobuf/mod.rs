//! Bodies in the Kubernetes protobuf encoding, which typed Go clients (and `kubectl create` with
//! them) send for built-in kinds. Answers are JSON: those clients accept it.
//!
//! A body is four magic bytes and an envelope that names version and kind and holds the object. The
//! object is read by a table of field numbers into the JSON it would have been.

mod wire;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::messages::{self, Item, Kind};
use crate::status::ApiError;
use wire::{Field, Malformed, Raw, fields};

const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may be nested: schemas hold schemas, and a stack is not without end.
const MAX_DEPTH: usize = 120;

/// The object in a body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let unreadable = |why: &str| ApiError::bad_request(format!("the protobuf body could not be read: {why}"));
    let envelope =
        body.strip_prefix(MAGIC).ok_or_else(|| unreadable("it does not begin as Kubernetes' do"))?;
    let (api_version, kind, raw) =
        open(envelope).map_err(|Malformed| unreadable("its envelope is malformed"))?;
    let name = messages::name_of(&api_version, &kind).ok_or_else(|| {
        ApiError::unsupported_media_type(format!(
            "{kind} in version {api_version:?} is not accepted as protobuf - accepted media types include: \
             application/json, application/yaml"
        ))
    })?;
    let object = message(name, raw, MAX_DEPTH);
    let mut object = object.map_err(|Malformed| unreadable("its object is malformed"))?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(Value::Object(object))
}

/// Version, kind and object of an envelope.
fn open(envelope: &[u8]) -> Result<(String, String, &[u8]), Malformed> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(envelope) {
        match field? {
            Field { number: 1, value: Raw::Bytes(meta) } => {
                for field in fields(meta) {
                    match field? {
                        Field { number: 1, value: Raw::Bytes(text) } => api_version = lossy(text),
                        Field { number: 2, value: Raw::Bytes(text) } => kind = lossy(text),
                        _ => {}
                    }
                }
            }
            Field { number: 2, value: Raw::Bytes(bytes) } => raw = bytes,
            _ => {}
        }
    }
    Ok((api_version, kind, raw))
}

/// The fields of a message that may hold messages so much deeper.
fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let mut object = Map::new();
    let Some(known) = messages::find(name) else { return Ok(object) };
    for field in fields(bytes) {
        let field = field?;
        let Some(entry) = known.by_number.get(&field.number) else { continue };
        match entry.kind {
            Kind::One(Item::Message(part)) if entry.name.is_empty() => {
                object.extend(message(part, field.value.bytes()?, depth)?);
            }
            Kind::One(item) => {
                let value = one(item, &field.value, depth)?;
                let empty = value == json!("") || value == json!(0) || value == json!(false);
                if !(value.is_null() || entry.drop_if_empty && empty) {
                    object.insert(entry.name.to_owned(), value);
                }
            }
            Kind::List(item) => {
                let slot = object.entry(entry.name).or_insert_with(|| json!([]));
                if let Value::Array(list) = slot {
                    list.push(one(item, &field.value, depth)?);
                }
            }
            Kind::Map(item) => {
                let (key, value) = pair(item, field.value.bytes()?, depth)?;
                object.entry(entry.name).or_insert_with(|| json!({}))[key] = value;
            }
        }
    }
    Ok(object)
}

fn pair(item: Item, bytes: &[u8], depth: usize) -> Result<(String, Value), Malformed> {
    let (mut key, mut value) = (String::new(), Value::Null);
    for field in fields(bytes) {
        let field = field?;
        match field.number {
            1 => key = lossy(field.value.bytes()?),
            2 => value = one(item, &field.value, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn one(item: Item, raw: &Raw<'_>, depth: usize) -> Result<Value, Malformed> {
    Ok(match item {
        Item::Text => json!(lossy(raw.bytes()?)),
        Item::Flag => json!(raw.integer()? != 0),
        Item::Integer => json!(raw.integer()?),
        Item::Float => float(raw.float()?),
        Item::Bytes => json!(base64::engine::general_purpose::STANDARD.encode(raw.bytes()?)),
        Item::Time => time(raw.bytes()?, false)?,
        Item::MicroTime => time(raw.bytes()?, true)?,
        Item::Quantity => json!(text_at(raw.bytes()?, 1)?),
        Item::NumberOrText => number_or_text(raw.bytes()?)?,
        Item::Json => serde_json::from_slice(text_at(raw.bytes()?, 1)?.as_bytes()).map_err(|_| Malformed)?,
        Item::FlagOrMessage(name) => match bytes_at(raw.bytes()?, 2)? {
            Some(schema) => Value::Object(message(name, schema, depth)?),
            None => json!(integer_at(raw.bytes()?, 1)?.unwrap_or(0) != 0),
        },
        Item::Wrapped(name) => {
            Value::Object(message(name, bytes_at(raw.bytes()?, 1)?.ok_or(Malformed)?, depth)?)
        }
        Item::Message(name) => Value::Object(message(name, raw.bytes()?, depth)?),
    })
}

/// Seconds and nanoseconds; an empty message is no time at all.
fn time(bytes: &[u8], micro: bool) -> Result<Value, Malformed> {
    let (seconds, nanos) = (integer_at(bytes, 1)?, integer_at(bytes, 2)?.unwrap_or(0));
    let Some(seconds) = seconds else { return Ok(Value::Null) };
    let nanos = i32::try_from(nanos).map_err(|_| Malformed)?;
    let at = jiff::Timestamp::new(seconds, nanos).map_err(|_| Malformed)?;
    Ok(json!(if micro {
        at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    } else {
        crate::clock::seconds(at)
    }))
}

fn number_or_text(bytes: &[u8]) -> Result<Value, Malformed> {
    match integer_at(bytes, 1)? {
        Some(1) => Ok(json!(text_at(bytes, 3)?)),
        _ => Ok(json!(integer_at(bytes, 2)?.unwrap_or(0))),
    }
}

fn integer_at(bytes: &[u8], number: u64) -> Result<Option<i64>, Malformed> {
    for field in fields(bytes) {
        let field = field?;
        if field.number == number {
            return field.value.integer().map(Some);
        }
    }
    Ok(None)
}

fn bytes_at(bytes: &[u8], number: u64) -> Result<Option<&[u8]>, Malformed> {
    for field in fields(bytes) {
        let field = field?;
        if field.number == number {
            return field.value.bytes().map(Some);
        }
    }
    Ok(None)
}

fn text_at(bytes: &[u8], number: u64) -> Result<String, Malformed> {
    Ok(bytes_at(bytes, number)?.map(lossy).unwrap_or_default())
}

/// A whole number is written without a fraction, as in JSON bodies.
fn float(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A length-delimited field; everything here is shorter than 128 bytes.
    fn part(number: u8, inside: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, inside.len() as u8];
        bytes.extend_from_slice(inside);
        bytes
    }

    fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let meta = [part(1, api_version.as_bytes()), part(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), part(1, &meta), part(2, object)].concat()
    }

    #[test]
    fn an_object_reads_as_the_json_it_would_have_been() {
        let metadata = [part(1, b"a"), part(3, b""), part(8, &[8, 1])].concat();
        let data = [part(1, b"key"), part(2, b"value")].concat();
        let object = [part(1, &metadata), part(2, &data)].concat();
        let decoded = decode(&body("v1", "ConfigMap", &object)).unwrap();
        assert_eq!(
            decoded,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": { "key": "value" },
                "metadata": { "name": "a", "creationTimestamp": "1970-01-01T00:00:01Z" },
            })
        );
    }

    #[test]
    fn parts_of_a_whole_are_not_nested() {
        // A pod's spec with a volume from a host path.
        let volume = [part(1, b"v"), part(2, &part(1, &part(1, b"/x")))].concat();
        let object = part(2, &part(1, &volume));
        let decoded = decode(&body("v1", "Pod", &object)).unwrap();
        assert_eq!(decoded["spec"]["volumes"], json!([{ "name": "v", "hostPath": { "path": "/x" } }]));
    }

    #[test]
    fn damage_is_refused_and_never_panics() {
        let whole = body("v1", "ConfigMap", &part(1, &part(1, b"abc")));
        for end in 0..whole.len() {
            let _ = decode(&whole[..end]);
        }
        assert_eq!(decode(b"{}").unwrap_err().code, 400);
        assert_eq!(decode(&body("example.com/v1", "Widget", b"")).unwrap_err().code, 415);
    }

    /// A length-delimited field of any length.
    fn long_part(number: u8, inside: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let key = u64::from(number) << 3 | 2;
        for mut value in [key, inside.len() as u64] {
            loop {
                let low = (value & 0x7f) as u8;
                value >>= 7;
                bytes.push(if value == 0 { low } else { low | 0x80 });
                if value == 0 {
                    break;
                }
            }
        }
        bytes.extend_from_slice(inside);
        bytes
    }

    #[test]
    fn schemas_nested_without_end_are_refused() {
        let definition = |depth: usize| {
            let mut schema = part(5, b"object");
            for _ in 0..depth {
                // `not`, a schema in a schema.
                schema = long_part(28, &schema);
            }
            let version = long_part(4, &long_part(1, &schema));
            let object = long_part(2, &long_part(7, &version));
            let meta = [part(1, b"apiextensions.k8s.io/v1"), part(2, b"CustomResourceDefinition")].concat();
            [MAGIC.to_vec(), part(1, &meta), long_part(2, &object)].concat()
        };
        assert!(decode(&definition(50)).is_ok());
        assert_eq!(decode(&definition(3_000)).unwrap_err().code, 400);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_object_or_refused(
            kind in prop_oneof!["Pod", "ConfigMap", "Secret", "Node", "Event"],
            inside in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = decode(&inside);
            let _ = decode(&[MAGIC, &inside].concat());
            let _ = decode(&body("v1", &kind, &inside));
            let _ = decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &inside));
            // Well formed on the outside, so that the inside is looked at.
            for number in 1..4 {
                let _ = decode(&body("v1", &kind, &part(number, &inside[..inside.len().min(60)])));
            }
        }
    }
}
