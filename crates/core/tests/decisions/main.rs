//! What is decided, as cases.

mod addresses;
mod ends;
mod pods;
mod records;
mod tunnels;
mod world;
