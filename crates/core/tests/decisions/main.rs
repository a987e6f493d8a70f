//! What is decided, as cases.

mod pods;
mod records;
mod tunnels;
mod world;
