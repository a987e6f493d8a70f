//! Events about tunnels: the same words again count up one event, other words make another.
//!
//! kube's recorder takes events of one reason for a series whatever they say, and keeps the note of the
//! first; but a repair has to say what was repaired. So an object's recorder lasts for as long as it is
//! told the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use causeway_core::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, Recorder, Reporter};

/// The longest note that an API server takes, in bytes.
const MAX_NOTE: usize = 1024;

/// Publishes events.
pub(super) struct Announcer {
    client: Client,
    reporter: Reporter,
    last: Mutex<BTreeMap<ObjectKey, Last>>,
}

/// The last that was said of an object.
struct Last {
    reason: String,
    note: Option<String>,
    recorder: Recorder,
}

impl Announcer {
    pub(super) fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter, last: Mutex::default() }
    }

    /// Publishes an event about an object.
    pub(super) async fn publish(
        &self,
        key: &ObjectKey,
        mut event: Event,
        about: &ObjectReference,
    ) -> kube::Result<()> {
        event.note = event.note.map(fitting);
        let recorder = self.recorder(key, &event);
        recorder.publish(&event, about).await
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn recorder(&self, key: &ObjectKey, event: &Event) -> Recorder {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.get(key).filter(|l| l.reason == event.reason && l.note == event.note) {
            return last.recorder.clone();
        }
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        let new = Last { reason: event.reason.clone(), note: event.note.clone(), recorder: recorder.clone() };
        last.insert(key.clone(), new);
        recorder
    }
}

/// A note cut to what an API server takes.
fn fitting(mut note: String) -> String {
    if note.len() > MAX_NOTE {
        note.truncate(note.floor_char_boundary(MAX_NOTE - '…'.len_utf8()));
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_too_long_is_cut_between_characters() {
        assert_eq!(fitting("short".into()), "short");
        let cut = fitting("ä".repeat(1000));
        assert!(cut.len() <= MAX_NOTE && cut.ends_with("ä…"), "{}", cut.len());
    }
}
