//! Tables for people: columns as wide as their content, and a last one, which may be long, that is wrapped to the terminal.
//!
//! In a pipe every row is one line.

use std::io::IsTerminal;
#[cfg(feature = "diagnose")]
use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

/// Between two columns.
const GAP: usize = 2;
/// With less room than this the last column stands below its row.
const ENOUGH: usize = 24;
/// How far it is then indented.
const INDENT: usize = 4;
/// What stands for nothing.
pub(crate) const NOTHING: &str = "-";

/// A table; its last column may be long.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<C: Into<String>>(header: impl IntoIterator<Item = C>) -> Self {
        let mut table = Self::default();
        table.push(header);
        table
    }

    /// Adds a row. Cells are others' words: what would move a terminal's cursor is not passed on.
    pub(crate) fn push<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells = cells.into_iter().map(|cell| harmless(&cell.into()));
        self.rows.push(cells.map(|cell| if cell.is_empty() { NOTHING.into() } else { cell }).collect());
    }

    /// Whether there is nothing below its header.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// All lines, for a terminal of so many columns or for a pipe.
    pub(crate) fn render(&self, columns: Option<usize>) -> String {
        let widths = self.widths();
        let start: usize = widths.iter().map(|width| width + GAP).sum();
        let beside = columns.map(|columns| columns.saturating_sub(start));
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let Some((last, others)) = row.split_last() else { continue };
            let mut line = String::new();
            for (cell, width) in others.iter().zip(&widths) {
                line += cell;
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + GAP));
            }
            match (beside, columns) {
                (Some(beside), _) if beside >= ENOUGH => {
                    let mut parts = wrap(last, beside).into_iter();
                    line += &parts.next().unwrap_or_default();
                    add_line(&mut text, &line);
                    parts.for_each(|part| add_line(&mut text, &(" ".repeat(start) + &part)));
                }
                (Some(_), Some(columns)) => {
                    add_line(&mut text, &line);
                    if number > 0 && last != NOTHING {
                        let parts = wrap(last, columns.saturating_sub(INDENT).max(1));
                        parts.iter().for_each(|part| add_line(&mut text, &(" ".repeat(INDENT) + part)));
                    }
                }
                _ => add_line(&mut text, &(line + last)),
            }
        }
        text
    }

    /// Of all columns but the last.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            let others = row.split_last().map_or(&[][..], |(_, others)| others);
            widths.resize(widths.len().max(others.len()), 0);
            for (width, cell) in widths.iter_mut().zip(others) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }
}

/// The size of the terminal that is written to, columns and lines; none in a pipe.
pub(crate) fn terminal() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout)).flatten();
    size.map(|(width, height)| (width.0.into(), height.0.into()))
        // One that says it has none does not know.
        .filter(|(columns, lines)| *columns > 0 && *lines > 0)
}

#[cfg(feature = "diagnose")]
/// Prints; whoever closes the pipe has read enough.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// In one line, and without what would move a terminal's cursor.
fn harmless(text: &str) -> String {
    crate::rules::text::plain(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn add_line(text: &mut String, line: &str) {
    *text += line.trim_end();
    text.push('\n');
}

/// Lines of so many columns, broken between words where that can be.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let is_first = lines.last().is_none_or(String::is_empty);
        let taken = lines.last().map_or(0, |line| line.width());
        if is_first || taken + 1 + word.width() <= columns {
            let gap = if is_first { "" } else { " " };
            lines.last_mut().into_iter().for_each(|line| *line += &format!("{gap}{word}"));
        } else {
            lines.push(word.to_owned());
        }
        while let Some(rest) = lines.last_mut().and_then(|line| cut(line, columns)) {
            lines.push(rest);
        }
    }
    lines
}

/// Cuts a line to so many columns and returns the rest, if there is any.
fn cut(line: &mut String, columns: usize) -> Option<String> {
    if line.width() <= columns {
        return None;
    }
    let ends = line.char_indices().map(|(at, _)| at).skip(1);
    let fits = ends.take_while(|end| line[..*end].width() <= columns).last();
    // A character that is wider than the terminal stands alone.
    let end = fits.or_else(|| line.char_indices().nth(1).map(|(at, _)| at))?;
    Some(line.split_off(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["NAME", "UP", "WHY"]);
        table.push(["ns1/demo", "yes", ""]);
        table.push(["ns1/lost", "no", "PeerUnknown: no record of cluster2/nobody has arrived yet"]);
        table
    }

    #[test]
    fn in_a_pipe_each_row_is_a_line() {
        let expected = "NAME      UP   WHY\n\
                        ns1/demo  yes  -\n\
                        ns1/lost  no   PeerUnknown: no record of cluster2/nobody has arrived yet\n";
        assert_eq!(table().render(None), expected);
        assert_eq!(table().render(Some(200)), expected);
    }

    #[test]
    fn a_terminal_wraps_the_last_column_and_a_narrow_one_puts_it_below() {
        let expected = "NAME      UP   WHY\n\
                        ns1/demo  yes  -\n\
                        ns1/lost  no   PeerUnknown: no record of\n               \
                                       cluster2/nobody has\n               \
                                       arrived yet\n";
        assert_eq!(table().render(Some(40)), expected);
        let expected = "NAME      UP\n\
                        ns1/demo  yes\n\
                        ns1/lost  no\n    \
                            PeerUnknown: no record of\n    \
                            cluster2/nobody has\n    \
                            arrived yet\n";
        assert_eq!(table().render(Some(30)), expected);
    }

    #[test]
    fn others_words_cannot_move_the_cursor_or_begin_a_line() {
        let mut table = Table::new(["A", "B"]);
        table.push(["x\ny\tz", "\u{1b}[2Jgone\r"]);
        assert_eq!(table.render(None), "A      B\nx y z  \\u{1b}[2Jgone\n");
    }

    proptest! {
        #[test]
        fn whatever_is_wrapped_fits_and_nothing_is_lost(text in "\\PC{0,60}|[a-z ä漢]{0,80}", columns in 1usize..90) {
            let mut table = Table::new(["N", "WHY"]);
            table.push(["n", text.as_str()]);
            let shown = table.render(Some(columns));
            let fixed = 1 + GAP;
            let widest = columns.max(fixed).max(INDENT + 2);
            prop_assert!(shown.lines().all(|line| line.width() <= widest), "{columns}: {shown}");
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            let cell = harmless(&text);
            if !cell.is_empty() && cell != NOTHING {
                prop_assert!(letters(&shown).ends_with(&letters(&cell)), "{shown}");
            }
        }
    }
}
