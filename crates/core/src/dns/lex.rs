//! A Corefile as CoreDNS reads it: tokens, and the blocks that they form.
//!
//! Tokens end at whitespace; a quote at the beginning of one lasts to the next that is not escaped; `#` begins a comment
//! wherever it stands outside of quotes. A brace counts only if it is a token of its own.

use std::ops::Range;

/// A word of a Corefile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// As it stands there, quotes included.
    pub(super) text: &'a str,
    /// Where.
    pub(super) range: Range<usize>,
    /// Whether it is the first of its line.
    pub(super) is_first: bool,
}

/// A server block, or a snippet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// What stands before its brace: zones and ports.
    pub(super) keys: Vec<&'a str>,
    /// What stands between its braces.
    pub(super) body: Vec<&'a str>,
    /// From its first key to its closing brace.
    pub(super) range: Range<usize>,
}

/// The tokens from some place on.
pub(super) fn tokens(text: &str, from: usize) -> impl Iterator<Item = Token<'_>> {
    let mut at = from;
    let mut is_first = true;
    std::iter::from_fn(move || {
        loop {
            let rest = &text[at..];
            let next = rest.chars().next()?;
            match next {
                '\n' => is_first = true,
                '#' => {
                    at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                _ if next.is_whitespace() => {}
                _ => break,
            }
            at += next.len_utf8();
        }
        let start = at;
        at += length(&text[start..]);
        let first = std::mem::replace(&mut is_first, false);
        Some(Token { text: &text[start..at], range: start..at, is_first: first })
    })
}

/// How long the token is that a text begins with.
fn length(text: &str) -> usize {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut is_escaped = false;
        for (at, c) in quoted.char_indices() {
            match c {
                '"' if !is_escaped => return at + 2,
                '\\' => is_escaped = !is_escaped,
                _ => is_escaped = false,
            }
        }
        return text.len();
    }
    text.find(|c: char| c.is_whitespace() || c == '#').unwrap_or(text.len())
}

/// All blocks, if everything is in one: where a file has a single server its braces may be left out, and then there is no
/// place for another one.
pub(super) fn blocks(text: &str) -> Result<Vec<Block<'_>>, String> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Some(first) = tokens(text, at).next() {
        if first.text == "import" {
            // It is a line of its own, and brings what nobody here can see.
            at = first.range.end + text[first.range.end..].find('\n').unwrap_or(text.len() - first.range.end);
            continue;
        }
        let block = block(text, at)?;
        at = block.range.end;
        blocks.push(block);
    }
    Ok(blocks)
}

/// The block that begins with the next token.
pub(super) fn block(text: &str, from: usize) -> Result<Block<'_>, String> {
    let mut tokens = tokens(text, from);
    let mut keys = Vec::new();
    let mut start = None;
    loop {
        let Some(token) = tokens.next() else {
            return Err(format!("`{}` has no braces", few(&keys.join(" "))));
        };
        if token.text == "{" && start.is_some() {
            break;
        }
        if matches!(token.text, "{" | "}") {
            return Err(format!("a brace without a server before it, at byte {}", token.range.start));
        }
        let is_continued = keys.last().is_none_or(|key: &&str| key.ends_with(','));
        if token.is_first && !is_continued {
            return Err(format!("`{}` has no braces", few(&keys.join(" "))));
        }
        start.get_or_insert(token.range.start);
        keys.push(token.text);
    }
    let start = start.unwrap_or(from);
    let mut body = Vec::new();
    let mut depth = 1_usize;
    for token in tokens {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let keys = keys.iter().map(|key| key.trim_end_matches(',')).filter(|key| !key.is_empty());
            return Ok(Block { keys: keys.collect(), body, range: start..token.range.end });
        }
        body.push(token.text);
    }
    Err(format!("the braces of `{}` are not closed", few(&keys.join(" "))))
}

/// Others' words as far as anybody wants to read them.
fn few(text: &str) -> &str {
    const ENOUGH: usize = 64;
    &text[..text.floor_char_boundary(ENOUGH)]
}
