//! Writing gateway records: our own, copies at the broker, and those brought from there.

use causeway_api::GatewayExIp;
use causeway_core::vpc::exchange::{self, RecordObject, RecordTask};
use causeway_core::{GatewayName, ObjectKey};
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use serde_json::json;

use super::Room;
use crate::queue::Next;
use crate::status::{patching, posting, settle};

impl Room {
    pub(super) async fn write_own_record(&self, gateway: &GatewayName) -> Next {
        let task = exchange::own_record(&self.state(), gateway);
        carry_out(&self.client, task, "own").await
    }

    pub(super) async fn export(&self, name: &str) -> Next {
        let task = exchange::export(&self.state(), name);
        let Some(broker) = self.broker.borrow().clone() else { return Next::Done };
        carry_out(&broker.client, task, "exported").await
    }

    pub(super) async fn import(&self, key: &ObjectKey) -> Next {
        let task = exchange::import(&self.state(), key);
        carry_out(&self.client, task, "imported").await
    }
}

async fn carry_out(client: &Client, task: RecordTask, which: &'static str) -> Next {
    let (key, written) = match task {
        RecordTask::Nothing => return Next::Done,
        RecordTask::Put(object, version) => {
            let written = put(client, &object, version).await;
            (object.key, written)
        }
        RecordTask::Delete(key, version) => {
            let api: Api<GatewayExIp> = Api::namespaced(client.clone(), &key.namespace);
            let preconditions = Preconditions { resource_version: Some(version), uid: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let written = api.delete(&key.name, &params).await.map(drop);
            (key, written)
        }
    };
    tracing::info!(record = %key, which, ok = written.is_ok(), "writing a gateway record");
    settle(written, "gateway record")
}

/// Both spellings everywhere: older operators read theirs.
async fn put(client: &Client, object: &RecordObject, version: Option<String>) -> kube::Result<()> {
    let api: Api<GatewayExIp> = Api::namespaced(client.clone(), &object.key.namespace);
    let name = &object.key.name;
    let body = json!({
        "apiVersion": "kubeovn.ustc.io/v1",
        "kind": "GatewayExIp",
        "metadata": {
            "name": name,
            "namespace": object.key.namespace,
            "labels": object.labels,
            "resourceVersion": version,
        },
        "spec": {
            "externalip": object.external_ip,
            "externalIp": object.external_ip,
            "globalnetcidr": object.globalnet,
            "globalNetCIDR": object.globalnet,
        },
    });
    if version.is_some() {
        return api.patch(name, &patching(), &Patch::Merge(&body)).await.map(drop);
    }
    let new: GatewayExIp = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
    api.create(&posting(), &new).await.map(drop)
}
