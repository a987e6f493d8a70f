//! The room `networks`: declared networks in a cloud.

pub mod neutron;
pub mod provider;
