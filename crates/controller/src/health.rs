//! `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until told to stop. Ready means: every watch has brought its first full list.
pub async fn serve(
    listen: SocketAddr,
    scrape: impl Fn() -> String + Clone + Send + Sync + 'static,
    ready: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let readiness = move || {
        let ready = *ready.borrow();
        async move {
            if ready {
                (StatusCode::OK, "ok")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "first lists are awaited")
            }
        }
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
