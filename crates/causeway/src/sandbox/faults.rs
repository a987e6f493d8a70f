//! Faults that people and tests can switch on in a pod, read when a command is run there.
//!
//! The annotation `sandbox.causeway/exec` holds one or several of these, separated by commas:
//! `refuse` (403), `hang` (accepts and never answers), `hold:<user>` (this user's commands wait until
//! the fault is switched off), `slow:<ms>` (waits first), `late:<ms>` (the command runs at once; what it
//! prints and its end arrive later), `cut:<lines>` (no more lines of stdin than that reach the command,
//! then it ends) and `without:<tool>` (the tool is not on the PATH;
//! `without:iptables` takes all its variants).

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::tools::PLACES;

/// The annotation's key.
pub(super) const ANNOTATION: &str = "sandbox.causeway/exec";
/// What the annotation asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) refuse: bool,
    pub(super) hang: bool,
    pub(super) hold: Option<String>,
    pub(super) slow: Duration,
    pub(super) late: Duration,
    pub(super) cut: Option<usize>,
    pub(super) without: BTreeSet<String>,
}

/// The annotation says something that is no fault we know.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "annotation {ANNOTATION}: {0:?} is none of refuse, hang, hold:<user>, slow:<ms>, late:<ms>, cut:<lines>, without:<tool>"
)]
pub(super) struct UnknownFault(String);

impl Faults {
    /// Reads the annotation; no annotation, no faults.
    pub(super) fn parse(annotation: Option<&str>) -> Result<Faults, UnknownFault> {
        let mut faults = Faults::default();
        let words = annotation.unwrap_or_default().split(',').map(str::trim);
        for word in words.filter(|word| !word.is_empty()) {
            let unknown = || UnknownFault(word.to_owned());
            match word.split_once(':') {
                None if word == "refuse" => faults.refuse = true,
                None if word == "hang" => faults.hang = true,
                Some(("hold", user)) if !user.trim().is_empty() => faults.hold = Some(user.trim().to_owned()),
                Some(("slow", ms)) => faults.slow = milliseconds(ms).ok_or_else(unknown)?,
                Some(("late", ms)) => faults.late = milliseconds(ms).ok_or_else(unknown)?,
                Some(("cut", lines)) => {
                    faults.cut = Some(lines.trim().parse().map_err(|_| unknown())?);
                }
                Some(("without", tool)) if is_tool(tool.trim()) => {
                    faults.without.insert(tool.trim().to_owned());
                }
                _ => return Err(unknown()),
            }
        }
        Ok(faults)
    }

    fn hides(&self, name: &str) -> bool {
        let variant = |tool: &String| {
            name.strip_prefix(tool.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.without.iter().any(variant)
    }

    /// The PATH for a command: as usual, or a folder of links that lacks the hidden tools.
    /// The folder is made on first use below `scratch`.
    pub(super) fn path(&self, scratch: &Path) -> io::Result<String> {
        if self.without.is_empty() {
            return Ok(PLACES.join(":"));
        }
        let names = self.without.iter().map(String::as_str).collect::<Vec<_>>();
        let folder = scratch.join(format!("tools-without-{}", names.join("-")));
        if !folder.exists() {
            self.link_tools(&folder)?;
        }
        Ok(folder.to_string_lossy().into_owned())
    }

    /// Fills a folder under another name first: whoever finds it finds it complete.
    fn link_tools(&self, folder: &Path) -> io::Result<()> {
        let parent = folder.parent().unwrap_or(Path::new("."));
        let fresh = tempfile::tempdir_in(parent)?;
        for tool in PLACES.iter().flat_map(|place| tools_in(Path::new(place))) {
            let Some(name) = tool.file_name() else { continue };
            if !self.hides(&name.to_string_lossy()) {
                // The first on the search path wins: a second of the same name exists already.
                let _ = symlink(&tool, fresh.path().join(name));
            }
        }
        match std::fs::rename(fresh.path(), folder) {
            Err(_) if folder.exists() => Ok(()),
            renamed => renamed,
        }
    }
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(Duration::from_millis)
}

fn tools_in(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

fn is_tool(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_faults_may_stand_in_one_annotation() {
        let faults = Faults::parse(Some("slow:250, without:iptables,without:tc")).expect("valid");
        assert_eq!(faults.slow, Duration::from_millis(250));
        assert_eq!(faults.without, BTreeSet::from(["iptables".into(), "tc".into()]));
        assert_eq!(Faults::parse(None), Ok(Faults::default()));
        let faults = Faults::parse(Some("late:40,cut:0")).expect("valid");
        assert_eq!((faults.late, faults.cut), (Duration::from_millis(40), Some(0)));
        assert!(Faults::parse(Some("hang")).expect("valid").hang);
        assert!(Faults::parse(Some("refuse")).expect("valid").refuse);
        assert_eq!(Faults::parse(Some("hold:anna")).expect("valid").hold.as_deref(), Some("anna"));
    }

    #[test]
    fn an_unknown_fault_is_named() {
        for bad in ["explode", "hold:", "slow:soon", "late:", "cut:-1", "without:", "without:../x"] {
            let error = Faults::parse(Some(bad)).expect_err(bad).to_string();
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn without_iptables_hides_its_variants_and_without_ip_only_ip() {
        let iptables = Faults::parse(Some("without:iptables")).expect("valid");
        assert!(iptables.hides("iptables") && iptables.hides("iptables-legacy-restore"));
        assert!(!iptables.hides("ip"));
        let ip = Faults::parse(Some("without:ip")).expect("valid");
        assert!(ip.hides("ip") && !ip.hides("iptables"));
    }

    #[test]
    fn a_path_without_a_tool_still_has_the_others() {
        let scratch = tempfile::tempdir().expect("temp folder");
        let faults = Faults::parse(Some("without:ls")).expect("valid");
        let path = PathBuf::from(faults.path(scratch.path()).expect("folder"));
        assert!(!path.join("ls").exists());
        assert!(path.join("cat").exists());
    }
}
