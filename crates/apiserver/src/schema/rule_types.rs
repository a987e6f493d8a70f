//! Whether a CEL rule can make sense for its schema: fields that exist, functions that exist,
//! comparable operands, a boolean result. What cannot is refused with the definition, not later
//! with every object.
//!
//! Types are followed as far as they are plain. Where a type is not known nothing is claimed, so a
//! rule that a cluster accepts is refused here only if this server could not evaluate it: better
//! with the definition than with every object.

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

/// What an expression is for, and so what it has to yield.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Rule,
    Message,
}

/// Where an expression stands.
pub(super) struct Site<'a> {
    pub(super) schema: &'a Value,
    /// The schema is of whole objects.
    pub(super) root: bool,
    /// `oldSelf` may be absent, and says so.
    pub(super) optional_old: bool,
}

/// The first thing that cannot work in an expression.
pub(super) fn problem(expression: &IdedExpr, site: &Site<'_>, purpose: Purpose) -> Option<String> {
    let Site { schema, root, optional_old } = *site;
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
    let result = walk.of(expression);
    match (walk.problem, result, purpose) {
        (Some(problem), ..) => Some(format!("compilation failed: {problem}")),
        (None, Type::Unknown, _)
        | (None, Type::Bool, Purpose::Rule)
        | (None, Type::Text, Purpose::Message) => None,
        (None, _, Purpose::Rule) => Some("must evaluate to a bool".to_owned()),
        (None, _, Purpose::Message) => Some("must evaluate to a string".to_owned()),
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
            Expr::Ident(name) => match self.scope.iter().rev().find(|(have, _)| have == name) {
                Some((_, kind)) => *kind,
                None => {
                    self.report(format!("undeclared reference to '{name}' (in container '')"));
                    Type::Unknown
                }
            },
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
        let (name, target) = match call.target.as_deref().map(|target| (target, &target.expr)) {
            // Not a value but the library that the function is of.
            Some((_, Expr::Ident(library))) if LIBRARIES.contains(&library.as_str()) => {
                (format!("{library}.{}", call.func_name), None)
            }
            Some((target, _)) => (call.func_name.clone(), Some(self.of(target))),
            None => (call.func_name.clone(), None),
        };
        // Before the arguments: what looks like an unknown name there may be a variable of a macro.
        self.check_function(&name);
        let mut operands: Vec<Type<'a>> = target.into_iter().collect();
        operands.extend(call.args.iter().map(|argument| self.of(argument)));
        match (name.as_str(), operands.as_slice()) {
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
            ("_+_", [Type::Text, Type::Text]) => Type::Text,
            ("_[_]", [Type::Tree(container), ..]) => {
                let each = container.get("items").or_else(|| container.get("additionalProperties"));
                each.filter(|each| each.is_object()).map_or(Type::Unknown, Type::of_schema)
            }
            ("size", _) => Type::Number,
            ("startsWith" | "endsWith" | "matches" | "isSorted", _) => Type::Bool,
            ("string", _) => Type::Text,
            _ => Type::Unknown,
        }
    }

    fn check_function(&mut self, name: &str) {
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || FUNCTIONS.contains(&name) {
            return;
        }
        self.report(if NOT_HERE.contains(&name) {
            format!("'{name}' is not supported by this server")
        } else {
            format!("undeclared reference to '{name}' (in container '')")
        });
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

/// What stands before the dot of a function without being a value.
const LIBRARIES: [&str; 6] = ["format", "ip", "lists", "optional", "sets", "strings"];

/// Every function that a rule may call: those of CEL itself, then Kubernetes' libraries.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "bytes", "contains", "double", "duration", "endsWith", "getDate", "getDayOfMonth", "getDayOfWeek",
    "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds", "int",
    "matches", "size", "startsWith", "string", "timestamp", "uint",
    "charAt", "format", "indexOf", "join", "lastIndexOf", "lowerAscii", "replace", "reverse", "split",
    "strings.quote", "substring", "trim", "upperAscii",
    "distinct", "first", "flatten", "isSorted", "last", "lists.range", "max", "min", "slice", "sort", "sum",
    "sets.contains", "sets.equivalent", "sets.intersects", "find", "findAll",
    "getEscapedPath", "getHost", "getHostname", "getPort", "getQuery", "getScheme", "isURL", "url",
    "cidr", "containsCIDR", "containsIP", "family", "ip", "ip.isCanonical", "isCIDR", "isGlobalUnicast", "isIP",
    "isLinkLocalMulticast", "isLinkLocalUnicast", "isLoopback", "isUnspecified", "masked", "prefixLength",
    "add", "asApproximateFloat", "asInteger", "compareTo", "isGreaterThan", "isInteger", "isLessThan",
    "isQuantity", "quantity", "sign", "sub", "isSemver", "major", "minor", "patch", "semver",
    "hasValue", "optional.none", "optional.of", "optional.ofNonZeroValue", "or", "orValue", "value",
    "format.byte", "format.date", "format.datetime", "format.dns1035Label", "format.dns1035LabelPrefix",
    "format.dns1123Label", "format.dns1123LabelPrefix", "format.dns1123Subdomain", "format.dns1123SubdomainPrefix",
    "format.labelValue", "format.named", "format.qualifiedName", "format.uri", "format.uuid", "validate",
];

/// What a cluster has and the evaluator here has not. Macros among them are so only in forms that the
/// evaluator does not expand, like those with two variables.
#[rustfmt::skip]
const NOT_HERE: &[&str] = &[
    "bool", "dyn", "type", "all", "exists", "exists_one", "existsOne", "filter", "map", "sortBy", "transformList",
    "transformMap", "transformMapEntry", "optFlatMap", "optMap", "optional.unwrap", "unwrapOpt",
];

#[cfg(test)]
mod tests {
    use super::*;
    use kube_cel::KubeCelExt;
    use kube_cel::cel::{Context, ExecutionError, Program};

    fn found(rule: &str) -> Option<String> {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "integer" },
            "s": { "type": "string" },
            "list": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "string" } } } },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
            "when": { "type": "string", "format": "date-time" },
            "port": { "x-kubernetes-int-or-string": true },
        }});
        let site = Site { schema: &schema, root: false, optional_old: false };
        problem(Program::compile(rule).unwrap().expression(), &site, Purpose::Rule)
    }

    /// Whether the evaluator has a function, found out by calling it without anything.
    fn is_evaluated(function: &str) -> bool {
        let program = Program::compile(&format!("{function}()")).unwrap();
        let context = Context::default().with_all();
        !matches!(program.execute(&context), Err(ExecutionError::UndeclaredReference(_)))
    }

    #[test]
    fn what_rules_may_call_is_what_the_evaluator_has() {
        for function in FUNCTIONS {
            assert!(is_evaluated(function), "{function}");
        }
        for function in NOT_HERE {
            assert!(!is_evaluated(function), "{function}");
        }
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
        assert_eq!(found("self.nobody > 1").unwrap(), "compilation failed: undefined field 'nobody'");
        assert!(found("self.list.exists(i, i.z == 'a')").unwrap().ends_with("undefined field 'z'"));
        assert!(found("nobody == 1").unwrap().contains("undeclared reference to 'nobody'"));
        assert!(found("math.abs(self.a) == 1").unwrap().contains("undeclared reference to"));
        assert!(found("isIPv4(self.s)").unwrap().contains("undeclared reference to"));
        assert!(found("dyn(self.a) == 1").unwrap().contains("'dyn' is not supported by this server"));
        assert!(found("self.list.all(i, v, true)").unwrap().contains("'all' is not supported"));
        assert!(found("self.a == 'one'").unwrap().contains("(int, string)"));
        assert!(found("nobody(self.a)").unwrap().contains("undeclared reference to 'nobody'"));
        assert_eq!(found("self.a").unwrap(), "must evaluate to a bool");
    }
}
