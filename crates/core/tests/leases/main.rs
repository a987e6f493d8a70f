//! Which nodes are reached, what the kernel should hold for that, and how it gets there.

mod admission;
mod histories;
mod interface;
mod kernel;
mod state;
mod traffic;
mod world;
