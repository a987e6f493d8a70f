//! The room `networks`: what is decided, as sentences and as histories.

mod decisions;
mod histories;
mod sky;
mod spec;
mod states;
mod world;
