//! The block of a Corefile that forwards names of other clusters.
//!
//! ```text
//! # causeway: …                        ours say so by this line
//! clusterset.local:53 {
//!     forward . 10.96.0.10
//! }
//! .:53 {                               what was there before, byte for byte
//! ```
//!
//! It stands in front, where nothing can swallow it. An older operator wrote the same without the comment, right before the
//! first `.:53 {`: that is taken over. Any other block of the zone is somebody else's; CoreDNS does not start with two,
//! so then there is none of ours.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use super::lex::{self, Block};

/// The names that are forwarded.
pub const ZONE: &str = "clusterset.local";
/// How the line begins that says a block is ours.
const MARK: &str = "# causeway:";
/// That line.
const MARK_LINE: &str =
    "# causeway: names of other clusters; written for VpcDnsForwards, and removed with the last of them";
/// The block that comes after what the older operator wrote.
const NEXT: &str = ".:53 {";

/// A ConfigMap that holds a Corefile, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corefile {
    /// The version last seen: what a write is guarded by.
    pub resource_version: String,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// The Corefile, if it has one.
    pub text: Option<String>,
}

/// What a Corefile should hold of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A block that forwards to this server.
    Block(Ipv4Addr),
    /// Nothing.
    Nothing,
    /// Whatever it holds: what it should be is not known at the moment.
    AsItIs,
}

/// Why a Corefile cannot hold what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The zone has a block of somebody else's, which forwards to these servers, if to any.
    Foreign(Vec<String>),
    /// What is in it cannot be told apart.
    Unreadable(String),
}

/// What should be done about a Corefile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The text that it should become, where that is another one.
    pub text: Option<String>,
    /// What is in the way.
    pub obstacle: Option<Obstacle>,
}

/// The text with a block of ours in front.
pub fn render(text: &str, server: Ipv4Addr) -> String {
    format!("{MARK_LINE}\n{ZONE}:53 {{\n    forward . {server}\n}}\n{text}")
}

/// The text without any block of ours.
pub fn strip(text: &str) -> String {
    let mut rest = text.to_owned();
    // What is cut may bring another one to light; each cut shortens the text, so this ends.
    while let Some(range) = own(&rest) {
        rest.replace_range(range, "");
    }
    rest
}

/// What follows from a Corefile and what it should hold.
pub fn plan(text: &str, want: Want) -> Plan {
    let keep = |obstacle| Plan { text: None, obstacle };
    let server = match want {
        Want::AsItIs => return keep(None),
        Want::Nothing => None,
        Want::Block(server) => Some(server),
    };
    let base = strip(text);
    let become_text = |wanted: String, obstacle| Plan { text: (wanted != text).then_some(wanted), obstacle };
    let Some(server) = server else { return become_text(base, None) };
    match lex::blocks(&base) {
        Err(why) => keep(Some(Obstacle::Unreadable(why))),
        Ok(blocks) => match blocks.iter().find(|block| is_of_zone(block)) {
            // Two of the zone, and CoreDNS refuses both.
            Some(block) => become_text(base.clone(), Some(Obstacle::Foreign(servers(block)))),
            None => become_text(render(&base, server), None),
        },
    }
}

/// Where the first block of ours is, with the line above it and the end of its last line.
fn own(text: &str) -> Option<Range<usize>> {
    marked(text).or_else(|| spliced(text))
}

fn marked(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let below = start + line.len();
        if line.trim_start().starts_with(MARK)
            && let Ok(block) = lex::block(text, below)
            && block.keys.iter().all(|key| is_zone(key))
            && text[below..block.range.start].trim().is_empty()
        {
            return Some(start..end_of_line(text, block.range.end));
        }
        start = below;
    }
    None
}

/// The end of the line that ends here, or here if something follows on it.
fn end_of_line(text: &str, at: usize) -> usize {
    match text[at..].split_once('\n') {
        Some((rest, _)) if rest.trim().is_empty() => at + rest.len() + 1,
        None if text[at..].trim().is_empty() => text.len(),
        _ => at,
    }
}

/// What the older operator wrote in place of the first `.:53 {`, up to that.
fn spliced(text: &str) -> Option<Range<usize>> {
    let next = text.find(NEXT)?;
    let start = text[..next].rfind(&format!("{ZONE}:53 {{"))?;
    let block = lex::block(text, start).ok()?;
    let is_plain = block.keys == [format!("{ZONE}:53")]
        && matches!(block.body[..], ["forward", ".", server] if server.parse::<IpAddr>().is_ok());
    let gap = text.get(block.range.end..next)?;
    let lines = text[start..block.range.end].lines().count();
    // Right before the other block, and each word where that operator puts it: a comment in it is a person's.
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let is_whole = text[line..start].trim().is_empty()
        && gap.trim().is_empty()
        && lines == 3
        && !text[start..next].contains('#');
    (is_plain && is_whole).then_some(start..next)
}

/// Whether a key of a block means the zone: `clusterset.local.`, `dns://clusterset.local:53`, in whichever case.
fn is_zone(key: &str) -> bool {
    let key = key.trim_matches('"');
    let host = key.split_once("://").map_or(key, |(_, host)| host);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    host.trim_end_matches('.').eq_ignore_ascii_case(ZONE)
}

fn is_of_zone(block: &Block<'_>) -> bool {
    block.keys.iter().any(|key| is_zone(key))
}

/// The servers that a block forwards to.
fn servers(block: &Block<'_>) -> Vec<String> {
    let mut words = block.body.iter().skip_while(|word| **word != "forward").skip(2);
    let all = std::iter::from_fn(|| words.next().filter(|word| word.parse::<IpAddr>().is_ok()));
    all.map(|word| (*word).to_owned()).collect()
}
