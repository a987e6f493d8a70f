//! The verbs without HTTP.
