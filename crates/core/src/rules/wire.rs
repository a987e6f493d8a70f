//! The messages of OpenSergo's protocol, and of Envoy's those that routes need.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
mod messages {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

pub use messages::envoy;
pub use messages::io::opensergo::proto::{common, fault_tolerance, router, transport};
pub use prost_types::Any;

/// Their definitions, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
