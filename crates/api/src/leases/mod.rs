//! What flannel keeps on nodes and in files, so that either finds the other's: annotations of nodes, the network's
//! configuration, and what the CNI plugin reads.

mod compact;
mod config;
mod env;
mod node;

pub use config::{Config, config};
pub use env::subnet_env;
pub use node::{DEFAULT_PREFIX, NETWORK_UNAVAILABLE, NodeObject, NodeSpec, announce, node, seen};
