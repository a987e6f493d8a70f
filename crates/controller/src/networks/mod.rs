//! The room `networks`: declared networks in a cloud.

pub mod bridge;
pub mod provider;
