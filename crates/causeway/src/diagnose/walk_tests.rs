//! The walk, fact by fact.
