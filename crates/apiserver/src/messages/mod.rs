//! What the built-in kinds consist of: the names, numbers and types of their fields.
//!
//! Read from a table: `protobuf` decodes by number, `builtin` checks JSON by name.

use std::collections::HashMap;
use std::sync::LazyLock;

/// One kind, or a part of one.
#[derive(Default)]
pub(crate) struct Message {
    pub(crate) by_number: HashMap<u64, Entry>,
    /// The number of each name.
    names: HashMap<&'static str, u64>,
    /// Parts whose fields belong to the whole.
    parts: Vec<&'static str>,
}

/// A field.
pub(crate) struct Entry {
    /// Empty for a part whose fields belong to the whole.
    pub(crate) name: &'static str,
    pub(crate) drop_if_empty: bool,
    pub(crate) kind: Kind,
}

/// How many values a field has.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    One(Item),
    List(Item),
    Map(Item),
}

/// What a value is.
#[derive(Clone, Copy)]
pub(crate) enum Item {
    Text,
    Flag,
    Integer,
    Float,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    NumberOrText,
    Json,
    Message(&'static str),
    FlagOrMessage(&'static str),
    /// A message that in protobuf stands in the first field of another one.
    Wrapped(&'static str),
}

static TABLE: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let lines = include_str!("messages.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        // A message may have no fields.
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .map(|(name, fields)| (name, Message::parse(fields)))
        .collect()
});

/// The message called so.
pub(crate) fn find(name: &str) -> Option<&'static Message> {
    TABLE.get(name)
}

/// The message that describes a kind.
pub(crate) fn name_of(api_version: &str, kind: &str) -> Option<&'static str> {
    // Options travel in the version of the object that they are about.
    if kind == "DeleteOptions" {
        return Some("meta.DeleteOptions");
    }
    let package = match api_version {
        "v1" => "core",
        "apps/v1" => "apps",
        "coordination.k8s.io/v1" => "coordination",
        "events.k8s.io/v1" => "events",
        "autoscaling/v1" => "autoscaling",
        "apiextensions.k8s.io/v1" => "apiextensions",
        _ => return None,
    };
    TABLE.get_key_value(format!("{package}.{kind}").as_str()).map(|(name, _)| *name)
}

impl Message {
    fn parse(fields: &'static str) -> Message {
        let mut message = Message::default();
        for (number, entry) in fields.split(' ').filter_map(entry) {
            match entry.kind {
                Kind::One(Item::Message(part)) if entry.name.is_empty() => message.parts.push(part),
                _ => drop(message.names.insert(entry.name, number)),
            }
            message.by_number.insert(number, entry);
        }
        message
    }

    /// The field called so, wherever it belongs.
    pub(crate) fn field(&self, name: &str) -> Option<&Entry> {
        let own = self.names.get(name).and_then(|number| self.by_number.get(number));
        own.or_else(|| self.parts.iter().find_map(|part| find(part)?.field(name)))
    }
}

fn entry(text: &'static str) -> Option<(u64, Entry)> {
    let (name, rest) = match text.strip_prefix('!') {
        Some(rest) => ("", rest),
        None => text.split_once('=')?,
    };
    let (number, kind) = rest.split_once(':')?;
    let (drop_if_empty, kind) = match kind.strip_prefix('?') {
        Some(kind) => (true, kind),
        None => (false, kind),
    };
    let kind = match kind.split_at_checked(1)? {
        ("*", each) => Kind::List(item(each)),
        ("%", each) => Kind::Map(item(each)),
        _ => Kind::One(item(kind)),
    };
    Some((number.parse().ok()?, Entry { name, drop_if_empty, kind }))
}

fn item(code: &'static str) -> Item {
    match code {
        "s" => Item::Text,
        "b" => Item::Flag,
        "i" => Item::Integer,
        "f" => Item::Float,
        "y" => Item::Bytes,
        "T" => Item::Time,
        "M" => Item::MicroTime,
        "Q" => Item::Quantity,
        "O" => Item::NumberOrText,
        "R" => Item::Json,
        other => match other.split_at_checked(1) {
            Some(("|", message)) => Item::FlagOrMessage(message),
            Some(("&", message)) => Item::Wrapped(message),
            _ => Item::Message(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_only_messages_it_has() {
        for entry in TABLE.values().flat_map(|message| message.by_number.values()) {
            let (Kind::One(item) | Kind::List(item) | Kind::Map(item)) = entry.kind;
            if let Item::Message(name) | Item::FlagOrMessage(name) | Item::Wrapped(name) = item {
                assert!(TABLE.contains_key(name), "{name}");
            }
        }
    }

    #[test]
    fn fields_of_parts_belong_to_the_whole() {
        let volume = find("core.Volume").unwrap();
        assert!(volume.field("hostPath").is_some() && volume.field("name").is_some());
        assert!(volume.field("volumeSource").is_none());
    }
}
