//! Query parameters, read the way Kubernetes reads them.

use axum::extract::Query as Extract;
use http::Uri;

use crate::status::ApiError;

/// The parameters of a request, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Result<Query, ApiError> {
        let unreadable = |why| ApiError::bad_request(format!("the query could not be read: {why}"));
        Extract::try_from_uri(uri).map(|Extract(pairs)| Query(pairs)).map_err(unreadable)
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first of that name; empty when absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.first(name).unwrap_or_default()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// Everything but `0` and `false` is true, also nothing at all behind the name.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.flag_if_given(name).unwrap_or(false)
    }

    /// A flag whose absence means something of its own.
    pub(crate) fn flag_if_given(&self, name: &str) -> Option<bool> {
        self.first(name).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.text(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| ApiError::bad_request(format!("{name}: {text:?} is not a number"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/?{text}").parse().unwrap()).unwrap()
    }

    #[test]
    fn flags_are_true_unless_they_say_no() {
        let given = query("a=false&b=0&c=False&d=1&e&f=f");
        assert!(["a", "b", "c", "absent"].iter().all(|name| !given.flag(name)));
        assert!(["d", "e", "f"].iter().all(|name| given.flag(name)));
        assert_eq!((given.flag_if_given("a"), given.flag_if_given("absent")), (Some(false), None));
    }

    proptest! {
        #[test]
        fn any_query_is_read_or_refused(text in "[!-~]{0,60}") {
            if let Ok(uri) = format!("/?{text}").parse::<Uri>()
                && let Ok(query) = Query::of(&uri)
            {
                let names: Vec<&str> = query.0.iter().map(|(name, _)| name.as_str()).collect();
                for name in names {
                    prop_assert!(!query.all(name).is_empty());
                    let _ = (query.flag(name), query.number(name));
                }
            }
        }
    }
}
