//! JSON patch, JSON merge patch and, for kinds whose fields are known, strategic merge patch, with the
//! leniency kube-apiserver shows, and with its limits: a small patch must not make a huge object.

use json_patch::jsonptr::Pointer;
use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::{Map, Value};

use crate::status::{ApiError, Cause, Details};

/// How many operations a JSON patch may have.
const MAX_OPERATIONS: usize = 10_000;
/// How many bytes of JSON the copies of a patch may add up to.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// How deep a patched object may be nested: what is deeper, common parsers do not read.
const MAX_DEPTH: usize = 120;

const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A parsed patch body.
#[derive(Debug)]
pub(crate) enum PatchBody {
    Json(Patch),
    Merge(Value),
    Strategic {
        patch: Map<String, Value>,
        /// What the object consists of.
        message: &'static str,
    },
}

impl PatchBody {
    /// By content type; the kinds of patch not served are refused by name. `message` says what the object
    /// consists of, if that is known.
    pub(crate) fn parse(
        content_type: &str,
        body: &[u8],
        message: Option<&'static str>,
    ) -> Result<PatchBody, ApiError> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let read = || -> Result<Value, ApiError> {
            serde_json::from_slice(body).map_err(|why| undecodable(&why.to_string()))
        };
        match kind {
            "application/json-patch+json" => operations(read()?).map(PatchBody::Json),
            "application/merge-patch+json" => match read()? {
                patch @ Value::Object(_) => Ok(PatchBody::Merge(patch)),
                _ => Err(undecodable("a merge patch must be an object")),
            },
            STRATEGIC if message.is_some() => match (read()?, message) {
                (Value::Object(patch), Some(message)) => Ok(PatchBody::Strategic { patch, message }),
                _ => Err(undecodable("a strategic merge patch must be an object")),
            },
            // As a real server words it, which knows only patches here.
            "application/json" | "" => Err(ApiError::unsupported_media_type("415: Unsupported Media Type")),
            other => {
                // The one that clients may well expect is named, not only left out of the list.
                let what = if other == APPLY {
                    "server-side apply is not supported by this server"
                } else {
                    "the body of the request was in an unknown format"
                };
                let strategic = if message.is_some() { format!(", {STRATEGIC}") } else { String::new() };
                Err(ApiError::unsupported_media_type(format!(
                    "{what} - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json{strategic}"
                )))
            }
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(&self, object: &Value) -> Result<Value, ApiError> {
        let mut patched = object.clone();
        match self {
            PatchBody::Merge(patch) => json_patch::merge(&mut patched, patch),
            PatchBody::Strategic { patch, message } => {
                patched = crate::strategic::apply(message, object, patch)?;
            }
            PatchBody::Json(patch) => {
                let mut copied = 0;
                for operation in patch.iter() {
                    check_growth(&patched, operation, &mut copied)?;
                    apply_one(&mut patched, operation)?;
                }
            }
        }
        Ok(patched)
    }
}

fn undecodable(why: &str) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

/// The operations of a JSON patch. What is no list of objects cannot be read; an operation that
/// makes no sense is refused as one that fails.
fn operations(patch: Value) -> Result<Patch, ApiError> {
    let Value::Array(mut list) = patch else {
        return Err(undecodable("a JSON patch must be a list of operations"));
    };
    if list.len() > MAX_OPERATIONS {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            list.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    for operation in &mut list {
        let Value::Object(operation) = operation else {
            return Err(undecodable("an operation must be an object"));
        };
        // No value is null.
        operation.entry("value").or_insert(Value::Null);
    }
    serde_json::from_value(Value::Array(list)).map_err(|why| refused(why.to_string()))
}

/// Refuses an operation that would copy too much or nest too deeply. Moving a tree below another,
/// again and again, could otherwise nest without end.
fn check_growth(object: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), ApiError> {
    let (path, tree) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Move(from) => (&from.path, from.from.resolve(object).ok()),
        PatchOperation::Copy(from) => {
            let tree = from.from.resolve(object).ok();
            *copied += tree.map_or(0, |tree| tree.to_string().len());
            if *copied > MAX_COPIED {
                return Err(refused(format!("copies add up to more than {MAX_COPIED} bytes")));
            }
            (&from.path, tree)
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    if path.count() + tree.map_or(0, depth) > MAX_DEPTH {
        return Err(refused(format!("an object may be nested {MAX_DEPTH} levels deep and no deeper")));
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// A `test` for null succeeds where there is nothing: clients use it to say "only if absent". And a
/// `replace` of a member that is not there adds it.
fn apply_one(object: &mut Value, operation: &PatchOperation) -> Result<(), ApiError> {
    let failed = |why: json_patch::PatchError| refused(why.to_string());
    match operation {
        PatchOperation::Test(test) => {
            let found = find(object, &test.path).unwrap_or(&Value::Null);
            if *found == test.value {
                Ok(())
            } else {
                Err(refused(format!("testing path {} failed", test.path)))
            }
        }
        PatchOperation::Add(AddOperation { path, .. }) if path.is_root() => {
            Err(refused("nothing can be added to the root".to_owned()))
        }
        PatchOperation::Remove(remove) if remove.path.is_root() => {
            Err(refused("the root cannot be removed".to_owned()))
        }
        PatchOperation::Replace(replace) if find(object, &replace.path).is_none() => {
            let add = AddOperation { path: replace.path.clone(), value: replace.value.clone() };
            json_patch::patch(object, &[PatchOperation::Add(add)]).map_err(failed)
        }
        other => json_patch::patch(object, std::slice::from_ref(other)).map_err(failed),
    }
}

fn find<'a>(object: &'a Value, path: &Pointer) -> Option<&'a Value> {
    path.resolve(object).ok()
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
    use proptest::prelude::*;
    use serde_json::json;

    fn json_patch(patch: Value, object: Value) -> Result<Value, ApiError> {
        PatchBody::parse("application/json-patch+json", patch.to_string().as_bytes(), None)?.apply(&object)
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
    fn a_patch_cannot_nest_or_copy_without_end() {
        let mut nesting = vec![json!({ "op": "add", "path": "/x", "value": {} })];
        for _ in 0..200 {
            nesting.push(json!({ "op": "add", "path": "/w", "value": { "c": null } }));
            nesting.push(json!({ "op": "move", "from": "/x", "path": "/w/c" }));
            nesting.push(json!({ "op": "move", "from": "/w", "path": "/x" }));
        }
        assert_eq!(json_patch(Value::Array(nesting), json!({})).unwrap_err().code, 422);
        let copying: Vec<Value> =
            (0..40).map(|n| json!({ "op": "copy", "from": "/a", "path": format!("/a/{n}") })).collect();
        let object = json!({ "a": { "text": "x".repeat(100) } });
        assert_eq!(json_patch(Value::Array(copying), object).unwrap_err().code, 422);
        let many = vec![json!({ "op": "test", "path": "", "value": {} }); MAX_OPERATIONS + 1];
        assert_eq!(json_patch(Value::Array(many), json!({})).unwrap_err().code, 413);
    }

    #[test]
    fn what_is_no_list_of_operations_is_unreadable_and_a_senseless_operation_is_invalid() {
        for (patch, code) in [
            (json!({}), 400),
            (json!([1]), 400),
            (json!([{ "op": "zed", "path": "/a" }]), 422),
            (json!([{ "op": "add", "value": 1 }]), 422),
            (json!([{ "op": "add", "path": "a", "value": 1 }]), 422),
            (json!([{ "op": "add", "path": "", "value": {} }]), 422),
            (json!([{ "op": "remove", "path": "" }]), 422),
        ] {
            assert_eq!(json_patch(patch.clone(), json!({})).unwrap_err().code, code, "{patch}");
        }
        let absent = json_patch(json!([{ "op": "add", "path": "/a" }]), json!({}));
        assert_eq!(absent.unwrap(), json!({ "a": null }));
    }

    #[test]
    fn merging_null_removes() {
        let patch = PatchBody::parse(
            "application/merge-patch+json; charset=utf-8",
            br#"{"a":null,"b":{"c":1}}"#,
            None,
        );
        assert_eq!(patch.unwrap().apply(&json!({ "a": 1 })).unwrap(), json!({ "b": { "c": 1 } }));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-c/~0-]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c~0-1/]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn operation() -> impl Strategy<Value = Value> {
        let kind = prop_oneof!["add", "remove", "replace", "move", "copy", "test"];
        let path = || "(/[a-c~01-]{0,2}){0,4}|[a-c~/]{0,3}";
        (kind, path(), path(), value()).prop_map(
            |(op, path, from, value)| json!({ "op": op, "path": path, "from": from, "value": value }),
        )
    }

    proptest! {
        #[test]
        fn any_patch_of_any_object_is_applied_or_refused(
            object in value(), merge in value(), operations in prop::collection::vec(operation(), 0..8),
        ) {
            let _ = json_patch(Value::Array(operations), object.clone());
            let merge = PatchBody::parse("application/merge-patch+json", merge.to_string().as_bytes(), None);
            if let Ok(merge) = merge {
                let once = merge.apply(&object).unwrap();
                prop_assert_eq!(merge.apply(&once).unwrap(), once);
            }
        }

        #[test]
        fn any_bytes_are_a_patch_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            for kind in ["application/json-patch+json", "application/merge-patch+json", STRATEGIC] {
                let _ = PatchBody::parse(kind, &bytes, Some("core.Pod"));
            }
        }
    }

    #[test]
    fn other_patches_are_refused_by_name() {
        for (kind, message) in
            [(STRATEGIC, None), ("application/apply-patch+yaml", Some("core.Pod")), ("", Some("core.Pod"))]
        {
            assert_eq!(PatchBody::parse(kind, b"{}", message).unwrap_err().code, 415);
        }
        assert!(PatchBody::parse(STRATEGIC, b"{}", Some("core.Pod")).is_ok());
        assert_eq!(PatchBody::parse(STRATEGIC, b"[]", Some("core.Pod")).unwrap_err().code, 400);
    }
}
