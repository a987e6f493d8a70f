//! What flannel keeps on nodes and in files, so that either finds the other's: annotations of nodes, the network's
//! configuration, and what the CNI plugin reads.

mod config;
mod env;
mod node;

pub use config::{Config, config};
pub use env::{Environment, subnet_env};
pub use node::{Announcement, DEFAULT_PREFIX, NodeObject, NodeSpec, announce, node, overwritten, subnets};
