//! Which names, labels and annotation keys Kubernetes accepts, with the sentences it refuses by.

/// A DNS label: namespaces.
pub(crate) fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    if is_framed(name, inner) {
        return Ok(());
    }
    Err("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
         with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        .to_owned())
}

/// An older, stricter DNS label: services.
pub(crate) fn dns_1035_label(name: &str) -> Result<(), String> {
    if name.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if dns_label(name).is_ok() && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase) {
        return Ok(());
    }
    Err("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
         character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
         is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        .to_owned())
}

/// A DNS subdomain: most names.
pub(crate) fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("must be no more than 253 bytes".to_owned());
    }
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    if !name.is_empty() && name.split('.').all(|part| is_framed(part, inner)) {
        return Ok(());
    }
    Err("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        .to_owned())
}

/// A label key or (lower-cased) annotation key.
pub(crate) fn qualified_name(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Err("prefix part must be non-empty".to_owned());
        }
        dns_subdomain(prefix).map_err(|why| format!("prefix part {why}"))?;
    }
    if name.contains('/') {
        return Err(format!(
            "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ));
    }
    if name.is_empty() {
        return Err("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Err("name part must be no more than 63 bytes".to_owned());
    }
    if is_framed(name, name_character) { Ok(()) } else { Err(format!("name part {QUALIFIED}")) }
}

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                         validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// A label's value; may be empty.
pub(crate) fn label_value(value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    if value.is_empty() || is_framed(value, name_character) {
        return Ok(());
    }
    Err("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
         and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
         validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        .to_owned())
}

/// A key of a config map or secret, which may become a file's name.
pub(crate) fn data_key(key: &str) -> Result<(), String> {
    if key.len() > 253 {
        return Err("must be no more than 253 bytes".to_owned());
    }
    if key.is_empty() || !key.bytes().all(name_character) {
        return Err(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." => Err("must not be '.'".to_owned()),
        ".." => Err("must not be '..'".to_owned()),
        key if key.starts_with("..") => Err("must not start with '..'".to_owned()),
        _ => Ok(()),
    }
}

fn name_character(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.')
}

/// Alphanumeric at both ends, `inner` throughout.
fn is_framed(text: &str, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(|c| inner(*c))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kubernetes_judges_them() {
        assert!(dns_subdomain("a.b-c.1").is_ok());
        assert!(
            dns_subdomain("A").is_err() && dns_subdomain("a..b").is_err() && dns_subdomain("-a").is_err()
        );
        assert!(dns_label("1a").is_ok() && dns_label("a.b").is_err());
        assert!(dns_1035_label("1a").is_err());
        assert!(qualified_name("example.com/My_Name").is_ok() && qualified_name("/x").is_err());
        assert!(qualified_name("a/b/c").is_err());
        assert!(label_value("").is_ok() && label_value("a b").is_err());
    }
}
