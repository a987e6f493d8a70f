//! The room `networks`: a declared network becomes one of a cloud, and stays equal to what was declared.
//!
//! ```text
//! objects ─────────────────────────▶ State ─▶ compile(state, network) = want ─┐
//! one list of all that is ours there ─▶ State ─────────────────────── have ───┴▶ plan = the next step ─▶ what it gave
//! ```
//!
//! A cloud gives out names (ids) only when something is made, so a plan is one step: it is carried out, what it gave is
//! known, and the next one is planned, until nothing is left to do. What is ours there says so by tags ([`mark`]).

pub mod cloud;
pub mod mark;
pub mod object;
mod overlap;
pub mod plan;
pub mod pools;
pub mod spec;
pub mod state;
pub mod status;
pub mod trouble;

pub use cloud::{Cloud, Clue, Held, HeldSubnet, Look, Seen};
pub use mark::Home;
pub use object::{Network, NetworkStatus};
pub use plan::{Step, Todo};
pub use spec::NetworkSpec;
pub use state::{Event, Scope, State};
pub use trouble::Trouble;
