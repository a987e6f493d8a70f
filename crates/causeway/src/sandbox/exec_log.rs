//! Every command that ran in a pod, in `<dir>/logs/<cluster>-execs.jsonl`: a line of JSON at its start, one when it
//! has said all (`answer`, of the controller's commands) and one at its end. The gateways' own word on what was done
//! there, when, by whom and in which term.

mod overheard;

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_apiserver::{ExecEnd, ExecIo, ExecRequest};
use serde_json::{Value, json};
use tokio_util::io::{InspectReader, InspectWriter};

use super::pod_status;
use overheard::{Input, Output};

/// Written to by every exec of one cluster.
#[derive(Debug)]
pub(super) struct ExecLog {
    file: Arc<Mutex<File>>,
    path: PathBuf,
    /// Where this sandbox's lines begin; those before it are of others that had the folder.
    start: u64,
}

impl ExecLog {
    /// The log of a cluster in the sandbox's folder.
    pub(super) fn open(folder: &Path, cluster: &str) -> std::io::Result<ExecLog> {
        let logs = folder.join("logs");
        std::fs::create_dir_all(&logs)?;
        let path = logs.join(format!("{cluster}-execs.jsonl"));
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let start = file.metadata()?.len();
        Ok(ExecLog { file: Arc::new(Mutex::new(file)), path, start })
    }

    /// The lines about one pod.
    pub(super) fn of_pod(&self, namespace: &str, pod: &str) -> String {
        let text = self.read().unwrap_or_default();
        let is_its = |line: &&str| {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            line["namespace"] == namespace && line["pod"] == pod
        };
        text.split_inclusive('\n').filter(is_its).collect()
    }

    fn read(&self) -> std::io::Result<String> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.start))?;
        std::io::read_to_string(file)
    }

    /// A command begins. What comes back belongs to its end.
    pub(super) fn begin(&self, number: u64, request: &ExecRequest) -> Entry {
        let facts = json!({
            "exec": number, "pod": request.pod, "namespace": request.namespace, "user": request.user,
            "kind": kind(&request.command),
        });
        let lines = Lines { file: self.file.clone(), facts };
        lines.write(json!({"event": "start"}));
        Entry { lines, input: Arc::default(), ended: false }
    }
}

/// Writes the lines of one command.
#[derive(Clone)]
struct Lines {
    file: Arc<Mutex<File>>,
    facts: Value,
}

impl Lines {
    fn write(&self, more: Value) {
        let mut line = json!({});
        for part in [&self.facts, &more] {
            if let (Value::Object(line), Value::Object(part)) = (&mut line, part) {
                line.extend(part.clone());
            }
        }
        let mut file = lock(&self.file);
        // The time is taken in the order of the lines, and one write per line keeps them apart.
        line["at"] = pod_status::now().into();
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

/// A command that runs.
pub(super) struct Entry {
    lines: Lines,
    input: Arc<Mutex<Input>>,
    ended: bool,
}

impl Entry {
    /// Streams by which the log learns the command's term and whether it was refused.
    pub(super) fn overhear(&self, io: ExecIo) -> ExecIo {
        if !["observe", "apply"].iter().any(|kind| self.lines.facts["kind"] == *kind) {
            return io;
        }
        let ExecIo { stdin, stdout, stderr, resize } = io;
        let (input, heard) = (self.input.clone(), self.input.clone());
        let (mut output, lines) = (Output::default(), self.lines.clone());
        let stdin = InspectReader::new(stdin, move |bytes: &[u8]| {
            lock(&input).push(bytes);
        });
        let stdout = InspectWriter::new(stdout, move |bytes: &[u8]| {
            if output.push(bytes) {
                let term = lock(&heard).term();
                lines.write(json!({"event": "answer", "term": term, "superseded": output.superseded}));
            }
        });
        ExecIo { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, resize }
    }

    /// It has ended like this.
    pub(super) fn end(mut self, end: &ExecEnd) {
        self.ended = true;
        match end {
            ExecEnd::Exited(code) => self.write_end("exit", json!(code)),
            ExecEnd::Failed(message) => self.write_end("failed", json!(message)),
        }
    }

    fn write_end(&self, how: &str, what: Value) {
        self.lines.write(json!({"event": "end", "term": lock(&self.input).term(), how: what}));
    }
}

impl Drop for Entry {
    /// Its caller went away, and it was ended for that.
    fn drop(&mut self) {
        if !self.ended {
            self.write_end("failed", json!("its caller went away"));
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a command is for, by the name that the controller gives it.
fn kind(argv: &[String]) -> &'static str {
    match argv.last().map(String::as_str) {
        Some("causeway-monitor") => "monitor",
        Some("causeway-apply") => "apply",
        Some("causeway-observe") => "observe",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::mpsc;

    use super::*;

    fn request(name: &str) -> ExecRequest {
        ExecRequest {
            user: "replica-a".into(),
            namespace: "kube-system".into(),
            pod: "vpc-nat-gw-gw1-0".into(),
            container: None,
            command: ["bash", "-c", "eval", name].map(str::to_owned).to_vec(),
            stdin: true,
            stdout: true,
            stderr: true,
            tty: false,
        }
    }

    const APPLY: &str = "causeway-apply";

    fn lines(folder: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(folder.join("logs/cluster1-execs.jsonl")).expect("its lines");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_command_leaves_a_line_at_its_start_and_one_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = ExecLog::open(folder.path(), "cluster1").expect("a log");
        log.begin(3, &request(APPLY)).end(&ExecEnd::Exited(65));
        drop(log.begin(4, &request("true")));
        let lines = lines(folder.path());
        let facts = |line: &Value| (line["exec"].clone(), line["kind"].clone(), line["event"].clone());
        assert_eq!(facts(&lines[0]), (json!(3), json!("apply"), json!("start")));
        assert_eq!(facts(&lines[1]), (json!(3), json!("apply"), json!("end")));
        assert_eq!((&lines[1]["exit"], &lines[0]["user"]), (&json!(65), &json!("replica-a")));
        assert_eq!(facts(&lines[2]), (json!(4), json!("other"), json!("start")));
        assert_eq!(lines[3]["failed"], "its caller went away");
        assert_eq!(log.of_pod("kube-system", "vpc-nat-gw-gw1-0").lines().count(), 4);
        assert_eq!(log.of_pod("kube-system", "vpc-nat-gw-gw2-0"), "");
        let next = ExecLog::open(folder.path(), "cluster1").expect("a log");
        assert_eq!(next.of_pod("kube-system", "vpc-nat-gw-gw1-0"), "", "that was another sandbox");
    }

    #[tokio::test]
    async fn the_answer_says_in_which_term_the_command_came_and_that_it_was_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = ExecLog::open(folder.path(), "cluster1").expect("a log");
        let entry = log.begin(1, &request(APPLY));
        let io = ExecIo {
            stdin: Box::new(&b"6 19\nscript7 0 0 0 0 0 0\nabcd"[..]),
            stdout: Box::new(tokio::io::sink()),
            stderr: Box::new(tokio::io::sink()),
            resize: mpsc::channel(1).1,
        };
        let mut io = entry.overhear(io);
        let mut input = String::new();
        io.stdin.read_to_string(&mut input).await.expect("all of it");
        io.stdout.write_all(b"@@causeway superseded 9\n@@causeway done 0\n").await.expect("taken");
        entry.end(&ExecEnd::Exited(0));
        let answer = &lines(folder.path())[1];
        let said = (&answer["event"], &answer["term"], &answer["superseded"]);
        assert_eq!(said, (&json!("answer"), &json!(7), &json!(9)));
    }
}
