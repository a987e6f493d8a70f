//! What is decided, as cases.

mod addresses;
mod claims;
mod contests;
mod ends;
mod pods;
mod reach;
mod records;
mod standby;
mod tunnels;
mod world;
