//! `clouds.yaml`, where OpenStack's own tools keep what they need to know of a cloud, and `secure.yaml` beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::config::Variables;
use super::settings::Settings;

/// A file of clouds. All values are texts: a password like `0123` is not a number.
#[derive(Default, Deserialize)]
struct File {
    clouds: Option<BTreeMap<String, Option<Cloud>>>,
}

#[derive(Default, Clone, Deserialize)]
#[serde(default)]
struct Cloud {
    auth: Option<AuthPart>,
    auth_type: Option<String>,
    region_name: Option<String>,
    regions: Option<Vec<serde::de::IgnoredAny>>,
    interface: Option<String>,
    endpoint_type: Option<String>,
    cacert: Option<String>,
    verify: Option<String>,
    insecure: Option<String>,
    network_endpoint_override: Option<String>,
    profile: Option<String>,
}

macro_rules! auth_part {
    ($($name:ident),*) => {
        #[derive(Default, Clone, Deserialize)]
        #[serde(default)]
        struct AuthPart { $($name: Option<String>),* }

        impl AuthPart {
            /// These, and those of another where that has any.
            fn overlaid(self, other: Self) -> Self {
                Self { $($name: other.$name.or(self.$name)),* }
            }

            fn get(&self, name: &str) -> Option<String> {
                match name {
                    $(stringify!($name) => self.$name.clone(),)*
                    _ => None,
                }
            }
        }
    };
}

auth_part!(
    auth_url,
    endpoint,
    username,
    user_id,
    password,
    project_name,
    project_id,
    tenant_name,
    tenant_id,
    user_domain_name,
    user_domain_id,
    project_domain_name,
    project_domain_id,
    domain_name,
    domain_id,
    default_domain,
    default_domain_name,
    default_domain_id,
    application_credential_id,
    application_credential_name,
    application_credential_secret
);

impl Cloud {
    fn overlaid(self, other: Self) -> Self {
        Self {
            auth: Some(self.auth.unwrap_or_default().overlaid(other.auth.unwrap_or_default())),
            auth_type: other.auth_type.or(self.auth_type),
            region_name: other.region_name.or(self.region_name),
            regions: other.regions.or(self.regions),
            interface: other.interface.or(self.interface),
            endpoint_type: other.endpoint_type.or(self.endpoint_type),
            cacert: other.cacert.or(self.cacert),
            verify: other.verify.or(self.verify),
            insecure: other.insecure.or(self.insecure),
            network_endpoint_override: other.network_endpoint_override.or(self.network_endpoint_override),
            profile: other.profile.or(self.profile),
        }
    }

    fn get(&self, name: &str) -> Option<String> {
        match name {
            "auth_type" => self.auth_type.clone(),
            "region_name" => self.region_name.clone(),
            "interface" => self.interface.clone().or_else(|| self.endpoint_type.clone()),
            "cacert" => self.cacert.clone(),
            "verify" => self.verify.clone(),
            "insecure" => self.insecure.clone(),
            "network_endpoint_override" => self.network_endpoint_override.clone(),
            _ => self.auth.as_ref().and_then(|auth| auth.get(name)),
        }
    }
}

/// Where a file may be, in order: the one that is named, or else the first that is there.
pub(super) fn places(variables: Variables<'_>) -> Vec<PathBuf> {
    if let Some(named) = variables("OS_CLIENT_CONFIG_FILE").filter(|path| !path.is_empty()) {
        return vec![named.into()];
    }
    let home = variables("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let own = variables("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let own = own.or_else(|| home.map(|home| home.join(".config")));
    let folders =
        [Some(PathBuf::from(".")), own.map(|it| it.join("openstack")), Some("/etc/openstack".into())];
    let names = |folder: PathBuf| [folder.join("clouds.yaml"), folder.join("clouds.yml")];
    folders.into_iter().flatten().flat_map(names).collect()
}

/// What a file says of a cloud: of the one that is named, or of the only one.
///
/// Nothing of the text gets into an error: it may be a password.
pub(super) fn settings(
    path: &Path,
    text: &str,
    secure: Option<(&Path, &str)>,
    name: Option<&str>,
) -> anyhow::Result<Settings> {
    let mut clouds = parsed(path, text)?;
    if let Some((path, text)) = secure {
        for (name, part) in parsed(path, text)? {
            let known = clouds.remove(&name).unwrap_or_default();
            clouds.insert(name, known.overlaid(part));
        }
    }
    let names = || clouds.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let (name, cloud) = match name {
        Some(name) => {
            let cloud = clouds
                .get(name)
                .with_context(|| format!("{} has no cloud `{name}`; it has: {}", path.display(), names()))?;
            (name.to_owned(), cloud.clone())
        }
        None => {
            let mut all = clouds.iter();
            match (all.next(), all.next()) {
                (Some((name, cloud)), None) => (name.clone(), cloud.clone()),
                (None, _) => bail!("{} has no cloud", path.display()),
                _ => bail!("{} has several clouds ({}): say which by OS_CLOUD", path.display(), names()),
            }
        }
    };
    let missing_region = cloud.region_name.is_none() && cloud.regions.as_ref().is_some_and(|it| it.len() > 1);
    if missing_region {
        bail!("{}: cloud `{name}` has several regions: say which by region_name", path.display());
    }
    let mut origin = format!("cloud `{name}` in {}", path.display());
    if let Some(profile) = &cloud.profile {
        origin = format!("{origin} (of its profile `{profile}` nothing is read)");
    }
    Ok(Settings::new(origin, str::to_owned, |name| cloud.get(name)))
}

fn parsed(path: &Path, text: &str) -> anyhow::Result<BTreeMap<String, Cloud>> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| {
        // Its own words quote the file.
        let place = error.location().map(|at| format!(" near line {}, column {}", at.line(), at.column()));
        anyhow::anyhow!("{} is not a file of clouds{}", path.display(), place.unwrap_or_default())
    })?;
    let clouds = file.clouds.unwrap_or_default();
    Ok(clouds.into_iter().map(|(name, cloud)| (name, cloud.unwrap_or_default())).collect())
}
