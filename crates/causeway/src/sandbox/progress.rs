//! What the sandbox is doing, on stderr: a live line on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Tells people how far it got. Cheap to clone; all clones share one line.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    since: Instant,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}");
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(80));
            bar
        });
        Progress { bar, since: Instant::now() }
    }

    /// A stage begins.
    pub(super) fn stage(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => self.line(&format!("{text} …")),
        }
    }

    /// Something finished that is worth keeping on the screen.
    pub(super) fn done(&self, text: &str) {
        self.line(&format!("✔ {text}"));
    }

    /// How things are.
    pub(super) fn say(&self, text: &str) {
        self.line(text);
    }

    /// Something to worry about, now or later.
    pub(super) fn note(&self, text: &str) {
        self.line(&format!("! {text}"));
    }

    /// No stage is under way any more.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        let line = format!("{:6.2}s {text}", self.since.elapsed().as_secs_f64());
        match &self.bar {
            Some(bar) if !bar.is_finished() => bar.println(line),
            _ => eprintln!("{line}"),
        }
    }
}
