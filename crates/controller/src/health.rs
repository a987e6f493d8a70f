//! `/healthz`, `/readyz` and `/metrics`; and readiness by name.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is still waited for, by name, and why. Empty means ready. Once ready, a part stays so.
#[derive(Debug, Clone, Default)]
pub struct Readiness(watch::Sender<BTreeMap<String, String>>);

impl Readiness {
    /// Makes readiness wait for a part.
    pub fn expect(&self, name: &str) {
        self.0.send_modify(|waiting| drop(waiting.insert(name.into(), "its first list is awaited".into())));
    }

    /// Says why a part is waited for; nothing once it has been ready.
    pub fn waiting(&self, name: &str, why: &str) {
        self.0.send_if_modified(|waiting| {
            waiting.get_mut(name).is_some_and(|known| {
                why.clone_into(known);
                true
            })
        });
    }

    /// A part is ready.
    pub fn ready(&self, name: &str) {
        self.0.send_if_modified(|waiting| waiting.remove(name).is_some());
    }

    /// Waits until no part whose name begins so is waited for.
    pub async fn until_ready(&self, prefix: &str) {
        let ready = |waiting: &BTreeMap<String, String>| !waiting.keys().any(|name| name.starts_with(prefix));
        // It cannot fail: the sender is ours.
        let _ = self.0.subscribe().wait_for(ready).await;
    }

    /// What `/readyz` says.
    pub fn answer(&self) -> (StatusCode, String) {
        let waiting = self.0.borrow();
        if waiting.is_empty() {
            return (StatusCode::OK, "ok\n".into());
        }
        let lines = waiting.iter().map(|(name, why)| format!("{name}: {why}\n"));
        (StatusCode::SERVICE_UNAVAILABLE, lines.collect())
    }
}

/// Serves until asked to stop. Ready means: every watch has brought its first full list.
pub async fn serve(
    listen: SocketAddr,
    scrape: impl Fn() -> String + Clone + Send + Sync + 'static,
    readiness: Readiness,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let readiness = move || {
        let answer = readiness.answer();
        async move { answer }
    };
    let scrape = move || {
        let text = scrape();
        async move { ([(header::CONTENT_TYPE, METRICS_TYPE)], text) }
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(scrape));
    let listener = TcpListener::bind(listen).await?;
    tracing::info!(address = %listener.local_addr()?, "serving health and metrics");
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_named_with_its_reason_until_it_is_ready() {
        let readiness = Readiness::default();
        readiness.expect("vpc/tunnels");
        readiness.expect("vpc/nodes");
        readiness.ready("vpc/tunnels");
        readiness.waiting("vpc/nodes", "forbidden");
        readiness.waiting("vpc/tunnels", "interrupted");
        assert_eq!(readiness.answer(), (StatusCode::SERVICE_UNAVAILABLE, "vpc/nodes: forbidden\n".into()));
        readiness.ready("vpc/nodes");
        assert_eq!(readiness.answer(), (StatusCode::OK, "ok\n".into()));
    }
}
