//! The room `vpc` of one replica, and the objects that it reads.

use std::time::Duration;

use causeway_apiserver::Server;
use causeway_controller::room::{self, House, Parts};
use causeway_controller::vpc;
use causeway_core::vpc::Given;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;

use super::{client, house};

/// With nothing given.
pub(crate) fn options() -> vpc::Options {
    vpc::Options {
        given: Given::default(),
        broker: None,
        gateway_prefix: None,
        visits: 1,
        exec_timeout: Duration::from_secs(10),
        drift_interval: Duration::from_secs(15),
        probe_interval: Duration::from_secs(5),
        resync_interval: Duration::from_secs(120),
        node_grace: Duration::from_secs(60),
    }
}

/// Starts the room; its client is called `controller`.
pub(crate) fn start(server: &Server, options: vpc::Options) -> (House, Parts) {
    let (house, mut parts) = (house(&client(server, "controller"), "controller"), Parts::new());
    room::start(&vpc::Vpc::new(options, &house), &house, &mut parts);
    (house, parts)
}

/// Installs definitions.
pub(crate) async fn define(server: &Server, crds: impl IntoIterator<Item = CustomResourceDefinition>) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client(server, "somebody"));
    for crd in crds {
        definitions.create(&PostParams::default(), &crd).await.expect("a definition");
    }
}
