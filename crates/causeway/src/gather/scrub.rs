//! Secrets are left out of everything that is gathered: by field in objects, by form in text.
//!
//! What is not known to be harmless is not kept where secrets are usual: an environment variable's value, another's annotation.

use serde_json::{Map, Value};

/// What stands for a secret.
pub(super) const LEFT_OUT: &str = "REDACTED";

/// Annotations that are kept: networks' own, and ours.
const KEPT_ANNOTATIONS: [&str; 6] =
    ["ovn.kubernetes.io/", ".kubernetes.io/", "submariner.io/", "causeway", "flannel", "kubeovn"];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// `-----BEGIN ` in base64: a key or a certificate.
const PEM_IN_BASE64: &str = "LS0tLS1CRUdJTi";

/// What the names of fields, flags and variables with a secret have in them.
const TELLTALES: [&str; 8] =
    ["token", "password", "passwd", "secret", "credential", "authorization", "apikey", "privatekey"];
/// Fields that only name a secret.
const NAMES_ONLY: [&str; 4] =
    ["secretName", "brokerK8sSecret", "automountServiceAccountToken", "imagePullSecrets"];

/// An object without its secrets, and without what nobody reads.
pub(super) fn object(value: &mut Value) {
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            scrub_annotations(annotations);
        }
    }
    fields(value);
}

fn scrub_annotations(annotations: &mut Map<String, Value>) {
    annotations.remove(LAST_APPLIED);
    for (name, value) in annotations.iter_mut() {
        if !KEPT_ANNOTATIONS.iter().any(|kept| name.contains(kept)) {
            *value = LEFT_OUT.into();
        }
    }
}

fn fields(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                match name.as_str() {
                    "env" => environment(value),
                    "managedFields" | LAST_APPLIED => *value = LEFT_OUT.into(),
                    // A template, or a list's item, has metadata of its own.
                    "annotations" => {
                        value.as_object_mut().into_iter().for_each(scrub_annotations);
                        fields(value);
                    }
                    name if is_telling(name) && !NAMES_ONLY.contains(&name) => *value = LEFT_OUT.into(),
                    _ => fields(value),
                }
            }
        }
        Value::Array(items) => list(items),
        Value::String(string) => *string = text(string),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The items of a list. A flag that is called like a secret may have its value in the next one.
fn list(items: &mut [Value]) {
    let mut is_next = false;
    for item in items {
        match item {
            Value::String(flag) if flag.starts_with('-') && !flag.contains('=') => is_next = is_telling(flag),
            Value::String(value) if std::mem::take(&mut is_next) => *value = LEFT_OUT.into(),
            // A header, say: a name and a value beside it.
            Value::Object(pair) if pair.get("name").and_then(Value::as_str).is_some_and(is_telling) => {
                if let Some(value) = pair.get_mut("value") {
                    *value = LEFT_OUT.into();
                }
            }
            _ => is_next = false,
        }
        fields(item);
    }
}

/// Variables keep their names.
fn environment(value: &mut Value) {
    for variable in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(value) = variable.get_mut("value") {
            *value = LEFT_OUT.into();
        }
    }
}

fn is_telling(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = name.to_ascii_lowercase();
    TELLTALES.iter().any(|telltale| name.contains(telltale))
}

/// A text without what has the form of a secret: private keys and certificates, web tokens, what follows `Bearer` or `Basic`,
/// passwords in addresses, and values of flags and fields that are called like one.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_block = false;
    for line in text.split_inclusive('\n') {
        if line.contains("-----BEGIN ") {
            in_block = !line.contains("-----END ");
            out += LEFT_OUT;
            out += if line.ends_with('\n') { "\n" } else { "" };
        } else if in_block {
            in_block = !line.contains("-----END ");
        } else {
            words(line, &mut out);
        }
    }
    out
}

/// Whether a character ends a word.
fn parts(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '"' | '\'' | ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '`' | '\\')
}

/// One line, word by word; what stands between words stays.
fn words(line: &str, out: &mut String) {
    // Whether the word before is called like a secret, and whether this one is one.
    let (mut named, mut follows) = (false, false);
    for piece in line.split_inclusive(parts) {
        let word = piece.trim_end_matches(parts);
        let is_sign = matches!(word, "=" | ":");
        if word.is_empty() {
        } else if is_sign || (follows && is_scheme(word)) {
            follows |= named;
            out.push_str(word);
        } else if follows {
            (named, follows) = (false, false);
            out.push_str(LEFT_OUT);
        } else {
            let kept;
            (kept, follows) = judged(word);
            named = is_telling(word);
            out.push_str(&kept);
        }
        out.push_str(&piece[word.len()..]);
    }
}

/// What stands before a secret in a request's header.
fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// A word as it may be kept, and whether the next one is a secret.
fn judged(word: &str) -> (String, bool) {
    if is_scheme(word) {
        return (word.into(), true);
    }
    if is_web_token(word) || word.contains(PEM_IN_BASE64) {
        return (LEFT_OUT.into(), false);
    }
    if let Some((name, rest)) = word.split_once(['=', ':']).filter(|(name, _)| is_telling(name)) {
        let sign = &word[name.len()..=name.len()];
        return match rest {
            "" => (word.into(), true),
            _ => (format!("{name}{sign}{LEFT_OUT}"), false),
        };
    }
    if word.starts_with("--") && is_telling(word) {
        return (word.into(), true);
    }
    (without_user(word), false)
}

/// `https://user:password@host` without user and password.
fn without_user(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.into() };
    let host = rest.split('/').next().unwrap_or_default();
    match host.rsplit_once('@') {
        Some((user, _)) => format!("{scheme}://{LEFT_OUT}{}", &rest[user.len()..]),
        None => word.into(),
    }
}

/// Three parts of base64 with dots between, of which the first is a JSON object: `eyJ…`.
fn is_web_token(word: &str) -> bool {
    word.split(['=', ':', '/', '&', '?']).any(|part| {
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        part.starts_with("eyJ") && part.len() > 20 && part.chars().all(letters)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const S: &str = "hunter2hunter2";

    #[test]
    fn secrets_have_many_forms_in_text() {
        let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2hunter2";
        for (text, kept) in [
            (format!("Authorization: Bearer {S}\n"), "Authorization:"),
            (format!("GET https://me:{S}@broker:6443/api failed"), "broker:6443/api failed"),
            (format!("--broker-token={S} --enable vpc"), "--enable vpc"),
            (format!("--broker-token {S} --enable vpc"), "--enable vpc"),
            (format!("{{\"password\":\"{S}\",\"level\":\"INFO\"}}"), "INFO"),
            (format!("{{\"os_password\": \"{S}\", \"level\": \"INFO\"}}"), "INFO"),
            (format!("password = {S}"), "password"),
            (format!("token: {S}"), "token"),
            (format!("a {token} b"), " b"),
            (format!("client-key-data LS0tLS1CRUdJTiBSU0EgUFJJ{S} b"), " b"),
            (format!("a\n-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----\nb"), "\nb"),
        ] {
            let scrubbed = super::text(&text);
            assert!(!scrubbed.contains("hunter2"), "{text} became {scrubbed}");
            assert!(scrubbed.contains(kept), "{text} became {scrubbed}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "-A POSTROUTING ! -s 242.0.0.0/16 -d 242.1.0.0/16 -o demo -m comment --comment \"causeway:ns1/demo\" -j SNAT",
            "7: demo: <BROADCAST,UP> mtu 1450\\    link/ether 02:43:ac:32:10:0b",
            "{\"level\":\"INFO\",\"message\":\"repaired\",\"gateway\":\"gw1\"}",
            "https://10.0.0.1:6443/apis",
            "",
            "\n\n",
        ] {
            assert_eq!(super::text(text), text);
        }
    }

    #[test]
    fn objects_lose_what_may_be_a_secret_and_keep_what_helps() {
        let mut pod = json!({
            "metadata": {
                "name": "p", "managedFields": [S],
                "annotations": { LAST_APPLIED: S, "vault/inject": S, "ovn.kubernetes.io/gateway": "10.0.1.1" },
            },
            "spec": {
                "template": { "metadata": { "annotations": { "mine": S } } },
                "containers": [{
                    "args": ["--enable", "vpc", format!("--token={S}")],
                    "env": [{ "name": "A", "value": S }, { "name": "B", "valueFrom": { "fieldRef": {} } }],
                    "volumes": [{ "secret": { "secretName": "named" } }, { "secretName": "named" }],
                }],
                "brokerK8sApiServerToken": S, "brokerK8sSecret": "named", "clusterID": "c1",
            },
        });
        object(&mut pod);
        let text = pod.to_string();
        assert!(!text.contains(S), "{text}");
        for kept in ["10.0.1.1", "\"--enable\"", "\"A\"", "named", "c1", "fieldRef"] {
            assert!(text.contains(kept), "{kept} in {text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it_and_a_second_time_changes_nothing(text in "(?s)(token|=|: |://|@|Bearer |-----BEGIN x\n|-----END x\n|eyJ|\\PC|\n| ){0,30}") {
            let once = super::text(&text);
            prop_assert_eq!(super::text(&once), once.clone());
        }
    }
}
