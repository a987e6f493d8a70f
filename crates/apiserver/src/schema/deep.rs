//! CEL expressions are read and evaluated by recursion that takes tens of kilobytes of stack per
//! level: thirty parentheses are too many for an ordinary thread, and to run out of stack ends the
//! process. They are therefore worked on by a thread made for the occasion, and the length of an
//! expression is bounded so that its stack is always large enough. A panic of the evaluator ends
//! that thread alone.

/// The longest expression that is read.
pub(super) const MAX_LENGTH: usize = 4096;

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
        running.join().map_err(|_| "the evaluator gave up on it".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_the_work_alone() {
        assert_eq!(on_a_deep_stack(|| 1), Ok(1));
        assert!(on_a_deep_stack(|| -> u8 { panic!("as a test") }).is_err());
    }
}
