//! The frame around tools' output: `begin`, output, `end` with the exit status.
//!
//! Nothing a tool prints starts a line with [`FRAME`], so a section's end is never mistaken. The last line
//! is the script's own end ([`end_of`]): without it nothing is believed.

use std::collections::BTreeMap;

use crate::done::end_of;
use crate::{RunError, Trouble};

/// How every framing line starts.
pub(crate) const FRAME: &str = "@@causeway ";

/// One tool's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) status: i32,
    pub(crate) text: String,
}

/// All sections of a script's output by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sections {
    by_name: BTreeMap<String, Section>,
    /// In place of a listing: it is the one that the reader has.
    pub(crate) same: bool,
}

/// The status of a script that gave up because another one was at work.
const BUSY: i32 = 75;

impl Sections {
    /// Splits a script's stdout. A tool that the script missed, a newer leader and a status other than 0 are
    /// errors.
    pub(crate) fn parse(stdout: &[u8]) -> Result<Self, Trouble> {
        let status = end_of(stdout)
            .ok_or_else(|| Trouble::Run(RunError::Lost("the end of the output is missing".into())))?;
        let stdout = String::from_utf8_lossy(stdout);
        let mut sections = Self::default();
        let mut open: Option<(String, String)> = None;
        for line in stdout.lines() {
            let words: Option<Vec<&str>> = line.strip_prefix(FRAME).map(|words| words.split(' ').collect());
            match (words.as_deref(), &mut open) {
                (Some(["missing", tool]), None) => return Err(Trouble::ToolMissing((*tool).into())),
                (Some(["superseded", term]), None) => {
                    let by = term.parse().map_err(|_| unframed(line))?;
                    return Err(Trouble::Superseded { by });
                }
                (Some(["begin", name]), None) => open = Some(((*name).into(), String::new())),
                (Some(["end", status]), Some(_)) => {
                    let status = status.parse().map_err(|_| unframed(line))?;
                    if let Some((name, text)) = open.take() {
                        sections.by_name.insert(name, Section { status, text });
                    }
                }
                (Some(["same"]), None) => sections.same = true,
                (Some(["done", _]), None) => {}
                (Some(_), _) => return Err(unframed(line)),
                (None, Some((_, text))) => {
                    text.push_str(line);
                    text.push('\n');
                }
                (None, None) => {}
            }
        }
        match sections.by_name.remove("error") {
            _ if status == BUSY => Err(Trouble::Busy),
            Some(error) if status != 0 => Err(failed(status, &error.text)),
            _ if status != 0 => Err(failed(status, "no reason given")),
            _ => Ok(sections),
        }
    }

    /// A section that need not be there.
    pub(crate) fn find(&self, name: &str) -> Option<&Section> {
        self.by_name.get(name)
    }

    /// The text of a section whose tool must have worked.
    pub(crate) fn text(&self, name: &'static str) -> Result<&str, Trouble> {
        let section = self.find(name).ok_or_else(|| unframed(&format!("`{name}` is not there")))?;
        if section.status != 0 {
            return Err(failed(section.status, &section.text));
        }
        Ok(&section.text)
    }
}

/// A tool's failure in its own words, which are marked where other output stands beside them.
pub(crate) fn failed(status: i32, said: &str) -> Trouble {
    let complaints: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("! ")).collect();
    let said = if complaints.is_empty() { said.trim().to_owned() } else { complaints.join("; ") };
    Trouble::Failed { status, said: cut(said) }
}

/// What a tool says ends up in a condition, once for each tunnel.
pub(crate) fn cut(mut text: String) -> String {
    const LONGEST: usize = 1024;
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

fn unframed(why: &str) -> Trouble {
    Trouble::Unreadable { what: "state", why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_keeps_its_text_and_status() {
        let text = b"@@causeway begin a\nx\n\n@@causeway end 3\n@@causeway done 0\n";
        let sections = Sections::parse(text).expect("framed");
        let expected = Section { status: 3, text: "x\n\n".into() };
        assert_eq!(sections.find("a"), Some(&expected));
        assert!(!sections.same);
        assert_eq!(
            failed(3, "x\n! cannot do\n! that\n"),
            Trouble::Failed { status: 3, said: "cannot do; that".into() }
        );
    }

    #[test]
    fn output_without_its_end_is_lost_and_not_half_believed() {
        let whole = b"@@causeway begin a\nx\n\n@@causeway end 0\n@@causeway done 0\n";
        assert!(Sections::parse(whole).is_ok());
        for length in 0..whole.len() {
            let cut = Sections::parse(&whole[..length]);
            assert!(matches!(cut, Err(Trouble::Run(RunError::Lost(_)))), "after {length}: {cut:?}");
        }
    }

    #[test]
    fn a_frame_that_makes_no_sense_is_unreadable() {
        for odd in
            ["@@causeway begin a\nx\n", "@@causeway begin a\n@@causeway begin b\n", "@@causeway end 0\n"]
        {
            let odd = format!("{odd}@@causeway done 0\n");
            assert!(matches!(Sections::parse(odd.as_bytes()), Err(Trouble::Unreadable { .. })), "{odd}");
        }
    }

    #[test]
    fn why_a_script_did_not_do_its_work_is_said_inside_its_output() {
        let missing = Sections::parse(b"@@causeway missing iptables\n@@causeway done 69\n");
        assert_eq!(missing, Err(Trouble::ToolMissing("iptables".into())));
        let superseded = Sections::parse(b"@@causeway superseded 7\n@@causeway done 0\n");
        assert_eq!(superseded, Err(Trouble::Superseded { by: 7 }));
        let busy = b"@@causeway begin error\nbusy\n@@causeway end 0\n@@causeway done 75\n";
        assert_eq!(Sections::parse(busy), Err(Trouble::Busy));
        let text = "x".repeat(5000);
        let long = format!("@@causeway begin error\n{text}\n@@causeway end 0\n@@causeway done 1\n");
        let Err(Trouble::Failed { said, .. }) = Sections::parse(long.as_bytes()) else {
            panic!("no failure")
        };
        assert!(said.len() < 1100, "a condition has room for so much: {}", said.len());
    }
}
