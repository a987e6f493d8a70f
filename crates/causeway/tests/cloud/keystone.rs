//! Keystone, and those who can log in to it: `hack/neutron/configuration.py` has the same names.

use serde_json::{Value, json};

use super::server::Server;
use super::{Answer, Api, Neutron, Settings};

/// Somebody whom every Keystone here knows, in the domain `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Of the whole cloud.
    Admin,
    /// A member of the project `causeway`.
    Member,
    /// May only read what is in that project.
    Reader,
}

impl User {
    pub(crate) const PASSWORD: &str = "secret";
    pub(crate) const DOMAIN: &str = "default";

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Member => "causeway",
            Self::Reader => "reader",
        }
    }

    pub(crate) fn project(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Member | Self::Reader => "causeway",
        }
    }
}

/// An application credential.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub(crate) id: String,
    pub(crate) secret: String,
}

/// Its process. Dropping it kills it.
pub(crate) struct Keystone {
    server: Server,
}

impl Keystone {
    /// One whose tokens live that many seconds, all but a part of the first.
    pub(crate) async fn start(token_seconds: u32) -> Self {
        let mut keystone = Self::prepare(token_seconds);
        keystone.start_again().await;
        keystone
    }

    /// The same with a Neutron that asks it, and that is in its catalog.
    pub(crate) async fn start_with_neutron(token_seconds: u32, settings: Settings) -> (Self, Neutron) {
        let mut keystone = Self::prepare(token_seconds);
        let settings = Settings { keystone: Some(keystone.url()), ..settings };
        let ((), neutron) = tokio::join!(keystone.start_again(), Neutron::start(settings));
        keystone.set_neutron(&neutron.url()).await;
        (keystone, neutron)
    }

    fn prepare(token_seconds: u32) -> Self {
        let mut keystone = Self { server: Server::new("keystone") };
        keystone.set_token_seconds(token_seconds);
        keystone
    }

    /// How long its tokens live, from its next start on.
    pub(crate) fn set_token_seconds(&mut self, seconds: u32) {
        self.server.set_arguments(vec![format!("--token-seconds={seconds}")]);
    }

    /// Starts it after [`Keystone::stop`], where it was and with what it had.
    pub(crate) async fn start_again(&mut self) {
        self.server.start("v3", 200).await;
    }

    /// Kills it: connections to it are refused.
    pub(crate) fn stop(&mut self) {
        self.server.stop();
    }

    /// What a client is given: `http://127.0.0.1:5000/v3`.
    pub(crate) fn url(&self) -> String {
        format!("{}/v3", self.server.url())
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(self.url())
    }

    /// Has the catalog say where Neutron is, in all three interfaces of the region `RegionOne`.
    pub(crate) async fn set_neutron(&self, url: &str) {
        let api = self.api_as(User::Admin).await;
        let services = api.list("services?type=network").await;
        let service = services[0]["id"].as_str().expect("an id");
        for endpoint in api.list(&format!("endpoints?service_id={service}")).await {
            let path = format!("endpoints/{}", endpoint["id"].as_str().expect("an id"));
            let body = json!({ "endpoint": { "url": url } });
            let answer = api.ask(hyper::Method::PATCH, &path, &[], Some(body)).await;
            answer.expect("an answer").ok();
        }
    }

    /// Keystone's API for somebody.
    pub(crate) async fn api_as(&self, user: User) -> Api {
        self.api().with_token(&self.token(user).await)
    }

    /// A new token for somebody's project.
    pub(crate) async fn token(&self, user: User) -> String {
        self.log_in(user, User::PASSWORD).await.token()
    }

    /// What is answered to somebody who asks for a token with a password.
    pub(crate) async fn log_in(&self, user: User, password: &str) -> Answer {
        let domain = json!({ "id": User::DOMAIN });
        let who = json!({ "name": user.name(), "domain": domain, "password": password });
        let identity = json!({ "methods": ["password"], "password": { "user": who } });
        let scope = json!({ "project": { "name": user.project(), "domain": domain } });
        self.authenticate(json!({ "identity": identity, "scope": scope })).await
    }

    /// The same with an application credential.
    pub(crate) async fn log_in_with(&self, credential: &Credential) -> Answer {
        let Credential { id, secret } = credential;
        let identity = json!({ "methods": ["application_credential"], "application_credential": { "id": id, "secret": secret } });
        self.authenticate(json!({ "identity": identity })).await
    }

    async fn authenticate(&self, auth: Value) -> Answer {
        self.api().post("auth/tokens", json!({ "auth": auth })).await
    }

    /// A new application credential of somebody's.
    pub(crate) async fn credential(&self, user: User, name: &str) -> Credential {
        let said = self.log_in(user, User::PASSWORD).await;
        let path = credentials_of(&said);
        let body = json!({ "application_credential": { "name": name } });
        let made = self.api().with_token(&said.token()).post(&path, body).await.ok();
        let text = |field: &str| made["application_credential"][field].as_str().expect("text").to_owned();
        Credential { id: text("id"), secret: text("secret") }
    }

    /// Takes it away.
    pub(crate) async fn revoke(&self, user: User, credential: &Credential) {
        let said = self.log_in(user, User::PASSWORD).await;
        let path = format!("{}/{}", credentials_of(&said), credential.id);
        self.api().with_token(&said.token()).delete(&path).await.ok();
    }
}

fn credentials_of(answer: &Answer) -> String {
    let user = answer.body["token"]["user"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}"));
    format!("users/{user}/application_credentials")
}
