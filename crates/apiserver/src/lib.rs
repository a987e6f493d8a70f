//! A small generic Kubernetes API in one process, for the sandbox and tests.
//!
//! It keeps objects in memory, serves loopback only, and treats what it serves as kube-apiserver
//! does: discovery, custom resource definitions with schemas and rules, watches, conflicts,
//! finalizers, tables for `kubectl`, `exec`. What it does not serve it refuses with a `Status`:
//! server-side apply, strategic merge patch, dry run, deletion of collections, lists in parts, CEL
//! rules with optional field selection or functions that its evaluator lacks.
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
mod messages;
mod meta;
mod names;
mod patch;
mod protobuf;
mod resource;
mod schema;
mod selector;
mod server;
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
