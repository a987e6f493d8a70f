//! Where a cloud is and who we are to it: from `clouds.yaml`, from `OS_*` variables, or just an endpoint.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use http::Uri;

use super::clouds;
use super::secret::Secret;
use super::settings::Settings;

/// All there is to know before the first request.
#[derive(Debug, Clone)]
pub struct Config {
    /// How we get in.
    pub auth: Auth,
    /// Where Neutron is; without it Keystone's catalog says so.
    pub endpoint: Option<Base>,
    /// Which of the catalog's regions.
    pub region: Option<String>,
    /// Which of the catalog's endpoints.
    pub interface: Interface,
    /// Whom to trust, instead of those whom the system trusts.
    pub ca: Option<PathBuf>,
    /// Whether anybody is trusted.
    pub insecure: bool,
}

/// How we get in.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Neutron asks for nothing (`noauth`).
    Open,
    /// With a token of Keystone's.
    Keystone {
        /// Its address, up to `/v3`.
        url: Base,
        /// Who we are.
        identity: Identity,
    },
}

/// Who we are.
#[derive(Debug, Clone)]
pub enum Identity {
    /// A user, in a project or in his default one.
    Password {
        /// The user.
        user: Named,
        /// His password.
        password: Secret,
        /// The project.
        project: Option<Named>,
    },
    /// An application credential, which has a project.
    Application {
        /// Its id; or its name and whose it is.
        credential: Credential,
        /// Its secret.
        secret: Secret,
    },
}

/// An application credential.
#[derive(Debug, Clone)]
pub enum Credential {
    /// By its id.
    Id(String),
    /// By its name and its user.
    Name(String, Named),
}

/// A user or a project.
#[derive(Debug, Clone)]
pub enum Named {
    /// By its id.
    Id(String),
    /// By its name, in a domain.
    Name(String, Domain),
}

/// A domain.
#[derive(Debug, Clone)]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// Which of an endpoint's addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "words of their own")]
pub enum Interface {
    #[default]
    Public,
    Internal,
    Admin,
}

/// The beginning of addresses: no query, no slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base(String);

/// Variables of the environment, by their names.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
/// A file's text; none if it is not there.
pub type Files<'a> = &'a dyn Fn(&Path) -> std::io::Result<Option<String>>;

/// Finds out where the cloud is: at the endpoint given, which asks for nothing; else as the cloud of that name (or
/// OS_CLOUD) in `clouds.yaml` says; else as `OS_*` variables say; else as the only cloud in `clouds.yaml` says.
pub fn load(
    endpoint: Option<&str>,
    cloud: Option<&str>,
    variables: Variables<'_>,
    files: Files<'_>,
) -> anyhow::Result<Config> {
    if let Some(endpoint) = endpoint {
        let endpoint = Base::parse(endpoint).context("the endpoint given")?.of_neutron();
        let settings = Settings::of_environment(variables);
        let ca = settings.get("cacert").map(|path| from_home(path.into(), variables));
        let insecure = settings.is_insecure()?;
        return Ok(Config { endpoint: Some(endpoint), ca, insecure, ..Config::open() });
    }
    let named = cloud.map(str::to_owned).or_else(|| variables("OS_CLOUD")).filter(|name| !name.is_empty());
    let is_set = |name: &&str| variables(name).is_some_and(|value| !value.is_empty());
    let by_variables =
        ["OS_AUTH_URL", "OS_ENDPOINT", "OS_NETWORK_ENDPOINT_OVERRIDE"].iter().find(|it| is_set(it));
    let settings = match by_variables {
        Some(_) if named.is_none() => Settings::of_environment(variables),
        _ => of_file(named.as_deref(), variables, files)?,
    };
    let config = Config::of(&settings).with_context(|| settings.origin.clone())?;
    Ok(Config { ca: config.ca.map(|path| from_home(path, variables)), ..config })
}

/// A file as it is on this machine.
pub fn read_file(path: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn of_file(cloud: Option<&str>, variables: Variables<'_>, files: Files<'_>) -> anyhow::Result<Settings> {
    let read = |path: &Path| files(path).with_context(|| format!("reading {}", path.display()));
    let places = clouds::places(variables);
    for path in &places {
        let Some(text) = read(path)? else { continue };
        let beside = path.with_file_name("secure.yaml");
        let secure = read(&beside)?;
        return clouds::settings(path, &text, secure.as_deref().map(|text| (&*beside, text)), cloud);
    }
    let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
    match cloud {
        Some(cloud) => {
            bail!("cloud `{cloud}` is named, and there is no clouds.yaml: none of {}", places.join(", "))
        }
        None => bail!(
            "nothing says where the cloud is: give an endpoint, or set OS_CLOUD or OS_AUTH_URL, or provide one of {}",
            places.join(", ")
        ),
    }
}

fn from_home(path: PathBuf, variables: Variables<'_>) -> PathBuf {
    match (path.strip_prefix("~"), variables("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path,
    }
}

impl Config {
    /// One that nobody has said anything of.
    pub(super) fn open() -> Self {
        Self {
            auth: Auth::Open,
            endpoint: None,
            region: None,
            interface: Interface::default(),
            ca: None,
            insecure: false,
        }
    }

    fn of(settings: &Settings) -> anyhow::Result<Self> {
        let (get, spelled) = (|name: &str| settings.get(name), settings.spelled);
        let base = |name: &str| {
            let text = get(name);
            text.map(|text| Base::parse(&text).with_context(|| spelled(name))).transpose()
        };
        let mut endpoint = base("network_endpoint_override")?;
        let has_credential =
            ["application_credential_id", "application_credential_name"].iter().any(|it| get(it).is_some());
        let by_itself = match () {
            () if has_credential => "v3applicationcredential",
            () if get("auth_url").is_none() && get("password").is_none() => "none",
            () => "password",
        };
        let kind = get("auth_type").unwrap_or_else(|| by_itself.into());
        let identity = match kind.as_str() {
            "none" | "noauth" => None,
            "password" | "v3password" => Some(settings.password()?),
            "v3applicationcredential" => Some(settings.application()?),
            other => bail!(
                "{} is `{other}`; there is v3password, v3applicationcredential and none",
                spelled("auth_type")
            ),
        };
        let auth = match identity {
            None => {
                endpoint = endpoint.or(base("endpoint")?);
                let wanted = [spelled("network_endpoint_override"), spelled("endpoint")].join(" or ");
                anyhow::ensure!(
                    endpoint.is_some(),
                    "without Keystone an endpoint is needed: {wanted} is missing"
                );
                Auth::Open
            }
            Some(identity) => {
                let url = base("auth_url")?.with_context(|| format!("{} is missing", spelled("auth_url")))?;
                Auth::Keystone { url: url.of_keystone(), identity }
            }
        };
        let interface = get("interface").map_or(Ok(Interface::default()), |text| {
            Interface::parse(&text).with_context(|| spelled("interface"))
        })?;
        Ok(Self {
            auth,
            endpoint: endpoint.map(Base::of_neutron),
            region: get("region_name"),
            interface,
            ca: get("cacert").map(PathBuf::from),
            insecure: settings.is_insecure()?,
        })
    }
}

impl Interface {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        match text.strip_suffix("URL").unwrap_or(text) {
            "public" => Ok(Self::Public),
            "internal" => Ok(Self::Internal),
            "admin" => Ok(Self::Admin),
            _ => bail!("it should be public, internal or admin"),
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        })
    }
}

impl Base {
    /// An address as somebody wrote it. One with a password in it is not taken, nor shown.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        let uri: Uri = text.parse().ok().context("not an address, like https://cloud.example:9696")?;
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        anyhow::ensure!(!authority.contains('@'), "the address has a name or a password in it");
        anyhow::ensure!(
            matches!(uri.scheme_str(), Some("http" | "https")) && !authority.is_empty(),
            "not an address that begins with http:// or https://"
        );
        anyhow::ensure!(uri.query().is_none(), "the address has a query");
        let scheme = uri.scheme_str().unwrap_or_default();
        Ok(Self(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/'))))
    }

    /// Clouds name their Keystone with or without a version.
    fn of_keystone(self) -> Self {
        let bare = self.0.strip_suffix("/v3").or(self.0.strip_suffix("/v2.0")).unwrap_or(&self.0);
        Self(format!("{bare}/v3"))
    }

    /// Catalogs name Neutron with or without a version.
    pub(super) fn of_neutron(self) -> Self {
        let bare = self.0.strip_suffix("/v2.0").or(self.0.strip_suffix("/v2")).unwrap_or(&self.0);
        Self(format!("{}/v2.0", bare.trim_end_matches('/')))
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
