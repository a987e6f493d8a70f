//! The room `dns` on a server in this process, in paused time: what people and kube-ovn do, and what stands in kube-ovn's
//! objects afterwards.

mod away;
mod life;
mod others;
mod quiet;
mod site;
#[path = "../support/mod.rs"]
mod support;
