//! A certificate authority of a test's own.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// It signs one certificate, for loopback.
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    /// The authority, for a client's configuration.
    pub(super) pem: String,
    pub(super) client: Arc<ClientConfig>,
}

pub(super) fn generate() -> Tls {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed");

    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let params = CertificateParams::new(names).expect("parameters");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("signed").der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Tls { acceptor: TlsAcceptor::from(Arc::new(server)), pem: authority.pem(), client: Arc::new(client) }
}
