//! Connections with TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use causeway_controller::rules::Tls;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use crate::plane::{LIMIT, Plane, target};
use crate::{Replica, Site, support};

/// Whoever signs certificates.
struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
struct Signed {
    certificate: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("signed");
        let (pem, certificate) = (certificate.pem(), certificate.der().clone());
        Self { certificate, pem, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> Signed {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        Signed { pem: certificate.pem(), certificate: certificate.der().clone(), key }
    }
}

/// Where a replica reads its certificates.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    fn hold(&self, signed: &Signed) {
        self.write("tls.crt", &signed.pem);
        self.write("tls.key", &signed.key.serialize_pem());
    }

    async fn replica(&self, site: &Site, client_ca: Option<&Authority>) -> Replica {
        let client_ca = client_ca.map(|authority| {
            self.write("ca.crt", &authority.pem);
            self.path("ca.crt")
        });
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let tls = Tls { listen, certificate: self.path("tls.crt"), key: self.path("tls.key"), client_ca };
        site.replica_with("a", |options| options.tls = Some(tls)).await
    }
}

/// Connects with TLS, trusting one authority.
async fn connect(address: SocketAddr, trusted: &Authority, own: Option<&Signed>) -> Result<Plane, String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.certificate.clone()).expect("an authority");
    let config = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::try_from(own.key.serialize_der()).expect("a key");
            config.with_client_auth_cert(vec![own.certificate.clone()], key).expect("they fit")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").expect("a name");
    let connect = tower::service_fn(move |_| {
        let (connector, name) = (connector.clone(), name.clone());
        async move {
            Ok::<_, std::io::Error>(TokioIo::new(
                connector.connect(name, TcpStream::connect(address).await?).await?,
            ))
        }
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel: Channel =
        endpoint.connect_with_connector(connect).await.map_err(|error| format!("{error:?}"))?;
    let plane = Plane::on(channel).await.map_err(|error| error.to_string())?;
    plane.subscribe(target(LIMIT, "default", "foo"));
    Ok(plane)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_read_again_when_they_change_and_broken_ones_change_nothing() {
    let (site, files) = (Site::start().await, Files::new());
    let (first, second) = (Authority::new(), Authority::new());
    files.hold(&first.sign("localhost"));
    let replica = files.replica(&site, None).await;
    let address = replica.room.bound().await[1];
    site.limit("ten", "foo", 10).await;
    let mut early = connect(address, &first, None).await.expect("the first certificate");
    early.until_rules(1).await;
    assert!(connect(address, &second, None).await.is_err(), "nobody signed for by the second");

    files.write("tls.key", "no key");
    files.write("tls.crt", "no certificate");
    // Longer than it takes to look.
    let start = tokio::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_secs(6) {
        connect(address, &first, None).await.expect("what was there before");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }

    files.hold(&second.sign("localhost"));
    support::until("the second certificate is used", async || connect(address, &second, None).await.is_ok())
        .await;
    site.limit("eleven", "foo", 11).await;
    early.until_rules(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_clients_need_a_certificate_only_those_with_one_of_its_authority_are_served() {
    let (site, files) = (Site::start().await, Files::new());
    let (servers, clients) = (Authority::new(), Authority::new());
    files.hold(&servers.sign("localhost"));
    let replica = files.replica(&site, Some(&clients)).await;
    let address = replica.room.bound().await[1];
    site.limit("ten", "foo", 10).await;
    for (own, served) in
        [(None, false), (Some(servers.sign("app")), false), (Some(clients.sign("app")), true)]
    {
        // With TLS 1.3 a client learns that it is refused when it reads.
        let answered = match connect(address, &servers, own.as_ref()).await {
            Ok(mut plane) => plane.is_answered().await,
            Err(_) => false,
        };
        assert_eq!(answered, served, "a certificate: {}", own.is_some());
    }
}
