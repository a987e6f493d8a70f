//! OpenStack's Neutron, with or without Keystone.
//!
//! ```text
//! Look ─▶ look ─▶ lists ─▶┐                      ┌─▶ keystone: a token, kept
//!                         ├─▶ api: one request ──┤
//! Step ─▶ steps ─────────▶┘                      └─▶ http: an answer, in time ─▶ wire | refusal ─▶ Held, Seen | Trouble
//! ```
//!
//! What we are sent is never trusted to be well-formed, and never printed with a [`Secret`] in it.

mod api;
mod clouds;
pub mod config;
mod http;
mod keystone;
mod lists;
mod look;
pub mod metrics;
mod refusal;
mod secret;
mod settings;
mod steps;
mod wire;

use causeway_core::networks::{Held, Home, Look, Seen, Step, Trouble};

use self::api::Api;
pub use self::config::Config;
use self::metrics::Requests;
pub use self::secret::Secret;
use super::provider::NetworkProvider;

/// A Neutron.
pub struct Neutron {
    api: Api,
    requests: Requests,
}

impl Neutron {
    /// Nothing is asked before the first look: a cloud that is away does not keep anybody from starting.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let requests = Requests::default();
        Ok(Self { api: Api::new(&config, requests.clone())?, requests })
    }

    /// How often it was asked, to be registered.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }
}

impl NetworkProvider for Neutron {
    const NAME: &'static str = "neutron";

    async fn look(&self, home: &Home, look: &Look) -> Result<Vec<Held>, Trouble> {
        match look {
            Look::All => self.look_for_all(home).await,
            Look::One(clue) => self.look_for_one(home, clue).await,
        }
    }

    async fn apply(&self, step: &Step) -> Result<Seen, Trouble> {
        self.step(step).await
    }
}
