//! Reading a spec field by field, so that what makes no sense is refused by its name.

use std::fmt::Display;
use std::str::FromStr;

use causeway_core::rules::Refusal;
use serde_json::{Map, Value};

/// Why a field is refused that would be lost.
const NOT_CARRIED: &str = "data planes cannot be told of this field: remove it, or correct its name";
/// The most characters of a refusal's parts.
const QUOTED: usize = 300;
/// Beyond this a whole number is not exact in a floating-point one.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A field: where it is, and what it holds.
pub(super) struct Field<'a> {
    path: String,
    value: &'a Value,
}

/// A field that holds others, all of which are known.
pub(super) struct Fields<'a> {
    path: String,
    values: &'a Map<String, Value>,
}

impl<'a> Field<'a> {
    /// The spec itself.
    pub(super) fn spec(value: &'a Value) -> Self {
        Self { path: "spec".into(), value }
    }

    /// Refuses what it holds.
    pub(super) fn refuse(&self, why: impl Into<String>) -> Refusal {
        refusal(&self.path, &why.into())
    }

    /// The fields that it holds. One that is not among those that can be carried would be lost, so it is refused,
    /// unless it says nothing.
    pub(super) fn fields(&self, carried: &[&str]) -> Result<Fields<'a>, Refusal> {
        let values = self.map()?;
        let lost = |(name, value): &(&String, &Value)| !carried.contains(&name.as_str()) && !is_empty(value);
        let fields = Fields { path: self.path.clone(), values };
        match values.iter().find(lost) {
            Some((name, _)) => Err(fields.refuse(name, NOT_CARRIED)),
            None => Ok(fields),
        }
    }

    /// What it holds by names that people chose, each read.
    pub(super) fn named<T>(
        &self,
        read: impl Fn(&Field<'a>) -> Result<T, Refusal>,
    ) -> Result<Vec<(String, T)>, Refusal> {
        let entry = |(name, value): (&String, &'a Value)| {
            let field = Field { path: format!("{}[{name}]", self.path), value };
            if name.is_empty() {
                return Err(field.refuse("its name is empty"));
            }
            Ok((name.clone(), read(&field)?))
        };
        self.map()?.iter().map(entry).collect()
    }

    fn map(&self) -> Result<&'a Map<String, Value>, Refusal> {
        if self.value.is_null() {
            return Err(self.refuse("it is missing"));
        }
        self.value.as_object().ok_or_else(|| self.refuse(format!("{} is not an object", shown(self.value))))
    }

    /// Its items, each read.
    pub(super) fn list<T>(&self, read: impl Fn(&Field<'a>) -> Result<T, Refusal>) -> Result<Vec<T>, Refusal> {
        let no_list = || self.refuse(format!("{} is not a list", shown(self.value)));
        let items = self.value.as_array().ok_or_else(no_list)?.iter().enumerate();
        items.map(|(at, value)| read(&Field { path: format!("{}[{at}]", self.path), value })).collect()
    }

    /// Its text, which may be empty.
    pub(super) fn text(&self) -> Result<&'a str, Refusal> {
        let not_text = || self.refuse(format!("{} is not text: put it in quotes", shown(self.value)));
        self.value.as_str().ok_or_else(not_text)
    }

    /// Its text, of which there must be some.
    pub(super) fn some_text(&self) -> Result<&'a str, Refusal> {
        let text = self.text()?;
        if text.is_empty() { Err(self.refuse("it is empty")) } else { Ok(text) }
    }

    /// What its text says.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&self) -> Result<T, Refusal> {
        self.text()?.parse().map_err(|why: T::Err| self.refuse(why.to_string()))
    }

    /// Which of a few words it is.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Refusal> {
        let text = self.text()?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(format!("`{text}` is none of {}", words.join(", ")))
        })
    }

    /// A whole number that is not less than `min` nor more than `max`, which is as much as the message can carry.
    pub(super) fn integer<N: TryFrom<i64> + Display>(&self, min: i64, max: N) -> Result<N, Refusal> {
        let number = whole(self.value).filter(|number| *number >= min);
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
            self.refuse(format!("{} is not a whole number from {min} to {max}", shown(self.value)))
        })
    }
}

impl<'a> Fields<'a> {
    /// Refuses a field by its name.
    pub(super) fn refuse(&self, name: &str, why: impl Into<String>) -> Refusal {
        refusal(&format!("{}.{name}", self.path), &why.into())
    }

    /// A field, if it is there; null is as good as nothing.
    fn optional(&self, name: &str) -> Option<Field<'a>> {
        let value = self.values.get(name).filter(|value| !value.is_null())?;
        Some(Field { path: format!("{}.{name}", self.path), value })
    }

    /// A field that must be given.
    pub(super) fn required(&self, name: &str) -> Result<Field<'a>, Refusal> {
        self.optional(name).ok_or_else(|| self.refuse(name, "it is missing"))
    }

    /// Refuses a field that says anything but what is done anyway.
    pub(super) fn only(&self, name: &str, done_anyway: &[Value]) -> Result<(), Refusal> {
        let other = |field: &Field<'_>| !is_empty(field.value) && !done_anyway.contains(field.value);
        self.optional(name).filter(other).map_or(Ok(()), |field| Err(field.refuse(NOT_CARRIED)))
    }

    /// A field read, if it is given.
    pub(super) fn given<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'a>) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        self.optional(name).map(|field| read(&field)).transpose()
    }

    /// The items of a list, each read; a list that is not given has none.
    pub(super) fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&Field<'a>) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        Ok(self.given(name, |field| field.list(read))?.unwrap_or_default())
    }
}

/// A refusal ends up in a status, so it does not repeat more than a few lines of what somebody wrote.
fn refusal(path: &str, why: &str) -> Refusal {
    let cut = |text: &str| match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    Refusal::new(cut(path), cut(why))
}

/// Whether a value says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A whole number, also where it is written as 5.0, which an API server lets pass.
fn whole(value: &Value) -> Option<i64> {
    let exact = |number: &f64| number.fract() == 0.0 && number.abs() <= EXACT;
    #[allow(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    value.as_i64().or_else(|| value.as_f64().filter(exact).map(|number| number as i64))
}

/// A value for a sentence: what holds others is not repeated.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        Value::String(text) => format!("`{text}`"),
    }
}
