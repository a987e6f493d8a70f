//! How often what was asked for, so that a test can say "an idle minute makes no request".

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Requests of one kind with one outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestCount {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`; the method elsewhere.
    pub verb: String,
    /// The plural; for discovery and the like the path; empty where nothing is served.
    pub resource: String,
    /// `status`, `scale`, `exec`, or empty.
    pub subresource: String,
    /// The HTTP code answered with.
    pub code: u16,
    /// How many there were since the start.
    pub count: u64,
}

/// The counts so far. A watch is counted when it begins.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<(String, String, String, u16), u64>>);

impl Counters {
    pub(crate) fn count(&self, verb: String, resource: String, subresource: String, code: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((verb, resource, subresource, code)).or_default() += 1;
    }

    /// For `/metrics`, under the name and with the labels that a cluster has.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("# TYPE apiserver_request_total counter\n");
        for RequestCount { verb, resource, subresource, code, count } in self.all() {
            let _ = writeln!(
                text,
                "apiserver_request_total{{code=\"{code}\",resource={resource:?},subresource={subresource:?},verb={verb:?}}} {count}"
            );
        }
        text
    }

    pub(crate) fn all(&self) -> Vec<RequestCount> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counted =
            |((verb, resource, subresource, code), count): (&(String, String, String, u16), &u64)| {
                RequestCount {
                    verb: verb.clone(),
                    resource: resource.clone(),
                    subresource: subresource.clone(),
                    code: *code,
                    count: *count,
                }
            };
        counts.iter().map(counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_speak_as_a_clusters_do() {
        let counters = Counters::default();
        for _ in 0..2 {
            counters.count("patch".into(), "pods".into(), "status".into(), 200);
        }
        let line =
            r#"apiserver_request_total{code="200",resource="pods",subresource="status",verb="patch"} 2"#;
        assert_eq!(counters.text(), format!("# TYPE apiserver_request_total counter\n{line}\n"));
    }
}
