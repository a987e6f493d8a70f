//! What this node says of itself: annotations for the others, a condition for the scheduler, a file for the CNI plugin.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use causeway_api::leases::{NETWORK_UNAVAILABLE, NodeObject, announce, subnet_env};
use kube::Api;
use kube::api::Patch;
use serde_json::{Value, json};

use super::Leases;
use crate::election::Term;
use crate::queue::Next;
use crate::write::{guarded, patching};

/// How often it is seen that the CNI plugin's file is there.
const FILE_EVERY: std::time::Duration = std::time::Duration::from_secs(5);
/// As flannel says it, since people's scripts ask for that.
const REASON: &str = "FlannelIsUp";

impl Leases {
    pub(super) async fn announce(self: &Arc<Self>, term: &Term) -> Next {
        let known = {
            let state = self.desk.state();
            if self.families().any(|family| state.held(family).is_none()) {
                // Somebody is about to look, or says what that waits for.
                return Next::Done;
            }
            state.announcement().and_then(|announcement| {
                let own = state.own().cloned().ok_or("this node is gone")?;
                Ok((announcement, own))
            })
        };
        let (announcement, own) = match known {
            Ok(known) => known,
            Err(why) => {
                self.say_waiting(&why, term);
                return Next::Done;
            }
        };
        let env = subnet_env(&announcement, self.options.given.masquerade);
        if let Err(error) = keep_file(&self.options.subnet_file, &env) {
            let file = self.options.subnet_file.display();
            self.say_waiting(&format!("{file} cannot be written: {error}"), term);
            return Next::Retry;
        }
        let annotations = announce(&self.options.prefix, &announcement, &own.announced);
        let condition = self.options.set_condition && !own.is_available;
        if !annotations.is_empty() || condition {
            let mut patch =
                json!({ "metadata": { "resourceVersion": own.version, "annotations": annotations } });
            if condition {
                patch["status"] = json!({ "conditions": [self.condition()] });
            }
            let nodes: Api<NodeObject> = Api::all(self.house.client.clone());
            let (params, patch) = (patching(), Patch::Strategic(&patch));
            let write = nodes.patch_status(&self.options.given.name, &params, &patch);
            if let Err(next) = guarded(term, "node", write).await {
                return next;
            }
            let annotations = Value::from(annotations).to_string();
            tracing::info!(annotations, condition, "announced");
        }
        self.say_ready();
        // Somebody may delete the file, and nobody tells.
        Next::After(FILE_EVERY)
    }

    fn condition(&self) -> Value {
        let now = self.house.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({ "type": NETWORK_UNAVAILABLE, "status": "False", "reason": REASON,
                "message": "causeway is running on this node", "lastTransitionTime": now, "lastHeartbeatTime": now })
    }
}

/// Has a file say just this; whoever reads it meanwhile reads all of the one or all of the other.
fn keep_file(path: &Path, text: &str) -> io::Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let new = path.with_extension("causeway-new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(new, path)
}
