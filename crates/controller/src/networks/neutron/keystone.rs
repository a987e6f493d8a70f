//! Getting in: a token of Keystone's, kept until shortly before it ends.
//!
//! One caller logs in at a time, and what he learns is everybody's: a hundred workers are one login, and one failure.
//! While a token is good nobody waits for the next one, and an outage of Keystone is none of ours.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_core::networks::Trouble;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::config::{Base, Config, Credential, Domain, Identity, Interface, Named};
use super::http::{Answer, Http, READ, Request};
use super::refusal::{Refusal, readable};
use super::secret::Secret;

/// For so long nobody asks again after Keystone did not answer.
const SILENT: Duration = Duration::from_secs(1);
/// The same after it refused: accounts are locked after some wrong passwords, and many workers would try.
const REFUSED: Duration = Duration::from_secs(15);
/// What a token lives for if it does not say.
const UNSAID: Duration = Duration::from_secs(300);

/// What is needed to ask Neutron for something.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) token: Option<Secret>,
    pub(super) endpoint: Base,
    /// Ours; none if it is not known.
    pub(super) project: Option<String>,
    life: Option<Life>,
}

/// In our own time: the clocks of two machines differ.
#[derive(Debug, Clone, Copy)]
struct Life {
    renew: Instant,
    end: Instant,
}

pub(super) struct Keystone {
    url: Base,
    identity: Identity,
    place: Place,
    current: Mutex<Option<Arc<Access>>>,
    /// Held by whoever logs in; the last failure, if nobody got in since.
    login: tokio::sync::Mutex<Option<Failure>>,
}

/// Which of the catalog's endpoints is meant.
struct Place {
    endpoint: Option<Base>,
    region: Option<String>,
    interface: Interface,
}

struct Failure {
    at: Instant,
    trouble: Trouble,
}

impl Access {
    /// Without a token.
    pub(super) fn open(endpoint: Base) -> Self {
        Self { token: None, endpoint, project: None, life: None }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.life.is_none_or(|life| now < life.renew)
    }

    fn is_good(&self, now: Instant) -> bool {
        self.life.is_none_or(|life| now < life.end)
    }
}

impl Failure {
    /// Whether somebody who has been asking since then need not try himself.
    fn stands(&self, asked: Instant) -> bool {
        let pause = match self.trouble {
            Trouble::Unreachable { after, .. } => after.unwrap_or(SILENT).max(SILENT),
            _ => REFUSED,
        };
        self.at >= asked || self.at.elapsed() < pause
    }
}

impl Keystone {
    pub(super) fn new(url: Base, identity: Identity, config: &Config) -> Self {
        let place = Place {
            endpoint: config.endpoint.clone(),
            region: config.region.clone(),
            interface: config.interface,
        };
        Self { url, identity, place, current: Mutex::default(), login: tokio::sync::Mutex::default() }
    }

    /// What we get in with: what is known, or from a login.
    pub(super) async fn access(&self, http: &Http) -> Result<Arc<Access>, Trouble> {
        let asked = Instant::now();
        let known = self.known();
        if let Some(access) = known.as_ref().filter(|access| access.is_fresh(asked)) {
            return Ok(access.clone());
        }
        let good = known.filter(|access| access.is_good(asked));
        let mut failure = match (&good, self.login.try_lock()) {
            (_, Ok(login)) => login,
            (Some(access), Err(_)) => return Ok(access.clone()),
            (None, Err(_)) => self.login.lock().await,
        };
        if let Some(access) = self.known().filter(|access| access.is_fresh(Instant::now())) {
            return Ok(access);
        }
        if let Some(known) = failure.as_ref().filter(|failure| failure.stands(asked)) {
            return good.ok_or_else(|| known.trouble.clone());
        }
        match self.log_in(http).await {
            Ok(access) => {
                let access = Arc::new(access);
                *failure = None;
                self.know(Some(access.clone()));
                Ok(access)
            }
            Err(trouble) => {
                *failure = Some(Failure { at: Instant::now(), trouble: trouble.clone() });
                good.ok_or_else(|| trouble.clone()).inspect(|_| {
                    tracing::warn!(%trouble, "Keystone gives no new token; the one before is still good");
                })
            }
        }
    }

    /// Neutron does not take this any more.
    pub(super) fn forget(&self, access: &Arc<Access>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, access)) {
            *current = None;
        }
    }

    /// Neutron does not take a new one either: another login would not help, for some time.
    pub(super) fn give_up(&self, access: &Arc<Access>, trouble: &Trouble) {
        self.forget(access);
        if let Ok(mut failure) = self.login.try_lock() {
            *failure = Some(Failure { at: Instant::now(), trouble: trouble.clone() });
        }
    }

    /// What others may repeat.
    pub(super) fn secret(&self) -> &Secret {
        match &self.identity {
            Identity::Password { password, .. } => password,
            Identity::Application { secret, .. } => secret,
        }
    }

    fn known(&self) -> Option<Arc<Access>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn know(&self, access: Option<Arc<Access>>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = access;
    }

    async fn log_in(&self, http: &Http) -> Result<Access, Trouble> {
        let begun = Instant::now();
        let request = Request {
            method: Method::POST,
            uri: format!("{}/auth/tokens", self.url),
            limit: READ,
            token: None,
            revision: None,
            body: Some(self.identity.request()),
        };
        let said = |words: &str| format!("Keystone at {}: {words}", self.url);
        let answer = http.send(&request).await.map_err(|why| Trouble::unreachable(said(&why)))?;
        if answer.status.is_success() {
            let access = self.read(&answer, begun).map_err(|error| match error {
                Odd::Answer(words) => Trouble::unreachable(said(&words)),
                Odd::Catalog(words) => Trouble::Refused(said(&words)),
            })?;
            tracing::debug!(endpoint = %access.endpoint, project = access.project, "logged in");
            return Ok(access);
        }
        let refusal = Refusal::of(&answer, &[self.secret()]);
        let words = said(&refusal.words);
        let is_by_credential = matches!(self.identity, Identity::Application { .. });
        Err(match refusal.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Trouble::Unauthorized(words),
            // A credential that was deleted is not there.
            StatusCode::NOT_FOUND if is_by_credential => Trouble::Unauthorized(words),
            StatusCode::NOT_FOUND => Trouble::Refused(words),
            _ => match refusal.trouble() {
                Trouble::Unreachable { after, .. } => Trouble::Unreachable { why: words, after },
                _ => Trouble::Refused(words),
            },
        })
    }

    fn read(&self, answer: &Answer, begun: Instant) -> Result<Access, Odd> {
        let token = answer.headers.get("x-subject-token").and_then(|value| value.to_str().ok());
        let token = token.filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| Odd::Answer("its answer has no X-Subject-Token".into()))?;
        let body: Body = serde_json::from_slice(&answer.body)
            .map_err(|_| Odd::Answer("its answer is not understood".into()))?;
        let life = body.token.life(begun);
        let endpoint = match &self.place.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => self.place.find(&body.token.catalog.unwrap_or_default()).map_err(Odd::Catalog)?,
        };
        let project = body.token.project.and_then(|project| project.id);
        Ok(Access { token: Some(Secret::new(token)), endpoint, project, life: Some(life) })
    }
}

enum Odd {
    Answer(String),
    Catalog(String),
}

#[derive(Deserialize)]
struct Body {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    issued_at: Option<String>,
    expires_at: Option<String>,
    project: Option<Project>,
    catalog: Option<Vec<CatalogEntry>>,
}

#[derive(Deserialize)]
struct Project {
    id: Option<String>,
}

#[derive(Deserialize)]
struct CatalogEntry {
    #[serde(rename = "type")]
    kind: Option<String>,
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: Option<String>,
    region: Option<String>,
    region_id: Option<String>,
    url: Option<String>,
}

impl Token {
    /// From when we asked for it: it cannot have been made before.
    fn life(&self, begun: Instant) -> Life {
        let time = |text: &Option<String>| text.as_ref()?.parse::<Timestamp>().ok();
        let ends = time(&self.expires_at);
        let issued = time(&self.issued_at).or_else(|| ends.map(|_| Timestamp::now()));
        let long = ends.zip(issued).map(|(end, issued)| end.duration_since(issued));
        // One that is said to be over already still has to be tried: whoever says so may be wrong.
        let long = long.map_or(UNSAID, |long| Duration::try_from(long).unwrap_or_default());
        // No login is worth keeping for longer.
        let long = long.min(Duration::from_secs(24 * 3600));
        let margin = (long / 10).clamp(Duration::from_secs(2), Duration::from_secs(300)).min(long / 2);
        Life { renew: begun + (long - margin), end: begun + long }
    }
}

impl Place {
    fn find(&self, catalog: &[CatalogEntry]) -> Result<Base, String> {
        let of_networks = catalog.iter().filter(|entry| entry.kind.as_deref() == Some("network"));
        let all: Vec<&Endpoint> =
            of_networks.flat_map(|entry| entry.endpoints.as_deref().unwrap_or_default()).collect();
        let region = |it: &Endpoint| it.region_id.clone().or_else(|| it.region.clone()).unwrap_or_default();
        let is_meant = |it: &Endpoint| {
            let interface = it.interface.as_deref().unwrap_or_default();
            let interface = interface.strip_suffix("URL").unwrap_or(interface);
            let is_there = self.region.as_ref().is_none_or(|wanted| region(it) == *wanted);
            interface == self.interface.to_string() && is_there
        };
        let found: Vec<&Endpoint> = all.iter().copied().filter(|it| is_meant(it)).collect();
        let list = |endpoints: &[&Endpoint]| {
            let name = |it: &&Endpoint| {
                format!("{} in {}", it.interface.as_deref().unwrap_or("?"), readable(&region(it)))
            };
            let mut names: Vec<_> = endpoints.iter().map(name).collect();
            names.sort();
            names.dedup();
            readable(&names.join(", "))
        };
        let Some(first) = found.first() else {
            let wanted =
                self.region.as_ref().map(|region| format!(" in region {region}")).unwrap_or_default();
            let there = if all.is_empty() { "none".to_owned() } else { list(&all) };
            return Err(format!(
                "its catalog has no {} endpoint of type network{wanted}; of that type there is: {there}",
                self.interface
            ));
        };
        if found.iter().any(|it| region(it) != region(first)) {
            // To take any would be to make networks where nobody looks for them.
            return Err(format!("its catalog has several regions ({}): say which", list(&found)));
        }
        let url = first.url.as_deref().unwrap_or_default();
        let base =
            Base::parse(url).map_err(|error| format!("its catalog's endpoint of networks: {error}"))?;
        Ok(base.of_neutron())
    }
}

impl Identity {
    /// What is sent to log in.
    fn request(&self) -> Value {
        let auth = match self {
            Self::Password { user, password, project } => {
                let mut user = user.json();
                user["password"] = password.reveal().into();
                let identity = json!({"methods": ["password"], "password": {"user": user}});
                let mut auth = json!({"identity": identity});
                if let Some(project) = project {
                    auth["scope"] = json!({"project": project.json()});
                }
                auth
            }
            Self::Application { credential, secret } => {
                let mut it = match credential {
                    Credential::Id(id) => json!({"id": id}),
                    Credential::Name(name, user) => json!({"name": name, "user": user.json()}),
                };
                it["secret"] = secret.reveal().into();
                json!({"identity": {"methods": ["application_credential"], "application_credential": it}})
            }
        };
        json!({"auth": auth})
    }
}

impl Named {
    fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name(name, Domain::Id(domain)) => json!({"name": name, "domain": {"id": domain}}),
            Self::Name(name, Domain::Name(domain)) => json!({"name": name, "domain": {"name": domain}}),
        }
    }
}

#[cfg(test)]
mod tests;
