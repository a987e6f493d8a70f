//! The write verbs, as plain functions over [`Cluster`](crate::cluster::Cluster).
//!
//! `create` and `replace` bring what was sent into stored shape (`shape`), let the kind have its
//! say, judge the result, and store it. `delete` begins or completes a deletion; whatever leaves
//! the store goes through `delete::remove`, which also completes namespaces and definitions that
//! were only waiting for it.

mod create;
mod definitions;
mod delete;
mod expiry;
mod namespaces;
mod replace;
mod scale;
mod shape;

use std::sync::Arc;

pub(crate) use create::create;
pub(crate) use delete::{DeleteOptions, Deleted, delete};
pub(crate) use replace::{Part, patch, replace};
pub(crate) use scale::{read_scale, write_scale};

use crate::decode::FieldValidation;
use crate::status::{ApiError, FieldError, Qualified};
use crate::store::Object;

/// What a write returns.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Object>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

/// How a write was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriteOptions {
    pub(crate) field_validation: FieldValidation,
}

/// Whether `dryRun` asks for one; what it cannot ask for is refused in the name of these options.
pub(crate) fn is_dry_run(values: &[String], options: &str) -> Result<bool, ApiError> {
    if values.iter().all(|value| value == "All") {
        return Ok(!values.is_empty());
    }
    let error = FieldError::not_supported("dryRun", &values.into(), &["All".to_owned()]);
    Err(ApiError::invalid(&Qualified::new("meta.k8s.io", options), "", vec![error]))
}

#[cfg(test)]
mod tests;
