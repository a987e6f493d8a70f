//! Which steps of a plan failed, and why, from what the tools said.
//!
//! `ip -force -batch` and the sysctl loop print the reason and then `Command failed -:N`, N being the line;
//! `iptables-restore` takes all of its lines or none, so its failure is that of each of them.

use std::collections::BTreeMap;

use causeway_core::vpc::{Action, LinkKind, Plan};

use crate::StepError;
use crate::render::{Input, Part};
use crate::sections::{Section, Sections};

/// The failed steps of a plan by index.
pub(crate) fn failures(plan: &Plan, input: &Input, sections: &Sections) -> BTreeMap<usize, StepError> {
    let mut failures = BTreeMap::new();
    for index in &input.unsayable {
        let why = format!("{} has a name that can not be used in a batch", plan.steps[*index].action);
        failures.insert(*index, StepError::Refused(why));
    }
    for part in Part::ALL {
        let steps = input.steps(part);
        let Some(section) = sections.find(part.section()) else {
            // The script prints a section for every part that has lines, so a part without one never ran.
            failures
                .extend(steps.into_iter().map(|step| (step, StepError::Refused("it was not tried".into()))));
            continue;
        };
        let reasons = match part {
            Part::Nat(_) => all_or_nothing(section, steps.len()),
            Part::Links | Part::Sysctls | Part::Routes => by_line(section, steps.len()),
        };
        for (line, reason) in reasons {
            failures.insert(steps[line], explain(&plan.steps[steps[line]].action, reason));
        }
    }
    trace_to_causes(plan, &mut failures);
    failures
}

/// The failed lines of a batch (from 0) with the reason printed before each.
fn by_line(section: &Section, lines: usize) -> BTreeMap<usize, String> {
    let mut failed = BTreeMap::new();
    let mut reason: Vec<&str> = Vec::new();
    for line in section.text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("Command failed -:") {
            Some(number) => {
                let number = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                if let Some(number) = number.filter(|n| *n < lines) {
                    failed.insert(number, said(&reason));
                }
                reason.clear();
            }
            None => reason.push(line),
        }
    }
    // A batch that died before its end (killed, or a fatal error without a number) did we know not what.
    if section.status != 0 && failed.is_empty() {
        let why = format!("{} (status {})", said(&reason), section.status);
        failed.extend((0..lines).map(|line| (line, why.clone())));
    }
    failed
}

fn all_or_nothing(section: &Section, lines: usize) -> BTreeMap<usize, String> {
    if section.status == 0 {
        return BTreeMap::new();
    }
    let lines_said: Vec<&str> = section.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let why = said(&lines_said);
    (0..lines).map(|line| (line, why.clone())).collect()
}

/// The tools' words without their own names and places in front.
fn said(lines: &[&str]) -> String {
    let clean = |line: &str| {
        let line =
            line.strip_prefix("RTNETLINK answers: ").or_else(|| line.strip_prefix("Error: ")).unwrap_or(line);
        let from_bash = line.strip_prefix("bash: ").or_else(|| line.strip_prefix("/bin/bash: "));
        from_bash.and_then(|line| line.find("/proc/").map(|at| &line[at..])).unwrap_or(line).to_owned()
    };
    // Warnings come with a hash and explain nothing.
    let words: Vec<String> =
        lines.iter().filter(|line| !line.starts_with('#')).map(|line| clean(line)).collect();
    if words.is_empty() { "no reason given".into() } else { words.join("; ") }
}

fn explain(action: &Action, reason: String) -> StepError {
    let lacking = ["Unknown device type", "Operation not supported"].iter().any(|text| reason.contains(text));
    match action {
        Action::LinkAdd { want: LinkKind::Vxlan { .. }, .. } if lacking => {
            StepError::KernelLacksTunnelType("vxlan")
        }
        Action::LinkAdd { want: LinkKind::Gre { .. }, .. } if lacking => {
            StepError::KernelLacksTunnelType("gre")
        }
        _ => StepError::Refused(reason),
    }
}

/// A step on a link that could not be made fails with what kept it from being made.
fn trace_to_causes(plan: &Plan, failures: &mut BTreeMap<usize, StepError>) {
    let made = |index: &usize| match &plan.steps[*index].action {
        Action::LinkAdd { link, .. } => Some(link.as_str()),
        _ => None,
    };
    let causes: BTreeMap<&str, StepError> =
        failures.iter().filter_map(|(index, error)| Some((made(index)?, error.clone()))).collect();
    for (index, error) in failures.iter_mut() {
        if let Some(cause) = link_of(&plan.steps[*index].action).and_then(|link| causes.get(link)) {
            *error = cause.clone();
        }
    }
}

/// The tunnel link that a step needs.
fn link_of(action: &Action) -> Option<&str> {
    match action {
        Action::LinkAlias { link, .. }
        | Action::LinkUp { link }
        | Action::ProxyDelay { link }
        | Action::AddrPut { link, .. }
        | Action::AddrDel { link, .. }
        | Action::ProxyArp { link }
        | Action::LooseFilter { link } => Some(link.as_str()),
        Action::RoutePut { route, .. } => route.dev.as_deref(),
        Action::LinkAdd { .. }
        | Action::LinkDel { .. }
        | Action::RouteDel { .. }
        | Action::Forward
        | Action::NatDel { .. }
        | Action::NatInsert { .. } => None,
    }
}
