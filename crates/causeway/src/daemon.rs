//! What the commands share that run until they are stopped: a log that holds nobody up, and the signals.
//!
//! Log lines wait in a buffer of bounded size for a thread that writes them out. Whoever reads the log may be slow,
//! stuck or gone: then lines are lost and counted, but no work waits for the log, and least of all the end does.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use causeway_controller::words::describe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use crate::controller::LogFormat;

/// How many bytes may wait to be written; some thousand lines.
const MOST: usize = 1 << 20;
/// How long an end waits until the last lines are written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Does the work of a command that logs; an error ends the log.
pub(crate) fn run(format: LogFormat, work: impl FnOnce() -> anyhow::Result<ExitCode>) -> ExitCode {
    let log = Log::default();
    log.write_to(io::stderr());
    log.subscribe(format);
    let code = work().unwrap_or_else(|error| {
        log.add(format!("error: {}\n", describe(error.as_ref())).as_bytes());
        ExitCode::FAILURE
    });
    log.is_written_within(LAST_WORDS);
    code
}

/// The first signal that asks for an end gets an orderly one; the second gets it at once, whatever is waited for then.
///
/// They are awaited on a thread of their own, since whatever hangs must not hang this.
pub(crate) fn end_on_signal(stop: CancellationToken) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before anything else starts: a signal that comes earlier would end the process as if nobody listened.
    let signals = {
        let _inside = runtime.enter();
        signal(SignalKind::terminate()).and_then(|first| Ok((first, signal(SignalKind::interrupt())?)))
    };
    // Where the kernel does not let us listen a signal ends the process, as it would otherwise.
    let Ok((terminations, interrupts)) = signals else { return Ok(()) };
    let wait = move || {
        let second = runtime.block_on(second_signal(stop, terminations, interrupts));
        // As a shell reports those whom a signal ended.
        std::process::exit(128 + second.as_raw_value());
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop).context("no thread for signals")
}

/// Cancels at the first signal and says which the second is.
async fn second_signal(
    stop: CancellationToken,
    mut terminations: Signal,
    mut interrupts: Signal,
) -> SignalKind {
    let mut next = async || {
        tokio::select! {
            _ = terminations.recv() => SignalKind::terminate(),
            _ = interrupts.recv() => SignalKind::interrupt(),
        }
    };
    next().await;
    tracing::info!("asked to stop");
    stop.cancel();
    next().await
}

/// Lines on their way to whoever reads them. Cheap to clone; all clones are one log.
#[derive(Clone, Debug, Default)]
struct Log(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Debug, Default)]
struct Waiting {
    text: Vec<u8>,
    is_being_written: bool,
    /// Lines for which there was no room.
    lost: u64,
}

impl Log {
    fn subscribe(&self, format: LogFormat) {
        // Levels by target are all that is filtered by; more would bring a regular expression engine along.
        let given = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
        let filter: Targets = given.unwrap_or_else(|| Targets::new().with_default(tracing::Level::INFO));
        let log = self.clone();
        let logs = fmt::layer().with_writer(move || log.clone());
        let layer = match format {
            LogFormat::Json => logs.json().flatten_event(true).boxed(),
            LogFormat::Text => logs.with_ansi(false).boxed(),
        };
        tracing_subscriber::registry().with(layer).with(filter).init();
    }

    /// Has a thread write out what comes. It ends with the process.
    fn write_to(&self, mut out: impl Write + Send + 'static) {
        let log = self.clone();
        thread::spawn(move || {
            loop {
                let lost = log.write_once(&mut out);
                if lost > 0 {
                    tracing::warn!(lines = lost, "lines of this log are lost: it was read too slowly");
                }
            }
        });
    }

    /// Waits for lines and writes them; says how many were lost meanwhile.
    fn write_once(&self, out: &mut impl Write) -> u64 {
        let (_, changed) = &*self.0;
        let mut waiting =
            changed.wait_while(self.lock(), |it| it.text.is_empty()).unwrap_or_else(PoisonError::into_inner);
        waiting.is_being_written = true;
        let text = std::mem::take(&mut waiting.text);
        drop(waiting);
        // Where nobody can read it there is nothing left to do about it.
        let _ = out.write_all(&text).and_then(|()| out.flush());
        let mut waiting = self.lock();
        waiting.is_being_written = false;
        changed.notify_all();
        std::mem::take(&mut waiting.lost)
    }

    /// Adds a line if there is room for it.
    fn add(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.text.len() + line.len() > MOST {
            waiting.lost += 1;
            return;
        }
        waiting.text.extend_from_slice(line);
        self.0.1.notify_all();
    }

    /// Waits until everything is written, but not longer than that; says whether it is.
    fn is_written_within(&self, limit: Duration) -> bool {
        let unwritten = |it: &mut Waiting| it.is_being_written || !it.text.is_empty();
        let waited = self.0.1.wait_timeout_while(self.lock(), limit, unwritten);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subscriber writes an event at once and as a whole.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_in_their_order_and_as_a_whole() {
        let (log, (mut reader, writer)) = (Log::default(), io::pipe().expect("a pipe"));
        log.write_to(writer);
        (0..1000).for_each(|number| log.add(format!("line {number}\n").as_bytes()));
        assert!(log.is_written_within(Duration::from_secs(60)));
        let mut text = vec![0; (0..1000).map(|number| format!("line {number}\n").len()).sum()];
        io::Read::read_exact(&mut reader, &mut text).expect("all of it");
        let text = String::from_utf8(text).expect("text");
        assert!(text.lines().enumerate().all(|(at, line)| line == format!("line {at}")), "{text}");
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_no_time() {
        let (log, (_reader, writer)) = (Log::default(), io::pipe().expect("a pipe"));
        log.write_to(writer);
        let line = [b'x'; 1000];
        (0..5 * MOST / line.len()).for_each(|_| log.add(&line));
        assert!(!log.is_written_within(Duration::from_millis(10)), "a pipe does not hold that much");
        let waiting = log.lock();
        assert!(waiting.lost > 0 && waiting.text.len() <= MOST, "{}", waiting.text.len());
    }

    #[test]
    fn a_reader_that_has_gone_is_not_waited_for() {
        let (log, (reader, writer)) = (Log::default(), io::pipe().expect("a pipe"));
        drop(reader);
        log.write_to(writer);
        log.add(b"nobody reads this\n");
        assert!(log.is_written_within(Duration::from_secs(60)));
    }
}
