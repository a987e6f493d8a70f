//! What is decided, as cases.

mod addresses;
mod pods;
mod reach;
mod records;
mod tunnels;
mod world;
