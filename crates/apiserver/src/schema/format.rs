//! The string formats that are checked. Others are accepted, as an API server does with formats it
//! does not know.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether `text` has the format.
pub(super) fn has_format(format: &str, text: &str) -> bool {
    match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "uuid" => is_uuid(text),
        "byte" => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
        "hostname" => text.len() <= 255 && crate::names::dns_subdomain(&text.to_lowercase()).is_ok(),
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

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    (length <= 32 && address.parse::<Ipv4Addr>().is_ok())
        || (length <= 128 && address.parse::<Ipv6Addr>().is_ok())
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && u8::from_str_radix(part, 16).is_ok())
}

fn is_uuid(text: &str) -> bool {
    let plain: String = text.chars().filter(|&c| c != '-').collect();
    plain.len() == 32 && plain.chars().all(|c| c.is_ascii_hexdigit())
}
