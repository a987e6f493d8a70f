//! Flows that connection tracking of one gateway knows, to be known by another.
//!
//! They come from one gateway as text and go to another as arguments of a tool there, so they are read into types first and
//! written anew: whatever else a gateway prints goes nowhere.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::LazyLock;

use causeway_core::names::Ipv4Cidr;

use super::commands::{Commands, START, lean, started};
use crate::{Run, Trouble};

static SCRIPT: LazyLock<String> = LazyLock::new(|| lean(&[include_str!("flows.sh")]));

/// No more than this are carried: they would keep a switch waiting.
const MOST: usize = 20_000;

/// What distinguishes flows of one protocol between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Tcp { from: u16, to: u16, reply_to: u16 },
    Udp { from: u16, to: u16, reply_to: u16 },
    Icmp { kind: u8, code: u8, id: u16 },
}

/// A flow that has been answered, and under which address it appears beyond the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    answers_from: Ipv4Addr,
    answers_to: Ipv4Addr,
    kind: Kind,
}

impl Flow {
    /// Of a line as `conntrack -L -o save` prints it; nothing of one that is not worth carrying, or that says something else.
    pub fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (["-A"], pairs) = words.split_at_checked(1)? else { return None };
        let value =
            |flag: &str| pairs.chunks(2).find(|pair| pair[0] == flag).and_then(|pair| pair.get(1)).copied();
        let address = |flag| value(flag)?.parse::<Ipv4Addr>().ok();
        let port = |flag| value(flag)?.parse::<u16>().ok();
        let answered = value("-u")?.split(',').any(|word| word == "SEEN_REPLY");
        let ports = || Some((port("--sport")?, port("--dport")?, port("--reply-port-dst")?));
        let kind = match value("-p")? {
            "tcp" if value("--state") == Some("ESTABLISHED") => {
                ports().map(|(from, to, reply_to)| Kind::Tcp { from, to, reply_to })
            }
            "udp" => ports().map(|(from, to, reply_to)| Kind::Udp { from, to, reply_to }),
            "icmp" => {
                let number = |flag| value(flag)?.parse::<u8>().ok();
                let (kind, code) = (number("--icmp-type")?, number("--icmp-code")?);
                port("--icmp-id").map(|id| Kind::Icmp { kind, code, id })
            }
            _ => None,
        };
        Some(Self {
            source: address("-s")?,
            destination: address("-d")?,
            answers_from: address("-r")?,
            answers_to: address("-n").or_else(|| address("-q"))?,
            kind: kind.filter(|_| answered)?,
        })
    }

    /// Where it leads.
    pub fn destination(&self) -> Ipv4Addr {
        self.destination
    }
}

/// As arguments of `conntrack`. What is translated to another port has to say so with the address.
impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, answers_from, answers_to, kind } = self;
        let life = match kind {
            Kind::Tcp { .. } => 86_400,
            Kind::Udp { .. } => 120,
            Kind::Icmp { .. } => 30,
        };
        let status = if matches!(kind, Kind::Icmp { .. }) { "SEEN_REPLY" } else { "SEEN_REPLY,ASSURED" };
        write!(f, "-I -t {life} -u {status} -s {source} -d {destination} -r {answers_from} -n {answers_to}")?;
        let ports = |f: &mut fmt::Formatter<'_>, name, (from, to, reply_to)| {
            if reply_to != from {
                write!(f, ":{reply_to}")?;
            }
            write!(
                f,
                " -p {name} --sport {from} --dport {to} --reply-port-src {to} --reply-port-dst {reply_to}"
            )
        };
        match *kind {
            Kind::Tcp { from, to, reply_to } => {
                ports(f, "tcp", (from, to, reply_to))?;
                f.write_str(" --state ESTABLISHED")
            }
            Kind::Udp { from, to, reply_to } => ports(f, "udp", (from, to, reply_to)),
            Kind::Icmp { kind, code, id } => {
                write!(f, " -p icmp --icmp-type {kind} --icmp-code {code} --icmp-id {id}")
            }
        }
    }
}

impl<R: Run> Commands<R> {
    /// The flows to some ranges that a gateway knows.
    pub(super) async fn list_flows(&self, ranges: &[Ipv4Cidr]) -> Result<BTreeSet<Flow>, Trouble> {
        let named: String = ranges.iter().map(|range| format!(" {range}")).collect();
        let answer =
            self.run(&START, "causeway-flows", &started(&SCRIPT, format!("list{named}").as_bytes())).await?;
        let said = answer.sections.text("flows")?;
        let is_meant = |flow: &Flow| ranges.iter().any(|range| range.contains(flow.destination()));
        Ok(said.lines().filter_map(Flow::read).filter(is_meant).take(MOST).collect())
    }

    /// Has a gateway know flows that it does not know yet.
    pub(super) async fn learn_flows(&self, flows: &BTreeSet<Flow>) -> Result<(), Trouble> {
        let lines: String = flows.iter().map(|flow| format!("{flow}\n")).collect();
        let answer = self
            .run(&START, "causeway-flows", &started(&SCRIPT, format!("take\n{lines}").as_bytes()))
            .await?;
        answer.sections.text("taken").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TCP: &str = "-A -t 431998 -u SEEN_REPLY,ASSURED -s 10.0.1.10 -d 242.1.1.20 -r 242.1.1.20 -n 242.0.0.1 -p tcp --sport 56376 --dport 7 --reply-port-src 7 --reply-port-dst 56376 --state ESTABLISHED";

    #[test]
    fn a_flow_is_written_as_it_was_read_and_with_its_port_where_that_is_translated() {
        let flow = Flow::read(TCP).expect("a flow");
        assert_eq!(
            flow.to_string(),
            "-I -t 86400 -u SEEN_REPLY,ASSURED -s 10.0.1.10 -d 242.1.1.20 -r 242.1.1.20 -n 242.0.0.1 -p tcp --sport 56376 --dport 7 --reply-port-src 7 --reply-port-dst 56376 --state ESTABLISHED"
        );
        let translated = TCP.replace("--reply-port-dst 56376", "--reply-port-dst 1024");
        assert!(Flow::read(&translated).expect("a flow").to_string().contains("-n 242.0.0.1:1024 -p tcp"));
        let echo = "-A -t 28 -u SEEN_REPLY -s 10.0.1.10 -d 242.1.1.20 -r 242.1.1.20 -n 242.0.0.1 -p icmp --icmp-type 8 --icmp-code 0 --icmp-id 28350";
        assert!(
            Flow::read(echo)
                .expect("a flow")
                .to_string()
                .ends_with("--icmp-type 8 --icmp-code 0 --icmp-id 28350")
        );
    }

    #[test]
    fn what_is_not_a_living_flow_is_not_carried() {
        for line in [
            "",
            "-D -t 1",
            &TCP.replace("ESTABLISHED", "TIME_WAIT"),
            &TCP.replace("SEEN_REPLY,ASSURED", "UNREPLIED"),
            &TCP.replace("10.0.1.10", "10.0.1.10;reboot"),
            &TCP.replace("-p tcp", "-p sctp"),
            &TCP.replace("--dport 7", "--dport 70000"),
        ] {
            assert_eq!(Flow::read(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_gateway_prints_only_plain_words_come_of_it(line in "(-A )?(-[tusdrnp] [0-9a-z.$;`]{1,12} ?){0,9}|.{0,80}") {
            if let Some(flow) = Flow::read(&line) {
                let plain = |c: char| c.is_ascii_alphanumeric() || " -.:,_".contains(c);
                prop_assert!(flow.to_string().chars().all(plain));
            }
        }
    }
}
