//! What can be understood of objects that an older or foreign definition lets be anything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A status, field by field and condition by condition: what does not fit is left out, the rest is kept.
pub(crate) fn status<S: DeserializeOwned + Default>(status: &Value) -> S {
    if let Ok(status) = S::deserialize(status) {
        return status;
    }
    let mut fields = status.as_object().cloned().unwrap_or_default();
    if let Some(Value::Array(conditions)) = fields.get_mut("conditions") {
        conditions.retain(|condition| Condition::deserialize(condition).is_ok());
    }
    let fits = |(name, value): &(String, Value)| {
        S::deserialize(&Value::from_iter([(name.clone(), value.clone())])).is_ok()
    };
    let fitting: Map<String, Value> = fields.into_iter().filter(|field| fits(field)).collect();
    S::deserialize(&Value::Object(fitting)).unwrap_or_default()
}
