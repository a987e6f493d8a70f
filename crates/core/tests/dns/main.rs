//! The room `dns`: what is decided, as sentences, as texts and as histories.

mod corefiles;
mod decisions;
mod deployments;
mod histories;
mod states;
mod world;
