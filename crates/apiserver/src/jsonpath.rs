//! The JSONPath that printer columns use: fields, indices, wildcards and filters by equality.
//! What else there is (recursive descent, slices, unions, filters in filters) is refused when a
//! definition is made.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// From the end when negative.
    Index(i64),
    All,
    Filter {
        path: JsonPath,
        test: Test,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Is(Value),
    IsNot(Value),
}

impl JsonPath {
    /// Reads `.a.b`, `.a['b.c']`, `.a[0]`, `.a[*]`, `.a[?(@.b=="c")].d`.
    pub(crate) fn parse(source: &str) -> Result<JsonPath, String> {
        if !source.starts_with('.') {
            return Err("must be a simple json path starting with .".to_owned());
        }
        steps(source, true)
    }

    /// All values the path leads to.
    pub(crate) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Step::Field(name) => value.get(name).into_iter().collect(),
            Step::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = if *index < 0 { items.len() as i64 + index } else { *index };
                usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
            }
            Step::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            },
            Step::Filter { path, test } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let passes = |item: &&Value| {
                    let found = path.find(item);
                    match test {
                        Test::Exists => !found.is_empty(),
                        Test::Is(wanted) => found.contains(&wanted),
                        Test::IsNot(wanted) => !found.is_empty() && !found.contains(&wanted),
                    }
                };
                items.iter().filter(passes).collect()
            }
        }
    }
}

/// `filters`: whether there may be any, which inside of one there may not.
fn steps(text: &str, filters: bool) -> Result<JsonPath, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (step, after) = if let Some(after) = rest.strip_prefix('.') {
            field(after)?
        } else if rest.starts_with('[') {
            bracket(rest, filters)?
        } else {
            return Err(format!("is an invalid simple json path: unexpected {rest:?}, expected . or ["));
        };
        steps.extend(step);
        rest = after;
    }
    Ok(JsonPath { steps })
}

fn field(rest: &str) -> Result<(Option<Step>, &str), String> {
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' if name.is_empty() => return Err("recursive descent (..) is not supported".to_owned()),
            '.' | '[' => return Ok((named(name), &rest[at..])),
            c if c.is_whitespace() || "{}()|".contains(c) => {
                return Err(format!("is an invalid simple json path: {c:?}"));
            }
            c => name.push(c),
        }
    }
    Ok((named(name), ""))
}

fn named(name: String) -> Option<Step> {
    match name.as_str() {
        "" => None,
        "*" => Some(Step::All),
        _ => Some(Step::Field(name)),
    }
}

fn bracket(rest: &str, filters: bool) -> Result<(Option<Step>, &str), String> {
    let end = closing(rest).ok_or_else(|| "unterminated array".to_owned())?;
    let (inside, after) = (rest[1..end].trim(), &rest[end + 1..]);
    if let Some(condition) = inside.strip_prefix("?(").and_then(|c| c.strip_suffix(')')) {
        if !filters {
            return Err("a filter inside of a filter is not supported".to_owned());
        }
        return Ok((Some(filter(condition)?), after));
    }
    if inside == "*" {
        return Ok((Some(Step::All), after));
    }
    if let Some(name) = quoted(inside) {
        return Ok((Some(Step::Field(name)), after));
    }
    let index = inside.parse().map_err(|_| format!("invalid array index {inside}"))?;
    Ok((Some(Step::Index(index)), after))
}

/// The bracket that closes the first one, minding nesting and quotes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
    }
    None
}

fn filter(condition: &str) -> Result<Step, String> {
    let (left, test) = if let Some((left, right)) = condition.split_once("==") {
        (left, Test::Is(literal(right.trim())?))
    } else if let Some((left, right)) = condition.split_once("!=") {
        (left, Test::IsNot(literal(right.trim())?))
    } else {
        (condition, Test::Exists)
    };
    let path = left.trim().strip_prefix('@').ok_or_else(|| format!("unsupported filter {condition:?}"))?;
    Ok(Step::Filter { path: steps(path, false)?, test })
}

fn literal(text: &str) -> Result<Value, String> {
    match quoted(text) {
        Some(text) => Ok(Value::String(text)),
        None => serde_json::from_str(text).map_err(|_| format!("unrecognized literal {text}")),
    }
}

fn quoted(text: &str) -> Option<String> {
    let inside =
        |quote: &char| text.strip_prefix(*quote)?.strip_suffix(*quote).filter(|t| !t.contains(*quote));
    ['"', '\''].iter().find_map(inside).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn paths_of_printer_columns_are_followed() {
        let object = json!({ "a": { "b.c": [1, 2, { "d": 3 }] }, "status": { "conditions": [
            { "type": "Synced", "status": "False" }, { "type": "Ready", "status": "True" } ] } });
        let first = |path: &str| JsonPath::parse(path).unwrap().find(&object).first().map(|v| (*v).clone());
        assert_eq!(first(".status.conditions[?(@.type==\"Ready\")].status"), Some(json!("True")));
        assert_eq!(first(".status.conditions[?(@.type=='Nope')].status"), None);
        assert_eq!(first(".a['b.c'][-1].d"), Some(json!(3)));
        assert_eq!(first(r".a.b\.c[0]"), Some(json!(1)));
        assert_eq!(first(".status.conditions[*].type"), Some(json!("Synced")));
        for bad in ["a.b", ".a[", "{.a}", "..a", ".a..b", ".a[?(@.b[?(@.c)])]", ".a[1:2]", ".a['b','c']"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_of_filters_without_end_is_refused() {
        assert!(JsonPath::parse(&format!(".a{}", "[?(@".repeat(200_000))).is_err());
        let nested = format!(".a{}{}", "[?(@".repeat(1000), ")]".repeat(1000));
        assert!(JsonPath::parse(&nested).is_err());
    }

    proptest! {
        #[test]
        fn any_path_is_followed_or_refused(path in r#"(\.|\[|\]|\?\(@|\)|==|!=|\*|'|"|\\|[a-c0-9]|-|ü| ){0,14}"#) {
            let object = json!({ "a": [{ "b": { "c": [1, 2] } }, "ü"], "b": { "a": null } });
            if let Ok(path) = JsonPath::parse(&format!(".{path}")) {
                path.find(&object);
            }
        }
    }
}
