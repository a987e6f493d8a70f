//! The kinds every cluster has, and what a server does to them on its own: `types` drops unknown
//! fields and refuses wrongly typed ones, `defaults` fills in what is absent, `check` refuses what
//! the kind does not allow.

mod check;
mod defaults;
mod types;

pub(crate) use check::check;
pub(crate) use defaults::{default, drop_nulls, initial_status};
pub(crate) use types::{conform, conform_to};

use crate::resource::{Nature, Registry, Resource, ScalePaths, Traits};

/// Namespaces that exist from the start.
pub(crate) const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

const GENERATION: u8 = 1;
const UNCONDITIONAL: u8 = 2;
const CREATE_ON_UPDATE: u8 = 4;
const RETURNS_DELETED: u8 = 8;
const STATUS: u8 = 16;
const CLUSTER_WIDE: u8 = 32;
const SCALE: u8 = 64;

/// group, version, kind, plural, short names, flags, nature.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], u8, Nature);

fn rows() -> Vec<Row> {
    let plain = UNCONDITIONAL;
    let workload = GENERATION | UNCONDITIONAL | STATUS | SCALE;
    vec![
        ("", "v1", "ConfigMap", "configmaps", &["cm"], plain, Nature::Plain),
        ("", "v1", "Event", "events", &["ev"], plain | CREATE_ON_UPDATE, Nature::Event),
        ("events.k8s.io", "v1", "Event", "events", &["ev"], plain | CREATE_ON_UPDATE, Nature::Event),
        (
            "",
            "v1",
            "Namespace",
            "namespaces",
            &["ns"],
            plain | STATUS | CLUSTER_WIDE | RETURNS_DELETED,
            Nature::Namespace,
        ),
        ("", "v1", "Node", "nodes", &["no"], plain | STATUS | CLUSTER_WIDE, Nature::Node),
        ("", "v1", "Pod", "pods", &["po"], plain | STATUS | GENERATION | RETURNS_DELETED, Nature::Pod),
        ("", "v1", "Secret", "secrets", &[], plain, Nature::Secret),
        (
            "",
            "v1",
            "Service",
            "services",
            &["svc"],
            plain | STATUS | CREATE_ON_UPDATE | RETURNS_DELETED,
            Nature::Service,
        ),
        ("", "v1", "ServiceAccount", "serviceaccounts", &["sa"], plain | RETURNS_DELETED, Nature::Plain),
        ("apps", "v1", "Deployment", "deployments", &["deploy"], workload, Nature::Workload),
        ("apps", "v1", "StatefulSet", "statefulsets", &["sts"], workload, Nature::Workload),
        ("coordination.k8s.io", "v1", "Lease", "leases", &[], CREATE_ON_UPDATE, Nature::Plain),
        (
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            &["crd", "crds"],
            GENERATION | STATUS | CLUSTER_WIDE,
            Nature::Definition,
        ),
    ]
}

/// Registers all of them.
pub(crate) fn register(registry: &mut Registry) {
    for (group, version, kind, plural, short_names, flags, nature) in rows() {
        let has = |flag: u8| flags & flag != 0;
        // Both event APIs show one set of objects.
        let home = if matches!(nature, Nature::Event) { "" } else { group };
        let shown_in_all = matches!(nature, Nature::Pod | Nature::Service | Nature::Workload);
        let categories: &[&str] = match nature {
            Nature::Definition => &["api-extensions"],
            _ if shown_in_all => &["all"],
            _ => &[],
        };
        registry.insert(Resource {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: short_names.iter().map(|&s| s.to_owned()).collect(),
            categories: categories.iter().map(|&s| s.to_owned()).collect(),
            namespaced: !has(CLUSTER_WIDE),
            shelf: format!("{plural}.{home}").into(),
            stored_as: if home.is_empty() { "v1".into() } else { format!("{home}/{version}") },
            status: has(STATUS),
            scale: has(SCALE).then(|| ScalePaths {
                spec_replicas: "/spec/replicas".into(),
                status_replicas: "/status/replicas".into(),
                selector: None,
            }),
            traits: Traits {
                generation: has(GENERATION),
                unconditional_update: has(UNCONDITIONAL),
                create_on_update: has(CREATE_ON_UPDATE),
                returns_deleted: has(RETURNS_DELETED),
            },
            nature,
        });
    }
}
