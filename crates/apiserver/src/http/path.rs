//! What a path names.

/// The meaning of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/api`: the versions of the core group.
    Core,
    /// `/apis`: all other groups.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/v1` or `/apis/<group>/<version>`.
    Version(String, String),
    OpenApi,
    /// `/openapi/v2`, which `kubectl` asks for about kinds it does not find in v3.
    OldOpenApi,
    /// `/openapi/v3/<document>`.
    OpenApiDocument(String),
    ServerVersion,
    Health,
    Resource(Place),
    Nothing,
}

/// Where in the API a request goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// Reads a path.
pub(crate) fn route(path: &str) -> Route {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["api"] => Route::Core,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => Route::Version(String::new(), (*version).to_owned()),
        ["apis", group, version] => Route::Version((*group).to_owned(), (*version).to_owned()),
        ["openapi", "v2"] => Route::OldOpenApi,
        ["openapi", "v3"] => Route::OpenApi,
        ["openapi", "v3", rest @ ..] => Route::OpenApiDocument(rest.join("/")),
        ["version"] => Route::ServerVersion,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Route::Nothing,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    let owned = |text: &&str| (**text).to_owned();
    let (namespace, rest) = match rest {
        // Below a namespace, except for the namespace's own parts.
        ["namespaces", namespace, rest @ ..] if !matches!(rest, [] | ["status" | "finalize"]) => {
            (Some((*namespace).to_owned()), rest)
        }
        rest => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(owned(name)), None),
        [plural, name, subresource] => (plural, Some(owned(name)), Some(owned(subresource))),
        _ => return Route::Nothing,
    };
    Route::Resource(Place {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace,
        plural: (*plural).to_owned(),
        name,
        subresource,
    })
}

/// Undoes percent-encoding; what is not properly encoded stays.
fn decode(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%').then(|| part.get(at + 1..at + 3)).flatten();
        let hex = escaped.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(path: &str) -> Place {
        match route(path) {
            Route::Resource(place) => place,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn namespaces_are_both_resources_and_places() {
        assert_eq!(place("/api/v1/namespaces").name, None);
        let own = place("/api/v1/namespaces/a");
        assert_eq!(
            (own.plural.as_str(), own.name.as_deref(), own.namespace),
            ("namespaces", Some("a"), None)
        );
        assert_eq!(place("/api/v1/namespaces/a/status").subresource.as_deref(), Some("status"));
        let inside = place("/apis/apps/v1/namespaces/a/deployments/d/scale");
        assert_eq!(inside.namespace.as_deref(), Some("a"));
        assert_eq!((inside.plural.as_str(), inside.subresource.as_deref()), ("deployments", Some("scale")));
    }

    #[test]
    fn discovery_paths_are_no_resources() {
        assert_eq!(route("/apis/apps/v1/"), Route::Version("apps".into(), "v1".into()));
        assert_eq!(route("/openapi/v3/apis/apps/v1"), Route::OpenApiDocument("apis/apps/v1".into()));
        assert_eq!(route("/openapi/v4"), Route::Nothing);
        assert_eq!(place("/api/v1/nodes/a%2Eb").name.as_deref(), Some("a.b"));
        assert_eq!(place("/api/v1/nodes/a%+fb%").name.as_deref(), Some("a%+fb%"));
    }

    proptest! {
        #[test]
        fn any_path_leads_somewhere(path in r"(/|api|apis|v1|namespaces|%[0-9a-fA-F]{0,2}|[ -~]|ü){0,12}") {
            route(&path);
        }
    }
}
