//! Nodes as kubelets, the controller manager and agents leave them: some twelve kilobytes of JSON each.

use causeway_core::leases::Mode;
use serde_json::{Value, json};

use crate::addresses::{mac, public, subnet};

/// What a run puts into a real API server carries it.
pub(crate) const LABEL: &str = "bench.causeway/object";
const PREFIX: &str = "flannel.alpha.coreos.com";
/// A kubelet tells of so many, unless it is configured otherwise.
const IMAGES: u64 = 50;

pub(crate) fn name(number: u32) -> String {
    format!("worker-{number:05}.zone-a.example.internal")
}

/// The node of that number. Number 0 has not said anything of itself yet: that is the agent's to do.
pub(crate) fn node(number: u32, mode: Mode) -> Value {
    let name = name(number);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels(&name), "annotations": annotations(number, mode) },
        "spec": {
            "podCIDR": subnet(number), "podCIDRs": [subnet(number)],
            "providerID": format!("cloud:///zone-a/i-{number:017x}"),
        },
        "status": status(number, &name, 0),
    })
}

fn labels(name: &str) -> Value {
    json!({
        LABEL: "node",
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/instance-type": "standard-8",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": "standard-8",
        "topology.kubernetes.io/region": "region-1", "topology.kubernetes.io/zone": "region-1a",
        "failure-domain.beta.kubernetes.io/region": "region-1",
        "failure-domain.beta.kubernetes.io/zone": "region-1a",
        "example.com/pool": "general", "example.com/owner": "platform",
    })
}

fn annotations(number: u32, mode: Mode) -> Value {
    let mut annotations = json!({
        "node.alpha.kubernetes.io/ttl": "300",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": format!(r#"{{"disk.csi.example.com":"i-{number:017x}"}}"#),
    });
    if number == 0 {
        return annotations;
    }
    let data = match mode {
        Mode::HostGw => "null".to_owned(),
        Mode::Vxlan { vni, .. } => format!(r#"{{"VNI":{vni},"VtepMAC":"{}"}}"#, mac(number)),
    };
    for (key, value) in [
        ("kube-subnet-manager", "true".to_owned()),
        ("backend-type", mode.name().to_owned()),
        ("backend-data", data),
        ("public-ip", public(number).to_string()),
    ] {
        annotations[format!("{PREFIX}/{key}")] = value.into();
    }
    annotations
}

fn status(number: u32, name: &str, beat: u32) -> Value {
    let resources = json!({
        "cpu": "8", "ephemeral-storage": "103079844Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "memory": "32873672Ki", "pods": "110",
    });
    json!({
        "addresses": [
            { "type": "InternalIP", "address": public(number).to_string() },
            { "type": "Hostname", "address": name },
        ],
        "capacity": resources, "allocatable": resources,
        "conditions": conditions(beat),
        "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
        "images": (0..IMAGES).map(|image| an_image(u64::from(number), image)).collect::<Vec<_>>(),
        "nodeInfo": {
            "architecture": "amd64", "bootID": format!("7d3a1f00-0000-4000-8000-{number:012x}"),
            "containerRuntimeVersion": "containerd://2.1.4", "kernelVersion": "6.12.41-generic",
            "kubeProxyVersion": "", "kubeletVersion": "v1.33.4", "machineID": format!("{number:032x}"),
            "operatingSystem": "linux", "osImage": "Linux 12",
            "systemUUID": format!("ec2f7c00-0000-4000-8000-{number:012x}"),
        },
    })
}

/// What a kubelet says again and again; only the time is another one.
pub(crate) fn conditions(beat: u32) -> Value {
    let now = format!("2026-11-17T{:02}:{:02}:{:02}Z", beat / 3600 % 24, beat / 60 % 60, beat % 60);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({ "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": "2026-11-16T08:00:00Z" })
    };
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        condition("NetworkUnavailable", "False", "FlannelIsUp", "Flannel is running on this node"),
    ])
}

fn an_image(node: u64, image: u64) -> Value {
    // Any digits will do: those of neighbours differ.
    let seed = (node << 16 | image).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let digest: String = (1..=4).map(|part| format!("{:016x}", seed.wrapping_mul(2 * part + 1))).collect();
    let repository = format!("registry.example.com/team-{:02}/service-{image:02}", image % 7);
    json!({
        "names": [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{image}.{}", node % 9)],
        "sizeBytes": 20_000_000 + seed % 400_000_000,
    })
}
