//! The sandbox's folder: kubeconfigs, logs, pid files.
//!
//! A folder that was given keeps its logs; everything that only means something while the sandbox
//! runs goes at the end. A folder of our own goes as a whole.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

/// Says that everything is up.
const READY: &str = "ready";
/// Files of the pods.
const PODS: &str = "pods";

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    own: Option<TempDir>,
}

impl Folder {
    /// The given folder, made if needed, or a temporary one.
    pub(super) fn open(given: Option<&Path>) -> anyhow::Result<Folder> {
        let folder = match given {
            Some(path) => {
                let what = || format!("cannot make the folder {}", path.display());
                DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(what)?;
                Folder { path: path.canonicalize().with_context(what)?, own: None }
            }
            None => {
                let own = tempfile::Builder::new().prefix("causeway-sandbox-").tempdir();
                let own = own.context("cannot make a temporary folder")?;
                Folder { path: own.path().to_owned(), own: Some(own) }
            }
        };
        folder.sweep();
        for part in ["logs", PODS] {
            fs::create_dir_all(folder.path.join(part)).context("cannot make the sandbox's folders")?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder if it is to vanish with the sandbox.
    pub(super) fn temporary(&self) -> Option<&Path> {
        self.own.as_ref().map(TempDir::path)
    }

    /// Where the pods of a cluster keep their files.
    pub(super) fn pods(&self, cluster: &str) -> PathBuf {
        self.path.join(PODS).join(cluster)
    }

    /// What the sandbox itself has to say.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("logs").join("sandbox.log")
    }

    /// Tells whoever waits for the file that everything is up.
    pub(super) fn mark_ready(&self) -> anyhow::Result<()> {
        fs::write(self.path.join(READY), "ready\n").context("cannot write the ready file")
    }

    /// Removes what is only true while a sandbox runs, this one's or a killed one's.
    fn sweep(&self) {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let end = path.extension().and_then(OsStr::to_str);
            if matches!(end, Some("kubeconfig" | "pid" | "hold" | "net"))
                || path.file_name().is_some_and(|name| name == READY)
            {
                let _ = fs::remove_file(&path);
            }
        }
        let _ = fs::remove_dir_all(self.path.join(PODS));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_folder_keeps_its_logs_and_nothing_that_is_no_longer_true() {
        let outer = tempfile::tempdir().expect("temp folder");
        let given = outer.path().join("sandbox");
        let folder = Folder::open(Some(&given)).expect("folder");
        folder.mark_ready().expect("ready");
        fs::write(given.join("cluster1.kubeconfig"), "x").expect("written");
        std::os::unix::fs::symlink("/proc/0/fd/0", given.join("cluster1.blue1.net")).expect("linked");
        fs::write(given.join("notes.txt"), "x").expect("written");
        drop(folder);
        let mut left: Vec<_> = fs::read_dir(&given).expect("kept").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["logs", "notes.txt"]);
    }

    #[test]
    fn a_folder_of_our_own_vanishes() {
        let folder = Folder::open(None).expect("folder");
        let path = folder.path().to_owned();
        assert!(path.join("logs").exists());
        drop(folder);
        assert!(!path.exists());
    }
}
