//! Which kubeconfig is meant, by kubectl's rules.
//!
//! A file that was named must be there. Of those that the variable `KUBECONFIG` lists, missing ones are passed over, and of
//! two that say something about the same name the first is right. Nothing in the variable is as good as no variable.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{Kubeconfig, KubeconfigError};

use super::trouble::plain;
use super::{Trouble, options};

/// Where kubeconfigs are looked for.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The file that was named.
    Named(PathBuf),
    /// The files that the variable lists.
    Listed(Vec<PathBuf>),
    /// The usual one.
    Usual(PathBuf),
    /// There is no home that it could be in.
    Nowhere,
}

impl Place {
    fn new(named: Option<&Path>, variable: Option<&OsStr>, home: Option<PathBuf>) -> Self {
        if let Some(named) = named {
            return Self::Named(named.into());
        }
        let mut listed: Vec<PathBuf> = Vec::new();
        for path in variable.into_iter().flat_map(std::env::split_paths) {
            if !path.as_os_str().is_empty() && !listed.contains(&path) {
                listed.push(path);
            }
        }
        match home {
            _ if !listed.is_empty() => Self::Listed(listed),
            Some(home) => Self::Usual(home.join(".kube").join("config")),
            None => Self::Nowhere,
        }
    }
}

/// What the kubeconfigs say together.
#[derive(Debug)]
pub(super) struct Kubeconfigs {
    merged: Kubeconfig,
    /// The files, for messages.
    files: String,
}

impl Kubeconfigs {
    /// Reads what is meant; nothing where nobody has written any.
    pub(super) fn read(named: Option<&Path>) -> Result<Option<Self>, Trouble> {
        let (variable, home) = (std::env::var_os("KUBECONFIG"), std::env::home_dir());
        Self::at(Place::new(named, variable.as_deref(), home))
    }

    fn at(place: Place) -> Result<Option<Self>, Trouble> {
        match place {
            Place::Named(path) => match read(&path)? {
                Some(merged) => Ok(Some(Self { merged, files: path.display().to_string() })),
                None => Err(missing(&path)),
            },
            Place::Usual(path) => {
                let merged = read(&path)?;
                Ok(merged.map(|merged| Self { merged, files: path.display().to_string() }))
            }
            Place::Listed(paths) => Self::merge(&paths).map(Some),
            Place::Nowhere => Ok(None),
        }
    }

    fn merge(paths: &[PathBuf]) -> Result<Self, Trouble> {
        let (mut merged, mut found) = (Kubeconfig::default(), Vec::new());
        for path in paths {
            let Some(next) = read(path)? else { continue };
            found.push(path.display().to_string());
            merged = merged.merge(next).map_err(|error| {
                Trouble::new(format!("cannot merge {} with the files before it: {error}", path.display()))
            })?;
        }
        if found.is_empty() {
            let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            return Err(Trouble::new(format!(
                "none of the files in the variable KUBECONFIG exists: {}; correct it, or use --kubeconfig FILE",
                all.join(", ")
            )));
        }
        Ok(Self { merged, files: found.join(", ") })
    }

    fn names(&self) -> Vec<&str> {
        self.merged.contexts.iter().map(|context| context.name.as_str()).collect()
    }

    /// The current context.
    pub(super) fn current(&self) -> Result<String, Trouble> {
        match &self.merged.current_context {
            Some(current) => self.known(current),
            None => Err(Trouble::new(format!(
                "no context is the current one in {}: choose one with --context ({})",
                self.files,
                listed(&self.names())
            ))),
        }
    }

    /// A context that is there.
    pub(super) fn known(&self, context: &str) -> Result<String, Trouble> {
        if self.names().contains(&context) {
            return Ok(context.into());
        }
        let names = listed(&self.names());
        Err(Trouble::new(format!("there is no context `{context}` in {}; there is: {names}", self.files)))
    }

    /// Contexts by their names, each once, also several in one text. A name may have a comma of its own.
    pub(super) fn chosen(&self, asked: &[String]) -> Result<Vec<String>, Trouble> {
        let mut chosen = Vec::new();
        for text in asked {
            let whole = self.names().contains(&text.as_str());
            let parts: Vec<&str> = if whole { vec![text] } else { text.split(',').map(str::trim).collect() };
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let context = self.known(part)?;
                if !chosen.contains(&context) {
                    chosen.push(context);
                }
            }
        }
        if chosen.is_empty() { self.known("").map(|it| vec![it]) } else { Ok(chosen) }
    }

    /// All contexts, in the order of the files.
    pub(super) fn all(&self) -> Result<Vec<String>, Trouble> {
        let names: Vec<String> = self.names().into_iter().map(str::to_owned).collect();
        if names.is_empty() {
            return Err(Trouble::new(format!("there is no context in {}", self.files)));
        }
        Ok(names)
    }

    /// The configuration of a client for a context.
    pub(super) async fn config(&self, context: &str) -> Result<Config, Trouble> {
        let made = Config::from_custom_kubeconfig(self.merged.clone(), &options(context)).await;
        made.map_err(|error| Trouble::of_context(&error, context, &self.files))
    }
}

/// The pod's own account, where there is no kubeconfig.
pub(super) fn of_this_pod(contexts: &[String]) -> Result<Config, Trouble> {
    if let Some(context) = contexts.first() {
        return Err(Trouble::new(format!("there is no kubeconfig, so there is no context `{context}`")));
    }
    Config::incluster().map_err(|_| {
        Trouble::new(
            "there is no kubeconfig, and this is no pod: use --kubeconfig FILE, the variable KUBECONFIG, \
             or ~/.kube/config",
        )
    })
}

/// A file's content; nothing if there is no such file.
fn read(path: &Path) -> Result<Option<Kubeconfig>, Trouble> {
    match Kubeconfig::read_from(path) {
        Ok(mut read) => {
            // `kubectl config unset current-context` leaves an empty one, which is none.
            read.current_context = read.current_context.filter(|name| !name.is_empty());
            Ok(Some(read))
        }
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(KubeconfigError::ReadConfig(error, _)) => {
            Err(Trouble::new(format!("cannot read {}: {}", path.display(), plain(&error))))
        }
        Err(KubeconfigError::Parse(error)) => {
            let said = error.to_string();
            let first = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Err(Trouble::new(format!("{} is no kubeconfig: {first}", path.display())))
        }
        Err(error) => Err(Trouble::new(format!("cannot use {}: {error}", path.display()))),
    }
}

fn missing(path: &Path) -> Trouble {
    Trouble::new(format!("cannot read {}: there is no such file", path.display()))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
