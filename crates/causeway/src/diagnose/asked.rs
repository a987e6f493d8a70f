//! Questions that cannot be meant as they were put: each is answered by a sentence, and not by a walk that seems to answer it.

use std::net::Ipv4Addr;

use causeway_core::{Ipv4Cidr, ObjectKey};

use crate::clusters::Trouble;

/// Whether a text names a tunnel, and one of the namespace that was asked for.
pub(super) fn name(tunnel: Option<&str>, only: Option<&str>) -> Result<(), Trouble> {
    let Some(text) = tunnel else { return Ok(()) };
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    if name.is_empty() || name.contains('/') || namespace.is_some_and(str::is_empty) {
        return Err(Trouble::new(format!("`{text}` names no tunnel: give NAME or NAMESPACE/NAME")));
    }
    match (namespace, only) {
        (Some(namespace), Some(only)) if namespace != only => Err(Trouble::new(format!(
            "`{text}` is of namespace {namespace}, while -n says {only}: leave one of the two out"
        ))),
        _ => Ok(()),
    }
}

/// Of some tunnels, each with the range behind its peer, those that do not lead to an address, in sentences; refused where none
/// does. Where a range is not known, the walk says why.
pub(super) fn elsewhere(
    target: Ipv4Addr,
    tunnels: &[(ObjectKey, Option<Ipv4Cidr>)],
) -> Result<Vec<String>, Trouble> {
    let ranges = tunnels.iter().filter_map(|(key, range)| Some((key, (*range)?)));
    let others: Vec<String> = ranges
        .filter(|(_, range)| !range.contains(target))
        .map(|(key, range)| format!("{target} is not behind tunnel {key}, which leads to {range}"))
        .collect();
    if !others.is_empty() && others.len() == tunnels.len() {
        return Err(Trouble::new(format!("{}: correct --to, or leave it out", others.join("; "))));
    }
    Ok(others.into_iter().map(|other| other + ": that one is walked without --to").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_names_nothing_or_contradicts_the_namespace_is_refused() {
        for (tunnel, only, words) in [
            (None, Some("ns1"), None),
            (Some("demo"), None, None),
            (Some("demo"), Some("ns1"), None),
            (Some("ns1/demo"), Some("ns1"), None),
            (Some("ns2/demo"), Some("ns1"), Some("`ns2/demo` is of namespace ns2, while -n says ns1")),
            (Some(""), None, Some("`` names no tunnel")),
            (Some("/"), None, Some("`/` names no tunnel")),
            (Some("ns1/"), None, Some("names no tunnel")),
            (Some("/demo"), Some("ns1"), Some("names no tunnel")),
            (Some("a/b/c"), None, Some("names no tunnel")),
        ] {
            let said = name(tunnel, only).err().map(|trouble| trouble.to_string());
            match (&said, words) {
                (Some(said), Some(words)) => assert!(said.contains(words), "{said}"),
                _ => assert_eq!(said.is_some(), words.is_some(), "{tunnel:?} {only:?}"),
            }
        }
    }

    #[test]
    fn an_address_that_no_tunnel_leads_to_is_refused_and_one_of_some_is_told_of_the_others() {
        let tunnel = |name: &str, range: Option<&str>| {
            let key = ObjectKey::new("ns1", name).expect("a key");
            (key, range.map(|range| range.parse().expect("a range")))
        };
        let (one, two) = (tunnel("one", Some("242.1.0.0/16")), tunnel("two", Some("242.2.0.0/16")));
        let unknown = tunnel("unknown", None);
        let target = Ipv4Addr::new(242, 1, 1, 20);
        let ask = |tunnels: &[_]| elsewhere(target, tunnels).map_err(|trouble| trouble.to_string());
        assert_eq!(ask(&[]), Ok(vec![]));
        assert_eq!(ask(std::slice::from_ref(&one)), Ok(vec![]));
        let aside = "242.1.1.20 is not behind tunnel ns1/two, which leads to 242.2.0.0/16";
        let of_two = Ok(vec![format!("{aside}: that one is walked without --to")]);
        assert_eq!(ask(&[one, two.clone()]), of_two);
        assert_eq!(ask(&[two.clone(), unknown]), of_two, "what is not known may lead there");
        assert_eq!(ask(&[two]), Err(format!("{aside}: correct --to, or leave it out")));
    }
}
