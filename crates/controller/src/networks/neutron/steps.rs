//! What is changed: one request for each step.

use std::collections::BTreeSet;

use causeway_core::Family;
use causeway_core::networks::plan::SubnetChange;
use causeway_core::networks::{NetworkSpec, Seen, Step, Trouble};
use http::Method;
use serde_json::{Map, Value, json};

use super::Neutron;
use super::api::{Call, Fault};
use super::http::encoded;
use super::wire::{self, Row};

impl Neutron {
    /// Carries out one step.
    pub(super) async fn step(&self, step: &Step) -> Result<Seen, Trouble> {
        match step {
            Step::CreateNetwork { name, description, .. } => {
                let body = json!({"network": {"name": name, "description": description}});
                let row = Row::only("network", self.write(Method::POST, "/networks", None, body).await?)?;
                Ok(Seen::Network(row.network()?))
            }
            Step::TagNetwork { id, tags } => {
                let tags = self.tag(&network(id), tags).await?;
                Ok(Seen::NetworkTags(id.clone(), tags))
            }
            Step::ChangeNetwork { id, revision, name, description } => {
                let change = fields([("name", json!(name)), ("description", json!(description))]);
                let body = json!({"network": change});
                let row =
                    Row::only("network", self.write(Method::PUT, &network(id), *revision, body).await?)?;
                Ok(Seen::Network(row.network()?))
            }
            // Neutron keeps its networks in order itself, and no look calls one broken.
            Step::Repair { id, .. } => {
                Err(Trouble::Refused(format!("network {id}: nothing is known to be broken")))
            }
            Step::CreateSubnet { network, name, description, spec } => {
                let body = json!({"subnet": new_subnet(network, name, description, *spec)});
                let row = Row::only("subnet", self.write(Method::POST, "/subnets", None, body).await?)?;
                Ok(Seen::Subnet(network.clone(), row.id().to_owned(), row.subnet()?))
            }
            Step::TagSubnet { network, id, tags } => {
                let tags = self.tag(&subnet(id), tags).await?;
                Ok(Seen::SubnetTags(network.clone(), id.clone(), tags))
            }
            Step::ChangeSubnet { network, id, revision, change } => {
                let body = json!({"subnet": changed(change)});
                let row = Row::only("subnet", self.write(Method::PUT, &subnet(id), *revision, body).await?)?;
                Ok(Seen::Subnet(network.clone(), id.clone(), row.subnet()?))
            }
            Step::DeleteSubnet { network, id, revision } => {
                self.delete(subnet(id), *revision).await?;
                Ok(Seen::SubnetGone(network.clone(), id.clone()))
            }
            Step::DeleteNetwork { id, revision } => {
                self.delete(network(id), *revision).await?;
                Ok(Seen::Gone(id.clone()))
            }
        }
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        revision: Option<u64>,
        body: Value,
    ) -> Result<Value, Fault> {
        self.api.ask(&Call { method, path: path.to_owned(), revision, body: Some(body) }).await
    }

    /// Tags have no guard: Neutron fails on one here. It fails as well when what should have them is gone.
    async fn tag(&self, path: &str, tags: &BTreeSet<String>) -> Result<BTreeSet<String>, Trouble> {
        match self.write(Method::PUT, &format!("{path}/tags"), None, json!({"tags": tags})).await {
            Ok(answer) => wire::tags(&answer),
            Err(fault) if fault.is_its_own() => {
                let look = self.api.ask(&Call::get(format!("{path}?fields=id"))).await;
                Err(look.err().filter(Fault::is_not_there).unwrap_or(fault).into())
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// What is gone already is as good.
    async fn delete(&self, path: String, revision: Option<u64>) -> Result<(), Trouble> {
        let call = Call { method: Method::DELETE, path, revision, body: None };
        match self.api.ask(&call).await {
            Ok(_) => Ok(()),
            Err(fault) if fault.is_not_there() => Ok(()),
            Err(fault) => Err(fault.into()),
        }
    }
}

fn network(id: &str) -> String {
    format!("/networks/{}", encoded(id))
}

fn subnet(id: &str) -> String {
    format!("/subnets/{}", encoded(id))
}

/// Only what should change.
fn fields<const N: usize>(all: [(&str, Value); N]) -> Map<String, Value> {
    all.into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The gateway is always said: by itself Neutron would take the range's own address for an IPv6 one.
fn new_subnet(network: &str, name: &str, description: &str, spec: NetworkSpec) -> Value {
    let version = match spec.cidr.family() {
        Family::V4 => 4,
        Family::V6 => 6,
    };
    json!({
        "network_id": network,
        "ip_version": version,
        "cidr": spec.cidr.to_string(),
        "gateway_ip": spec.gateway,
        "name": name,
        "description": description,
    })
}

fn changed(change: &SubnetChange) -> Map<String, Value> {
    let pools = change.pools.as_ref().map(|pools| {
        pools.iter().map(|(start, end)| json!({"start": start, "end": end})).collect::<Vec<_>>()
    });
    fields([
        ("name", json!(change.name)),
        ("description", json!(change.description)),
        ("gateway_ip", json!(change.gateway)),
        ("allocation_pools", json!(pools)),
    ])
}
