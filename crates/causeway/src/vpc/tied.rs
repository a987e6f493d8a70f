//! What is tied to a gateway and follows no other: kube-ovn's EIPs, and the translations on them.

use std::collections::BTreeMap;

use causeway_api::vpc::foreign::kube_ovn::IptablesEIP;
use causeway_core::GatewayName;
use kube::api::ListParams;
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::Value;

use crate::clusters::{Listed, list};

/// One such object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Tied {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Its address, or what is translated by it.
    pub(super) what: String,
}

/// Kinds of translations: what people call them, where they are listed, and which field says of what.
const TRANSLATIONS: [(&str, &str, &str); 3] = [
    ("floating IP", "/apis/kubeovn.io/v1/iptables-fip-rules", "internalIp"),
    ("SNAT", "/apis/kubeovn.io/v1/iptables-snat-rules", "internalCIDR"),
    ("DNAT", "/apis/kubeovn.io/v1/iptables-dnat-rules", "internalIp"),
];

/// All that is tied to a gateway, but for the address that is its own; and what may not be read of that.
pub(super) async fn to(
    client: &Client,
    gateway: &GatewayName,
    own: Option<&str>,
) -> kube::Result<(Vec<Tied>, Vec<String>)> {
    let mut unread = Vec::new();
    let path = IptablesEIP::url_path(&(), None);
    let eips = objects("EIPs", list(client, &path, ListParams::default()).await?, &mut unread);
    let eips = eips_of(&eips, gateway, own);
    let mut all: Vec<Tied> = eips
        .iter()
        .map(|(name, address)| Tied { kind: "EIP", name: name.clone(), what: address.clone() })
        .collect();
    for (kind, path, field) in TRANSLATIONS {
        if eips.is_empty() {
            break;
        }
        let rules =
            objects(&format!("{kind}s"), list(client, path, ListParams::default()).await?, &mut unread);
        all.extend(on(&rules, kind, field, &eips));
    }
    Ok((all, unread))
}

fn objects(what: &str, listed: Listed, unread: &mut Vec<String>) -> Vec<Value> {
    match listed {
        Listed::Objects(objects) => objects,
        // An older kube-ovn may not have the kind.
        Listed::Missing => Vec::new(),
        Listed::Forbidden(why) => {
            unread.push(format!("{what} may not be read: {why}"));
            Vec::new()
        }
    }
}

/// The EIPs of a gateway by name, with their addresses.
fn eips_of(objects: &[Value], gateway: &GatewayName, own: Option<&str>) -> BTreeMap<String, String> {
    let of_it = objects.iter().filter(|it| text(it, "/spec/natGwDp") == gateway.as_str());
    let named = of_it.map(|it| (text(it, "/metadata/name").to_owned(), address(it).to_owned()));
    named.filter(|(_, address)| own != Some(address.as_str())).collect()
}

fn address(eip: &Value) -> &str {
    match text(eip, "/status/ip") {
        "" => text(eip, "/spec/v4ip"),
        given => given,
    }
}

/// Translations of one kind on some EIPs.
fn on(objects: &[Value], kind: &'static str, field: &str, eips: &BTreeMap<String, String>) -> Vec<Tied> {
    let on_them = objects.iter().filter_map(|it| Some((it, eips.get_key_value(text(it, "/spec/eip"))?)));
    on_them
        .map(|(rule, (eip, address))| {
            let inside = text(rule, &format!("/spec/{field}"));
            let what = format!("{inside} by {eip} {address}").trim().to_owned();
            Tied { kind, name: text(rule, "/metadata/name").to_owned(), what }
        })
        .collect()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn translations_are_found_by_the_eip_that_they_are_on() {
        let eip = |name: &str, gateway: &str, ip: &str| json!({ "metadata": { "name": name }, "spec": { "natGwDp": gateway }, "status": { "ip": ip } });
        let gateway: GatewayName = "gw1".parse().expect("a name");
        let eips = [eip("a", "gw1", "1.1.1.1"), eip("b", "gw2", "1.1.1.2"), eip("own", "gw1", "1.1.1.3")];
        let eips = eips_of(&eips, &gateway, Some("1.1.1.3"));
        assert_eq!(eips, [("a".to_owned(), "1.1.1.1".to_owned())].into());
        let rule = |name: &str, eip: &str| json!({ "metadata": { "name": name }, "spec": { "eip": eip, "internalCIDR": "10.0.1.0/24" } });
        let rules = [rule("x", "a"), rule("y", "b"), rule("z", "nowhere"), json!({})];
        let found = on(&rules, "SNAT", "internalCIDR", &eips);
        let what = "10.0.1.0/24 by a 1.1.1.1".to_owned();
        assert_eq!(found, [Tied { kind: "SNAT", name: "x".into(), what }]);
    }

    proptest! {
        #[test]
        fn objects_of_any_form_break_nothing(json in "[\\[\\]{}:,\"a-z0-9]{0,40}") {
            let object: Value = serde_json::from_str(&json).unwrap_or_default();
            let eips = eips_of(std::slice::from_ref(&object), &"gw1".parse().expect("a name"), None);
            on(&[object], "SNAT", "internalCIDR", &eips);
        }
    }
}
