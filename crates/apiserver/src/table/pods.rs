//! A pod's row: its status in one word.

use serde_json::{Value, json};

use super::builtin::{age, items, or, text};
use crate::clock::Clock;
use crate::meta;

pub(super) fn cells(pod: &Value, clock: &Clock) -> Vec<Value> {
    let statuses = items(pod, "/status/containerStatuses");
    let ready = statuses.iter().filter(|c| c["ready"] == true && c["state"].get("running").is_some()).count();
    let total = items(pod, "/spec/containers").len();
    let restarts: i64 = statuses.iter().filter_map(|c| c["restartCount"].as_i64()).sum();
    let last = statuses.iter().map(|c| text(c, "/lastState/terminated/finishedAt")).max().unwrap_or_default();
    let restarts = match last {
        stamp if restarts > 0 && !stamp.is_empty() => format!("{restarts} ({} ago)", clock.age(stamp)),
        _ => restarts.to_string(),
    };
    let address = or(text(pod, "/status/podIPs/0/ip"), text(pod, "/status/podIP"));
    vec![
        json!(meta::name(pod)),
        json!(format!("{ready}/{total}")),
        json!(word(pod)),
        json!(restarts),
        json!(age(pod, "/metadata/creationTimestamp", clock)),
        json!(or(address, "<none>")),
        json!(or(text(pod, "/spec/nodeName"), "<none>")),
        json!(or(text(pod, "/status/nominatedNodeName"), "<none>")),
        json!(gates(pod)),
    ]
}

/// The most specific of phase, reason and container states.
fn word(pod: &Value) -> String {
    let phase = text(pod, "/status/phase");
    let mut word = or(text(pod, "/status/reason"), phase).to_owned();
    match initializing(pod) {
        Some(reason) => word = reason,
        None => {
            let mut running = false;
            for container in items(pod, "/status/containerStatuses").iter().rev() {
                let waiting = text(container, "/state/waiting/reason");
                if !waiting.is_empty() {
                    word = waiting.to_owned();
                } else if let Some(end) = container["state"].get("terminated") {
                    word = ended(end);
                } else if container["ready"] == true && container["state"].get("running").is_some() {
                    running = true;
                }
            }
            if word == "Completed" && running {
                word = if is_ready(pod) { "Running".to_owned() } else { "NotReady".to_owned() };
            }
        }
    }
    if meta::is_deleting(pod) && !matches!(phase, "Succeeded" | "Failed") {
        word = "Terminating".to_owned();
    }
    word
}

fn ended(end: &Value) -> String {
    match text(end, "/reason") {
        "" => match end["signal"].as_i64().unwrap_or(0) {
            0 => format!("ExitCode:{}", end["exitCode"].as_i64().unwrap_or(0)),
            signal => format!("Signal:{signal}"),
        },
        reason => reason.to_owned(),
    }
}

/// What the first unfinished init container waits for.
fn initializing(pod: &Value) -> Option<String> {
    let total = items(pod, "/spec/initContainers").len();
    for (index, container) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
        let end = container["state"].get("terminated");
        if end.is_some_and(|end| end["exitCode"].as_i64().unwrap_or(0) == 0) {
            continue;
        }
        let waiting = text(container, "/state/waiting/reason");
        return Some(match end {
            Some(end) => format!("Init:{}", ended(end)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{total}"),
        });
    }
    None
}

fn is_ready(pod: &Value) -> bool {
    items(pod, "/status/conditions").iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = |gate: &&Value| {
        items(pod, "/status/conditions")
            .iter()
            .any(|c| c["type"] == gate["conditionType"] && c["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_most_specific_one() {
        let mut pod = json!({ "metadata": { "name": "p" }, "status": { "phase": "Running", "containerStatuses": [
            { "ready": true, "state": { "running": {} } } ] } });
        assert_eq!(word(&pod), "Running");
        pod["status"]["containerStatuses"][0] =
            json!({ "state": { "waiting": { "reason": "CrashLoopBackOff" } } });
        assert_eq!(word(&pod), "CrashLoopBackOff");
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(word(&pod), "Terminating");
        let waiting = json!({ "spec": { "initContainers": [{}, {}] },
            "status": { "phase": "Pending", "initContainerStatuses": [{ "state": { "running": {} } }] } });
        assert_eq!(word(&waiting), "Init:0/2");
    }
}
