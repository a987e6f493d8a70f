//! What a client may rely on from a Kubernetes API, stated against the wire and not against an
//! implementation. The same tests run against the cluster of `$KUBECONFIG` (a real kube-apiserver
//! with a controller-manager) and, without that variable, against our own server in this process.
//!
//! Module `not_supported` alone is about what our server leaves out on purpose; elsewhere a test that
//! cannot apply to one of the two says so on stderr.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test that cannot get its answer has failed; it is documented by its name"
)]

mod auth;
mod cluster;
mod concurrency;
mod crds;
mod crds_schema;
mod crud;
mod delete;
mod delete_many;
mod discovery;
mod dry_run;
mod events;
mod exec;
mod faults;
mod harness;
mod hostile;
mod namespaces;
mod not_supported;
mod openapi;
mod ours;
mod pages;
mod patch;
mod protobuf;
mod scale;
mod selectors;
mod strategic;
mod strictness;
mod tables;
mod validation;
mod watch;
mod watch_clients;
mod widget;
mod workloads;
