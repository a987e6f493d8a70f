//! Writing gateway records: our own, copies at the broker, and those brought from there.

use std::time::Duration;

use causeway_api::vpc::GatewayExIp;
use causeway_core::vpc::exchange::{self, RecordObject, RecordTask};
use causeway_core::{GatewayName, ObjectKey};
use kube::api::Patch;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::Vpc;
use crate::election::Term;
use crate::queue::Next;
use crate::write::{created, deleting, guarded, patching, posting};

const WHAT: &str = "gateway record";
/// A list is here so long after it was due, unless it fails.
const LISTED: Duration = Duration::from_secs(10);

impl Vpc {
    pub(super) async fn write_own_record(&self, gateway: &GatewayName, term: &Term) -> Next {
        let task = exchange::own_record(&self.desk.state(), gateway);
        self.write_record(term, &self.house.client, task, "own").await
    }

    pub(super) async fn export(&self, name: &str, term: &Term) -> Next {
        // The broker first: a task that was compiled for it never reaches another.
        let Some(broker) = self.broker.borrow().clone() else { return Next::Done };
        let task = exchange::export(&self.desk.state(), name);
        self.write_record(term, &broker.client, task, "exported").await
    }

    pub(super) async fn import(&self, key: &ObjectKey, term: &Term) -> Next {
        let task = exchange::import(&self.desk.state(), key);
        self.write_record(term, &self.house.client, task, "imported").await
    }

    async fn write_record(
        &self,
        term: &Term,
        client: &Client,
        task: RecordTask,
        which: &'static str,
    ) -> Next {
        if task == RecordTask::Nothing {
            return Next::Done;
        }
        let written = carry_out(term, client, task, which).await;
        written.err().unwrap_or_else(|| self.seen_again())
    }

    /// What was written is looked for when all was listed anew: a server that came back with an older state may have lost it
    /// before we saw it there, and no event would say so.
    pub(super) fn seen_again(&self) -> Next {
        Next::After(self.options.resync_interval + LISTED)
    }
}

/// Writes a record; gives what is there afterwards, as far as it is known.
pub(super) async fn carry_out(
    term: &Term,
    client: &Client,
    task: RecordTask,
    which: &'static str,
) -> Result<Option<GatewayExIp>, Next> {
    let (key, written) = match task {
        RecordTask::Nothing => return Ok(None),
        RecordTask::Update { object, version, unset, unset_annotations } => {
            let api: Api<GatewayExIp> = Api::namespaced(client.clone(), object.key.namespace());
            let mut body = body(&object, Some(&version));
            for label in unset {
                body["metadata"]["labels"][label] = Value::Null;
            }
            for annotation in unset_annotations {
                body["metadata"]["annotations"][annotation] = Value::Null;
            }
            let patch = Patch::Merge(body);
            let written = guarded(term, WHAT, api.patch(object.key.name(), &patching(), &patch)).await;
            (object.key, written)
        }
        RecordTask::Create(object) => {
            let api: Api<GatewayExIp> = Api::namespaced(client.clone(), object.key.namespace());
            let create = async {
                let new = serde_json::from_value(body(&object, None)).map_err(kube::Error::SerdeError)?;
                api.create(&posting(), &new).await
            };
            let written = created(term, WHAT, create).await;
            (object.key, written)
        }
        RecordTask::Delete(key, version) => {
            let api: Api<GatewayExIp> = Api::namespaced(client.clone(), key.namespace());
            let written = guarded(term, WHAT, api.delete(key.name(), &deleting(&version))).await;
            tracing::info!(record = %key, which, ok = written.is_ok(), "deleting a gateway record");
            return written.map(|_| None);
        }
    };
    tracing::info!(record = %key, which, ok = written.is_ok(), "writing a gateway record");
    written.map(Some)
}

/// Both spellings everywhere: older operators read theirs.
fn body(object: &RecordObject, version: Option<&str>) -> Value {
    json!({
        "apiVersion": "kubeovn.ustc.io/v1",
        "kind": "GatewayExIp",
        "metadata": {
            "name": object.key.name(),
            "namespace": object.key.namespace(),
            "labels": object.labels,
            "annotations": object.annotations,
            "resourceVersion": version,
        },
        "spec": {
            "externalip": object.external_ip,
            "externalIp": object.external_ip,
            "globalnetcidr": object.globalnet,
            "globalNetCIDR": object.globalnet,
        },
    })
}
