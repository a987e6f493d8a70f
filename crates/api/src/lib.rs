//! Custom resources of Causeway and the fields it reads of others, parsed into core types.
