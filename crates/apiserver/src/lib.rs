//! A small generic Kubernetes API in one process, for the sandbox and tests.
//!
//! It keeps objects in memory, serves loopback only, and treats what it serves as kube-apiserver
//! does: discovery, custom resource definitions with schemas and rules, lists in parts, watches,
//! conflicts, dry runs, JSON, merge and strategic merge patches, finalizers, deletion of single objects
//! and of collections, tables for `kubectl`, `exec`, bodies as JSON, YAML and protobuf. Its breadth is
//! meant to stay as it is.
//!
//! What it does not serve it refuses with a `Status`: server-side apply, CEL rules with optional field
//! selection or functions that its evaluator lacks, other groups and subresources. It is an API and no
//! control plane: there are no rights, no admission, no managed fields, and nobody follows owners, so
//! all ways of propagating a deletion come to the same.
//!
//! Tests can make it misbehave ([`Faults`]) and have it write down who changed what ([`Config::audit`]).
//!
//! ```text
//!  HTTP request ─▶ http (path, query, form) ─▶ verbs (shape, judge, store) ─▶ store ─▶ history
//!                                                                               │         │
//!  HTTP answer ◀─ http (object, list, table) ◀─────────────────────────────────┘         │
//!  watch lines ◀─ http::watch (a cursor per watcher) ◀───────────────────────────────────┘
//! ```
//!
//! Everything between `http` and `store` is plain functions over one `Cluster`, under one
//! lock, without I/O, clock or chance of its own: one seed and one start time give one behaviour.

mod audit;
mod builtin;
mod clock;
mod cluster;
mod counters;
mod crd;
mod decode;
mod events;
mod exec;
mod faults;
mod http;
mod ids;
mod jsonpath;
mod local;
mod messages;
mod meta;
mod names;
mod patch;
mod protobuf;
mod resource;
mod schema;
mod selector;
mod server;
mod signal;
mod status;
mod store;
mod strategic;
mod table;
mod tls;
mod verbs;

use std::net::SocketAddr;

pub use counters::RequestCount;
pub use exec::{Exec, ExecEnd, ExecIo, ExecRequest};
pub use faults::{Fault, FaultError, Faults, Match, Switch};
pub use local::{AsOf, Local};
pub use server::{Config, Server};

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server is for one machine.
    #[error("{0} is not a loopback address: this server listens on loopback only")]
    NotLoopback(SocketAddr),
    /// The address is taken, or not ours.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// The audit cannot be written.
    #[error("cannot write the audit to {0}: {1}")]
    Audit(std::path::PathBuf, #[source] std::io::Error),
    /// A fault that was to be on from the start makes no sense.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot set up TLS: {0}")]
    Rustls(#[from] rustls::Error),
    /// The key cannot be used.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}
