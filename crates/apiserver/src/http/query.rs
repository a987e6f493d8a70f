//! Query parameters.

use axum::extract::Query as Extract;
use http::Uri;

use crate::status::ApiError;

/// The parameters of a request, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Query {
        Query(Extract::try_from_uri(uri).map(|Extract(pairs)| pairs).unwrap_or_default())
    }

    /// The first of that name; empty when absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            "" if self.0.iter().any(|(key, _)| key == name) => Ok(true),
            "" | "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
            other => Err(ApiError::bad_request(format!("{name}: {other:?} is neither true nor false"))),
        }
    }

    /// A flag whose absence means something of its own.
    pub(crate) fn flag_if_given(&self, name: &str) -> Result<Option<bool>, ApiError> {
        if self.0.iter().any(|(key, _)| key == name) { self.flag(name).map(Some) } else { Ok(None) }
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
