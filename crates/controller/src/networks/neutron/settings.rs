//! Values by openstacksdk's names for them, wherever they come from, and who we are by them.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::config::{Credential, Domain, Identity, Named, Variables};
use super::secret::Secret;

const NAMES: &[&str] = &[
    "auth_type",
    "auth_url",
    "endpoint",
    "username",
    "user_id",
    "password",
    "project_name",
    "project_id",
    "tenant_name",
    "tenant_id",
    "user_domain_name",
    "user_domain_id",
    "project_domain_name",
    "project_domain_id",
    "domain_name",
    "domain_id",
    "default_domain",
    "default_domain_name",
    "default_domain_id",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "region_name",
    "interface",
    "cacert",
    "verify",
    "insecure",
    "network_endpoint_override",
];

/// Values by their names; some of them are secret, so this is not printed.
pub(super) struct Settings {
    /// Where they are from, for errors.
    pub(super) origin: String,
    /// How a name is spelled there.
    pub(super) spelled: fn(&str) -> String,
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// What the environment says; a name there is like `OS_AUTH_URL`.
    pub(super) fn of_environment(variables: Variables<'_>) -> Self {
        fn spelled(name: &str) -> String {
            format!("OS_{}", name.to_uppercase())
        }
        Self::new("OS_* variables".into(), spelled, |name| variables(&spelled(name)))
    }

    /// What somebody says who is asked for each name.
    pub(super) fn new(
        origin: String,
        spelled: fn(&str) -> String,
        say: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let values = NAMES.iter().filter_map(|name| Some((*name, say(name)?))).collect();
        Self { origin, spelled, values }
    }

    /// What is empty is not there.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.values.get(name).filter(|value| !value.trim().is_empty()).cloned()
    }

    fn need(&self, name: &str) -> anyhow::Result<String> {
        self.get(name).with_context(|| format!("{} is missing", (self.spelled)(name)))
    }

    pub(super) fn password(&self) -> anyhow::Result<Identity> {
        let user = self.named("user_id", &["username"], "user").with_context(|| {
            format!("{} or {} is missing", (self.spelled)("username"), (self.spelled)("user_id"))
        })?;
        let password = Secret::new(self.need("password")?);
        let project = self
            .named("project_id", &["project_name", "tenant_name"], "project")
            .or_else(|| self.get("tenant_id").map(Named::Id));
        Ok(Identity::Password { user, password, project })
    }

    pub(super) fn application(&self) -> anyhow::Result<Identity> {
        let secret = Secret::new(self.need("application_credential_secret")?);
        let credential = match self.get("application_credential_id") {
            Some(id) => Credential::Id(id),
            None => {
                let name = self.get("application_credential_name");
                let user = self.named("user_id", &["username"], "user");
                let (Some(name), Some(user)) = (name, user) else {
                    let names = ["application_credential_id", "application_credential_name", "username"];
                    let [id, name, user] = names.map(self.spelled);
                    bail!("{id} is missing, or {name} together with {user}");
                };
                Credential::Name(name, user)
            }
        };
        Ok(Identity::Application { credential, secret })
    }

    fn named(&self, id: &str, names: &[&str], what: &str) -> Option<Named> {
        let by_name = || {
            let name = names.iter().find_map(|name| self.get(name))?;
            Some(Named::Name(name, self.domain(what)))
        };
        self.get(id).map(Named::Id).or_else(by_name)
    }

    /// Most clouds have but the first domain, whose id is `default`.
    fn domain(&self, what: &str) -> Domain {
        let id = |name: &str| self.get(name).map(Domain::Id);
        let name = |name: &str| self.get(name).map(Domain::Name);
        id(&format!("{what}_domain_id"))
            .or_else(|| name(&format!("{what}_domain_name")))
            .or_else(|| id("domain_id"))
            .or_else(|| name("domain_name"))
            .or_else(|| id("default_domain_id"))
            .or_else(|| name("default_domain_name"))
            .or_else(|| id("default_domain"))
            .unwrap_or_else(|| Domain::Id("default".into()))
    }

    pub(super) fn is_insecure(&self) -> anyhow::Result<bool> {
        let flag = |name: &str| self.get(name).map(|text| truth(&text).with_context(|| (self.spelled)(name)));
        let insecure = flag("insecure").transpose()?;
        let verify = flag("verify").transpose()?;
        Ok(insecure.unwrap_or(false) || !verify.unwrap_or(true))
    }
}

fn truth(text: &str) -> anyhow::Result<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "y" | "t" => Ok(true),
        "false" | "no" | "off" | "0" | "n" | "f" => Ok(false),
        _ => bail!("neither true nor false"),
    }
}
