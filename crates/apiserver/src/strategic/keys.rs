//! Which lists are merged, and by what.

use crate::messages::{self, Item, Kind};

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    /// An object with these fields.
    Message(&'static str),
    /// An object with any fields, which are all of that type.
    MapOf(Option<&'static str>),
    Unknown,
}

/// What becomes of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    Replaced,
    /// Every value once.
    Merged,
    /// Elements with the same value there are the same.
    MergedBy(&'static str),
}

impl Lists {
    pub(super) fn key(self) -> Option<&'static str> {
        match self {
            Lists::MergedBy(key) => Some(key),
            Lists::Merged | Lists::Replaced => None,
        }
    }
}

/// Message, field, key; without a key the values themselves are compared. All other lists are replaced.
const LISTS: [(&str, &str, &str); 35] = [
    ("apps.DeploymentStatus", "conditions", "type"),
    ("apps.StatefulSetStatus", "conditions", "type"),
    ("apiextensions.JSONSchemaProps", "x-kubernetes-validations", "rule"),
    ("core.Container", "env", "name"),
    ("core.Container", "ports", "containerPort"),
    ("core.Container", "volumeDevices", "devicePath"),
    ("core.Container", "volumeMounts", "mountPath"),
    ("core.ContainerStatus", "allocatedResourcesStatus", "name"),
    ("core.ContainerStatus", "volumeMounts", "mountPath"),
    ("core.EphemeralContainer", "env", "name"),
    ("core.EphemeralContainer", "ports", "containerPort"),
    ("core.EphemeralContainer", "volumeDevices", "devicePath"),
    ("core.EphemeralContainer", "volumeMounts", "mountPath"),
    ("core.NamespaceStatus", "conditions", "type"),
    ("core.NodeSpec", "podCIDRs", ""),
    ("core.NodeStatus", "addresses", "type"),
    ("core.NodeStatus", "conditions", "type"),
    ("core.PersistentVolumeClaimStatus", "conditions", "type"),
    ("core.PodSpec", "containers", "name"),
    ("core.PodSpec", "ephemeralContainers", "name"),
    ("core.PodSpec", "hostAliases", "ip"),
    ("core.PodSpec", "imagePullSecrets", "name"),
    ("core.PodSpec", "initContainers", "name"),
    ("core.PodSpec", "resourceClaims", "name"),
    ("core.PodSpec", "schedulingGates", "name"),
    ("core.PodSpec", "topologySpreadConstraints", "topologyKey"),
    ("core.PodSpec", "volumes", "name"),
    ("core.PodStatus", "conditions", "type"),
    ("core.PodStatus", "hostIPs", "ip"),
    ("core.PodStatus", "podIPs", "ip"),
    ("core.ServiceAccount", "secrets", "name"),
    ("core.ServiceSpec", "ports", "port"),
    ("core.ServiceStatus", "conditions", "type"),
    ("meta.ObjectMeta", "finalizers", ""),
    ("meta.ObjectMeta", "ownerReferences", "uid"),
];

impl Type {
    /// What is known of a field, or of the elements of a field that is a list.
    pub(super) fn field(self, name: &str) -> Type {
        let of_item = |item: Item| match item {
            Item::Message(message) | Item::FlagOrMessage(message) | Item::Wrapped(message) => Some(message),
            _ => None,
        };
        match self {
            Type::Unknown => Type::Unknown,
            Type::MapOf(message) => message.map_or(Type::Unknown, Type::Message),
            Type::Message(message) => {
                match messages::find(message).and_then(|message| message.field(name)).map(|entry| entry.kind)
                {
                    Some(Kind::One(item) | Kind::List(item)) => {
                        of_item(item).map_or(Type::Unknown, Type::Message)
                    }
                    Some(Kind::Map(item)) => Type::MapOf(of_item(item)),
                    None => Type::Unknown,
                }
            }
        }
    }

    /// What becomes of a field that is a list.
    pub(super) fn lists(self, name: &str) -> Lists {
        let Type::Message(message) = self else { return Lists::Replaced };
        let known = LISTS.iter().find(|(of, field, _)| *of == message && *field == name);
        match known.map(|(_, _, key)| *key) {
            None => Lists::Replaced,
            Some("") => Lists::Merged,
            Some(key) => Lists::MergedBy(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_merged_list_is_a_list_and_its_elements_have_the_key() {
        for (message, field, key) in LISTS {
            let entry = messages::find(message).and_then(|found| found.field(field));
            let entry = entry.unwrap_or_else(|| panic!("{message} has no {field}"));
            match entry.kind {
                Kind::List(Item::Message(of)) => {
                    let of = messages::find(of).expect("the table is closed");
                    assert!(of.field(key).is_some(), "{message}.{field} has no {key}");
                }
                Kind::List(_) => assert_eq!(key, "", "{message}.{field}"),
                Kind::One(_) | Kind::Map(_) => panic!("{message}.{field} is no list"),
            }
        }
    }
}
