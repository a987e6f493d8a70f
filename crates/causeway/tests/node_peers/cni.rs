//! flannel's CNI plugin as a container runtime calls it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::agent::peers;
use super::cluster::{Cluster, Machine};
use super::net::Netns;

/// A pod that the plugin wires.
pub(crate) struct Container<'a> {
    pub(crate) id: String,
    pub(crate) version: &'static str,
    pub(crate) machine: &'a Machine,
    pub(crate) pod: &'a Netns,
    pub(crate) cluster: &'a Cluster,
}

impl Container<'_> {
    /// Where the plugins of this node keep what they have to remember.
    pub(crate) fn memory(&self) -> PathBuf {
        self.cluster.folder().join(format!("{}.cni", self.machine.name()))
    }

    /// What this node's agent has written for the plugin.
    pub(crate) fn subnet_env(&self) -> PathBuf {
        self.cluster.folder().join(format!("{}.subnet.env", self.machine.name()))
    }

    /// What flannel's manifest has, and where this node's files are.
    fn config(&self) -> String {
        json!({
            "cniVersion": self.version, "name": "cbr0", "type": "flannel",
            "subnetFile": self.subnet_env(), "dataDir": self.memory().join("flannel"),
            "ipam": { "type": "host-local", "dataDir": self.memory().join("networks") },
            "delegate": { "hairpinMode": true, "isDefaultGateway": true },
        })
        .to_string()
    }

    /// Calls the plugin in the node's namespace; gives its result, which is nothing for a deletion.
    pub(crate) fn call(&self, verb: &str) -> Value {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.machine.node.pid().to_string(), "-n"]).arg(peers().join("flannel"));
        command.env("CNI_COMMAND", verb).env("CNI_CONTAINERID", &self.id).env("CNI_IFNAME", "eth0");
        command.env("CNI_NETNS", format!("/proc/{}/ns/net", self.pod.pid())).env("CNI_PATH", peers());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("nsenter starts");
        let mut input = child.stdin.take().expect("it was piped");
        input.write_all(self.config().as_bytes()).expect("it reads its input");
        drop(input);
        let output = child.wait_with_output().expect("its output");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout);
        assert!(output.status.success(), "{verb} {}: {said}{}", self.id, text(&output.stderr));
        if said.trim().is_empty() { Value::Null } else { serde_json::from_str(&said).expect("JSON") }
    }
}
