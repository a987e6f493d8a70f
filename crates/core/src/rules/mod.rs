//! The room `rules`: which rules each data plane should run, and how far they got.
//!
//! ```text
//! objects ─▶ State ─▶ touched (kind, namespace, app) ─▶ compile(state, target) = one complete set ─▶ its subscribers
//! ```
//!
//! A rule becomes its message once, when it is seen ([`convert`]); a set is the messages of its rules, in the order of
//! their names, and a version that rises whenever the set changes ([`state`]). What data planes answer is counted by
//! [`subscription`], and becomes the rules' status in [`status`].

pub mod convert;
mod kept;
mod kind;
pub mod object;
pub mod replica;
mod router;
pub mod rule;
pub mod state;
pub mod status;
pub mod subscription;
pub mod wire;
pub mod words;

pub use kind::{Kind, UnknownKind};
pub use object::{Failure, RuleObject, RuleStatus, Share};
pub use rule::{Refusal, Rule};
