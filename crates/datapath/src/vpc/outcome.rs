//! Which steps of a plan failed, and why, from what the tools said.
//!
//! `ip -force -batch` and the sysctl loop print the reason and then `Command failed -:N`, N being the line;
//! `iptables-restore` takes all of its lines or none, so its failure is that of each of them.

use std::collections::BTreeMap;

use causeway_core::vpc::{Action, LinkKind, Plan};

use super::StepError;
use super::render::{Input, Part};
use crate::sections::{Section, Sections, cut};

/// The failed steps of a plan by index.
pub(crate) fn failures(plan: &Plan, input: &Input, sections: &Sections) -> BTreeMap<usize, StepError> {
    let mut failures = BTreeMap::new();
    for index in &input.unnameable {
        let why = format!("{} has a name that cannot be used in a batch", plan.steps[*index].action);
        failures.insert(*index, StepError::Refused(why));
    }
    // Flows that could not be forgotten end by themselves when their senders pause: nothing is missing.
    for part in Part::ALL.into_iter().filter(|part| *part != Part::Flows) {
        let lines = input.steps(part);
        let Some(section) = sections.find(part.section()) else {
            // The script prints a section for every part that has lines, so a part without one never ran.
            let steps = lines.into_iter().flatten();
            failures.extend(steps.map(|step| (*step, StepError::Refused("it was not tried".into()))));
            continue;
        };
        let reasons = match part {
            Part::Nat(_) => all_or_nothing(section, lines.len()),
            Part::Links | Part::Sysctls | Part::Routes | Part::Flows => by_line(section, lines.len()),
        };
        for (line, reason) in reasons {
            for step in lines[line] {
                failures.insert(*step, explain(&plan.steps[*step].action, reason.clone()));
            }
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
    if words.is_empty() { "no reason given".into() } else { cut(words.join("; ")) }
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
        | Action::LinkGroup { link, .. }
        | Action::LinkRemote { link, .. }
        | Action::NoIpv6 { link }
        | Action::LinkMtu { link, .. }
        | Action::LinkArp { link }
        | Action::LinkMac { link, .. }
        | Action::LinkUp { link }
        | Action::ProxyDelay { link }
        | Action::AddrPut { link, .. }
        | Action::AddrDel { link, .. }
        | Action::ProxyArp { link, .. }
        | Action::LooseFilter { link }
        | Action::Promote { link } => Some(link.as_str()),
        Action::RoutePut { route, .. } => route.dev.as_deref(),
        Action::LinkAdd { .. }
        | Action::LinkFree { .. }
        | Action::LinkDel { .. }
        | Action::RouteDel { .. }
        | Action::Forward
        | Action::NatDel { .. }
        | Action::NatInsert { .. }
        | Action::ClampDel { .. }
        | Action::ClampAll { .. }
        | Action::ClampInsert { .. }
        | Action::ForgetAstray { .. }
        | Action::ForgetLeft { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use causeway_core::vpc::{Route, Step, Variant};

    use super::*;

    fn gre(name: &str) -> Action {
        let want = LinkKind::Gre { local: None, remote: None, ttl: 255, keyed: false };
        Action::LinkAdd { link: name.parse().expect("name"), want, mac: None, group: 1, mtu: None }
    }

    fn up(name: &str) -> Action {
        Action::LinkUp { link: name.parse().expect("name") }
    }

    fn failures_of(actions: Vec<Action>, stdout: &str) -> BTreeMap<usize, StepError> {
        let steps = actions.into_iter().map(|action| Step { owner: None, action }).collect();
        let plan = Plan { steps, ..Plan::default() };
        failures(
            &plan,
            &Input::of(&plan),
            &Sections::parse(format!("{stdout}@@causeway done 0\n").as_bytes()).expect("framed"),
        )
    }

    #[test]
    fn a_batch_names_the_step_that_failed_and_its_consequences_get_its_reason() {
        let stdout = "@@causeway begin ip-first\nError: Unknown device type.\nCommand failed -:1\n\n@@causeway end 1\n\
            @@causeway begin ip-last\nCannot find device \"g1\"\nCommand failed -:1\nRTNETLINK answers: File exists\nCommand failed -:3\n\n@@causeway end 1\n";
        let range = "242.1.0.0/16".parse().expect("range");
        let route = Route { range, via: None, dev: Some("g2".into()), protocol: 157, metric: 0 };
        let plan = vec![gre("g1"), up("g1"), up("g2"), Action::RoutePut { route, replace: false }];
        let lacking = StepError::KernelLacksTunnelType("gre");
        let expected = [(0, lacking.clone()), (1, lacking), (3, StepError::Refused("File exists".into()))];
        assert_eq!(failures_of(plan, stdout), expected.into());
    }

    #[test]
    fn links_that_were_to_go_as_one_and_stayed_failed_each() {
        let del = |link: &str| Action::LinkDel { link: link.into() };
        let stdout = "@@causeway begin ip-last\nCannot find device \"b\"\nCommand failed -:2\n\
            RTNETLINK answers: Operation not permitted\nCommand failed -:3\n\n@@causeway end 1\n";
        let refused = StepError::Refused("Operation not permitted".into());
        assert_eq!(
            failures_of(vec![del("a"), del("b")], stdout),
            [(0, refused.clone()), (1, refused)].into()
        );
        let alone =
            "@@causeway begin ip-last\nCannot find device \"b\"\nCommand failed -:2\n\n@@causeway end 1\n";
        let missing = StepError::Refused("Cannot find device \"b\"".into());
        assert_eq!(failures_of(vec![del("a"), del("b")], alone), [(1, missing)].into());
    }

    #[test]
    fn rules_fail_together_with_the_reason_that_iptables_gave() {
        let del = |spec: &str| Action::NatDel { variant: Variant::Nft, spec: spec.into() };
        let stdout = "@@causeway begin restore-nft\n# Warning: iptables-legacy tables present\niptables-nft-restore: line 2 failed\n\n@@causeway end 1\n";
        let refused = StepError::Refused("iptables-nft-restore: line 2 failed".into());
        assert_eq!(
            failures_of(vec![del("a"), del("b")], stdout),
            [(0, refused.clone()), (1, refused)].into()
        );
    }

    #[test]
    fn a_warning_of_a_tool_that_worked_is_no_failure() {
        let stdout = "@@causeway begin ip-last\nsome warning\n\n@@causeway end 0\n";
        assert_eq!(failures_of(vec![up("g1")], stdout), BTreeMap::new());
    }

    #[test]
    fn a_part_that_was_not_run_did_not_work() {
        assert_eq!(failures_of(vec![up("g1")], "").len(), 1);
    }

    #[test]
    fn bash_is_not_quoted_to_people() {
        let stdout = "@@causeway begin sysctl\nbash: line 9: /proc/sys/net/ipv4/ip_forward: Read-only file system\nCommand failed -:1\n\n@@causeway end 0\n";
        let refused = StepError::Refused("/proc/sys/net/ipv4/ip_forward: Read-only file system".into());
        assert_eq!(failures_of(vec![Action::Forward], stdout), [(0, refused)].into());
    }
}
