//! A config file as text becomes settings: which key, in which line, with which values.
//!
//! Whatever the bytes are, the answer is settings or one mistake. Scalars are taken as they are written: what they mean is up to
//! the flag that they stand for.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{Deserialize, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, MergeKeyPolicy, Spanned};

/// A flag that a file can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flag {
    /// As clap knows it.
    pub(super) id: String,
    /// Without its dashes.
    pub(super) long: String,
    /// Whether it takes several values.
    pub(super) is_list: bool,
}

/// Flags by their keys in a file.
pub(super) type Flags = BTreeMap<String, Flag>;

/// One key of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) line: u64,
    pub(super) values: Vec<String>,
}

/// What is wrong with a file, and where, if that is in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) line: Option<u64>,
    pub(super) what: String,
}

impl Mistake {
    fn at(location: Location, what: String) -> Self {
        Self { line: Some(location.line()).filter(|line| *line > 0), what }
    }
}

/// The key that stands for a flag: `cluster-id` is `clusterId`.
pub(super) fn key_of(long: &str) -> String {
    let mut words = long.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let mut letters = word.chars();
        let head = letters.next().map(|letter| letter.to_ascii_uppercase());
        key + &head.into_iter().chain(letters).collect::<String>()
    })
}

/// Reads a file's text.
pub(super) fn settings(text: &str, flags: &Flags) -> Result<Vec<Setting>, Mistake> {
    let shapes: Option<Shapes> = serde_saphyr::from_str_with_options(text, options()).map_err(mistake)?;
    let shapes = shapes.map(|shapes| shapes.0).unwrap_or_default();
    for (key, shape) in &shapes {
        fits(key, shape.value, flags)?;
    }
    let values = match shapes.is_empty() {
        true => Vec::new(),
        false => {
            let exact = Exact(shapes.iter().map(|(_, shape)| shape.value).collect());
            let read = |de: serde_saphyr::Deserializer<'_, '_>| exact.deserialize(de);
            serde_saphyr::with_deserializer_from_str_with_options(text, options(), read).map_err(mistake)?
        }
    };
    let named = shapes.into_iter().zip(values);
    Ok(named
        .map(|((key, _), values)| Setting { line: key.referenced.line(), key: key.value, values })
        .collect())
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
    }
}

fn mistake(error: serde_saphyr::Error) -> Mistake {
    let line = error.location().map(|at| at.line()).filter(|line| *line > 0);
    Mistake { line, what: plain(&error.without_snippet().to_string()) }
}

/// In one line, and without the place, which is said apart.
fn plain(what: &str) -> String {
    let first = what.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it is no YAML");
    first.split(" at line ").next().unwrap_or(first).to_owned()
}

/// Whether a key is known, and what stands behind it can be its value.
fn fits(key: &Spanned<String>, shape: Shape, flags: &Flags) -> Result<(), Mistake> {
    let (name, at) = (&key.value, key.referenced);
    let Some(flag) = flags.get(name) else { return Err(Mistake::at(at, unknown(name, flags))) };
    let what = match shape {
        Shape::Scalar => return Ok(()),
        Shape::List if flag.is_list => return Ok(()),
        Shape::List => format!("{name} takes one value, and this is a list"),
        Shape::Nothing => format!("{name} has no value"),
        Shape::Other(what) => {
            let wanted = if flag.is_list { "a value or a list of values" } else { "one value" };
            format!("{name} takes {wanted}, and this is {what}")
        }
    };
    Err(Mistake::at(at, what))
}

fn unknown(name: &str, flags: &Flags) -> String {
    let bare = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    match flags.keys().find(|key| bare(key) == bare(name)) {
        Some(key) => format!("unknown key `{name}`: write {key}"),
        None => {
            format!("unknown key `{name}`: keys are the controller's flags, so --cluster-id is clusterId")
        }
    }
}

/// The keys of a file with the shapes of their values, in its order.
struct Shapes(Vec<(Spanned<String>, Spanned<Shape>)>);

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;
        impl<'de> Visitor<'de> for OfMap {
            type Value = Shapes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with values, like `clusterId: cluster1`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shapes, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    entries.push((key, map.next_value()?));
                }
                Ok(Shapes(entries))
            }
        }
        deserializer.deserialize_map(OfMap)
    }
}

/// The values of a map whose shapes are known, as they are written: `010` is no eight, nor ten.
struct Exact(Vec<Shape>);

impl<'de> DeserializeSeed<'de> for Exact {
    type Value = Vec<Vec<String>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Exact {
    type Value = Vec<Vec<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same keys again")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        for shape in self.0 {
            if map.next_key::<IgnoredAny>()?.is_none() {
                break;
            }
            values.push(match shape {
                Shape::List => map.next_value()?,
                Shape::Scalar | Shape::Nothing | Shape::Other(_) => vec![map.next_value()?],
            });
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(values)
    }
}

/// What stands behind a key.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Scalar,
    List,
    Nothing,
    /// Something that no flag takes.
    Other(&'static str),
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfAny)
    }
}

struct OfAny;

impl<'de> Visitor<'de> for OfAny {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Shape, E> {
        Ok(Shape::Other("binary"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
        let mut shape = Shape::List;
        while let Some(element) = list.next_element::<Shape>()? {
            shape = match element {
                Shape::Scalar => shape,
                Shape::List => Shape::Other("a list of lists"),
                Shape::Nothing => Shape::Other("a list with an empty entry"),
                Shape::Other(_) => Shape::Other("a list of mappings"),
            };
        }
        Ok(shape)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Shape::Other("a mapping"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flags() -> Flags {
        let flag = |long: &str, is_list| {
            (key_of(long), Flag { id: long.replace('-', "_"), long: long.into(), is_list })
        };
        [flag("cluster-id", false), flag("workers", false), flag("egress-ips", true), flag("enable", true)]
            .into()
    }

    fn mistake(text: &str) -> (Option<u64>, String) {
        let mistake = settings(text, &flags()).expect_err(text);
        (mistake.line, mistake.what)
    }

    #[test]
    fn a_file_is_keys_with_values_in_their_lines() {
        let text = "# who we are\nclusterId: cluster1\nworkers: 0128\negressIps:\n  - 242.0.0.1\n  - 242.0.0.2\nenable: vpc,rules\n";
        let read = settings(text, &flags()).expect("it makes sense");
        let said: Vec<(&str, u64, Vec<&str>)> = read
            .iter()
            .map(|it| (it.key.as_str(), it.line, it.values.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            said,
            [
                ("clusterId", 2, vec!["cluster1"]),
                ("workers", 3, vec!["0128"]),
                ("egressIps", 4, vec!["242.0.0.1", "242.0.0.2"]),
                ("enable", 7, vec!["vpc,rules"]),
            ]
        );
        for empty in ["", "# nothing\n", "---\n", "{}\n", "null\n"] {
            assert_eq!(settings(empty, &flags()), Ok(vec![]), "{empty:?}");
        }
    }

    #[test]
    fn each_kind_of_mistake_has_its_line_and_its_words() {
        for (text, line, words) in [
            ("clusterId: a\nworker: 1\n", 2, "unknown key `worker`: keys are the controller's flags"),
            ("cluster-id: a\n", 1, "unknown key `cluster-id`: write clusterId"),
            ("cluster_id: a\n", 1, "write clusterId"),
            ("\nworkers: [1, 2]\n", 2, "workers takes one value, and this is a list"),
            ("workers: {a: 1}\n", 1, "workers takes one value, and this is a mapping"),
            ("workers:\n", 1, "workers has no value"),
            ("workers: ~\n", 1, "workers has no value"),
            (
                "egressIps: [[a]]\n",
                1,
                "egressIps takes a value or a list of values, and this is a list of lists",
            ),
            ("egressIps: [a, ]\nenable: [a, ~]\n", 2, "this is a list with an empty entry"),
            ("egressIps: [{a: b}]\n", 1, "this is a list of mappings"),
            ("workers: 1\nworkers: 2\n", 2, "duplicate"),
        ] {
            let (at, what) = mistake(text);
            assert_eq!(at, Some(line), "{text:?}: {what}");
            assert!(what.contains(words), "{text:?}: {what}");
        }
        for text in ["- a\n", "text\n", "a: b: c\n", "a: [\n", "clusterId: a\n---\nclusterId: b\n"] {
            let (_, what) = mistake(text);
            assert!(!what.is_empty() && what.lines().count() == 1, "{text:?}: {what}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_it_is_settings_or_one_mistake(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = String::from_utf8_lossy(&bytes);
            if let Err(mistake) = settings(&text, &flags()) {
                prop_assert_eq!(mistake.what.lines().count(), 1);
            }
        }

        #[test]
        fn whatever_looks_like_yaml_is_too(text in "(clusterId|workers|egressIps|enable|x)(: | )?([\\[\\]{}&*!|>'\"%@`#,:a-z0-9\\n -]{0,60})") {
            if let Err(mistake) = settings(&text, &flags()) {
                prop_assert_eq!(mistake.what.lines().count(), 1);
            }
        }
    }
}
