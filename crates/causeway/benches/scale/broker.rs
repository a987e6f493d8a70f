//! A broker with the records of many clusters: an API server and nothing else.

use std::path::{Path, PathBuf};

use causeway_apiserver::{Config, Server};
use kube::Client;

use crate::apply;
use crate::cluster::put;
use crate::objects::{self, MEETING};

/// Where members meet.
pub(crate) struct Broker {
    _server: Server,
    kubeconfig: PathBuf,
}

impl Broker {
    /// Starts it with the records of so many peers; its kubeconfig is in the folder.
    pub(crate) async fn start(folder: &Path, peers: usize) -> anyhow::Result<Broker> {
        let server = Server::start(Config { name: "broker".into(), ..Config::default() }).await?;
        let kubeconfig = folder.join("broker.kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let client = Client::new(server.router(), "default");
        apply::crds(&client, causeway_api::vpc::crds()).await?;
        apply::one(&client, objects::namespace(MEETING)).await?;
        put(&client, objects::copies(peers)).await?;
        Ok(Broker { _server: server, kubeconfig })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}
