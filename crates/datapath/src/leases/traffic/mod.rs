//! What the kernel does with packets of pods: looked at and changed by constant commands, with values on their stdin.
//!
//! Each change is whole or not at all, and what is there afterwards is looked at before anything is said. The commands are
//! `nft`, `iptables-nft` and, where its tables are in use, `iptables-legacy`, which need to be root in the node's
//! network namespace; the last also needs the host's `/run/xtables.lock`.

mod parse;

use causeway_core::Family;
use causeway_core::leases::traffic::{Have, Iptables, Plan, Step, TABLE, Traffic, plan};

use crate::run::{Output, Run, RunError};
use crate::sections::Sections;
use crate::{end_of, sections};

/// What it takes to look.
const OBSERVE: &str = concat!(include_str!("../../tools.sh"), include_str!("observe.sh"));
/// What it takes to change something: it reads [`CHANGE`] and its input.
const START: &str = concat!(include_str!("../../tools.sh"), include_str!("../../start.sh"));
const CHANGE: &str = include_str!("../../change.sh");

/// Why it is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A tool is not there.
    #[error("`{tool}` is missing on this node; it comes with the package `{package}`")]
    Missing {
        /// Its name.
        tool: String,
        /// What to install.
        package: &'static str,
    },
    /// Nothing is known.
    #[error("what is done with packets of pods is not known: {0}")]
    Unknown(String),
    /// Not all of it could be seen or done.
    #[error("{}", .failed.join("; "))]
    Partly {
        /// What was changed nevertheless, or would be.
        changed: Vec<String>,
        /// What could not, and why.
        failed: Vec<String>,
    },
}

/// Brings it about, and says in words what was changed: nothing if all was right. What flannel left goes once ours stands.
pub async fn keep<R: Run + ?Sized>(run: &R, want: &Traffic) -> Result<Vec<String>, Trouble> {
    let Some((plan, mut failed)) = look(run, want).await? else { return Ok(Vec::new()) };
    let mut changed = Vec::new();
    for step in &plan.puts {
        take(run, step, &mut changed, &mut failed).await?;
    }
    if failed.is_empty() {
        for step in &plan.drops {
            take(run, step, &mut changed, &mut failed).await?;
        }
    }
    if failed.is_empty() && !changed.is_empty() {
        let (left, unseen) = look(run, want).await?.unwrap_or_default();
        failed.extend(unseen);
        failed.extend(left.steps().map(|step| format!("it does not stay as it should be: {step}")));
    }
    if failed.is_empty() { Ok(changed) } else { Err(Trouble::Partly { changed, failed }) }
}

/// What [`keep`] would change, in words; nothing is changed.
pub async fn would<R: Run + ?Sized>(run: &R, want: &Traffic) -> Result<Vec<String>, Trouble> {
    let Some((plan, failed)) = look(run, want).await? else { return Ok(Vec::new()) };
    let changed = plan.steps().map(ToString::to_string).collect();
    if failed.is_empty() { Ok(changed) } else { Err(Trouble::Partly { changed, failed }) }
}

/// Removes everything of ours, and says in words what that was. What is flannel's stays.
pub async fn remove<R: Run + ?Sized>(run: &R) -> Result<Vec<String>, Trouble> {
    keep(run, &Traffic::none()).await
}

/// What is to be done, and what could not be seen. Where the tools are not there and nothing is wanted, nothing of ours
/// can be there.
async fn look<R: Run + ?Sized>(run: &R, want: &Traffic) -> Result<Option<(Plan, Vec<String>)>, Trouble> {
    let wants_nothing = !(want.masquerade || want.forward);
    let output = run.run(&["bash", "-c", OBSERVE, "causeway-traffic"], b"").await;
    let sections = match output.map_err(unanswered).and_then(|output| answer(&output)) {
        Err(Trouble::Missing { .. }) if wants_nothing => return Ok(None),
        sections => sections?,
    };
    let (have, unseen): (Have, _) = parse::have(&sections, want);
    Ok(Some((plan(want, &have), unseen)))
}

async fn take<R: Run + ?Sized>(
    run: &R,
    step: &Step,
    changed: &mut Vec<String>,
    failed: &mut Vec<String>,
) -> Result<(), Trouble> {
    let (tool, input) = rendered(step);
    let argv: Vec<&str> = ["bash", "-c", START, "causeway-traffic"]
        .into_iter()
        .chain(tool.iter().map(String::as_str))
        .collect();
    let stdin = format!("{} {}\n{CHANGE}{input}", CHANGE.len(), input.len());
    let sections = answer(&run.run(&argv, stdin.as_bytes()).await.map_err(unanswered)?)?;
    match sections.find("change") {
        Some(section) if section.status == 0 => changed.push(step.to_string()),
        section => failed.push(format!("{step}: {}", parse::complaint(section))),
    }
    Ok(())
}

/// The tool for a step, and what it is fed.
fn rendered(step: &Step) -> (Vec<String>, String) {
    let nft = || ["nft", "-f", "-"].map(String::from).to_vec();
    let restore = |iptables: Iptables| {
        vec![format!("{}-restore", iptables.command()), "-w".into(), "5".into(), "--noflush".into()]
    };
    match step {
        Step::PutTable(family, lines) => {
            (nft(), gone(*family, TABLE) + &lines.iter().fold(String::new(), |all, line| all + line + "\n"))
        }
        Step::DropTable(family) => (nft(), gone(*family, TABLE)),
        Step::DropFlannelsTable(family) => {
            let name = match family {
                Family::V4 => "flannel-ipv4",
                Family::V6 => "flannel-ipv6",
            };
            (nft(), gone(*family, name))
        }
        Step::SetAccepts { iptables, out, put, after } => {
            let mut input = String::from("*filter\n");
            for listed in out {
                input += &format!("-D FORWARD {listed}\n");
            }
            for (accept, place) in put.iter().zip(after + 1..) {
                input += &format!("-I FORWARD {place} {accept}\n");
            }
            (restore(*iptables), input + "COMMIT\n")
        }
        Step::DropFlannels(iptables, chain, jumps, is_there) => {
            let (table, from, to) = (chain.table(), chain.name(), chain.flannels());
            let mut input = format!("*{table}\n");
            for listed in jumps {
                input += &format!("-D {from} {listed}\n");
            }
            if *is_there {
                input += &format!("-F {to}\n-X {to}\n");
            }
            (restore(*iptables), input + "COMMIT\n")
        }
    }
}

/// A table can only be deleted if it is there: so it is made sure that it is.
fn gone(family: Family, name: &str) -> String {
    let ip = match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    format!("add table {ip} {name}\ndelete table {ip} {name}\n")
}

fn answer(output: &Output) -> Result<Sections, Trouble> {
    if end_of(&output.stdout).is_none() && matches!(output.status, Some(126 | 127)) {
        return Err(missing("bash"));
    }
    Sections::parse(&output.stdout).map_err(|trouble| match trouble {
        crate::Trouble::ToolMissing(tool) => missing(&tool),
        crate::Trouble::Run(error) => unanswered(error),
        crate::Trouble::Failed { said, .. } => Trouble::Unknown(said),
        crate::Trouble::Unreadable { why, .. } => Trouble::Unknown(why),
        other @ (crate::Trouble::Busy | crate::Trouble::Superseded { .. }) => {
            Trouble::Unknown(other.to_string())
        }
    })
}

fn missing(tool: &str) -> Trouble {
    let package = match tool {
        "nft" => "nftables",
        "bash" => "bash",
        _ => "iptables",
    };
    Trouble::Missing { tool: tool.into(), package }
}

/// What runs commands speaks of gateways; here it is a node.
fn unanswered(error: RunError) -> Trouble {
    Trouble::Unknown(match error {
        RunError::TimedOut(limit) => format!("a command did not end within {limit:?}"),
        RunError::Refused(why) | RunError::Unreachable(why) | RunError::Lost(why) => sections::cut(why),
    })
}

#[cfg(test)]
mod tests;
