//! What happened in a run, in order: two runs are the same if this is.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

/// So many lines are kept for whoever reads why a run failed.
const KEPT: usize = 400;

/// The lines of a run: all of them in a hash, the last ones as text.
pub(crate) struct Trace {
    hasher: DefaultHasher,
    count: u64,
    last: VecDeque<String>,
    /// Whether each is printed as it comes.
    aloud: bool,
}

impl Trace {
    pub(crate) fn new(aloud: bool) -> Self {
        // Its keys are constant, so the hash is the same in every process.
        Self { hasher: DefaultHasher::new(), count: 0, last: VecDeque::new(), aloud }
    }

    pub(crate) fn note(&mut self, at: Duration, line: &str) {
        let line = format!("{:>9.3} {line}", at.as_secs_f64());
        self.hasher.write(line.as_bytes());
        self.count += 1;
        if self.aloud {
            eprintln!("{line}");
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// The hash and the number of lines.
    pub(crate) fn sum(&self) -> (u64, u64) {
        (self.hasher.finish(), self.count)
    }

    pub(crate) fn last(&self) -> impl Iterator<Item = &String> {
        self.last.iter()
    }
}
