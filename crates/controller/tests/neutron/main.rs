//! Networks in a real Neutron, with and without a real Keystone.

mod access;
#[path = "../../../causeway/tests/cloud/mod.rs"]
mod cloud;
mod faults;
mod looks;
mod secrets;
mod steps;

use std::collections::BTreeSet;
use std::path::Path;

use causeway_controller::networks::neutron::Neutron;
use causeway_controller::networks::neutron::config::{self, Config};
use causeway_controller::networks::provider::NetworkProvider;
use causeway_core::networks::{Clue, Held, Home, Look, NetworkSpec, Seen, Step, Trouble};
use cloud::Settings;
use tokio::sync::OnceCell;

/// The Neutron that most of these tests share, each with a cluster of its own. Everybody is an administrator there.
async fn neutron() -> &'static cloud::Neutron {
    static NEUTRON: OnceCell<cloud::Neutron> = OnceCell::const_new();
    NEUTRON.get_or_init(|| cloud::Neutron::start(Settings::default())).await
}

/// Ours, for an endpoint that asks for nothing.
fn at(endpoint: &str) -> Neutron {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = config::load(Some(endpoint), None, &|_| None, &no_files).expect("a configuration");
    Neutron::new(config).expect("a client")
}

/// The same as variables say.
fn by(variables: &[(&str, &str)]) -> Config {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let value =
        |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
    config::load(None, None, &value, &no_files).expect("a configuration")
}

fn no_files(_: &Path) -> std::io::Result<Option<String>> {
    Ok(None)
}

fn home(cluster: &str) -> Home {
    Home::new(Some(cluster), &format!("{cluster}-kube-system"))
}

fn spec(cidr: &str) -> NetworkSpec {
    NetworkSpec::parse(cidr, None).expect("a spec")
}

fn clue(uid: &str, name: &str, ids: &[&str]) -> Look {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    Look::One(Clue { uid: uid.to_owned(), name: name.to_owned(), ids })
}

fn create(home: &Home, name: &str) -> Step {
    Step::CreateNetwork { uid: "u".to_owned(), name: name.to_owned(), description: home.description() }
}

/// A network as a step makes it.
async fn made(neutron: &Neutron, home: &Home, name: &str) -> Held {
    match neutron.apply(&create(home, name)).await.expect("a network") {
        Seen::Network(held) => held,
        other => panic!("{other:?}"),
    }
}

async fn tagged(neutron: &Neutron, id: &str, tags: BTreeSet<String>) {
    let seen = neutron.apply(&Step::TagNetwork { id: id.to_owned(), tags: tags.clone() }).await;
    assert_eq!(seen, Ok(Seen::NetworkTags(id.to_owned(), tags)));
}

/// The id of a subnet that a step makes.
async fn given_subnet(neutron: &Neutron, home: &Home, network: &str, spec: NetworkSpec) -> String {
    let (network, name, description) = (network.to_owned(), "subnet".to_owned(), home.description());
    match neutron.apply(&Step::CreateSubnet { network, name, description, spec }).await.expect("a subnet") {
        Seen::Subnet(_, id, _) => id,
        other => panic!("{other:?}"),
    }
}

async fn all(neutron: &Neutron, home: &Home) -> Vec<Held> {
    neutron.look(home, &Look::All).await.expect("a look")
}

fn is_unreachable<T>(result: &Result<T, Trouble>) -> bool {
    matches!(result, Err(Trouble::Unreachable { .. }))
}
