//! The way from a node's namespace to its API server.
//!
//! The server listens on the caller's loopback, which no namespace reaches. So this process listens on the same port of
//! each node's own loopback and copies what comes to the server: the usual kubeconfig works there unchanged.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::netns::Namespace;

/// An agent has a handful of connections, and people who look around on its node some more.
const MOST: usize = 64;
const RETRY: Duration = Duration::from_millis(100);

/// Listens on a port of the namespace's loopback.
pub(super) async fn listen(namespace: &Namespace, port: u16) -> anyhow::Result<TcpListener> {
    let open = move || {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    namespace.run(open).await?.with_context(|| format!("cannot listen on port {port} of a node"))
}

/// Copies until dropped. Who comes while there are too many waits.
pub(super) async fn run(listener: TcpListener, server: SocketAddr) -> anyhow::Result<()> {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < MOST => match accepted {
                Ok((stream, _)) => drop(open.spawn(carry(stream, server))),
                // Too many open files, most likely: that passes.
                Err(error) => {
                    tracing::warn!(%error, "a node's connection to its API server");
                    sleep(RETRY).await;
                }
            },
            Some(_) = open.join_next() => {}
        }
    }
}

/// Both ends see a connection that ends; there is nobody else to report it to.
async fn carry(mut near: TcpStream, server: SocketAddr) {
    let Ok(mut far) = TcpStream::connect(server).await else { return };
    let _ = near.set_nodelay(true).and(far.set_nodelay(true));
    let _ = copy_bidirectional(&mut near, &mut far).await;
}
