//! One request to Neutron, with what gets us in.

use std::sync::Arc;

use causeway_core::networks::Trouble;
use http::{Method, StatusCode};
use serde_json::Value;

use super::config::{Auth, Config};
use super::http::{Answer, Http, READ, Request, WRITE};
use super::keystone::{Access, Keystone};
use super::metrics::Requests;
use super::refusal::Refusal;

/// A Neutron, and the way in.
pub(super) struct Api {
    http: Http,
    door: Door,
}

enum Door {
    Open(Arc<Access>),
    Keystone(Box<Keystone>),
}

/// What to ask for.
pub(super) struct Call {
    pub(super) method: Method,
    /// After the endpoint, with its query.
    pub(super) path: String,
    /// As what is changed was seen.
    pub(super) revision: Option<u64>,
    pub(super) body: Option<Value>,
}

/// Why there is no success.
#[derive(Debug)]
pub(super) enum Fault {
    /// Neutron answered, and says no.
    Refused(Refusal),
    /// It was not asked, or did not answer.
    Trouble(Trouble),
}

impl Fault {
    /// Whether Neutron itself says that something is not there.
    pub(super) fn is_not_there(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.is_not_there())
    }

    /// Whether it failed by itself.
    pub(super) fn is_its_own(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.status == StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(refusal) => refusal.trouble(),
            Fault::Trouble(trouble) => trouble,
        }
    }
}

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, revision: None, body: None }
    }
}

impl Api {
    pub(super) fn new(config: &Config, requests: Requests) -> anyhow::Result<Self> {
        let http = Http::new(config, requests)?;
        let door = match (&config.auth, &config.endpoint) {
            (Auth::Keystone { url, identity }, _) => {
                Door::Keystone(Box::new(Keystone::new(url.clone(), identity.clone(), config)))
            }
            (Auth::Open, Some(endpoint)) => Door::Open(Arc::new(Access::open(endpoint.clone()))),
            (Auth::Open, None) => anyhow::bail!("without Keystone an endpoint is needed"),
        };
        Ok(Self { http, door })
    }

    pub(super) async fn access(&self) -> Result<Arc<Access>, Trouble> {
        match &self.door {
            Door::Open(access) => Ok(access.clone()),
            Door::Keystone(keystone) => keystone.access(&self.http).await,
        }
    }

    /// Asks, and asks once more with a new token if the one we have is not taken: it may have been revoked, or the
    /// server's keys replaced. A request that was refused like that has not been carried out.
    pub(super) async fn ask(&self, call: &Call) -> Result<Value, Fault> {
        let access = self.access().await.map_err(Fault::Trouble)?;
        let answer = self.send(call, &access).await?;
        let (access, answer) = match &self.door {
            Door::Keystone(keystone) if answer.status == StatusCode::UNAUTHORIZED => {
                keystone.forget(&access);
                let access = keystone.access(&self.http).await.map_err(Fault::Trouble)?;
                let answer = self.send(call, &access).await?;
                if answer.status == StatusCode::UNAUTHORIZED {
                    keystone.give_up(&access, &self.refusal(&answer, &access).trouble());
                }
                (access, answer)
            }
            Door::Open(_) | Door::Keystone(_) => (access, answer),
        };
        if !answer.status.is_success() {
            return Err(Fault::Refused(self.refusal(&answer, &access)));
        }
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer.body).map_err(|error| {
            Fault::Trouble(Trouble::unreachable(format!(
                "what {} answered is not JSON: {error}",
                call.name()
            )))
        })
    }

    fn refusal(&self, answer: &Answer, access: &Access) -> Refusal {
        let password = match &self.door {
            Door::Open(_) => None,
            Door::Keystone(keystone) => Some(keystone.secret()),
        };
        let secrets: Vec<_> = access.token.iter().chain(password).collect();
        Refusal::of(answer, &secrets)
    }

    async fn send(&self, call: &Call, access: &Access) -> Result<Answer, Fault> {
        let request = Request {
            method: call.method.clone(),
            uri: format!("{}{}", access.endpoint, call.path),
            limit: if call.method == Method::GET { READ } else { WRITE },
            token: access.token.as_ref(),
            revision: call.revision,
            body: call.body.clone(),
        };
        self.http.send(&request).await.map_err(|why| Fault::Trouble(Trouble::unreachable(why)))
    }
}

impl Call {
    /// For people: without its query.
    pub(super) fn name(&self) -> String {
        let path = self.path.split_once('?').map_or(&*self.path, |(path, _)| path);
        format!("{} {path}", self.method)
    }
}
