//! What the end-to-end tests share: a sandbox of their own, people's tools, and patience.
//!
//! Every test starts the real binary as a child, with a folder of its own, and looks at it from outside:
//! through the API servers' kubeconfigs, `kubectl`, and commands in the pods. [`Sandbox`] is that child,
//! [`Cluster`] one of its clusters, [`tunnels`] the objects, [`gateway`] what a gateway holds and [`packets`]
//! what gets through. With [`real`] servers nothing differs but a flag. Nothing sleeps and hopes: [`Cluster::until`] looks until it sees, and says at its
//! deadline what it waited for, what it saw last, and what the logs say.
#![allow(dead_code, unused_imports, reason = "every test file uses a part of this")]

mod cluster;
mod controllers;
pub(crate) mod gateway;
pub(crate) mod outage;
pub(crate) mod packets;
pub(crate) mod real;
mod replicas;
mod sandbox;
pub(crate) mod tunnels;
pub(crate) mod vpcs;

pub(crate) use cluster::{Cluster, PATIENCE, Said, gateway_pod};
pub(crate) use controllers::Controller;
pub(crate) use replicas::Replica;
pub(crate) use sandbox::{Sandbox, can_run, processes_of};
