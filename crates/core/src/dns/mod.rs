//! The room `dns`: names of other clusters resolve in a VPC that asks for it.
//!
//! ```text
//! forwards, VpcDnses, kube-dns, the default subnet ─▶ State ─▶ want of a Corefile, want of a Deployment ─┐
//! ConfigMaps and Deployments as last seen ─────────────────────────────────────────────── have ──────────┴▶ one edit
//! ```
//!
//! Two texts of kube-ovn's are edited, and of each only a part that can be told to be ours: a block of a Corefile
//! ([`corefile`]), which says so by a comment, and a route of a Deployment ([`deployment`]), which a record beside it
//! remembers. Invariant: what is there without us stays byte for byte, and taking ours away leaves just that.

pub mod annotation;
pub mod command;
pub mod corefile;
pub mod deployment;
pub mod forward;
mod lex;
pub mod quarrel;
pub mod route;
pub mod state;
pub mod status;
pub mod vpc_dns;

pub use corefile::Corefile;
pub use deployment::Deployment;
pub use forward::{Forward, ForwardStatus};
pub use route::Route;
pub use state::{Event, Scope, Sight, State};
pub use vpc_dns::VpcDns;
