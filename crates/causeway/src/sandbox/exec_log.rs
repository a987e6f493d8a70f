//! Every command that ran in a pod, a line of JSON at its start and one at its end, in
//! `<dir>/logs/<cluster>-execs.jsonl`: the gateways' own word on what was done there, and when.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use causeway_apiserver::{ExecEnd, ExecRequest};
use serde_json::{Value, json};

use super::pod_status;

/// Written to by every exec of one cluster.
#[derive(Debug)]
pub(super) struct ExecLog(Mutex<File>);

impl ExecLog {
    /// The log of a cluster in the sandbox's folder.
    pub(super) fn open(folder: &Path, cluster: &str) -> std::io::Result<ExecLog> {
        let logs = folder.join("logs");
        std::fs::create_dir_all(&logs)?;
        let path = logs.join(format!("{cluster}-execs.jsonl"));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(ExecLog(Mutex::new(file)))
    }

    /// A command begins. What comes back belongs to its end.
    pub(super) fn begin(&self, number: u64, request: &ExecRequest) -> Entry<'_> {
        let argv = &request.command;
        let entry = json!({
            "exec": number, "pod": request.pod, "namespace": request.namespace, "kind": kind(argv),
            // What follows a shell's script, which itself is long and always the same.
            "arguments": argv.get(3..).unwrap_or_default(),
        });
        self.write(&entry, json!({"event": "start"}));
        Entry { log: self, entry, ended: false }
    }

    fn write(&self, entry: &Value, more: Value) {
        let mut line = json!({"at": pod_status::now()});
        for part in [entry, &more] {
            if let (Value::Object(line), Value::Object(part)) = (&mut line, part) {
                line.extend(part.clone());
            }
        }
        // One write per line: appended lines of several execs do not mix.
        let text = format!("{line}\n");
        if let Ok(mut file) = self.0.lock() {
            let _ = file.write_all(text.as_bytes());
        }
    }
}

/// A command that runs.
pub(super) struct Entry<'a> {
    log: &'a ExecLog,
    entry: Value,
    ended: bool,
}

impl Entry<'_> {
    /// It has ended like this.
    pub(super) fn end(mut self, end: &ExecEnd) {
        self.ended = true;
        let how = match end {
            ExecEnd::Exited(code) => json!({"event": "end", "exit": code}),
            ExecEnd::Failed(message) => json!({"event": "end", "failed": message}),
        };
        self.log.write(&self.entry, how);
    }
}

impl Drop for Entry<'_> {
    /// Its caller went away, and it was ended for that.
    fn drop(&mut self) {
        if !self.ended {
            self.log.write(&self.entry, json!({"event": "end", "failed": "its caller went away"}));
        }
    }
}

/// What a command is for, by what is in it: the controller's three, or somebody else's.
fn kind(argv: &[String]) -> &'static str {
    let holds = |words: &str| argv.iter().any(|word| word.contains(words));
    match () {
        () if !holds("@@causeway") => "other",
        () if holds("ip monitor") => "monitor",
        () if holds("-restore") => "apply",
        () => "observe",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(script: &str) -> ExecRequest {
        ExecRequest {
            namespace: "kube-system".into(),
            pod: "vpc-nat-gw-gw1-0".into(),
            container: None,
            command: ["bash", "-c", script, "term", "7"].map(str::to_owned).to_vec(),
            stdin: true,
            stdout: true,
            stderr: true,
            tty: false,
        }
    }

    #[test]
    fn a_command_leaves_a_line_at_its_start_and_one_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = ExecLog::open(folder.path(), "cluster1").expect("a log");
        let entry = log.begin(3, &request("echo @@causeway; iptables-restore"));
        entry.end(&ExecEnd::Exited(65));
        drop(log.begin(4, &request("true")));
        let text =
            std::fs::read_to_string(folder.path().join("logs/cluster1-execs.jsonl")).expect("its lines");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let facts = |line: &Value| (line["exec"].clone(), line["kind"].clone(), line["event"].clone());
        assert_eq!(facts(&lines[0]), (json!(3), json!("apply"), json!("start")));
        assert_eq!(facts(&lines[1]), (json!(3), json!("apply"), json!("end")));
        assert_eq!((&lines[1]["exit"], &lines[0]["arguments"]), (&json!(65), &json!(["term", "7"])));
        assert_eq!(facts(&lines[2]), (json!(4), json!("other"), json!("start")));
        assert_eq!(lines[3]["failed"], "its caller went away");
    }
}
