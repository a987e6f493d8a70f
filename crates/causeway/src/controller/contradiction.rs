//! Flags that do not go together, wherever each of them was said.

use std::net::SocketAddr;

use super::{Args, RoomName};

impl Args {
    /// What does not go together, in a sentence that names the flags.
    pub(crate) fn contradiction(&self) -> Option<String> {
        self.addresses().or_else(|| self.ports())
    }

    /// Who gives the range gives addresses of it.
    fn addresses(&self) -> Option<String> {
        if let (Some(own), Some(within)) = (self.globalnet_cidr, self.globalnet_within)
            && !within.covers(own)
        {
            return Some(format!("--globalnet-cidr {own} is not within --globalnet-within {within}"));
        }
        let range = self.globalnet_cidr.map(|range| ("--globalnet-cidr", range));
        let (flag, range) = range.or(self.globalnet_within.map(|range| ("--globalnet-within", range)))?;
        let outside = self.egress_ips.iter().find(|address| !range.contains(**address))?;
        Some(format!("{outside} of --egress-ips is not within {flag} {range}"))
    }

    /// No two services can have one port of one address.
    fn ports(&self) -> Option<String> {
        let rules = self.enable.contains(&RoomName::Rules);
        let listens = [
            ("--listen", Some(self.listen)),
            ("--rules-listen", rules.then_some(self.rules_listen)),
            ("--rules-tls-listen", (rules && self.rules_tls_cert.is_some()).then_some(self.rules_tls_listen)),
        ];
        let given: Vec<(&str, SocketAddr)> =
            listens.into_iter().filter_map(|(flag, address)| Some((flag, address?))).collect();
        let pairs =
            given.iter().enumerate().flat_map(|(at, one)| given[at + 1..].iter().map(move |two| (one, two)));
        let (one, two) = pairs.into_iter().find(|(one, two)| are_one(one.1, two.1))?;
        Some(format!("{} and {} both listen on port {}", one.0, two.0, one.1.port()))
    }
}

/// Whether two addresses to listen on are one to the kernel.
fn are_one(one: SocketAddr, two: SocketAddr) -> bool {
    let same_address = one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified();
    one.port() != 0 && one.port() == two.port() && same_address
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn said(line: &str) -> Option<String> {
        let words = ["causeway"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).expect("each flag alone makes sense").args.contradiction()
    }

    #[test]
    fn what_does_not_go_together_is_said_with_both_flags() {
        for (line, words) in [
            ("", None),
            ("--globalnet-cidr 242.0.0.0/16 --egress-ips 242.0.0.1,242.0.0.2", None),
            ("--globalnet-cidr 242.0.0.0/16 --globalnet-within 242.0.0.0/8", None),
            ("--enable vpc,rules", None),
            ("--listen 127.0.0.1:0 --rules-listen 127.0.0.1:0 --enable rules", None),
            ("--listen 127.0.0.1:10246 --rules-listen 127.0.0.2:10246 --enable rules", None),
            ("--listen :10246", None),
            (
                "--globalnet-cidr 10.0.0.0/16 --globalnet-within 242.0.0.0/8",
                Some("--globalnet-cidr 10.0.0.0/16 is not within --globalnet-within 242.0.0.0/8"),
            ),
            (
                "--globalnet-cidr 242.0.0.0/16 --egress-ips 242.0.0.1,242.1.0.1",
                Some("242.1.0.1 of --egress-ips is not within --globalnet-cidr 242.0.0.0/16"),
            ),
            (
                "--globalnet-within 242.0.0.0/16 --egress-ips 10.0.0.1",
                Some("10.0.0.1 of --egress-ips is not within --globalnet-within 242.0.0.0/16"),
            ),
            ("--listen :10246 --enable rules", Some("--listen and --rules-listen both listen on port 10246")),
        ] {
            assert_eq!(said(line).as_deref(), words, "{line}");
        }
    }
}
