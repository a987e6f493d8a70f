//! CEL expressions are read and evaluated by recursion that takes tens of kilobytes of stack per
//! level: thirty parentheses are too many for an ordinary thread, and to run out of stack ends the
//! process. They are therefore worked on by a thread made for the occasion, and the length of an
//! expression is bounded so that its stack is always large enough. A panic of the evaluator ends
//! that work alone.
//!
//! A thread costs several times what a usual rule does, and rules are asked with every write: what
//! is known to be shallow is evaluated in place.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::common::ast::{EntryExpr, Expr};
use kube_cel::cel::{IdedExpr, Program};

/// The longest expression that is read.
pub(super) const MAX_LENGTH: usize = 4096;

/// How many levels of an expression an ordinary stack is certainly enough for.
const SHALLOW: usize = 12;

const GAVE_UP: &str = "the evaluator gave up on it";

/// Only what is used of it is ever taken from the system.
const STACK: usize = 256 * 1024 * 1024;

/// Does work that recurses deeply.
///
/// # Errors
/// A sentence, when the work could not be done.
pub(super) fn on_a_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cel".to_owned()).stack_size(STACK);
        let running = thread.spawn_scoped(scope, work).map_err(|why| format!("no thread for it: {why}"))?;
        running.join().map_err(|_| GAVE_UP.to_owned())
    })
}

/// Does work that is known to be shallow.
///
/// # Errors
/// A sentence, when the work could not be done.
pub(super) fn in_place<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // What it may leave broken is the evaluator's own, which keeps nothing from one rule to the next.
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| GAVE_UP.to_owned())
}

/// Whether an expression can be evaluated in place. Must be asked on a deep stack.
pub(super) fn is_shallow(source: &str) -> bool {
    Program::compile(source).is_ok_and(|program| levels(program.expression()) <= SHALLOW)
}

fn levels(expression: &IdedExpr) -> usize {
    let deepest = |parts: &mut dyn Iterator<Item = &IdedExpr>| parts.map(levels).max().unwrap_or(0);
    1 + match &expression.expr {
        Expr::Call(call) => deepest(&mut call.target.as_deref().into_iter().chain(&call.args)),
        Expr::Select(select) => levels(&select.operand),
        Expr::Comprehension(each) => {
            let parts = [&each.iter_range, &each.accu_init, &each.loop_cond, &each.loop_step, &each.result];
            deepest(&mut parts.into_iter())
        }
        Expr::List(list) => deepest(&mut list.elements.iter()),
        Expr::Map(map) => deepest(&mut map.entries.iter().flat_map(|entry| in_entry(&entry.expr))),
        Expr::Struct(made) => deepest(&mut made.entries.iter().flat_map(|entry| in_entry(&entry.expr))),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => 0,
    }
}

fn in_entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_the_work_alone() {
        assert_eq!(on_a_deep_stack(|| 1), Ok(1));
        assert!(on_a_deep_stack(|| -> u8 { panic!("as a test") }).is_err());
        assert!(in_place(|| -> u8 { panic!("as a test") }).is_err());
    }

    #[test]
    fn usual_rules_are_shallow() {
        for rule in [
            "self.min <= self.max",
            "!has(self.a) || self.a.b.size() > 3 && self.a.c.startsWith('x')",
            "self.list.all(i, i.x != '' && self.list.exists_one(j, j.x == i.x))",
        ] {
            assert!(is_shallow(rule), "{rule}");
        }
        assert!(!is_shallow(&format!("self{} == 1", ".a".repeat(20))));
    }
}
