//! Request bodies into values, with the two things a plain parser forgets: which fields came twice,
//! and how strictly the sender wants it judged.

use std::cell::RefCell;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::status::{ApiError, FieldError, Qualified};

/// How the sender wants unknown and repeated fields treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl FieldValidation {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "Ignore" => Ok(Self::Ignore),
            "" | "Warn" => Ok(Self::Warn),
            "Strict" => Ok(Self::Strict),
            other => {
                let allowed = ["Ignore", "Strict", "Warn"].map(str::to_owned);
                let error = FieldError::not_supported("fieldValidation", &other.into(), &allowed);
                Err(ApiError::invalid(&Qualified::new("meta.k8s.io", "CreateOptions"), "", vec![error]))
            }
        }
    }
}

/// A body as sent.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) value: Value,
    /// Paths of fields that came more than once; the last one counts.
    pub(crate) duplicates: Vec<String>,
}

impl Body {
    /// JSON, YAML or protobuf, by content type; no content type means JSON.
    pub(crate) fn parse(content_type: &str, bytes: &[u8]) -> Result<Body, ApiError> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "" | "application/json" | "*/*" => Self::json(bytes),
            "application/yaml" => {
                let text =
                    std::str::from_utf8(bytes).map_err(|why| ApiError::bad_request(why.to_string()))?;
                let value = serde_saphyr::from_str(text)
                    .map_err(|why| ApiError::bad_request(format!("error parsing YAML: {why}")))?;
                Ok(Body { value, duplicates: Vec::new() })
            }
            "application/vnd.kubernetes.protobuf" => {
                Ok(Body { value: crate::protobuf::decode(bytes)?, duplicates: Vec::new() })
            }
            _ => Err(ApiError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }

    fn json(bytes: &[u8]) -> Result<Body, ApiError> {
        let found = RefCell::new(Vec::new());
        let root = Place { parent: None, step: Step::Root };
        let mut parser = serde_json::Deserializer::from_slice(bytes);
        let unreadable =
            |why: serde_json::Error| ApiError::bad_request(format!("couldn't parse the request body: {why}"));
        let value = Noticing { place: &root, found: &found }.deserialize(&mut parser).map_err(unreadable)?;
        parser.end().map_err(unreadable)?;
        Ok(Body { value, duplicates: found.into_inner() })
    }
}

/// Where the parser is, as a list from the inside out.
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl Place<'_> {
    fn path(&self) -> String {
        let before = self.parent.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Root => before,
            Step::Field(name) if before.is_empty() => name.to_owned(),
            Step::Field(name) => format!("{before}.{name}"),
            Step::Index(index) => format!("{before}[{index}]"),
        }
    }
}

/// Deserializes a [`Value`], noting repeated fields.
struct Noticing<'a> {
    place: &'a Place<'a>,
    found: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Noticing<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Noticing<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        // Whole numbers are written without a fraction, however they came.
        if v.fract() == 0.0 && v.abs() < 9e15 {
            return Ok(Value::Number((v as i64).into()));
        }
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let place = Place { parent: Some(self.place), step: Step::Index(items.len()) };
            match access.next_element_seed(Noticing { place: &place, found: self.found })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let place = Place { parent: Some(self.place), step: Step::Field(&name) };
            if map.contains_key(&name) {
                self.found.borrow_mut().push(place.path());
            }
            let value = access.next_value_seed(Noticing { place: &place, found: self.found })?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn repeated_fields_are_noticed_wherever_they_are() {
        let body = Body::parse("application/json", br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(body.value, json!({ "a": 3, "b": [{ "c": 2 }] }));
        assert_eq!(body.duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        assert_eq!(Body::parse("", b"{").unwrap_err().code, 400);
        assert_eq!(Body::parse("", b"{} x").unwrap_err().code, 400);
        assert_eq!(Body::parse("application/vnd.kubernetes.protobuf", b"k8s").unwrap_err().code, 400);
        assert_eq!(Body::parse("application/cbor", b"k8s").unwrap_err().code, 415);
    }

    #[test]
    fn bodies_nested_without_end_are_refused() {
        for (kind, open) in [
            ("application/json", "["),
            ("application/json", "{\"a\":"),
            ("application/yaml", "["),
            ("application/yaml", "- "),
        ] {
            let error = Body::parse(kind, open.repeat(100_000).as_bytes()).unwrap_err();
            assert_eq!(error.code, 400, "{kind} {open}: {}", error.message);
        }
        let bomb: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1)).collect();
        assert_eq!(
            Body::parse("application/yaml", format!("a0: &a0 x\n{bomb}").as_bytes()).unwrap_err().code,
            400
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_body_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..80), text in r#"([{}\[\]:,"&*!|>\-] ?|[a-c0-9.]|\n| ){0,30}"#,
        ) {
            for kind in ["", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
                let _ = Body::parse(kind, &bytes);
                let _ = Body::parse(kind, text.as_bytes());
            }
        }
    }
}
