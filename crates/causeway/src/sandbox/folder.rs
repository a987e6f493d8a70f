//! The sandbox's folder: kubeconfigs, logs, pid files.
//!
//! A folder that was given keeps its logs; everything that only means something while the sandbox
//! runs goes at the end. A folder of our own goes as a whole.
//!
//! Two sandboxes in one folder would take each other's files away, so whoever is in it holds its lock. The kernel lets
//! go of a lock with its process, however that ends.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::TempDir;

/// Says that everything is up.
const READY: &str = "ready";
/// Whose folder it is.
const PID: &str = "sandbox.pid";
/// Files of the pods.
const PODS: &str = "pods";

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    own: Option<TempDir>,
    /// Open as long as the folder is ours.
    _lock: File,
}

impl Folder {
    /// The given folder, made if needed, or a temporary one.
    pub(super) fn open(given: Option<&Path>) -> anyhow::Result<Folder> {
        let (path, own) = match given {
            Some(path) => {
                let what = || format!("cannot make the folder {}", path.display());
                DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(what)?;
                (path.canonicalize().with_context(what)?, None)
            }
            None => {
                let own = tempfile::Builder::new().prefix("causeway-sandbox-").tempdir();
                let own = own.context("cannot make a temporary folder")?;
                (own.path().to_owned(), Some(own))
            }
        };
        let lock = lock(&path)?;
        let folder = Folder { path, own, _lock: lock };
        folder.sweep();
        let pid = format!("{}\n", std::process::id());
        fs::write(folder.path.join(PID), pid).context("cannot write the sandbox's pid")?;
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

/// Locks a folder, or says who has done so.
fn lock(path: &Path) -> anyhow::Result<File> {
    let what = || format!("cannot lock the folder {}", path.display());
    let folder = File::open(path).with_context(what)?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(TryLockError::Error(error)) => Err(error).with_context(what),
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(path.join(PID)).unwrap_or_default();
            let holder =
                if pid.is_empty() { "another sandbox".into() } else { format!("pid {}", pid.trim()) };
            bail!(
                "the folder {} is in use by {holder}: give another --dir, or end that first",
                path.display()
            )
        }
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
    fn a_folder_in_use_is_refused_by_its_users_pid_until_it_is_free() {
        let given = tempfile::tempdir().expect("temp folder");
        let first = Folder::open(Some(given.path())).expect("folder");
        first.mark_ready().expect("ready");
        let refused = Folder::open(Some(given.path())).expect_err("it is in use").to_string();
        assert!(refused.contains(&format!("is in use by pid {}:", std::process::id())), "{refused}");
        assert!(given.path().join(READY).exists(), "what the first has there stays");
        drop(first);
        Folder::open(Some(given.path())).expect("it is free again");
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
