//! What a transfer was like, from what both pods said.

use causeway_datapath::vpc::Echo;
use serde::Serialize;

/// The result, for programs. Names are stable: docs/operating.md has them.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Whether the exit code is 0.
    pub(super) healthy: bool,
    pub(super) echo: Option<Pings>,
    /// The longest packet that gets there in one piece; nothing where long ones vanish without a word.
    pub(super) longest_packet: Option<u32>,
    pub(super) transfer: Option<Transfer>,
    /// What went wrong, in sentences.
    pub(super) faults: Vec<String>,
    /// What could not be tried.
    pub(super) missing: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Pings {
    pub(super) sent: u32,
    pub(super) received: u32,
    /// The mean round trip.
    pub(super) milliseconds: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Transfer {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) bytes_per_second: f64,
    /// Whether what arrived is what was sent.
    pub(super) intact: bool,
}

/// What a second carried.
#[allow(clippy::cast_precision_loss, reason = "it is for people")]
fn rate(bytes: u64, seconds: f64) -> f64 {
    // The pods' clock counts hundredths.
    bytes as f64 / seconds.max(0.01)
}

/// From the lines that the speaking pod printed.
pub(super) fn read(said: &str, bytes: u64, mtu: u32) -> Report {
    let of = |word: &str| {
        let lines = said.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(first, _)| *first == word).map(|(_, rest)| rest).collect::<Vec<_>>()
    };
    let one = |word: &str| of(word).first().copied();
    let mut report = Report::default();
    report
        .missing
        .extend(of("missing").iter().map(|tool| format!("the pod that speaks first has no {tool}")));
    report.faults.extend(of("refused").into_iter().map(str::to_owned));
    if let Some(pings) = pings(&of("echo")) {
        if pings.received == 0 {
            report.faults.push("no echo request was answered".into());
        }
        report.echo = Some(pings);
    }
    let long = of("long");
    if !long.is_empty() {
        let fits = matches!(Echo::parse(&of("fits").join("\n")), Echo::Answered(_));
        report.longest_packet = match Echo::parse(&long.join("\n")) {
            Echo::Answered(_) => Some(mtu),
            Echo::TooLong(said) => said.filter(|_| fits),
            _ => None,
        };
        let others_arrive = report.echo.as_ref().is_some_and(|echo| echo.received > 0);
        if report.longest_packet.is_none() && others_arrive {
            let why =
                "packets that are too long vanish, and nobody says how long they may be (ICMP is filtered)";
            report.faults.push(why.into());
        }
    }
    let time = |word: &str| one(word).and_then(|text| text.parse::<f64>().ok());
    if let Some((sent, begin)) = one("sent").zip(time("begin")) {
        let (got, sum) = one("got").and_then(|got| got.split_once(' ')).unwrap_or(("0", ""));
        let got: u64 = got.parse().unwrap_or_default();
        let seconds = time("end").map_or(0.0, |end| end - begin);
        let intact = got == bytes && sum == sent;
        if got != bytes {
            report.faults.push(format!("{got} of {bytes} bytes arrived"));
        } else if !intact {
            report.faults.push("what arrived is not what was sent".into());
        }
        report.transfer =
            Some(Transfer { bytes: got, seconds, bytes_per_second: rate(got, seconds), intact });
    }
    report.healthy = report.faults.is_empty() && report.missing.is_empty();
    report
}

/// From the end of what `ping` prints.
fn pings(lines: &[&str]) -> Option<Pings> {
    let summary = lines.iter().find(|line| line.contains("packets transmitted"))?;
    let number = |part: &str| part.split_whitespace().next()?.parse().ok();
    let mut parts = summary.split(", ");
    let (sent, received) = (parts.next().and_then(number)?, parts.next().and_then(number)?);
    // `rtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms`, `round-trip min/avg/max = …`.
    let times = lines.iter().find(|line| line.contains("min/avg/max")).and_then(|line| line.split_once("= "));
    let milliseconds = times.and_then(|(_, times)| times.split('/').nth(1)?.parse().ok());
    Some(Pings { sent, received, milliseconds })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WELL: &str = "echo 64 bytes from 242.1.1.20: icmp_seq=1 ttl=62 time=0.1 ms\n\
        echo 5 packets transmitted, 5 received, 0% packet loss, time 804ms\n\
        echo rtt min/avg/max/mdev = 0.051/0.103/0.141/0.033 ms\n\
        long From 10.0.1.254 icmp_seq=1 Frag needed and DF set (mtu = 1450)\n\
        long ping: local error: message too long, mtu=1450\n\
        fits 1430 bytes from 242.1.1.20: icmp_seq=1 ttl=62 time=0.1 ms\n\
        sent abc\nbegin 100.25\ngot 1000 abc\nend 100.75\n";

    #[test]
    fn a_transfer_that_went_well_is_told_in_numbers() {
        let report = read(WELL, 1000, 1500);
        assert_eq!(report.faults, Vec::<String>::new());
        assert!(report.healthy);
        assert_eq!(report.echo, Some(Pings { sent: 5, received: 5, milliseconds: Some(0.103) }));
        assert_eq!(report.longest_packet, Some(1450));
        let transfer = Transfer { bytes: 1000, seconds: 0.5, bytes_per_second: 2000.0, intact: true };
        assert_eq!(report.transfer, Some(transfer));
    }

    #[test]
    fn each_thing_that_goes_wrong_is_told() {
        let wrong = |from: &str, to: &str| {
            let report = read(&WELL.replace(from, to), 1000, 1500);
            assert!(!report.healthy, "{to}");
            [report.faults, report.missing].concat().join("; ")
        };
        assert!(wrong("fits 1430 bytes from", "fits none of").contains("vanish"));
        assert!(wrong("5 received", "0 received").contains("no echo request"));
        assert!(wrong("got 1000 abc", "got 1000 abd").contains("not what was sent"));
        assert!(wrong("got 1000 abc", "got 10 abd").contains("10 of 1000 bytes"));
        assert!(wrong("got 1000 abc\nend 100.75\n", "").contains("0 of 1000 bytes"));
        assert!(wrong("sent abc\n", "refused no connection\n").contains("no connection"));
        assert!(wrong("sent abc\n", "missing ping\n").contains("has no ping"));
        let vanish = "long 2 packets transmitted, 0 received, 100% packet loss\n";
        let long = WELL.lines().filter(|line| !line.starts_with("long")).collect::<Vec<_>>().join("\n");
        assert!(read(&format!("{long}\n{vanish}"), 1000, 1500).faults[0].contains("vanish"));
    }

    proptest! {
        #[test]
        fn nothing_that_a_pod_says_breaks_it(said in "(?s)(echo |long |fits |sent |got |begin |end |[0-9.]{1,25}|packets transmitted, |\\PC|\n){0,40}") {
            let _ = read(&said, 1000, 1500);
        }
    }
}
