//! A running pod's `status`, as a kubelet writes it.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::running::RunningPod;

/// The time, as the API writes it. Microseconds, so that two lives of a pod always differ.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Status of a pod that runs.
pub(super) fn running(pod: &RunningPod, restarts: i32) -> Value {
    let role = pod.net.role;
    let whole = pod.started.split('.').next().unwrap_or_default();
    let since = format!("{whole}Z");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let image = match role {
        super::addresses::Role::Gateway(_) => "docker.io/kubeovn/vpc-nat-gateway:v1.12.22",
        _ => "causeway/sandbox",
    };
    json!({
        "phase": "Running",
        "hostIP": "127.0.0.1", "podIP": role.lan(), "podIPs": [{"ip": role.lan()}],
        "startTime": since,
        "conditions": conditions,
        "containerStatuses": [{
            "name": role.container(), "image": image, "imageID": "",
            "containerID": format!("sandbox://{}/{}", pod.uid, pod.started),
            "ready": true, "started": true, "restartCount": restarts,
            "state": {"running": {"startedAt": since}},
        }],
    })
}

/// Start of the life that a pod's status reports.
pub(super) fn started(pod: &Pod) -> Option<String> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let id = container.container_id.as_ref()?.strip_prefix("sandbox://")?;
    Some(id.split_once('/')?.1.to_owned())
}

/// How often a pod's status says it was restarted.
pub(super) fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.and_then(|all| all.first()).map(|first| first.restart_count).unwrap_or_default()
}
