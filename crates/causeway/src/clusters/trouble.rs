//! Why a cluster cannot be asked, each in one sentence: what is wrong, and what to do.

use std::error::Error;
use std::io;
#[cfg(feature = "diagnose")]
use std::time::Duration;

use causeway_controller::words::describe;
use kube::config::{KubeconfigError, LoadDataError};
use rustls::{AlertDescription, CertificateError};

/// What is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Trouble(String);

impl Trouble {
    /// In one line, whoever worded it.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let words: Vec<&str> = text.split_whitespace().collect();
        Self(words.join(" "))
    }

    /// Of a request to an API server that went wrong.
    pub(crate) fn of_server(error: &kube::Error, server: &str) -> Self {
        let known = match error {
            kube::Error::Api(status) => answered(status.code, &describe(error), server),
            kube::Error::Auth(error) => Some(describe(error)),
            error => unreachable(error, server),
        };
        Self::new(known.unwrap_or_else(|| format!("{server}: {}", describe(error))))
    }

    /// Of a server that takes a request and is silent.
    #[cfg(feature = "diagnose")]
    pub(crate) fn of_silence(server: &str, limit: Duration) -> Self {
        Self::new(silent(server, limit.as_secs()))
    }

    /// Of a context that cannot be used.
    pub(super) fn of_context(error: &KubeconfigError, context: &str, files: &str) -> Self {
        use KubeconfigError as E;
        let what = match error {
            E::LoadClusterOfContext(cluster) => {
                format!("names the cluster `{cluster}`, of which there is nothing in {files}")
            }
            E::MissingClusterUrl => format!("leads to a cluster without an address (server) in {files}"),
            E::LoadCertificateAuthority(why) => data("certificate-authority", why),
            E::LoadClientCertificate(why) => data("client-certificate", why),
            E::LoadClientKey(why) => data("client-key", why),
            other => format!("cannot be used: {}", describe(other)),
        };
        Self::new(format!("context `{context}` {what}"))
    }
}

fn data(field: &str, why: &LoadDataError) -> String {
    match why {
        LoadDataError::ReadFile(error, path) => {
            format!("names a {field} that cannot be read: {}: {}", path.display(), plain(error))
        }
        LoadDataError::DecodeBase64(error) => format!("has a {field}-data that is no base64: {error}"),
        LoadDataError::NoBase64DataOrFile => format!("lacks {field} or {field}-data"),
    }
}

fn answered(code: u16, message: &str, server: &str) -> Option<String> {
    match code {
        401 => Some(format!(
            "{server} does not accept the credentials of the kubeconfig (401 {message}): log in again, or choose another --context"
        )),
        403 => Some(format!("{server} refuses that (403): {message}")),
        429 | 500.. => Some(format!("{server} cannot answer at the moment ({code}): {message}; try again")),
        _ => None,
    }
}

fn silent(server: &str, seconds: impl std::fmt::Display) -> String {
    format!("{server} has not answered within {seconds} s: is it an API server, has it too much to do?")
}

/// Whether a request went wrong because nobody is there to answer any: it could not be sent, or nothing came back in time.
/// A connection that breaks says nothing of the next one.
#[cfg(feature = "diagnose")]
pub(crate) fn is_nobody_there(error: &kube::Error) -> bool {
    use io::ErrorKind as K;
    let broke = |error: &io::Error| {
        matches!(error.kind(), K::ConnectionReset | K::ConnectionAborted | K::UnexpectedEof | K::BrokenPipe)
    };
    match error {
        kube::Error::Auth(_) => true,
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            !causes(error).filter_map(<dyn Error>::downcast_ref).any(broke)
        }
        _ => false,
    }
}

/// Why there was no answer, if that is something people know how to mend.
fn unreachable(error: &kube::Error, server: &str) -> Option<String> {
    if let Some(error) = find::<rustls::Error>(error) {
        return Some(tls(error, server));
    }
    if causes(error).any(|cause| cause.to_string() == "dns error") {
        let host = server.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
        let host = host.unwrap_or_else(|| server.to_owned());
        return Some(format!(
            "there is no host {host} that this machine knows of: is the server's address in the kubeconfig right, is a VPN down?"
        ));
    }
    let late = causes(error).find_map(|cause| {
        let said = cause.to_string();
        Some(said.strip_prefix("the API server has not answered within ")?.strip_suffix(" s")?.to_owned())
    });
    if let Some(seconds) = late {
        return Some(silent(server, seconds));
    }
    // One I/O error may lie in another that says nothing.
    causes(error).filter_map(<dyn Error>::downcast_ref).find_map(|error| cut_off(error, server))
}

fn cut_off(error: &io::Error, server: &str) -> Option<String> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(format!(
            "nothing listens at {server} (connection refused): is the cluster running, is its address in the kubeconfig right?"
        )),
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Some(format!("{server} cannot be reached ({}): is a VPN or a firewall in the way?", plain(error)))
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            Some(format!("{server} closed the connection without an answer: is there an API server at it?"))
        }
        _ => None,
    }
}

fn tls(error: &rustls::Error, server: &str) -> String {
    use CertificateError as C;
    let rest = match error {
        rustls::Error::InvalidCertificate(why) => match why {
            C::UnknownIssuer => {
                "was issued by nobody the kubeconfig trusts: check its certificate-authority".to_owned()
            }
            C::Expired | C::ExpiredContext { .. } => {
                "has expired: renew it, or check this machine's clock".to_owned()
            }
            C::NotValidYet | C::NotValidYetContext { .. } => {
                "is not valid yet: check this machine's clock".to_owned()
            }
            C::NotValidForName | C::NotValidForNameContext { .. } => {
                "is for another name: check the address, or set tls-server-name in the kubeconfig".to_owned()
            }
            other => format!("cannot be accepted: {other}"),
        },
        rustls::Error::InvalidMessage(_) => {
            return format!("{server} does not speak TLS: should its address begin with http://?");
        }
        rustls::Error::AlertReceived(alert) if is_about_us(*alert) => {
            return format!(
                "{server} does not accept the client certificate of the kubeconfig: log in again, or choose another --context"
            );
        }
        other => return format!("no TLS connection to {server}: {other}"),
    };
    format!("the certificate of {server} {rest}")
}

fn is_about_us(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::BadCertificate
            | A::CertificateRequired
            | A::CertificateExpired
            | A::CertificateRevoked
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
    )
}

/// Without `(os error 113)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// An error and all below it. What an I/O error was made of is no source of it, but lies in it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        within.map(|within| within as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    causes(error).find_map(<dyn Error>::downcast_ref)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use proptest::prelude::*;

    use super::*;

    const SERVER: &str = "https://10.0.0.1:6443";

    fn broken(error: rustls::Error) -> String {
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        Trouble::of_server(&kube::Error::Service(Box::new(error)), SERVER).to_string()
    }

    #[test]
    fn certificates_are_told_apart() {
        let certificate = |why| broken(rustls::Error::InvalidCertificate(why));
        assert!(certificate(CertificateError::UnknownIssuer).contains("certificate-authority"));
        assert!(certificate(CertificateError::Expired).contains("has expired"));
        assert!(certificate(CertificateError::NotValidYet).contains("this machine's clock"));
        assert!(certificate(CertificateError::NotValidForName).contains("tls-server-name"));
        let refused = broken(rustls::Error::AlertReceived(AlertDescription::UnknownCA));
        assert!(refused.contains("does not accept the client certificate"), "{refused}");
        let other = broken(rustls::Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered));
        assert!(other.starts_with("no TLS connection to https://10.0.0.1:6443: "), "{other}");
    }

    #[test]
    fn a_connection_that_breaks_is_told_however_deep_the_error_lies() {
        let reset = io::Error::other(io::Error::from(io::ErrorKind::ConnectionReset));
        let said = Trouble::of_server(&kube::Error::Service(Box::new(reset)), SERVER).to_string();
        assert!(said.starts_with("https://10.0.0.1:6443 closed the connection without an answer"), "{said}");
    }

    #[test]
    fn silence_is_told_in_a_sentence_and_is_nobody_there_as_a_broken_connection_is_not() {
        let late = kube::Error::Service("the API server has not answered within 30 s".into());
        let said = Trouble::of_server(&late, SERVER).to_string();
        assert!(said.starts_with("https://10.0.0.1:6443 has not answered within 30 s: "), "{said}");
        let of = |kind: io::ErrorKind| kube::Error::Service(Box::new(io::Error::from(kind)));
        let status = Status::failure("no", "Reason").with_code(503);
        for (error, is_so) in [
            (late, true),
            (of(io::ErrorKind::ConnectionRefused), true),
            (of(io::ErrorKind::ConnectionReset), false),
            (kube::Error::Api(Box::new(status)), false),
        ] {
            assert_eq!(is_nobody_there(&error), is_so, "{error}");
        }
    }

    #[test]
    fn what_a_client_cannot_read_of_its_own_is_named_by_its_field() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = KubeconfigError::LoadClientKey(LoadDataError::ReadFile(error, "/etc/key".into()));
        let said = Trouble::of_context(&error, "prod", "/tmp/config").to_string();
        assert_eq!(
            said,
            "context `prod` names a client-key that cannot be read: /etc/key: permission denied"
        );
        let said = Trouble::of_context(&KubeconfigError::LoadClusterOfContext("c".into()), "prod", "/f");
        assert_eq!(said.to_string(), "context `prod` names the cluster `c`, of which there is nothing in /f");
    }

    proptest! {
        #[test]
        fn any_answer_is_one_line_without_a_struct_in_it(code in 300u16..600, message in any::<String>()) {
            let status = Status::failure(&message, "Reason").with_code(code);
            let said = Trouble::of_server(&kube::Error::Api(Box::new(status)), SERVER).to_string();
            prop_assert_eq!(said.lines().count(), 1);
            prop_assert!(!said.contains("Status {") && said.contains(SERVER), "{}", said);
        }
    }
}
