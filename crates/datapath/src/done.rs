//! The end of a command's output, said by the command itself.
//!
//! The status of an exec and its output travel apart, and a client library may leave at the status while
//! output is still on its way. So a script says in its last line that all was said, and waits for the
//! reader's word before it ends.

/// How the last line of a script's output starts; its status follows.
pub const DONE: &str = "@@causeway done ";

/// What the reader answers when it has seen the end, so that the script ends too. Whoever closes the input
/// instead has the script end as well.
pub const SEEN: &[u8] = b"\n";

/// The status in a script's last line: none while more is to come. Looks at the last line only, so a reader
/// can ask after each piece that arrives.
pub fn end_of(stdout: &[u8]) -> Option<i32> {
    let text = stdout.strip_suffix(b"\n")?;
    let start = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let status = text.get(start..)?.strip_prefix(DONE.as_bytes())?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::FRAME;

    #[test]
    fn the_end_is_known_by_its_whole_last_line() {
        assert!(DONE.starts_with(FRAME));
        let whole = b"@@causeway begin a\nx\n\n@@causeway end 0\n@@causeway done 0\n";
        assert_eq!(end_of(whole), Some(0));
        for length in 0..whole.len() {
            assert_eq!(end_of(&whole[..length]), None, "cut after {length}");
        }
        assert_eq!(end_of(b"@@causeway done 65\n"), Some(65));
        for other in ["", "\n", "x @@causeway done 0\n", "@@causeway done\n", "@@causeway done 0\nmore\n"] {
            assert_eq!(end_of(other.as_bytes()), None, "{other:?}");
        }
    }
}
