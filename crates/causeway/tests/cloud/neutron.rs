//! Neutron.

use std::ops::RangeInclusive;

use serde_json::json;

use super::Api;
use super::server::Server;

/// How a Neutron differs from the usual.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where tokens are from ([`super::Keystone::url`]). Without it, everybody is an administrator.
    pub(crate) keystone: Option<String>,
    /// How many of them a project may have.
    pub(crate) networks: Option<u32>,
    pub(crate) subnets: Option<u32>,
    /// Each network takes one.
    pub(crate) vnis: RangeInclusive<u32>,
    /// The most that a list answers at once.
    pub(crate) page: Option<u32>,
    /// Whether what Keystone said of a token is believed for five minutes.
    pub(crate) caches_tokens: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keystone: None,
            networks: None,
            subnets: None,
            vnis: 1..=1000,
            page: None,
            caches_tokens: true,
        }
    }
}

impl Settings {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--vnis={}:{}", self.vnis.start(), self.vnis.end())];
        arguments.extend(self.keystone.as_ref().map(|url| format!("--keystone={url}")));
        arguments.extend(self.networks.map(|limit| format!("--quota-networks={limit}")));
        arguments.extend(self.subnets.map(|limit| format!("--quota-subnets={limit}")));
        arguments.extend(self.page.map(|limit| format!("--page={limit}")));
        arguments.extend((!self.caches_tokens).then(|| "--token-cache-seconds=-1".to_owned()));
        arguments
    }
}

/// Its process. Dropping it kills it.
pub(crate) struct Neutron {
    server: Server,
    has_keystone: bool,
}

impl Neutron {
    /// An empty one, that answers.
    pub(crate) async fn start(settings: Settings) -> Self {
        let mut server = Server::new("neutron");
        server.set_arguments(settings.arguments());
        let mut neutron = Self { server, has_keystone: settings.keystone.is_some() };
        neutron.start_again().await;
        neutron
    }

    /// Starts it after [`Neutron::stop`], where it was and with what it had.
    pub(crate) async fn start_again(&mut self) {
        self.server.start("v2.0/networks", if self.has_keystone { 401 } else { 200 }).await;
    }

    /// Kills it: connections to it are refused.
    pub(crate) fn stop(&mut self) {
        self.server.stop();
    }

    /// Where it is, without a version, as a catalog has it: `http://127.0.0.1:9696`.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(format!("{}/v2.0", self.url()))
    }
}

impl Api {
    /// Sets how many a project may have of a kind such as `network`; with a Keystone that is an administrator's right.
    pub(crate) async fn set_quota(&self, project: &str, kind: &str, limit: i64) {
        self.put(&format!("quotas/{project}"), json!({ "quota": { kind: limit } })).await.ok();
    }

    /// Puts a port into a network, so that it cannot be deleted, nor its subnet; gives the port's id.
    pub(crate) async fn occupy(&self, network: &str) -> String {
        let port = self.create("port", json!({ "network_id": network })).await;
        port["id"].as_str().unwrap_or_else(|| panic!("{port}")).to_owned()
    }
}
