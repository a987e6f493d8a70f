//! The string formats that are checked. Others are accepted, as an API server does with formats it
//! does not know.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// Whether `text` has the format.
pub(super) fn has_format(format: &str, text: &str) -> bool {
    match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "date-time" | "datetime" => crate::clock::is_rfc3339(&text.to_ascii_uppercase()),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "uuid" => is_uuid(text),
        "byte" => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
        "hostname" => is_hostname(text),
        "duration" => is_duration(text),
        "uri" => {
            text.split_once(':').is_some_and(|(scheme, _)| {
                scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            }) || text.starts_with('/')
        }
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()),
        _ => true,
    }
}

/// One label, or several of which the last is at least two letters.
fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let last = labels.last().copied().unwrap_or_default();
    let ends = labels.len() == 1 || (last.len() >= 2 && last.chars().all(char::is_alphabetic));
    ends && text.len() <= 255 && crate::names::dns_subdomain(&text.to_lowercase()).is_ok()
}

/// Numbers with units, like `1h30m` or `1.5s`; also `3 days`.
fn is_duration(text: &str) -> bool {
    static SHORT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$").ok()
    });
    static LONG: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[0-9]+ *(nanos?|ns|micros?|us|µs|millis?|ms|s|sec|seconds?|m|min|minutes?|h|hr|hours?|d|days?|w|weeks?)$").ok()
    });
    [&SHORT, &LONG].iter().any(|pattern| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text)))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    (length <= 32 && address.parse::<Ipv4Addr>().is_ok())
        || (length <= 128 && address.parse::<Ipv6Addr>().is_ok())
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit()))
}

fn is_uuid(text: &str) -> bool {
    let plain: String = text.chars().filter(|&c| c != '-').collect();
    plain.len() == 32 && plain.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formats_are_neither_stricter_nor_looser_than_their_names() {
        for (format, good, bad) in [
            ("mac", "0a:00:00:00:00:ff", "+a:00:00:00:00:ff"),
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05Z"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("duration", "1h30m", "soon"),
            ("hostname", "a.example", "a.b"),
            ("made-up", "anything", ""),
        ] {
            assert!(has_format(format, good), "{format} {good}");
            assert_eq!(has_format(format, bad), format == "made-up", "{format} {bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_format_or_not(text in "([0-9]|[a-f]|T|Z|:|-|\\.|/|\\+|@|ü| ){0,24}") {
            for format in ["ipv4", "ipv6", "cidr", "mac", "date-time", "date", "uuid", "byte", "hostname", "duration", "uri", "email"] {
                has_format(format, &text);
            }
        }
    }
}
