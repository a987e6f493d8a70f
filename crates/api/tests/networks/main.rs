//! The room `networks`: its definition under an API server, and its objects as values.

mod agree;
mod any_object;
mod parsing;
mod policy;
mod schema;

use causeway_api::networks::{LooseNetwork, Network, parse};
use kube::CustomResourceExt;
use serde_json::{Value, json};

/// A `Network` with a spec, as an API server would give it.
fn object(spec: Value) -> LooseNetwork {
    loose(json!({ "name": "example-network", "namespace": "default" }), spec, Value::Null)
}

fn loose(metadata: Value, spec: Value, status: Value) -> LooseNetwork {
    let object = json!({ "metadata": metadata, "spec": spec, "status": status });
    serde_json::from_value(object).expect("an object")
}

/// What the parser says of a spec.
fn parsed(spec: &Value) -> Result<causeway_core::networks::NetworkSpec, String> {
    parse::network(&object(spec.clone())).expect("a key").spec
}

/// The rules of the definition, as an API server applies them; structure and lengths are not among them.
struct Rules(kube_cel::CompiledSchema);

impl Rules {
    fn new() -> Self {
        let crd = serde_json::to_value(Network::crd()).expect("plain data");
        let compiled = kube_cel::compile_schema(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        assert!(!compiled.has_errors(), "{:?}", compiled.compilation_errors());
        Self(compiled)
    }

    /// Why a new object with a spec is refused.
    fn refusals(&self, spec: &Value) -> Vec<String> {
        let metadata = json!({ "name": "example-network", "namespace": "default" });
        let object = json!({
            "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": metadata, "spec": spec,
        });
        let found = kube_cel::Validator::new().validate_compiled(&self.0, &object, None);
        found.err().into_iter().flatten().map(|error| error.message.clone()).collect()
    }
}
