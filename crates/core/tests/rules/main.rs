//! The room `rules` from the outside: its bytes, its sets and versions under random histories, what it says of a rule,
//! and what an event costs.

mod cost;
mod golden;
mod history;
mod mistakes;
mod protobuf;
mod router;
mod state;
mod status;
mod transport;
mod world;
