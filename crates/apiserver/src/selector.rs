//! Label and field selectors: parsed once per request, then matched against values.

use serde_json::Value;

use crate::resource::Resource;
use crate::status::ApiError;

/// Both kinds of selector of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

#[derive(Debug, Clone)]
struct FieldRequirement {
    /// Where the field is in the stored object.
    pointer: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Field names are those of the view asked for; each must be one the resource can select by.
    pub(crate) fn parse(labels: &str, fields: &str, resource: &Resource) -> Result<Selector, ApiError> {
        let labels = parse_labels(labels).map_err(ApiError::bad_request)?;
        Ok(Selector { labels, fields: parse_fields(fields, resource)? })
    }

    /// Selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels
            .iter()
            .all(|requirement| requirement.matches(labels.get(&requirement.key).and_then(Value::as_str)))
            && self.fields.iter().all(|field| field.matches(object))
    }
}

impl Requirement {
    fn matches(&self, label: Option<&str>) -> bool {
        match (&self.test, label) {
            (Test::In(values), Some(label)) => values.iter().any(|value| value == label),
            (Test::NotIn(values), Some(label)) => values.iter().all(|value| value != label),
            (Test::NotIn(_) | Test::Absent, None) | (Test::Exists, Some(_)) => true,
            (Test::Greater(than), Some(label)) => label.parse::<i64>().is_ok_and(|n| n > *than),
            (Test::Less(than), Some(label)) => label.parse::<i64>().is_ok_and(|n| n < *than),
            (Test::In(_) | Test::Exists | Test::Greater(_) | Test::Less(_), None)
            | (Test::Absent, Some(_)) => false,
        }
    }
}

impl FieldRequirement {
    fn matches(&self, object: &Value) -> bool {
        let found = match object.pointer(&self.pointer) {
            Some(Value::String(text)) => text == &self.value,
            Some(Value::Number(number)) => number.to_string() == self.value,
            Some(Value::Bool(flag)) => flag.to_string() == self.value,
            _ => self.value.is_empty(),
        };
        found == self.equal
    }
}

fn parse_fields(text: &str, resource: &Resource) -> Result<Vec<FieldRequirement>, ApiError> {
    let mut parsed = Vec::new();
    for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        let (field, value, equal) = if let Some((field, value)) = term.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            (field, value, true)
        } else {
            return Err(ApiError::bad_request(format!(
                "invalid field selector: {text:?}; can't understand {term:?}"
            )));
        };
        let Some(pointer) = resource.selectable_field(field) else {
            return Err(ApiError::bad_request(resource.unknown_field(field)));
        };
        parsed.push(FieldRequirement { pointer, value: value.replace('\\', ""), equal });
    }
    Ok(parsed)
}

/// The grammar of label selectors: `a`, `!a`, `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a>1`.
fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let parse = |term: &str| match term.trim() {
        "" => Err("found '', expected: !, identifier, or identifier after ','".to_owned()),
        term => parse_label(term).map_err(|why| format!("unable to parse requirement: {why}")),
    };
    split_outside_parentheses(text).into_iter().map(parse).collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_label(term: &str) -> Result<Requirement, String> {
    let requirement = |key: &str, test: Test| {
        let key = key.trim();
        match crate::names::qualified_name(key) {
            Ok(()) => Ok(Requirement { key: key.to_owned(), test }),
            Err(why) => Err(format!("key: Invalid value: {key:?}: {why}")),
        }
    };
    if let Some(key) = term.strip_prefix('!') {
        return requirement(key, Test::Absent);
    }
    if let Some((head, rest)) = term.split_once('(') {
        let values = rest.strip_suffix(')').ok_or_else(|| format!("found '{term}', expected: ')'"))?;
        let values = values.split(',').map(label_value).collect::<Result<Vec<String>, String>>()?;
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => requirement(key, Test::In(values)),
            (Some(key), Some("notin"), None) => requirement(key, Test::NotIn(values)),
            _ => Err(format!("found '{head}', expected: in, notin")),
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return requirement(key, Test::NotIn(vec![label_value(value)?]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return requirement(key, Test::In(vec![label_value(value)?]));
    }
    for (sign, make) in [('>', Test::Greater as fn(i64) -> Test), ('<', Test::Less)] {
        if let Some((key, value)) = term.split_once(sign) {
            let number = value
                .trim()
                .parse()
                .map_err(|_| format!("for 'Gt', 'Lt' operators, the value must be an integer: {value:?}"))?;
            return requirement(key, make(number));
        }
    }
    requirement(term, Test::Exists)
}

fn label_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    crate::names::label_value(value).map_err(|why| format!("values[0]: Invalid value: {value:?}: {why}"))?;
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn selects(selector: &str, labels: Value) -> bool {
        let selector = Selector { labels: parse_labels(selector).unwrap(), fields: Vec::new() };
        selector.matches(&json!({ "metadata": { "labels": labels } }))
    }

    #[test]
    fn every_operator_selects_what_it_says() {
        assert!(selects("a=b,c!=d", json!({ "a": "b" })));
        assert!(!selects("a==b", json!({ "a": "c" })));
        assert!(selects("a in (b, c),x notin (y)", json!({ "a": "c" })));
        assert!(selects("!z,a", json!({ "a": "" })));
        assert!(!selects("!a", json!({ "a": "" })));
        assert!(selects("n>3", json!({ "n": "4" })));
        assert!(!selects("n<3", json!({ "n": "4" })));
        assert!(selects("", json!({})));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "a in b",
            "a in (b",
            "a b (c)",
            "-bad=x",
            "a=b c",
            "a,",
            ",a",
            "a,,b",
            "a in (-b)",
            "a in (b c)",
            "!!a",
        ] {
            assert!(parse_labels(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_selects_or_is_refused(text in r"([a-c0-9]|=|!|,|\(|\)|>|<| |in|notin|-|ü){0,12}") {
            if let Ok(labels) = parse_labels(&text) {
                let selector = Selector { labels, fields: Vec::new() };
                selector.matches(&json!({ "metadata": { "labels": { "a": "b", "c": "1" } } }));
                selector.matches(&json!({ "metadata": {} }));
            }
        }
    }
}
