//! JSON patch and JSON merge patch, with the leniency kube-apiserver shows.

use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::Value;

use crate::status::{ApiError, Cause, Details};

/// A parsed patch body.
#[derive(Debug)]
pub(crate) enum PatchBody {
    Json(Patch),
    Merge(Value),
}

impl PatchBody {
    /// By content type; the kinds of patch not served are refused by name.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<PatchBody, ApiError> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let unreadable =
            |why: serde_json::Error| ApiError::bad_request(format!("error decoding patch: {why}"));
        match kind {
            "application/json-patch+json" => {
                serde_json::from_slice(body).map(PatchBody::Json).map_err(unreadable)
            }
            "application/merge-patch+json" => {
                let value: Value = serde_json::from_slice(body).map_err(unreadable)?;
                if !value.is_object() {
                    return Err(ApiError::bad_request(
                        "error decoding patch: a merge patch must be an object",
                    ));
                }
                Ok(PatchBody::Merge(value))
            }
            // As a real server words it, which knows only patches here.
            "application/json" | "" => Err(ApiError::unsupported_media_type("415: Unsupported Media Type")),
            _ => Err(ApiError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json",
            )),
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(&self, object: &Value) -> Result<Value, ApiError> {
        let mut patched = object.clone();
        match self {
            PatchBody::Merge(patch) => json_patch::merge(&mut patched, patch),
            PatchBody::Json(patch) => {
                for operation in patch.iter() {
                    apply_one(&mut patched, operation)?;
                }
            }
        }
        Ok(patched)
    }
}

/// A `test` for null succeeds where there is nothing: clients use it to say "only if absent". And a
/// `replace` of a member that is not there adds it.
fn apply_one(object: &mut Value, operation: &PatchOperation) -> Result<(), ApiError> {
    match operation {
        PatchOperation::Test(test) => {
            let found = object.pointer(&test.path.to_string()).unwrap_or(&Value::Null);
            if *found == test.value {
                Ok(())
            } else {
                Err(refused(format!("testing path {} failed", test.path)))
            }
        }
        PatchOperation::Replace(replace) if object.pointer(&replace.path.to_string()).is_none() => {
            let add = AddOperation { path: replace.path.clone(), value: replace.value.clone() };
            json_patch::patch(object, &[PatchOperation::Add(add)]).map_err(|why| refused(why.to_string()))
        }
        other => {
            json_patch::patch(object, std::slice::from_ref(other)).map_err(|why| refused(why.to_string()))
        }
    }
}

fn refused(message: String) -> ApiError {
    let cause = Cause { reason: String::new(), message: message.clone(), field: String::new() };
    let mut error = ApiError::new(
        422,
        "Invalid",
        format!("the server rejected our request due to an error in our request: {message}"),
    );
    error.details = Some(Box::new(Details { causes: vec![cause], ..Details::default() }));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn json_patch(patch: Value, object: Value) -> Result<Value, ApiError> {
        PatchBody::parse("application/json-patch+json", patch.to_string().as_bytes())?.apply(&object)
    }

    #[test]
    fn testing_an_absent_field_for_null_succeeds() {
        let patch = json!([
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": ["a"] },
        ]);
        let patched = json_patch(patch.clone(), json!({ "metadata": {} })).unwrap();
        assert_eq!(patched["metadata"]["finalizers"], json!(["a"]));
        assert_eq!(json_patch(patch, patched).unwrap_err().code, 422);
    }

    #[test]
    fn merging_null_removes() {
        let patch =
            PatchBody::parse("application/merge-patch+json; charset=utf-8", br#"{"a":null,"b":{"c":1}}"#);
        assert_eq!(patch.unwrap().apply(&json!({ "a": 1 })).unwrap(), json!({ "b": { "c": 1 } }));
    }

    #[test]
    fn other_patches_are_refused_by_name() {
        for kind in ["application/strategic-merge-patch+json", "application/apply-patch+yaml", ""] {
            assert_eq!(PatchBody::parse(kind, b"{}").unwrap_err().code, 415);
        }
    }
}
