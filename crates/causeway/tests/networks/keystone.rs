//! Getting in: by password or application credential, from variables or `clouds.yaml`, with tokens that end.

use std::time::Duration;

use hyper::Method;
use tokio::sync::OnceCell;

use crate::cloud::{Keystone, Neutron, Proxy, Rule, Settings, User};
use crate::controller::Start;
use crate::site::Site;

/// How long a token lives, all but a part of the first second.
const LIFE: u32 = 8;

/// The Keystone that these tests share, and the Neutron that asks it.
pub(crate) async fn servers() -> &'static (Keystone, Neutron) {
    static SERVERS: OnceCell<(Keystone, Neutron)> = OnceCell::const_new();
    SERVERS.get_or_init(|| Keystone::start_with_neutron(LIFE, Settings::default())).await
}

/// A cluster whose Neutron is known to Keystone only; a test looks at it as a member.
pub(crate) async fn site() -> Site {
    let (keystone, neutron) = servers().await;
    Site::at(&neutron.url(), neutron.api().logging_in(keystone, User::Member)).await
}

/// Variables of somebody who comes with a password.
pub(crate) fn with_password(start: Start, auth_url: &str, password: &str) -> Start {
    start
        .variable("OS_AUTH_URL", auth_url)
        .variable("OS_USERNAME", User::Member.name())
        .variable("OS_PASSWORD", password)
        .variable("OS_PROJECT_NAME", User::Member.project())
        .variable("OS_USER_DOMAIN_ID", User::DOMAIN)
        .variable("OS_PROJECT_DOMAIN_ID", User::DOMAIN)
        .variable("OS_REGION_NAME", "RegionOne")
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_renewed_and_an_outage_of_keystone_is_survived() {
    let (keystone, _) = servers().await;
    let site = site().await;
    let door = Proxy::start(&keystone.url()).await;
    let url = format!("{}/v3", door.url());
    let start = with_password(Start::alone(), &url, User::PASSWORD);
    let controller = site.start_elsewhere(start.variable("OS_NETWORK_ENDPOINT_OVERRIDE", &site.proxy.url()));
    site.create("first", "10.60.0.0/24").await;
    site.ready("first").await;
    site.has_exactly_one("first").await;

    let logins = || door.count(&Method::POST, "/v3/auth/tokens");
    site.until("a second and a third token", async || match logins() {
        0..3 => Err(format!("{}", logins())),
        _ => Ok(()),
    })
    .await;
    let refused = |it: &crate::cloud::Request| it.answer == Some(401);
    assert!(!site.proxy.requests().iter().any(refused), "no token was used to its end");
    assert!(logins() < 8, "one login for all: {}", logins());

    door.set_gone(true);
    site.until("its last token has ended", async || {
        let said = controller.said();
        if said.contains("the cloud cannot be listed") { Ok(()) } else { Err("not yet".into()) }
    })
    .await;
    site.create("second", "10.61.0.0/24").await;
    let why = site.says("second", "Ready", "False", "CloudUnreachable").await;
    assert!(why.contains("Keystone"), "{why}");
    site.says("first", "Ready", "True", "Synced").await;
    door.set_gone(false);
    site.ready("second").await;
    site.has_exactly_one("second").await;

    // A token that Neutron does not take any more, though it should: one more login, and nobody notices.
    let before = logins();
    site.proxy.tell(Rule::on(Method::POST, "/v2.0/networks").times(1).answer(401, "{}"));
    site.create("third", "10.62.0.0/24").await;
    site.ready("third").await;
    assert!(logins() > before);
    assert!(site.events("third").await.iter().all(|(reason, _)| reason == "Synced"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_credential_in_clouds_yaml_and_an_authority_of_ones_own_get_in() {
    let (keystone, _) = servers().await;
    let site = site().await;
    let door = Proxy::start_with_tls(&keystone.url()).await;
    std::fs::write(site.folder.path().join("ca.pem"), door.authority()).expect("written");
    let credential = keystone.credential(User::Member, "for-the-test").await;
    let clouds = format!(
        "clouds:\n  lab:\n    auth_type: v3applicationcredential\n    auth:\n      auth_url: {}/v3\n      \
         application_credential_id: {}\n      application_credential_secret: {}\n    region_name: RegionOne\n    \
         cacert: ca.pem\n",
        door.url(),
        credential.id,
        credential.secret
    );
    std::fs::write(site.folder.path().join("clouds.yaml"), clouds).expect("written");
    // Neutron is found in the catalog.
    let controller = site.start_elsewhere(Start::alone().with(&["--os-cloud", "lab"]));
    site.create("by-credential", "10.63.0.0/24").await;
    site.ready("by-credential").await;
    site.has_exactly_one("by-credential").await;
    assert!(door.count(&Method::POST, "/v3/auth/tokens") > 0);
    let made = site.made_for("by-credential").await;

    // It is revoked: that is told when the last token has ended.
    keystone.revoke(User::Member, &credential).await;
    site.create("too-late", "10.64.0.0/24").await;
    drop(controller);
    let controller = site.start_elsewhere(Start::alone().with(&["--os-cloud", "lab"]));
    let why = site.says("too-late", "Ready", "False", "Unauthorized").await;
    assert!(why.contains("Could not find Application Credential"), "{why}");
    assert!(!controller.said().contains(&credential.secret));
    assert_eq!(site.made_for("by-credential").await, made, "what there is stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_and_not_tried_again_and_again() {
    let (keystone, _) = servers().await;
    let site = site().await;
    let door = Proxy::start(&keystone.url()).await;
    let url = format!("{}/v3", door.url());
    let controller = site.start_elsewhere(with_password(Start::alone(), &url, "not-the-password"));
    site.create("outside", "10.65.0.0/24").await;
    let why = site.says("outside", "Ready", "False", "Unauthorized").await;
    assert!(why.contains("Keystone") && why.contains("401"), "{why}");
    site.event("outside", "Unauthorized", "does not let us in").await;
    // Accounts are locked after some wrong passwords.
    let first = door.requests().first().expect("a login").at;
    tokio::time::sleep_until((first + Duration::from_secs(5)).into()).await;
    assert_eq!(door.count(&Method::POST, "/v3/auth/tokens"), 1);
    assert!(!controller.said().contains("not-the-password"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (keystone, _) = servers().await;
    let site = site().await;
    let door = Proxy::start_with_tls(&keystone.url()).await;
    let url = format!("{}/v3", door.url());
    let _controller = site.start_elsewhere(with_password(Start::alone(), &url, User::PASSWORD));
    site.create("untrusting", "10.66.0.0/24").await;
    let why = site.says("untrusting", "Ready", "False", "CloudUnreachable").await;
    assert!(why.contains("certificate"), "{why}");
    assert_eq!(door.requests().len(), 0, "the password was not sent");
}
