//! The room `leases`: every node has a part of the cluster's network, its lease, and this node's kernel knows the way to
//! each of the others.
//!
//! ```text
//! nodes ─▶ admit = leases, refusals ─▶ compile = Want ─▶ plan(want, have) = steps
//! ```
//!
//! [`lease`] says what a node announces, [`network`] what this node is and how the network is meant to be, [`admission`]
//! which leases count, [`backend`] what the kernel should hold for each of them, and [`plan`] how it gets there from what
//! it holds.

pub mod admission;
pub mod backend;
pub mod interface;
pub mod kernel;
pub mod lease;
pub mod network;
pub mod plan;
pub mod state;
pub mod traffic;

pub use admission::{Admitted, Refusal, admit};
pub use backend::{compile, link_name};
pub use kernel::{Have, Link, Owner, Route, Vxlan, Want};
pub use lease::{Backend, Lease, Mac, Node};
pub use network::{Mode, Network, Place};
pub use plan::{About, Plan, Step, clean, plan, plan_again};
pub use state::{Announcement, Given, Holding, Interface, Own, Seen};
pub use traffic::Traffic;
