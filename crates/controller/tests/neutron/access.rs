//! Getting in with a real Keystone.

use std::time::Duration;

use cloud::{Keystone, Proxy, Rule, User};
use futures::future::join_all;
use hyper::Method;
use serde_json::json;

use super::*;

const LOGIN: &str = "/v3/auth/tokens";
const REFUSED: &str = r#"{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}"#;

/// The Keystone and the Neutron that most of these tests share.
async fn site() -> &'static (Keystone, cloud::Neutron) {
    static SITE: OnceCell<(Keystone, cloud::Neutron)> = OnceCell::const_new();
    SITE.get_or_init(|| start(3600)).await
}

async fn start(token_seconds: u32) -> (Keystone, cloud::Neutron) {
    let keystone = Keystone::start(token_seconds).await;
    let settings = Settings { keystone: Some(keystone.url()), ..Settings::default() };
    let neutron = cloud::Neutron::start(settings).await;
    keystone.set_neutron(&neutron.url()).await;
    (keystone, neutron)
}

/// Both behind proxies.
pub(super) struct Watched {
    pub(super) keystone: Proxy,
    pub(super) neutron: Proxy,
}

impl Watched {
    pub(super) async fn start() -> Self {
        Self::of(site().await).await
    }

    async fn of((keystone, neutron): &(Keystone, cloud::Neutron)) -> Self {
        Self { keystone: Proxy::start(&keystone.url()).await, neutron: Proxy::start(&neutron.url()).await }
    }

    pub(super) fn config(&self, more: &[(&str, &str)]) -> Config {
        let (keystone, neutron) = (self.keystone.url(), self.neutron.url());
        let urls = [("OS_AUTH_URL", keystone.as_str()), ("OS_NETWORK_ENDPOINT_OVERRIDE", neutron.as_str())];
        by(&[&urls[..], more].concat())
    }

    fn as_user(&self, user: User, password: &str) -> Neutron {
        let config = self.config(&[
            ("OS_USERNAME", user.name()),
            ("OS_PASSWORD", password),
            ("OS_PROJECT_NAME", user.project()),
        ]);
        Neutron::new(config).expect("a client")
    }

    fn logins(&self) -> usize {
        self.keystone.count(&Method::POST, LOGIN)
    }
}

pub(super) async fn credential(name: &str) -> cloud::Credential {
    site().await.0.credential(User::Member, name).await
}

#[tokio::test]
async fn a_password_opens_the_neutron_of_the_catalog_and_many_callers_are_one_login() {
    let (keystone, _) = site().await;
    let proxy = Proxy::start(&keystone.url()).await;
    let url = format!("{}/", proxy.url());
    let config = by(&[
        ("OS_AUTH_URL", &url),
        ("OS_USERNAME", "causeway"),
        ("OS_PASSWORD", User::PASSWORD),
        ("OS_PROJECT_NAME", "causeway"),
        ("OS_REGION_NAME", "RegionOne"),
        ("OS_INTERFACE", "internal"),
    ]);
    let (neutron, home) = (Neutron::new(config).expect("a client"), home("password"));
    for result in join_all((0..20).map(|_| neutron.look(&home, &Look::All))).await {
        assert_eq!(result, Ok(Vec::new()));
    }
    assert_eq!(proxy.count(&Method::POST, LOGIN), 1);
    let id = made(&neutron, &home, "a").await.id;
    tagged(&neutron, &id, home.tags("u")).await;
    assert_eq!(all(&neutron, &home).await.len(), 1);

    // An administrator sees everybody's networks, and takes only those of his project for ours, also where one is named.
    let watched = Watched::start().await;
    let admin = watched.as_user(User::Admin, User::PASSWORD);
    assert_eq!(all(&admin, &home).await, []);
    assert_eq!(admin.look(&home, &clue("u", "a", &[])).await, Ok(Vec::new()));
    assert_eq!(admin.look(&home, &clue("u", "a", &[&id])).await, Ok(Vec::new()));

    // And somebody who may only read is told so.
    let reader = watched.as_user(User::Reader, User::PASSWORD);
    assert_eq!(all(&reader, &home).await.len(), 1);
    for step in [create(&home, "b"), Step::TagNetwork { id: id.clone(), tags: home.tags("w") }] {
        let result = reader.apply(&step).await;
        assert!(matches!(result, Err(Trouble::Forbidden(_))), "{result:?}");
    }
}

#[tokio::test]
async fn a_region_that_is_not_in_the_catalog_is_named() {
    let (keystone, _) = site().await;
    let url = keystone.url();
    let who = [("OS_AUTH_URL", url.as_str()), ("OS_USERNAME", "causeway"), ("OS_PASSWORD", User::PASSWORD)];
    let config = by(&[&who[..], &[("OS_PROJECT_NAME", "causeway"), ("OS_REGION_NAME", "Moon")]].concat());
    let result = Neutron::new(config).expect("a client").look(&home("region"), &Look::All).await;
    let Err(Trouble::Refused(words)) = result else { panic!("{result:?}") };
    assert!(words.contains("no public endpoint of type network in region Moon"), "{words}");
    assert!(words.contains("public in RegionOne"), "{words}");
}

#[tokio::test]
async fn an_application_credential_opens_too_until_it_is_deleted() {
    let watched = Watched::start().await;
    let credential = credential("opens").await;
    let variables = [
        ("OS_AUTH_TYPE", "v3applicationcredential"),
        ("OS_APPLICATION_CREDENTIAL_ID", credential.id.as_str()),
        ("OS_APPLICATION_CREDENTIAL_SECRET", credential.secret.as_str()),
    ];
    let client = || Neutron::new(watched.config(&variables)).expect("a client");
    let home = home("application");
    let known = client();
    assert_eq!(all(&known, &home).await, []);
    site().await.0.revoke(User::Member, &credential).await;
    let neutron = client();
    let result = neutron.look(&home, &Look::All).await;
    let Err(Trouble::Unauthorized(words)) = result else { panic!("{result:?}") };
    assert!(words.contains("Could not find Application Credential"), "{words}");
}

#[tokio::test]
async fn a_wrong_password_is_tried_once_whoever_asks() {
    let watched = Watched::start().await;
    let (neutron, home) = (watched.as_user(User::Member, "wrong-password"), home("wrong"));
    for _ in 0..3 {
        for result in join_all((0..10).map(|_| neutron.look(&home, &Look::All))).await {
            assert!(matches!(result, Err(Trouble::Unauthorized(_))), "{result:?}");
        }
    }
    assert_eq!(watched.logins(), 1, "accounts are locked after some");
    assert_eq!(watched.neutron.requests().len(), 0);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let site = start(8).await;
    let watched = Watched::of(&site).await;
    let (neutron, home) = (watched.as_user(User::Member, User::PASSWORD), home("renewed"));
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(14) {
        assert_eq!(neutron.look(&home, &clue("u", "a", &[])).await, Ok(Vec::new()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(watched.logins() >= 2);
    let refused = watched.neutron.requests().iter().filter(|it| it.answer == Some(401)).count();
    assert_eq!(refused, 0, "nobody was sent away with an old token");
}

#[tokio::test]
async fn a_token_that_is_not_taken_any_more_is_replaced_once() {
    let watched = Watched::start().await;
    let (neutron, home) = (watched.as_user(User::Member, User::PASSWORD), home("replaced"));
    assert_eq!(all(&neutron, &home).await, []);
    watched.neutron.tell(Rule::on(Method::POST, "/v2.0/networks").answer(401, REFUSED).times(1));
    made(&neutron, &home, "a").await;
    assert_eq!(watched.logins(), 2);

    watched.neutron.tell(Rule::on_any("/v2.0").answer(401, REFUSED));
    for _ in 0..5 {
        let result = neutron.apply(&create(&home, "b")).await;
        assert!(matches!(result, Err(Trouble::Unauthorized(_))), "{result:?}");
    }
    assert_eq!(watched.logins(), 3, "another login would not help");
}

#[tokio::test]
async fn an_outage_of_keystone_is_none_while_the_token_is_good() {
    let watched = Watched::start().await;
    let (neutron, home) = (watched.as_user(User::Member, User::PASSWORD), home("outage"));
    assert_eq!(all(&neutron, &home).await, []);
    watched.keystone.set_gone(true);
    assert_eq!(all(&neutron, &home).await, []);
    let other = watched.as_user(User::Member, User::PASSWORD);
    let result = other.look(&home, &Look::All).await;
    let Err(Trouble::Unreachable { why, .. }) = result else { panic!("{result:?}") };
    assert!(why.starts_with(&format!("Keystone at {}/v3: ", watched.keystone.url())), "{why}");

    watched.keystone.set_gone(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    watched.keystone.tell(Rule::on_any(LOGIN).answer(503, "").header("retry-after", "9").times(1));
    let result = other.look(&home, &Look::All).await;
    let Err(Trouble::Unreachable { after, .. }) = result else { panic!("{result:?}") };
    assert_eq!(after, Some(Duration::from_secs(9)));
    let third = watched.as_user(User::Member, User::PASSWORD);
    assert_eq!(all(&third, &home).await, []);
}

#[tokio::test]
async fn a_renewal_that_fails_leaves_the_token_in_use() {
    let watched = Watched::start().await;
    // It is renewed in its last tenth, and ends after 25 s: moments of the clock, because a look may take seconds.
    let (neutron, home) = (watched.as_user(User::Member, User::PASSWORD), home("kept"));
    let times =
        json!({"issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2026-01-01T00:00:25.000000Z"});
    let token = site().await.0.token(User::Member).await;
    let short = Rule::on(Method::POST, LOGIN).answer(201, json!({"token": times}).to_string());
    watched.keystone.tell(short.header("x-subject-token", &token).times(1));
    watched.keystone.tell(Rule::on(Method::POST, LOGIN).answer(503, ""));
    let begun = tokio::time::Instant::now();
    assert_eq!(all(&neutron, &home).await, []);
    tokio::time::sleep_until(begun + Duration::from_millis(22_700)).await;
    assert_eq!(all(&neutron, &home).await, []);
    assert_eq!(watched.logins(), 2, "it was tried");
    tokio::time::sleep_until(begun + Duration::from_millis(25_500)).await;
    let result = neutron.look(&home, &Look::All).await;
    assert!(is_unreachable(&result), "{result:?}");
    watched.keystone.pass();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(all(&neutron, &home).await, []);
}
