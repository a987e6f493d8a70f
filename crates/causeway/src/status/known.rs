//! What is known of a cluster: every kind's objects, or why there are none.

use std::collections::BTreeMap;
use std::fmt::Debug;

use causeway_api::dns::LooseForward;
use causeway_api::networks::LooseNetwork;
use causeway_api::rules::resource;
use causeway_api::vpc::LooseTunnel;
use causeway_controller::follow::{Convert, Seen};
use causeway_controller::found::Found;
use causeway_core::rules::Kind;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::forwards::{self, Forward};
use super::networks::{self, Network};
use super::nodes::{self, Node};
use super::rules::{self, Rule};
use super::tunnels::{self, Tunnel};
use crate::clusters::Trouble;

/// Objects of a page: of large ones little is kept.
const PAGE: u32 = 500;

/// A namespace, empty where there is none, and a name.
pub(super) type Name = (String, String);

/// The name of an object.
pub(super) fn name<K: Resource>(object: &Found<K>) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// What is known of a kind.
#[derive(Debug)]
pub(super) enum Known<T> {
    /// All objects of it.
    Objects(BTreeMap<Name, T>),
    /// Its definition is not installed.
    Missing,
    /// It may not be read.
    Forbidden,
}

impl<T> Known<T> {
    pub(super) fn objects(&self) -> impl Iterator<Item = &T> {
        let objects = match self {
            Self::Objects(objects) => Some(objects.values()),
            Self::Missing | Self::Forbidden => None,
        };
        objects.into_iter().flatten()
    }

    pub(super) fn is_installed(&self) -> bool {
        matches!(self, Self::Objects(_))
    }

    /// Takes in what a watch saw.
    pub(super) fn see(&mut self, seen: Seen<Name, T>) {
        match (seen, &mut *self) {
            (Seen::All { objects, .. }, _) => *self = Self::Objects(objects),
            (Seen::Missing, _) => *self = Self::Missing,
            (Seen::Forbidden(_), _) => *self = Self::Forbidden,
            (Seen::Put(name, object, _), Self::Objects(objects)) => drop(objects.insert(name, object)),
            (Seen::Gone(name, _), Self::Objects(objects)) => drop(objects.remove(&name)),
            (Seen::Put(..) | Seen::Gone(..), Self::Missing | Self::Forbidden) => {}
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// Only what is in this namespace; nodes are in none.
    pub(super) namespace: Option<String>,
    /// What the names of nodes' annotations begin with.
    pub(super) prefix: String,
}

/// What is known of a cluster.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) tunnels: Known<Tunnel>,
    pub(super) forwards: Known<Forward>,
    pub(super) rules: BTreeMap<Kind, Known<Rule>>,
    pub(super) networks: Known<Network>,
    pub(super) nodes: Known<Node>,
}

impl Picture {
    /// Asks for everything at once. That tunnels may not be read is an error; who may not read others is not told of them.
    pub(super) async fn read(client: &Client, scope: &Scope) -> kube::Result<Self> {
        let of_kind = async |kind: Kind| {
            let listed = list(&rules_of(client, kind, scope), &rules::convert(kind)).await;
            unless_forbidden(listed).map(|known| (kind, known))
        };
        let nodes = async {
            match scope.namespace {
                Some(_) => Ok(Known::Objects(BTreeMap::new())),
                None => unless_forbidden(list(&nodes_of(client), &nodes::convert(&scope.prefix)).await),
            }
        };
        let tunnels = async { list(&tunnels_of(client, scope), &tunnels::convert).await };
        let forwards =
            async { unless_forbidden(list(&forwards_of(client, scope), &forwards::convert).await) };
        let networks =
            async { unless_forbidden(list(&networks_of(client, scope), &networks::convert).await) };
        let rules = futures::future::try_join_all(Kind::ALL.map(of_kind));
        let (tunnels, forwards, rules, networks, nodes) =
            tokio::try_join!(tunnels, forwards, rules, networks, nodes)?;
        Ok(Self { tunnels, forwards, rules: rules.into_iter().collect(), networks, nodes })
    }

    /// Of a cluster that has not answered.
    pub(super) fn unknown() -> Self {
        let (forwards, networks) = (Known::Missing, Known::Missing);
        Self { tunnels: Known::Missing, forwards, rules: BTreeMap::new(), networks, nodes: Known::Missing }
    }

    /// Why tunnels, or anything at all, cannot be seen.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        match &self.tunnels {
            Known::Forbidden => Some(Trouble::new("tunnels may no longer be read")),
            _ if !self.is_of_ours() => Some(Trouble::new(
                "nothing of Causeway's can be seen here: the definition of VpcNatTunnel is not installed, nor any \
                 other that may be read; `causeway crds | kubectl apply -f -` installs it",
            )),
            _ => None,
        }
    }

    /// Whether there is anything of Causeway's to be seen.
    pub(super) fn is_of_ours(&self) -> bool {
        self.tunnels.is_installed()
            || self.forwards.is_installed()
            || self.rules.values().any(Known::is_installed)
            || self.networks.is_installed()
            || self.nodes.objects().next().is_some()
    }
}

pub(super) fn tunnels_of(client: &Client, scope: &Scope) -> Api<Found<LooseTunnel>> {
    scoped(client, scope)
}

pub(super) fn forwards_of(client: &Client, scope: &Scope) -> Api<Found<LooseForward>> {
    scoped(client, scope)
}

pub(super) fn networks_of(client: &Client, scope: &Scope) -> Api<Found<LooseNetwork>> {
    scoped(client, scope)
}

fn scoped<K>(client: &Client, scope: &Scope) -> Api<Found<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match &scope.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

pub(super) fn rules_of(client: &Client, kind: Kind, scope: &Scope) -> Api<Found<DynamicObject>> {
    match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource(kind)),
        None => Api::all_with(client.clone(), &resource(kind)),
    }
}

pub(super) fn nodes_of(client: &Client) -> Api<Found<v1::Node>> {
    Api::all(client.clone())
}

/// Who may not read a kind is not told of it.
fn unless_forbidden<T>(listed: kube::Result<Known<T>>) -> kube::Result<Known<T>> {
    match listed {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Known::Forbidden),
        listed => listed,
    }
}

/// All objects of a kind, page by page.
async fn list<K, T>(
    api: &Api<Found<K>>,
    convert: &impl Convert<K, Key = Name, Value = T>,
) -> kube::Result<Known<T>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut objects = BTreeMap::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Known::Missing),
            Err(error) => return Err(error),
        };
        for object in &page.items {
            if let (name, Some(value)) = convert.convert(object) {
                objects.insert(name, value);
            }
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(Known::Objects(objects));
        }
    }
}
