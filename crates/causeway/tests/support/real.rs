//! Real API servers in place of embedded ones: `CAUSEWAY_REAL` names the folder in which
//! `hack/control-plane.sh up` left their kubeconfigs. Nothing else differs for a test.
//!
//! There is one set of them, so tests take turns: a lock on the folder goes from sandbox to sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where the real servers are, if tests are to use them.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os("CAUSEWAY_REAL").map(PathBuf::from)
}

/// The same for a test that is about real servers.
pub(crate) fn needed() -> PathBuf {
    folder().expect("CAUSEWAY_REAL names no folder with real API servers; `make real` sets them up")
}

/// The flags of a sandbox, which may be one on real servers, and the right to use those while this lives.
pub(crate) struct Turn {
    pub(crate) flags: Vec<String>,
    _lock: Option<File>,
}

/// Waits for a turn on the real servers if there are any.
pub(crate) fn turn(flags: &[&str]) -> Turn {
    let mut flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let Some(folder) = folder() else { return Turn { flags, _lock: None } };
    let lock = File::create(folder.join("lock")).expect("a lock in CAUSEWAY_REAL");
    lock.lock().expect("the lock is free some day");
    let mut clusters = 2;
    if let Some(at) = flags.iter().position(|flag| flag == "--clusters") {
        clusters = flags.remove(at + 1).parse().expect("a number of clusters");
        flags.remove(at);
    }
    let names = (1..=clusters).map(|n: u8| format!("cluster{n}")).chain(["broker".to_owned()]);
    let file = |name: String| folder.join(format!("{name}.kubeconfig")).display().to_string();
    let files: Vec<String> = names.map(file).collect();
    let kubelet = folder.join("bin").join("causeway-kubelet").display().to_string();
    flags.extend(["--kubeconfig".into(), files.join(","), "--kubelet".into(), kubelet]);
    Turn { flags, _lock: Some(lock) }
}

/// What the real servers lack to be used, if anything.
pub(crate) fn missing() -> Option<String> {
    let folder = folder()?;
    let needed = ["cluster1.kubeconfig", "cluster2.kubeconfig", "broker.kubeconfig", "bin/causeway-kubelet"];
    let lacks = needed.into_iter().find(|file| !folder.join(file).exists())?;
    Some(format!("there is no {lacks} in CAUSEWAY_REAL (`make real` sets it up)"))
}

/// Where the server says by which token it knew somebody.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// A request that one of our accounts made, as the API server's audit log has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// When it arrived.
    pub(crate) at: String,
    pub(crate) account: String,
    /// Which of the account's tokens: each replica may have one of its own.
    pub(crate) credential: String,
    pub(crate) verb: String,
    pub(crate) group: String,
    /// With its subresource: `pods/exec`.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) code: u64,
}

/// All that our accounts asked of a server, once each, though a long one is logged at its start and its end.
pub(crate) fn audit(folder: &Path, cluster: &str) -> Vec<Request> {
    let text = std::fs::read_to_string(folder.join(cluster).join("audit.log")).expect("the audit log");
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let word =
            |pointer: &str| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if word("/objectRef/resource").is_empty() || !seen.insert(word("/auditID")) {
            continue;
        }
        let subresource = word("/objectRef/subresource");
        let slash = if subresource.is_empty() { "" } else { "/" };
        let credential =
            line.pointer("/user/extra").and_then(|extra| extra.get(CREDENTIAL)?.get(0)?.as_str());
        all.push(Request {
            at: word("/requestReceivedTimestamp"),
            credential: credential.unwrap_or_default().to_owned(),
            account: word("/user/username").trim_start_matches("system:serviceaccount:").to_owned(),
            verb: word("/verb"),
            group: word("/objectRef/apiGroup"),
            resource: format!("{}{slash}{subresource}", word("/objectRef/resource")),
            namespace: word("/objectRef/namespace"),
            name: word("/objectRef/name"),
            code: line.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        });
    }
    all
}

/// How often a server was asked for what, by verb, resource and subresource.
pub(crate) fn requests(folder: &Path, cluster: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in audit(folder, cluster) {
        let what = format!("{} {}", request.verb, request.resource.replace('/', " "));
        *counts.entry(what).or_default() += 1;
    }
    counts
}
