//! Whether a CEL rule can make sense for its schema: fields that exist, functions that exist,
//! comparable operands, a boolean result. What cannot is refused with the definition, not later
//! with every object.
//!
//! Types are followed as far as they are plain. Where a type is not known nothing is claimed, so a
//! rule that a cluster accepts is never refused here.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use serde_json::{Value, json};

/// What an expression yields, where known.
#[derive(Clone, Copy)]
enum Type<'a> {
    Unknown,
    Bool,
    Number,
    Text,
    /// A list, map or object with its schema.
    Tree(&'a Value),
}

impl<'a> Type<'a> {
    fn of_schema(schema: &'a Value) -> Type<'a> {
        if schema.get("x-kubernetes-int-or-string").is_some() {
            return Type::Unknown;
        }
        match schema["type"].as_str() {
            Some("boolean") => Type::Bool,
            Some("integer" | "number") => Type::Number,
            // Some formats make timestamps or durations of texts.
            Some("string") if schema.get("format").is_none() => Type::Text,
            Some("object" | "array") => Type::Tree(schema),
            _ => Type::Unknown,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Type::Bool => Some("bool"),
            Type::Number => Some("int"),
            Type::Text => Some("string"),
            Type::Tree(schema) if schema["type"] == "array" => Some("list"),
            Type::Tree(_) => Some("object"),
            Type::Unknown => None,
        }
    }
}

/// Names in scope, innermost last.
type Scope<'a> = Vec<(&'a str, Type<'a>)>;

/// The first thing that cannot work in a rule of `schema`. `root`: the schema is of whole objects.
pub(super) fn problem(rule: &IdedExpr, schema: &Value, root: bool, optional_old: bool) -> Option<String> {
    let whole;
    let schema = if root {
        whole = with_type_fields(schema);
        &whole
    } else {
        schema
    };
    let own = Type::of_schema(schema);
    let mut walk = Walk {
        scope: vec![("self", own), ("oldSelf", if optional_old { Type::Unknown } else { own })],
        problem: None,
    };
    let result = walk.of(rule);
    match (walk.problem, result) {
        (Some(problem), _) => Some(problem),
        (None, Type::Bool | Type::Unknown) => None,
        (None, _) => Some("must evaluate to a bool".to_owned()),
    }
}

fn with_type_fields(schema: &Value) -> Value {
    let text = json!({ "type": "string" });
    let mut schema = schema.clone();
    schema["properties"]["apiVersion"] = text.clone();
    schema["properties"]["kind"] = text;
    schema["properties"]["metadata"] =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    schema
}

struct Walk<'a> {
    scope: Scope<'a>,
    problem: Option<String>,
}

impl<'a> Walk<'a> {
    fn of(&mut self, expr: &'a IdedExpr) -> Type<'a> {
        match &expr.expr {
            Expr::Ident(name) => self
                .scope
                .iter()
                .rev()
                .find(|(have, _)| have == name)
                .map_or(Type::Unknown, |(_, kind)| *kind),
            Expr::Select(select) => {
                let operand = self.of(&select.operand);
                let member = self.member(operand, &select.field);
                if select.test { Type::Bool } else { member }
            }
            Expr::Call(call) => self.of_call(call),
            Expr::Comprehension(each) => self.of_comprehension(each),
            Expr::List(list) => {
                for element in &list.elements {
                    self.of(element);
                }
                Type::Unknown
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.of(&entry.key);
                        self.of(&entry.value);
                    }
                }
                Type::Unknown
            }
            Expr::Literal(LiteralValue::Boolean(_)) => Type::Bool,
            Expr::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_)) => {
                Type::Number
            }
            Expr::Literal(LiteralValue::String(_)) => Type::Text,
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Type::Unknown,
        }
    }

    fn of_call(&mut self, call: &'a CallExpr) -> Type<'a> {
        let target = call.target.as_ref().map(|target| self.of(target));
        let mut operands: Vec<Type<'a>> = call.args.iter().map(|argument| self.of(argument)).collect();
        if let Some(target) = target {
            operands.insert(0, target);
        }
        let name = call.func_name.as_str();
        match (name, operands.as_slice()) {
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                if let (Some(left), Some(right)) = (left.name(), right.name())
                    && left != right
                {
                    self.report(format!(
                        "found no matching overload for '{name}' applied to '({left}, {right})'"
                    ));
                }
                Type::Bool
            }
            ("_&&_" | "_||_" | "!_" | "@in" | "_in_", _) => Type::Bool,
            ("_[_]", [Type::Tree(container), ..]) => {
                let each = container.get("items").or_else(|| container.get("additionalProperties"));
                each.filter(|each| each.is_object()).map_or(Type::Unknown, Type::of_schema)
            }
            ("size", _) => Type::Number,
            ("startsWith" | "endsWith" | "matches" | "isSorted", _) => Type::Bool,
            _ => {
                let last = name.rsplit('.').next().unwrap_or(name);
                let spelled = last.starts_with(|c: char| c.is_ascii_alphabetic());
                if spelled && !FUNCTIONS.contains(&last) {
                    self.report(format!("undeclared reference to '{name}' (in container '')"));
                }
                Type::Unknown
            }
        }
    }

    fn of_comprehension(&mut self, each: &'a ComprehensionExpr) -> Type<'a> {
        let range = self.of(&each.iter_range);
        let depth = self.scope.len();
        // Over a list the variable is an item, over a map a key.
        let item = match range {
            Type::Tree(schema) => schema.get("items").map_or(Type::Unknown, Type::of_schema),
            _ => Type::Unknown,
        };
        self.scope.push((&each.iter_var, item));
        self.scope.extend(each.iter_var2.as_deref().map(|name| (name, Type::Unknown)));
        self.scope.push((&each.accu_var, Type::Unknown));
        for part in [&each.accu_init, &each.loop_cond, &each.loop_step, &each.result] {
            self.of(part);
        }
        self.scope.truncate(depth);
        Type::Unknown
    }

    fn member(&mut self, operand: Type<'a>, field: &str) -> Type<'a> {
        let Type::Tree(schema) = operand else { return Type::Unknown };
        if let Some(property) = schema.get("properties").and_then(|properties| properties.get(field)) {
            return Type::of_schema(property);
        }
        if let Some(each @ Value::Object(_)) = schema.get("additionalProperties") {
            return Type::of_schema(each);
        }
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let open = flag("x-kubernetes-preserve-unknown-fields")
            || flag("x-kubernetes-embedded-resource")
            || schema.get("additionalProperties").is_some();
        // An escaped name stands for another one.
        if schema["type"] == "object" && !open && !field.contains("__") {
            self.report(format!("undefined field '{field}'"));
        }
        Type::Unknown
    }

    fn report(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// Every function a rule may call: those of CEL itself, then Kubernetes' libraries.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "getDate", "getDayOfMonth",
    "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth",
    "getSeconds", "has", "int", "matches", "size", "startsWith", "string", "timestamp", "type", "uint",
    "all", "exists", "exists_one", "existsOne", "filter", "map", "bind", "transformList", "transformMap",
    "transformMapEntry", "sortBy",
    "charAt", "format", "indexOf", "join", "lastIndexOf", "lowerAscii", "quote", "replace", "reverse", "split",
    "substring", "trim", "upperAscii",
    "distinct", "first", "flatten", "isSorted", "last", "max", "min", "range", "slice", "sort", "sum",
    "equivalent", "intersects", "find", "findAll", "extract", "extractAll",
    "getEscapedPath", "getHost", "getHostname", "getPort", "getQuery", "getScheme", "isURL", "url",
    "cidr", "containsCIDR", "containsIP", "family", "ip", "isCIDR", "isCanonical", "isGlobalUnicast", "isIP",
    "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isUnspecified", "masked", "prefixLength",
    "add", "asApproximateFloat", "asInteger", "compareTo", "isGreaterThan", "isInteger", "isLessThan",
    "isQuantity", "quantity", "sign", "sub", "isSemver", "major", "minor", "patch", "semver",
    "hasValue", "none", "of", "ofNonZeroValue", "optFlatMap", "optMap", "or", "orValue", "unwrap", "unwrapOpt",
    "value", "dns1035Label", "dns1035LabelPrefix", "dns1123Label", "dns1123LabelPrefix", "dns1123Subdomain",
    "dns1123SubdomainPrefix", "byte", "date", "datetime", "labelValue", "named", "qualifiedName", "uri", "uuid",
    "validate", "decode", "encode",
    "abs", "bitAnd", "bitNot", "bitOr", "bitShiftLeft", "bitShiftRight", "bitXor", "ceil", "floor", "greatest",
    "isFinite", "isInf", "isNaN", "least", "round", "sqrt", "trunc", "jsonpatch", "escapeKey",
];

#[cfg(test)]
mod tests {
    use super::*;
    use kube_cel::cel::Program;

    fn found(rule: &str) -> Option<String> {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "integer" },
            "s": { "type": "string" },
            "list": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "string" } } } },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
            "when": { "type": "string", "format": "date-time" },
            "port": { "x-kubernetes-int-or-string": true },
        }});
        problem(Program::compile(rule).unwrap().expression(), &schema, false, false)
    }

    #[test]
    fn rules_that_can_work_are_left_alone() {
        for rule in [
            "self.a > 1 && has(self.list) && self.map.any == 'x'",
            "self.list.all(i, i.x != '') && self.list[0].x == 'y'",
            "size(self.list) > 0 || self.s.size() > 3 ? true : self.s.startsWith('a')",
            "self.when > timestamp('2026-01-01T00:00:00Z') && self.port == 1 && self.a in [1, 2]",
            "isCIDR(self.s) && cidr(self.s).containsIP('10.0.0.1') && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
            "self.a == oldSelf.a && self.list.exists_one(i, i.x == self.s) && self.s.lowerAscii() == self.s",
            "self.list.map(i, i.x).join(',') != '' && sets.contains([1], [1]) && !format.dns1123Label().validate(self.s).hasValue()",
            "optional.of(self.a).hasValue() && optional.of(self.s).orValue('') != 'x'",
        ] {
            assert_eq!(found(rule), None, "{rule}");
        }
    }

    #[test]
    fn rules_that_cannot_work_are_explained() {
        assert_eq!(found("self.nobody > 1").unwrap(), "undefined field 'nobody'");
        assert_eq!(found("self.list.exists(i, i.z == 'a')").unwrap(), "undefined field 'z'");
        assert!(found("self.a == 'one'").unwrap().contains("(int, string)"));
        assert!(found("nobody(self.a)").unwrap().contains("undeclared reference to 'nobody'"));
        assert_eq!(found("self.a").unwrap(), "must evaluate to a bool");
    }
}
