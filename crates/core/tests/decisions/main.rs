//! What is decided, as cases.

mod addresses;
mod pods;
mod records;
mod tunnels;
mod world;
