//! What the controller's commands say in passing: the term on their input, a refusal in their output.

/// A line that is about a term is shorter than this.
const LINE: usize = 64;
/// The script and the first line of what follows it.
const HEAD: usize = 64 * 1024;

/// The input of an apply: a line with the length of its script, the script, and then the term.
#[derive(Debug, Default)]
pub(super) struct Input(Vec<u8>);

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.0.len()).min(bytes.len());
        self.0.extend_from_slice(&bytes[..room]);
    }

    /// The term, where it has been read.
    pub(super) fn term(&self) -> Option<u64> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = (std::str::from_utf8(&self.0[..end]).ok()?, &self.0[end + 1..]);
        let (script, _) = line.split_once(' ')?;
        let input = rest.get(script.parse().ok()?..)?;
        let word = input.split(|byte| *byte == b' ').next()?;
        std::str::from_utf8(word).ok()?.parse().ok()
    }
}

/// The output of a command, of which only two lines count.
#[derive(Debug, Default)]
pub(super) struct Output {
    line: Vec<u8>,
    /// The newer term because of which the command did nothing.
    pub(super) superseded: Option<u64>,
}

impl Output {
    /// Whether the command has now said all.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let mut done = false;
        for byte in bytes {
            if *byte != b'\n' {
                if self.line.len() < LINE {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            match words[..] {
                [b"@@causeway", b"superseded", by] => {
                    self.superseded = std::str::from_utf8(by).ok().and_then(|by| by.parse().ok());
                }
                [b"@@causeway", b"done", _] => done = true,
                _ => {}
            }
        }
        done
    }
}
