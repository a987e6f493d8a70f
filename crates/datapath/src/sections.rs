//! The frame around tools' output: `begin`, output, `end` with the exit status.
//!
//! Nothing a tool prints starts a line with [`FRAME`], so a section's end is never mistaken. A section
//! without its end means that the script was cut off.

use std::collections::BTreeMap;

use crate::Trouble;

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
pub(crate) struct Sections(BTreeMap<String, Section>);

impl Sections {
    /// Splits a script's stdout; a tool that the script missed is an error.
    pub(crate) fn parse(stdout: &[u8]) -> Result<Self, Trouble> {
        let stdout = String::from_utf8_lossy(stdout);
        let mut sections = BTreeMap::new();
        let mut open: Option<(String, String)> = None;
        for line in stdout.lines() {
            let words: Option<Vec<&str>> = line.strip_prefix(FRAME).map(|words| words.split(' ').collect());
            match (words.as_deref(), &mut open) {
                (Some(["missing", tool]), None) => return Err(Trouble::ToolMissing((*tool).into())),
                (Some(["begin", name]), None) => open = Some(((*name).into(), String::new())),
                (Some(["end", status]), Some(_)) => {
                    let status = status.parse().map_err(|_| unframed(line))?;
                    if let Some((name, text)) = open.take() {
                        sections.insert(name, Section { status, text });
                    }
                }
                (Some(_), _) => return Err(unframed(line)),
                (None, Some((_, text))) => {
                    text.push_str(line);
                    text.push('\n');
                }
                (None, None) => {}
            }
        }
        match open {
            Some((name, _)) => Err(unframed(&format!("`{name}` has no end"))),
            None => Ok(Self(sections)),
        }
    }

    /// A section that need not be there.
    pub(crate) fn find(&self, name: &str) -> Option<&Section> {
        self.0.get(name)
    }

    /// The text of a section whose tool must have worked.
    pub(crate) fn text(&self, name: &'static str, stderr: &[u8]) -> Result<&str, Trouble> {
        let section = self.find(name).ok_or_else(|| unframed(&format!("`{name}` is not there")))?;
        if section.status != 0 {
            return Err(failed(section.status, stderr));
        }
        Ok(&section.text)
    }
}

/// A tool's failure in its own words.
pub(crate) fn failed(status: i32, stderr: &[u8]) -> Trouble {
    Trouble::Failed { status, stderr: String::from_utf8_lossy(stderr).trim().to_owned() }
}

fn unframed(why: &str) -> Trouble {
    Trouble::Unreadable { what: "state", why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_keeps_its_text_and_status() {
        let sections = Sections::parse(b"@@causeway begin a\nx\n\n@@causeway end 3\n").expect("framed");
        let expected = Section { status: 3, text: "x\n\n".into() };
        assert_eq!(sections.find("a"), Some(&expected));
    }

    #[test]
    fn output_that_was_cut_off_is_unreadable_and_not_half_believed() {
        for cut in
            ["@@causeway begin a\nx\n", "@@causeway begin a\n@@causeway begin b\n", "@@causeway end 0\n"]
        {
            assert!(matches!(Sections::parse(cut.as_bytes()), Err(Trouble::Unreadable { .. })), "{cut}");
        }
    }

    #[test]
    fn a_missing_tool_is_named() {
        let missing = Sections::parse(b"@@causeway missing iptables\n");
        assert_eq!(missing, Err(Trouble::ToolMissing("iptables".into())));
    }
}
