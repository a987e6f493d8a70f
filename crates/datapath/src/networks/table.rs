//! The rules that keep networks apart: an nftables table of our own, written as a whole or not at all.
//!
//! What it should be follows from the links alone; what there is is compared word by word. Its rules never change: what
//! varies is in its sets, so a packet's way is as short with a thousand networks as with two.
//!
//! A table of one's own can drop, but what another one drops stays dropped: where the host's FORWARD chain has the policy
//! `drop`, as Docker leaves it, translated packets are let through by a rule there or not at all.

mod render;

use std::collections::{BTreeMap, BTreeSet};

use causeway_core::Family;

use super::Links;
use crate::run::{Output, Run, RunError};
use crate::sections::{Section, Sections, cut};
use crate::{end_of, sections};

/// The name of our table, in the family `inet`.
pub const TABLE: &str = "causeway-networks";

const OBSERVE: &str = concat!(include_str!("../tools.sh"), include_str!("observe.sh"));
const START: &str = concat!(include_str!("../tools.sh"), include_str!("../start.sh"));
const CHANGE: &str = include_str!("../change.sh");

/// Why it is not known or not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A tool is not there.
    #[error("`{0}` is missing here; `nft` comes with the package `nftables`")]
    Missing(String),
    /// We may not.
    #[error("nftables says: {0}")]
    Forbidden(String),
    /// What became of it is not known.
    #[error("the nftables table `{TABLE}`: {0}")]
    Unknown(String),
}

/// The rules that should be there or are there, in the one way in which they are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Line by line, without what is in sets.
    pub(crate) lines: Vec<String>,
    /// What is in each set.
    pub(crate) sets: BTreeMap<String, BTreeSet<String>>,
}

impl Table {
    /// What they should be. Without a bridge of ours there is no table.
    pub fn of(links: &Links) -> Option<Self> {
        links.ours().next()?;
        Some(render::read(&render::render(links)))
    }

    /// The first thing that another one has otherwise.
    fn differs(&self, other: &Self) -> Option<String> {
        let line = self.lines.iter().find(|line| !other.lines.contains(line));
        let set = || self.sets.iter().find(|(name, elements)| other.sets.get(*name) != Some(*elements));
        line.map(|line| format!("no line `{line}`")).or_else(|| set().map(|(name, _)| format!("set {name}")))
    }
}

/// The bridges of ours whose part of the rules is not what it should be. What is there too much and concerns none of them
/// is the first one's to put right.
pub fn wrong(links: &Links, have: Option<&Table>) -> BTreeSet<String> {
    let names = || links.ours().map(|(name, _)| name.to_owned());
    let Some(want) = Table::of(links) else { return BTreeSet::new() };
    let have = match have {
        Some(have) if *have == want => return BTreeSet::new(),
        Some(have) if have.lines == want.lines => have,
        _ => return names().collect(),
    };
    let none = BTreeSet::new();
    let sets = want.sets.keys().chain(have.sets.keys()).map(String::as_str);
    let of = |table: &'_ Table, name: &str| table.sets.get(name).unwrap_or(&none).clone();
    let differing: BTreeSet<String> = sets.flat_map(|name| &of(&want, name) ^ &of(have, name)).collect();
    let concerned = links.ours().filter(|(name, bridge)| render::concerns(&differing, name, bridge));
    let concerned: BTreeSet<String> = concerned.map(|(name, _)| name.to_owned()).collect();
    if concerned.is_empty() { names().take(1).collect() } else { concerned }
}

/// The families of which packets have to be forwarded, because their addresses are translated.
pub fn translated(links: &Links) -> impl Iterator<Item = Family> {
    let has = |family| {
        let ranges =
            links.ours().filter(|(_, bridge)| bridge.group.has_nat()).flat_map(|(_, it)| it.ranges());
        ranges.into_iter().any(|range| range.family() == family)
    };
    Family::ALL.into_iter().filter(move |family| has(*family))
}

/// What is there.
pub async fn look<R: Run + ?Sized>(run: &R) -> Result<Option<Table>, Trouble> {
    let output = run.run(&["bash", "-c", OBSERVE, "causeway-networks"], b"").await.map_err(unanswered)?;
    let sections = answer(&output)?;
    match sections.find("table") {
        Some(section) if section.status == 0 => Ok(Some(render::read(&section.text))),
        Some(section) if section.text.contains("No such file or directory") => Ok(None),
        section => Err(failed(section)),
    }
}

/// Makes it what it should be; whether anything was different.
pub async fn keep<R: Run + ?Sized>(run: &R, links: &Links) -> Result<bool, Trouble> {
    let want = Table::of(links);
    if look(run).await? == want {
        return Ok(false);
    }
    // A table can only be deleted if it is there: so it is made sure that it is.
    let mut input = format!("add table inet {TABLE}\ndelete table inet {TABLE}\n");
    if want.is_some() {
        input += &render::render(links);
    }
    let stdin = format!("{} {}\n{CHANGE}{input}", CHANGE.len(), input.len());
    let argv = ["bash", "-c", START, "causeway-networks", "nft", "-f", "-"];
    let sections = answer(&run.run(&argv, stdin.as_bytes()).await.map_err(unanswered)?)?;
    match sections.find("change") {
        Some(section) if section.status == 0 => {}
        section => return Err(failed(section)),
    }
    // Success is observed.
    let have = look(run).await?;
    if have == want {
        return Ok(true);
    }
    let difference = want.zip(have).and_then(|(want, have)| want.differs(&have));
    let difference = difference.unwrap_or_else(|| "the whole table".into());
    Err(Trouble::Unknown(format!("it was written, and something else is there: {difference}")))
}

fn answer(output: &Output) -> Result<Sections, Trouble> {
    if end_of(&output.stdout).is_none() && matches!(output.status, Some(126 | 127)) {
        return Err(Trouble::Missing("bash".into()));
    }
    Sections::parse(&output.stdout).map_err(|trouble| match trouble {
        crate::Trouble::ToolMissing(tool) => Trouble::Missing(tool),
        crate::Trouble::Run(error) => unanswered(error),
        crate::Trouble::Failed { said, .. } => Trouble::Unknown(said),
        crate::Trouble::Unreadable { why, .. } => Trouble::Unknown(why),
        other @ (crate::Trouble::Busy | crate::Trouble::Superseded { .. }) => {
            Trouble::Unknown(other.to_string())
        }
    })
}

fn failed(section: Option<&Section>) -> Trouble {
    let said = section.map(|section| cut(section.text.split_whitespace().collect::<Vec<_>>().join(" ")));
    match said.filter(|said| !said.is_empty()) {
        Some(said) if said.contains("Operation not permitted") => Trouble::Forbidden(said),
        said => Trouble::Unknown(said.unwrap_or_else(|| "no reason given".into())),
    }
}

/// What runs commands speaks of gateways; here it is this machine.
fn unanswered(error: RunError) -> Trouble {
    Trouble::Unknown(match error {
        RunError::TimedOut(limit) => format!("a command did not end within {limit:?}"),
        RunError::Refused(why) | RunError::Unreachable(why) | RunError::Lost(why) => sections::cut(why),
    })
}
