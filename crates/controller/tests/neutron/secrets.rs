//! What is secret is never printed: not in errors, not in what is logged, however much, and whatever a server repeats.

use std::io::Write;
use std::sync::{Arc, Mutex};

use cloud::Rule;
use hyper::Method;
use serde_json::json;

use super::access::{Watched, credential};
use super::*;

/// All that is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nothing panics with it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_is_in_any_error_or_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let credential = credential("hidden").await;
    let watched = Watched::start().await;
    let config = watched.config(&[
        ("OS_APPLICATION_CREDENTIAL_ID", credential.id.as_str()),
        ("OS_APPLICATION_CREDENTIAL_SECRET", credential.secret.as_str()),
    ]);
    let _logging = tracing::subscriber::set_default(subscriber);
    let mut words = format!("{config:?}");
    let (neutron, home) = (Neutron::new(config.clone()).expect("a client"), home("secrets"));
    assert_eq!(all(&neutron, &home).await, []);
    let token = watched.neutron.requests()[0].headers["x-auth-token"].to_str().expect("text").to_owned();

    let echo = format!("you sent {token} and {}", credential.secret);
    let of_neutron = json!({"NeutronError": {"type": "X", "message": echo, "detail": ""}}).to_string();
    for (status, body) in [(400, of_neutron.as_str()), (500, &echo), (403, &of_neutron), (200, &echo)] {
        watched.neutron.tell(Rule::on_any("/v2.0").answer(status, body.to_owned()));
        words += &format!("{:?}", neutron.look(&home, &Look::All).await);
        let result = neutron.apply(&create(&home, "a")).await;
        words += &format!("{result:?} {}", result.clone().expect_err("refused"));
        watched.neutron.pass();
    }
    assert!(words.contains("you sent … and …"), "{words}");
    watched.neutron.tell(Rule::on_any("/v2.0").cut_before());
    words += &format!("{:?}", neutron.apply(&create(&home, "a")).await);

    let echo = format!("you sent {}", credential.secret);
    let of_keystone = json!({"error": {"code": 401, "message": echo}}).to_string();
    for (status, body) in [(401, of_keystone.as_str()), (400, &of_keystone), (503, &echo), (201, &echo)] {
        let neutron = Neutron::new(config.clone()).expect("a client");
        let rule = Rule::on(Method::POST, "/v3").answer(status, body.to_owned());
        watched.keystone.tell(rule.header("x-subject-token", &token));
        words += &format!("{:?}", neutron.look(&home, &Look::All).await);
        watched.keystone.pass();
    }
    let logged = String::from_utf8(log.0.lock().expect("nothing panics with it").clone()).expect("text");
    assert!(logged.contains("asked the cloud"), "{logged}");
    for text in [&words, &logged] {
        assert!(!text.contains(&credential.secret), "the credential's secret is in {text}");
        assert!(!text.contains(&token), "the token is in {text}");
    }
}
