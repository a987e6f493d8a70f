//! Certificates from files, read again when they change.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::server::Tls;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Accepts with what the files hold; while they make no sense, with what they held before.
#[derive(Clone)]
pub(super) struct Reloading(Arc<Mutex<Loaded>>);

struct Loaded {
    tls: Tls,
    files: Files,
    config: Arc<ServerConfig>,
    looked: Instant,
}

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Reloading {
    pub(super) fn new(tls: &Tls) -> anyhow::Result<Self> {
        let files = Files::read(tls)?;
        let config = files.config(tls)?;
        Ok(Self(Arc::new(Mutex::new(Loaded { tls: tls.clone(), files, config, looked: Instant::now() }))))
    }

    pub(super) async fn accept(&self, socket: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.config()).accept(socket).await
    }

    fn config(&self) -> Arc<ServerConfig> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked.elapsed() >= LOOK_EVERY {
            loaded.looked = Instant::now();
            loaded.reload();
        }
        loaded.config.clone()
    }
}

impl Loaded {
    fn reload(&mut self) {
        let read = Files::read(&self.tls).and_then(|files| {
            let config = if files == self.files { None } else { Some(files.config(&self.tls)?) };
            Ok((files, config))
        });
        match read {
            Ok((_, None)) => {}
            Ok((files, Some(config))) => {
                tracing::info!("other certificates are there and in use");
                (self.files, self.config) = (files, config);
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "certificates stay as they were"),
        }
    }
}

impl Files {
    fn read(tls: &Tls) -> anyhow::Result<Self> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("reading {}", path.display()));
        Ok(Self {
            certificate: read(&tls.certificate)?,
            key: read(&tls.key)?,
            client_ca: tls.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn config(&self, tls: &Tls) -> anyhow::Result<Arc<ServerConfig>> {
        let chain = certificates(&self.certificate, &tls.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .with_context(|| format!("{} holds no private key", tls.key.display()))?;
        let builder = ServerConfig::builder();
        let builder = match (&self.client_ca, &tls.client_ca) {
            (Some(bytes), Some(path)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(bytes, path)? {
                    roots.add(certificate).with_context(|| path.display().to_string())?;
                }
                builder.with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build()?)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(chain, key).context("the certificate and the key do not fit")?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(bytes: &[u8], path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let all = all.with_context(|| format!("reading {}", path.display()))?;
    anyhow::ensure!(!all.is_empty(), "{} holds no certificate", path.display());
    Ok(all)
}
