//! Who wrote what after whom: one line of JSON per request that changes something or runs a command,
//! in a file, so that a test can prove it from the server's side.
//!
//! A line is written when the answer is known. `resourceVersion` is what the write left behind;
//! it orders writes of different requests, lines may be out of order by the moment between the two.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::clock::Clock;
use crate::faults::Asked;

/// What a write left behind, for the line about it.
#[derive(Debug, Clone)]
pub(crate) struct Wrote {
    pub(crate) name: String,
    /// None when it left nothing.
    pub(crate) version: Option<u64>,
    pub(crate) dry_run: bool,
}

struct Log {
    path: PathBuf,
    file: File,
    lines: u64,
}

/// The file, if one was asked for.
#[derive(Default)]
pub(crate) struct Audit(Mutex<Option<Log>>);

impl Audit {
    /// Appends to this file from now on.
    pub(crate) fn begin(&self, path: &Path) -> std::io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        *self.log() = Some(Log { path: path.to_owned(), file, lines: 0 });
        Ok(())
    }

    pub(crate) fn end(&self) {
        *self.log() = None;
    }

    /// Where it is written to.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.log().as_ref().map(|log| log.path.clone())
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Option<Log>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, asked: &Asked, code: u16, wrote: Option<&Wrote>, clock: &Clock) {
        let reads = matches!(asked.verb.as_str(), "get" | "list" | "watch" | "head" | "other");
        if reads && asked.subresource != "exec" {
            return;
        }
        let mut slot = self.log();
        let Some(log) = slot.as_mut() else { return };
        log.lines += 1;
        let name = wrote.map_or(&asked.name, |wrote| &wrote.name);
        let line = json!({
            "line": log.lines, "time": clock.micro_stamp(), "user": asked.user, "userAgent": asked.user_agent,
            "fieldManager": asked.field_manager, "verb": asked.verb, "group": asked.group,
            "resource": asked.resource, "subresource": asked.subresource, "namespace": asked.namespace,
            "name": name, "code": code,
            "dryRun": wrote.map_or(asked.dry_run, |wrote| wrote.dry_run),
            "resourceVersion": wrote.and_then(|wrote| wrote.version).map(|version| version.to_string()),
        });
        // One call, so that a reader never sees half a line.
        if let Err(why) = log.file.write_all(format!("{line}\n").as_bytes()) {
            tracing::warn!(error = %why, path = %log.path.display(), "an audit line is lost");
        }
    }
}
