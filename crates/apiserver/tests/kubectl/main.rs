//! Stock `kubectl` against the cluster of `$KUBECONFIG`, or against our own server in this process: what
//! a person types, and what they read. Without `kubectl` on the PATH the tests say so and prove nothing;
//! where `CI=true`, that is an error.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test that cannot get its answer has failed; it is documented by its name"
)]

#[allow(dead_code, reason = "shared with the suite, which uses more of it")]
#[path = "../suite/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with the suite, which uses more of it")]
#[path = "../suite/ours.rs"]
mod ours;

mod custom_objects;
mod session;
mod workloads;
