//! The room `networks`: declared networks in a cloud.

pub mod provider;
