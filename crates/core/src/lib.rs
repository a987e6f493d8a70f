//! Domain types, state, compile and plan: everything Causeway decides, as pure functions.
