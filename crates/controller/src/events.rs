//! Kubernetes Events about objects, published beside the work and never in its way.
//!
//! The same reason and note again count up one event, others make another: kube's recorder takes events of one
//! reason for a series whatever they say, and keeps the note of the first; but a repair has to say what was
//! repaired. So an object's recorder lasts for as long as both stay the same.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::election::Term;
use crate::words::describe;

/// The longest note that an API server takes, in bytes.
const MAX_NOTE: usize = 1024;
/// Events that wait to be published; what is more is dropped, since events are news and not state.
const WAITING: usize = 4096;
/// Objects whose last event is remembered.
const REMEMBERED: usize = 10_000;

/// Something to publish about an object.
#[derive(Debug, Clone)]
pub struct News {
    /// The object.
    pub about: ObjectReference,
    /// Whether a person should do something.
    pub warning: bool,
    /// Why, in CamelCase.
    pub reason: String,
    /// One sentence.
    pub note: String,
}

/// Publishes events; clones share one line.
#[derive(Debug, Clone)]
pub struct Announcer(mpsc::Sender<(Term, News)>);

/// The end of the line that [`publish`] works on.
pub type Line = mpsc::Receiver<(Term, News)>;

impl Announcer {
    /// An announcer and its line.
    pub fn new() -> (Self, Line) {
        let (sender, line) = mpsc::channel(WAITING);
        (Self(sender), line)
    }

    /// Publishes an event in a while, unless the term is over by then or too many wait.
    pub fn announce(&self, term: &Term, news: News) {
        if let Err(error) = self.0.try_send((term.clone(), news)) {
            tracing::warn!(%error, "an event was dropped");
        }
    }
}

/// The last that was said of an object.
struct Last {
    reason: String,
    note: String,
    recorder: Recorder,
}

/// Publishes what waits in line until asked to stop.
pub async fn publish(client: Client, reporter: Reporter, mut line: Line, stop: CancellationToken) {
    let mut last: BTreeMap<String, Last> = BTreeMap::new();
    while let Some(Some((term, mut news))) = stop.run_until_cancelled(line.recv()).await {
        if !term.is_held() {
            continue;
        }
        news.note = fitting(news.note);
        let key = news.about.uid.clone().unwrap_or_default();
        let same = |last: &Last| last.reason == news.reason && last.note == news.note;
        if !last.get(&key).is_some_and(same) {
            if last.len() >= REMEMBERED {
                last.clear();
            }
            let recorder = Recorder::new(client.clone(), reporter.clone());
            let latest = Last { reason: news.reason.clone(), note: news.note.clone(), recorder };
            last.insert(key.clone(), latest);
        }
        let Some(Last { recorder, .. }) = last.get(&key) else { continue };
        let event = Event {
            type_: if news.warning { EventType::Warning } else { EventType::Normal },
            reason: news.reason,
            note: Some(news.note),
            action: "Reconcile".into(),
            secondary: None,
        };
        if let Some(Err(error)) = stop.run_until_cancelled(recorder.publish(&event, &news.about)).await {
            tracing::warn!(object = ?news.about.name, reason = event.reason, error = describe(&error), "an event could not be published");
        }
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
