//! `causeway status --watch`: a picture of each cluster that its watches keep up to date, drawn again when it changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_controller::follow::{Convert, Interruption, Watch};
use causeway_controller::pace::Pace;
use causeway_core::rules::Kind;
use jiff::Timestamp;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::known::{Known, Name, Picture, Scope, forwards_of, networks_of, nodes_of, rules_of, tunnels_of};
use super::view::{Document, Look};
use super::{Output, forwards, networks, nodes, rules, tunnels};
use crate::clusters::{Cluster, Trouble};
use crate::table::terminal;

/// Changes within this time are drawn as one.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often a terminal is looked at for its size, and ages are worked out anew.
const TICK: Duration = Duration::from_secs(1);

/// A cluster that is followed.
pub(super) struct Site {
    context: Option<String>,
    held: Mutex<Held>,
}

/// What is known of it, and why that may be old.
struct Held {
    picture: Picture,
    /// Why it could not be seen at all.
    trouble: Option<Trouble>,
    /// Watches that are interrupted at the moment, by their kinds.
    interrupted: BTreeMap<&'static str, String>,
}

impl Site {
    pub(super) fn new(context: Option<String>, seen: Result<Picture, Trouble>) -> Arc<Self> {
        let (picture, trouble) = match seen {
            Ok(picture) => (picture, None),
            Err(trouble) => (Picture::unknown(), Some(trouble)),
        };
        let held = Held { picture, trouble, interrupted: BTreeMap::new() };
        Arc::new(Self { context, held: Mutex::new(held) })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_trouble(&self) -> bool {
        self.held().trouble.is_some()
    }

    fn add_to(&self, document: &mut Document) {
        let (context, held) = (self.context.as_deref(), self.held());
        document.add(context, &held.picture);
        if let Some(trouble) = held.trouble.clone().or_else(|| held.picture.trouble()) {
            document.complain(context, &trouble);
        } else if let Some(why) = held.interrupted.values().next() {
            document.complain(context, &Trouble::new(format!("what is shown may be old: {why}")));
        }
    }
}

/// Everything that is known of all.
pub(super) fn document(sites: &[Arc<Site>]) -> Document {
    let mut document = Document::default();
    sites.iter().for_each(|site| site.add_to(&mut document));
    document.done()
}

/// The watches of all clusters; they end with it.
pub(super) struct Watches {
    tasks: JoinSet<Infallible>,
    changed: Arc<Notify>,
}

impl Watches {
    pub(super) fn new() -> Self {
        Self { tasks: JoinSet::new(), changed: Arc::new(Notify::new()) }
    }

    /// Follows all kinds of a cluster.
    pub(super) fn add(&mut self, site: &Arc<Site>, cluster: &Cluster, scope: &Scope) {
        let client = &cluster.client;
        let watch = Watch::new(tunnels_of(client, scope));
        self.follow(site, "tunnels", watch, tunnels::convert, |picture| &mut picture.tunnels);
        let watch = Watch::new(forwards_of(client, scope));
        self.follow(site, "forwards", watch, forwards::convert, |picture| &mut picture.forwards);
        let watch = Watch::new(networks_of(client, scope));
        self.follow(site, "networks", watch, networks::convert, |picture| &mut picture.networks);
        for kind in Kind::ALL {
            let resource = causeway_api::rules::resource(kind);
            let watch = Watch::of(resource, rules_of(client, kind, scope));
            self.follow(site, kind.plural(), watch, rules::convert(kind), move |picture| {
                picture.rules.entry(kind).or_insert(Known::Missing)
            });
        }
        if scope.namespace.is_none() {
            let convert = nodes::convert(&scope.prefix);
            self.follow(site, "nodes", Watch::new(nodes_of(client)), convert, |picture| &mut picture.nodes);
        }
    }

    fn follow<K, C, T>(
        &mut self,
        site: &Arc<Site>,
        name: &'static str,
        watch: Watch<K>,
        convert: C,
        slot: impl Fn(&mut Picture) -> &mut Known<T> + Send + 'static,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        K::DynamicType: Send + Sync,
        C: Convert<K, Key = Name, Value = T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let (site, changed, again) = (site.clone(), self.changed.clone(), Arc::new(Notify::new()));
        let pace = Pace::seeded(crate::controller::seed());
        let watch = watch.anew(again.clone());
        let tell = move |seen| {
            let held = &mut *site.held();
            let known = slot(&mut held.picture);
            match seen {
                Ok(seen) => {
                    known.see(seen);
                    held.trouble = None;
                    held.interrupted.remove(name);
                }
                Err(Interruption(why)) => {
                    // A watch comes back without a word; a list after that says that it has.
                    again.notify_one();
                    if known.is_installed() {
                        held.interrupted.insert(name, why);
                    }
                }
            }
            changed.notify_one();
        };
        self.tasks.spawn(watch.follow(pace, convert, tell));
    }

    /// Shows everything now and whenever it changes, until somebody ends it. Returns how all was in the end.
    pub(super) async fn show(self, sites: &[Arc<Site>], output: Output, look: Look) -> anyhow::Result<u8> {
        let mut screen = Screen { output, look, last: None, drawn: String::new() };
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        loop {
            let code = screen.show(document(sites))?;
            tokio::select! {
                () = self.changed.notified() => sleep(TOGETHER).await,
                () = sleep(TICK), if screen.is_drawn() => {}
                _ = interrupt.recv() => return Ok(code),
                _ = terminate.recv() => return Ok(code),
            }
        }
    }
}

/// Where all is shown.
struct Screen {
    output: Output,
    look: Look,
    last: Option<Document>,
    /// What a terminal shows.
    drawn: String,
}

impl Screen {
    /// Whether it is drawn over and over in one place.
    fn is_drawn(&self) -> bool {
        self.output != Output::Json && std::io::stdout().is_terminal()
    }

    fn show(&mut self, document: Document) -> anyhow::Result<u8> {
        let code = document.code();
        if self.is_drawn() {
            self.draw(&document)?;
        } else if self.last.as_ref() != Some(&document) {
            super::print(&document, self.output, &self.look, self.last.is_some())?;
            self.last = Some(document);
        }
        Ok(code)
    }

    fn draw(&mut self, document: &Document) -> std::io::Result<()> {
        let size = terminal();
        self.look.columns = size.map(|(columns, _)| columns);
        let mut text = document.tables(&self.look, Timestamp::now());
        document.complaints(self.look.clusters).for_each(|line| text += &format!("\n{line}\n"));
        if text == self.drawn {
            return Ok(());
        }
        // From the corner, each line to its end, and nothing below; at first over what others left there.
        let mut frame = if self.drawn.is_empty() { "\x1b[H\x1b[J" } else { "\x1b[H" }.to_owned();
        for line in fitting(&text, size.map_or(usize::MAX, |(_, lines)| lines)) {
            frame += &format!("{line}\x1b[K\r\n");
        }
        frame += "\x1b[J";
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(frame.as_bytes())?;
        stdout.flush()?;
        self.drawn = text;
        Ok(())
    }
}

/// As many lines as a screen has, but for the last, on which the cursor stands.
fn fitting(text: &str, screen: usize) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let room = screen.saturating_sub(1).max(1);
    if lines.len() <= room {
        return lines;
    }
    let hidden = lines.len() - room + 1;
    let mut shown: Vec<String> = lines.into_iter().take(room - 1).collect();
    shown.push(format!("… and {hidden} lines more"));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_screen_has_no_room_for_is_counted() {
        assert_eq!(fitting("a\nb\n", 3), ["a", "b"]);
        assert_eq!(fitting("a\nb\nc\n", 3), ["a", "… and 2 lines more"]);
        assert_eq!(fitting("a\nb\n", 1), ["… and 2 lines more"]);
    }
}
