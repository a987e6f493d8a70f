//! `causeway status` as people use it: which clusters are meant, what is printed, and what is said when nothing can be.
#![cfg(feature = "sandbox")]

#[cfg(feature = "completion")]
mod completion;
mod contexts;
mod documents;
mod errors;
mod site;
mod terminal;
mod watching;
