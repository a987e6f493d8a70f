//! The judgement, from what gateways and API server wrote down: who was leader when, and what was done by others.

use jiff::Timestamp;
use serde_json::Value;

/// From this version of the cluster on, the Lease names this holder; an empty name is nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reign {
    pub(crate) version: u64,
    pub(crate) holder: String,
    pub(crate) term: u64,
}

/// A successful write of a replica, as the API server's audit has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) at: Timestamp,
    pub(crate) user: String,
    pub(crate) what: String,
    pub(crate) version: u64,
}

/// A command in a gateway, as its own log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exec {
    pub(crate) number: u64,
    pub(crate) pod: String,
    pub(crate) user: String,
    pub(crate) kind: String,
    pub(crate) start: Timestamp,
    /// When it had said all.
    pub(crate) answer: Option<Timestamp>,
    pub(crate) ended: bool,
    pub(crate) term: Option<u64>,
    /// The newer term because of which it did nothing.
    pub(crate) superseded: Option<u64>,
}

fn objects(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"))
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_default().to_owned()
}

fn time(line: &Value, key: &str) -> Timestamp {
    text(line, key).parse().unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The successful writes of these users.
pub(crate) fn writes(audit: &str, users: &[&str]) -> Vec<Write> {
    let theirs = objects(audit).filter(|line| {
        let ok = line["code"].as_u64().is_some_and(|code| (200..300).contains(&code));
        ok && users.contains(&line["user"].as_str().unwrap_or_default()) && line["subresource"] != "exec"
    });
    let write = |line: Value| Write {
        at: time(&line, "time"),
        user: text(&line, "user"),
        what: ["verb", "resource", "subresource", "name"].map(|key| text(&line, key)).join(" "),
        version: text(&line, "resourceVersion").parse().unwrap_or_else(|_| panic!("no version: {line}")),
    };
    let mut all: Vec<Write> = theirs.map(write).collect();
    all.sort_by_key(|write| write.version);
    all
}

/// The commands of these users.
pub(crate) fn execs(log: &str, users: &[&str]) -> Vec<Exec> {
    let mut all: Vec<Exec> = Vec::new();
    for line in objects(log).filter(|line| users.contains(&line["user"].as_str().unwrap_or_default())) {
        let number = line["exec"].as_u64().expect("a number");
        match line["event"].as_str() {
            Some("start") => all.push(Exec {
                number,
                pod: text(&line, "pod"),
                user: text(&line, "user"),
                kind: text(&line, "kind"),
                start: time(&line, "at"),
                answer: None,
                ended: false,
                term: None,
                superseded: None,
            }),
            Some("answer") => {
                let exec = all.iter_mut().rev().find(|exec| exec.number == number).expect("it began");
                exec.answer = Some(time(&line, "at"));
                (exec.term, exec.superseded) = (line["term"].as_u64(), line["superseded"].as_u64());
            }
            Some("end") => {
                all.iter_mut().rev().filter(|exec| exec.number == number).for_each(|exec| exec.ended = true);
            }
            _ => {}
        }
    }
    all
}

/// Writes by somebody who was not leader at that version.
pub(crate) fn strange_writes(writes: &[Write], reigns: &[Reign]) -> Vec<String> {
    let strange = |write: &&Write| {
        let reign = reigns.iter().rfind(|reign| reign.version <= write.version);
        // The write by which a holder gives the Lease up is still its own.
        let gives_up = reign.is_some_and(|r| r.version == write.version && r.holder.is_empty());
        !gives_up && reign.is_none_or(|reign| reign.holder != write.user)
    };
    writes.iter().filter(strange).map(say).collect()
}

fn say(write: &Write) -> String {
    format!("{} {} by {} at {}", write.version, write.what, write.user, write.at)
}

/// When each term began: when the Lease was written with it.
fn beginnings<'a>(
    writes: &'a [Write],
    reigns: &'a [Reign],
) -> impl Iterator<Item = (&'a Reign, Timestamp)> + 'a {
    reigns
        .iter()
        .enumerate()
        .filter(|(at, reign)| {
            !reign.holder.is_empty() && !reigns[..*at].iter().any(|earlier| earlier.term == reign.term)
        })
        .filter_map(|(_, reign)| {
            let written = writes.iter().find(|write| write.version == reign.version)?;
            Some((reign, written.at))
        })
}

/// The same at a server whose versions are others, by the time of day: both are of one process.
pub(crate) fn strange_writes_elsewhere(writes: &[Write], here: &[Write], reigns: &[Reign]) -> Vec<String> {
    let terms: Vec<_> = beginnings(here, reigns).collect();
    let strange = |write: &&Write| {
        let term = terms.iter().rfind(|(_, began)| *began <= write.at);
        term.is_none_or(|(reign, _)| reign.holder != write.user)
    };
    writes.iter().filter(strange).map(say).collect()
}

/// The first command of a term in a gateway that was answered: (the term, when).
fn first_answer(execs: &[Exec], pod: &str, reign: &Reign, began: Timestamp) -> Option<Timestamp> {
    let theirs = execs.iter().filter(|exec| {
        exec.pod == pod && exec.user == reign.holder && exec.start >= began && exec.superseded.is_none()
    });
    theirs.filter_map(|exec| exec.answer).min()
}

/// Commands that changed a gateway after a successor's first command there had been answered.
pub(crate) fn late_applies(execs: &[Exec], writes: &[Write], reigns: &[Reign]) -> Vec<String> {
    let mut late = Vec::new();
    for (reign, began) in beginnings(writes, reigns) {
        let applied = execs.iter().filter(|exec| {
            exec.kind == "apply" && exec.superseded.is_none() && exec.term.is_some_and(|t| t < reign.term)
        });
        for exec in applied {
            let first = first_answer(execs, &exec.pod, reign, began);
            if let (Some(answer), Some(first)) = (exec.answer, first)
                && answer > first
            {
                late.push(format!(
                    "exec {} of {} in term {:?} was accepted by {} at {answer}, after term {} was there at {first}",
                    exec.number, exec.user, exec.term, exec.pod, reign.term
                ));
            }
        }
    }
    late
}

/// Of what the kernel of a gateway reported: that an address was put after a newer term was there than the only one
/// in which it was asked for.
pub(crate) fn late_changes(lines: &[String], address: &str, term: u64) -> Vec<String> {
    let newer = |line: &String| {
        let (_, said) = line.split_once("causeway-term:")?;
        let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok().filter(|seen| *seen > term)
    };
    let after = lines.iter().skip_while(|line| newer(line).is_none());
    let put = |line: &&String| !line.contains("Deleted") && line.contains(&format!(" inet {address} "));
    after.filter(put).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "replica-a";
    const B: &str = "replica-b";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).expect("a time")
    }

    fn reigns() -> Vec<Reign> {
        let reign = |version, holder: &str, term| Reign { version, holder: holder.into(), term };
        vec![reign(10, A, 1), reign(20, "", 1), reign(21, B, 2)]
    }

    fn write(version: u64, user: &str) -> Write {
        Write { at: at(version.cast_signed()), user: user.into(), what: "update leases".into(), version }
    }

    fn apply(number: u64, user: &str, term: u64, start: i64, answer: i64) -> Exec {
        Exec {
            number,
            pod: "gw".into(),
            user: user.into(),
            kind: "apply".into(),
            start: at(start),
            answer: Some(at(answer)),
            ended: true,
            term: Some(term),
            superseded: None,
        }
    }

    #[test]
    fn a_write_after_the_lease_was_given_up_or_went_to_another_is_noticed() {
        let good = [write(10, A), write(15, A), write(20, A), write(21, B), write(30, B)];
        assert_eq!(strange_writes(&good, &reigns()), Vec::<String>::new());
        for (version, user) in [(9, A), (15, B), (25, A)] {
            assert_eq!(strange_writes(&[write(version, user)], &reigns()).len(), 1, "{version} by {user}");
        }
        let after = [Reign { version: 20, holder: String::new(), term: 1 }];
        assert_eq!(strange_writes(&[write(22, A)], &after).len(), 1);
    }

    #[test]
    fn a_former_leaders_write_to_another_server_is_noticed() {
        let here = [write(10, A), write(21, B)];
        let good = [write(15, A), write(21, B), write(30, B)];
        assert_eq!(strange_writes_elsewhere(&good, &here, &reigns()), Vec::<String>::new());
        assert_eq!(strange_writes_elsewhere(&[write(22, A)], &here, &reigns()).len(), 1);
    }

    #[test]
    fn an_apply_that_was_accepted_after_a_successors_first_command_is_noticed() {
        let writes = [write(10, A), write(21, B)];
        let mut look = apply(2, B, 2, 22, 23);
        (look.kind, look.term) = ("observe".into(), None);
        let before = apply(1, A, 1, 11, 22);
        assert_eq!(late_applies(&[before, look.clone()], &writes, &reigns()), Vec::<String>::new());
        let mut late = apply(3, A, 1, 12, 24);
        assert_eq!(late_applies(&[look.clone(), late.clone()], &writes, &reigns()).len(), 1);
        late.superseded = Some(2);
        assert_eq!(late_applies(&[look, late], &writes, &reigns()), Vec::<String>::new());
    }

    #[test]
    fn an_address_that_is_put_after_a_newer_term_was_there_is_noticed() {
        let put = "[2026-01-01T00:00:00.1] 7: work0    inet 10.0.0.3/24 scope global work0".to_owned();
        let term = |n| {
            format!("[2026-01-01T00:00:00.2] 1: lo: <LOOPBACK,UP> link/loopback    alias causeway-term:{n}")
        };
        let gone = put.replace("7: work0", "Deleted 7: work0");
        let good = [term(1), put.clone(), term(2), gone];
        assert_eq!(late_changes(&good, "10.0.0.3/24", 1), Vec::<String>::new());
        let bad = [term(1), term(2), put.clone()];
        assert_eq!(late_changes(&bad, "10.0.0.3/24", 1), [put]);
    }
}
