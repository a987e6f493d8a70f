//! What Neutron's answers say, read field by field.
//!
//! What is missing or null is as good as empty where nothing depends on it. Anything else that is not understood is an
//! error that names it: a subnet that was skipped would not be in the way when its network is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_core::Cidr;
use causeway_core::networks::{Held, HeldSubnet, Trouble};
use serde_json::{Map, Value};

use super::refusal::readable;

/// What is read of a network.
pub(super) const NETWORK: &[&str] =
    &["id", "name", "description", "tags", "revision_number", "created_at", "project_id", "subnets"];
/// What is read of a subnet.
pub(super) const SUBNET: &[&str] = &[
    "id",
    "network_id",
    "name",
    "description",
    "tags",
    "revision_number",
    "project_id",
    "cidr",
    "gateway_ip",
    "allocation_pools",
];

/// The longest id that is one; a UUID has 36.
const LONGEST_ID: usize = 64;

/// Whether a text can be an id: nothing else gets into an address.
pub(super) fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(is_plain)
}

/// A network or a subnet as it was answered.
#[derive(Debug, Clone)]
pub(super) struct Row {
    what: &'static str,
    id: String,
    fields: Map<String, Value>,
}

impl Row {
    /// `what` is `network` or `subnet`.
    pub(super) fn new(what: &'static str, value: Value) -> Result<Self, Trouble> {
        let Value::Object(fields) = value else {
            return Err(Trouble::unreachable(format!("what was answered is no {what}")));
        };
        match fields.get("id").and_then(Value::as_str).filter(|id| is_id(id)) {
            Some(id) => Ok(Self { what, id: id.to_owned(), fields }),
            None => Err(Trouble::unreachable(format!("what was answered is a {what} without an id"))),
        }
    }

    /// The only one in an answer.
    pub(super) fn only(what: &'static str, mut answer: Value) -> Result<Self, Trouble> {
        Self::new(what, answer.get_mut(what).map(Value::take).unwrap_or_default())
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// None if it is missing, null or no text.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str)
    }

    pub(super) fn tags(&self) -> Result<BTreeSet<String>, Trouble> {
        texts(self.fields.get("tags")).ok_or_else(|| self.odd("tags"))
    }

    /// The ids of a network's subnets.
    pub(super) fn subnets(&self) -> Result<BTreeSet<String>, Trouble> {
        let ids = texts(self.fields.get("subnets")).filter(|ids| ids.iter().all(|id| is_id(id)));
        ids.ok_or_else(|| self.odd("subnets"))
    }

    /// A network, without its subnets.
    pub(super) fn network(&self) -> Result<Held, Trouble> {
        Ok(Held {
            id: self.id.clone(),
            name: self.text("name").map(str::to_owned),
            description: self.text("description").unwrap_or_default().to_owned(),
            tags: self.tags()?,
            revision: self.revision(),
            created: self.text("created_at").unwrap_or_default().to_owned(),
            broken: None,
            subnets: BTreeMap::new(),
        })
    }

    pub(super) fn subnet(&self) -> Result<HeldSubnet, Trouble> {
        let cidr: Option<Cidr> = self.text("cidr").and_then(|text| text.parse().ok());
        let gateway = match self.fields.get("gateway_ip") {
            None | Some(Value::Null) => None,
            Some(value) => Some(address(value).ok_or_else(|| self.odd("gateway_ip"))?),
        };
        let pools = match self.fields.get("allocation_pools") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(value) => pools(value),
        };
        Ok(HeldSubnet {
            name: self.text("name").map(str::to_owned),
            description: self.text("description").unwrap_or_default().to_owned(),
            tags: self.tags()?,
            revision: self.revision(),
            cidr: cidr.ok_or_else(|| self.odd("cidr"))?,
            gateway,
            pools: pools.ok_or_else(|| self.odd("allocation_pools"))?,
        })
    }

    fn revision(&self) -> Option<u64> {
        self.fields.get("revision_number").and_then(Value::as_u64)
    }

    fn odd(&self, field: &str) -> Trouble {
        let value = self.fields.get(field).map_or("missing".to_owned(), Value::to_string);
        let value: String = readable(&value).chars().take(80).collect();
        Trouble::unreachable(format!("{} {}: its {field} is not understood: {value}", self.what, self.id))
    }
}

/// The texts of a list; what is missing is an empty one.
fn texts(value: Option<&Value>) -> Option<BTreeSet<String>> {
    match value {
        None | Some(Value::Null) => Some(BTreeSet::new()),
        Some(Value::Array(values)) => values.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    }
}

/// All tags after they were set.
pub(super) fn tags(answer: &Value) -> Result<BTreeSet<String>, Trouble> {
    let tags = answer.get("tags").and_then(|tags| texts(Some(tags)));
    tags.ok_or_else(|| Trouble::unreachable("what was answered has no tags"))
}

fn address(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

fn pools(value: &Value) -> Option<Vec<(IpAddr, IpAddr)>> {
    let pool = |pool: &Value| Some((address(pool.get("start")?)?, address(pool.get("end")?)?));
    let mut pools: Vec<_> = value.as_array()?.iter().map(pool).collect::<Option<_>>()?;
    pools.sort_unstable();
    Some(pools)
}

#[cfg(test)]
mod tests;
