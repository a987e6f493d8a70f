//! What the kernel should do with packets of pods, whatever their way.

use crate::Cidr;

/// What the kernel should do with packets of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The network and this node's part of it, for each family.
    pub ranges: Vec<(Cidr, Cidr)>,
    /// Whether the addresses of this node's pods are hidden from whatever is outside the network.
    pub masquerade: bool,
    /// Whether packets from and to pods are let through, also where the node lets nothing through.
    pub forward: bool,
}
