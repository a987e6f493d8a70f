//! When a log, of lines of JSON, says that something happened.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

/// How long after a time of day the first line was written that fits. Its own time is in the field given.
pub(super) fn first(
    file: &Path,
    since: SystemTime,
    time: &str,
    fits: impl Fn(&Value) -> bool,
) -> Option<Duration> {
    let log = std::fs::read_to_string(file).ok()?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut after = lines.filter(fits).filter_map(|line| {
        let at: jiff::Timestamp = line[time].as_str()?.parse().ok()?;
        SystemTime::from(at).duration_since(since).ok()
    });
    after.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_count_that_came_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("log");
        let lines = r#"{"at": "2026-11-18T10:00:00.5Z", "what": 1}
            no JSON
            {"at": "2026-11-18T10:00:02.25Z", "what": 2}
            {"at": "2026-11-18T10:00:03Z", "what": 1}"#;
        std::fs::write(&file, lines).expect("written");
        let since: jiff::Timestamp = "2026-11-18T10:00:02Z".parse().expect("a time");
        let first = |what: u64| first(&file, since.into(), "at", |line| line["what"] == what);
        assert_eq!(first(2), Some(Duration::from_millis(250)));
        assert_eq!(first(1), Some(Duration::from_secs(1)));
        assert_eq!(first(3), None);
    }
}
