//! Everything Causeway decides, as pure functions over plain values.
//!
//! A room (`vpc`, and later its siblings) has the same shape each time:
//!
//! ```text
//! event ─▶ State::apply ─▶ touched scopes ─▶ compile(state, scope) = want ─▶ plan(want, have)
//! ```
//!
//! Nothing here awaits, reads a clock or depends on Kubernetes; so every decision can be shown in a table
//! test and every promise in a property test.

pub mod addresses;
pub mod condition;
pub mod dns;
pub mod leases;
pub mod names;
pub mod networks;
pub mod room;
pub mod rules;
pub mod vpc;
pub mod words;

pub use addresses::{Cidr, Family};
pub use condition::{Condition, Conditions, Truth};
pub use names::{ClusterId, GatewayName, HostAddr, Invalid, Ipv4Cidr, LinkName, ObjectKey};
