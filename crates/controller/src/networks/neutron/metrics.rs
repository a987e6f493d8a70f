//! How often the cloud is asked.

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Labels of the counter of requests: closed sets both.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Asked {
    /// The method.
    pub method: &'static str,
    /// The class of the status, or `none` where there was no answer.
    pub code: &'static str,
}

/// Requests to a cloud by method and by how they were answered, each try of its own.
#[derive(Debug, Clone, Default)]
pub struct Requests(pub Family<Asked, Counter>);

impl Requests {
    pub(super) fn count(&self, method: &Method, status: Option<StatusCode>) {
        let method = match *method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        let code = match status.map(|status| status.as_u16() / 100) {
            Some(1 | 2) => "2xx",
            Some(3) => "3xx",
            Some(4) => "4xx",
            Some(_) => "5xx",
            None => "none",
        };
        self.0.get_or_create(&Asked { method, code }).inc();
    }
}
