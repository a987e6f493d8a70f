//! Questions to one tunnel of a gateway: what answers outside, through the tunnel and behind it. Nothing is changed.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use causeway_core::names::LinkName;

use super::Commands;
use super::commands::lean;
use crate::Trouble;
use crate::run::Run;
use crate::sections::Sections;

/// Asks; what about is its input.
static EXAMINE: LazyLock<String> = LazyLock::new(|| {
    lean(&[include_str!("../tools.sh"), include_str!("find.sh"), include_str!("examine.sh")])
});

/// The bytes of an IPv4 and an ICMP header.
const HEADERS: u32 = 28;

/// What to ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The tunnel's link.
    pub link: LinkName,
    /// The peer's address outside.
    pub remote: Ipv4Addr,
    /// Any address behind the peer. Best one that nobody was asked about lately: an old answer would pass for a new one.
    pub anybody: Ipv4Addr,
    /// Whether to ask farther than the peer.
    pub beyond: Beyond,
    /// The longest packet that the gateway's link outside takes.
    pub mtu: u32,
    /// The VPC's router, which packets to the peer come from.
    pub router: Option<Ipv4Addr>,
}

/// How far to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// To the peer only.
    Nothing,
    /// To whoever is behind it.
    Router,
    /// To the owner of an address.
    Target(Ipv4Addr),
}

/// What was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// By the peer's address outside.
    pub outside: Echo,
    /// The same, to questions as long as the link outside takes them, which must not be fragmented.
    pub full: Echo,
    /// By whoever is the first behind this gateway on the way there: the peer.
    pub gateway: Echo,
    /// By the second, on the way to the target if there is one: the peer's VPC router, where it answers such questions.
    pub router: Echo,
    /// By the target itself, if it was asked.
    pub target: Echo,
    /// Whether anybody answered the question, through the tunnel, who has that address. Nothing where the link asks nobody.
    pub neighbour: Option<bool>,
    /// By which link packets from the VPC would leave for an address behind the peer, nothing if by none; where that was asked.
    pub way: Option<String>,
}

/// What became of an echo request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Echo {
    /// It was not sent: it was not asked for, or there is no `ping`.
    #[default]
    Unasked,
    /// Nobody answered.
    Silent,
    /// The one who was asked did, after so many microseconds.
    Answered(u32),
    /// Somebody on the way said that it may go no further.
    Exceeded(Ipv4Addr),
    /// It is too long for the way; for this many bytes it is not.
    TooLong(Option<u32>),
    /// Somebody, perhaps this gateway itself, said that it cannot get there.
    Refused(String),
}

impl Echo {
    /// Whether somebody farther away said anything.
    pub fn is_heard(&self) -> bool {
        matches!(self, Self::Answered(_) | Self::Exceeded(_))
    }

    /// From what `ping` printed; the last answer counts, since the first question may have come before the way was known.
    pub fn parse(text: &str) -> Self {
        text.lines().filter_map(Self::line).next_back().unwrap_or(Self::Silent)
    }

    fn line(line: &str) -> Option<Self> {
        let after = |word: &str| line.split_once(word).map(|(_, rest)| rest);
        if line.contains(" bytes from ") {
            let time = after("time=").and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
            return Some(Self::Answered(micros(time.unwrap_or_default())));
        }
        let from = line.strip_prefix("From ").and_then(|rest| rest.split([' ', ':']).next()?.parse().ok());
        if let Some(from) = from.filter(|_| line.to_lowercase().contains("time to live exceeded")) {
            return Some(Self::Exceeded(from));
        }
        if line.contains("Frag needed") || line.contains("essage too long") {
            let digits = after("mtu").map(|rest| rest.trim_start_matches([' ', '=']));
            let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            return Some(Self::TooLong(digits.and_then(|text| text[..end(text)].parse().ok())));
        }
        let words = match from {
            Some(_) => line.split_once("icmp_seq=")?.1.split_once(' ')?.1,
            None => line.strip_prefix("ping: ")?,
        };
        Some(Self::Refused(words.trim().to_owned()))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded before")]
fn micros(milliseconds: f64) -> u32 {
    (milliseconds * 1000.0).clamp(0.0, f64::from(u32::MAX)) as u32
}

impl<R: Run> Commands<R> {
    /// Asks about one tunnel; takes two seconds where nobody answers.
    pub async fn examine(&self, question: &Question) -> Result<Answers, Trouble> {
        let Question { link, remote, anybody, beyond, mtu, router } = question;
        let router = router.map_or_else(|| "-".to_owned(), |router| router.to_string());
        let size = mtu.saturating_sub(HEADERS);
        let beyond = match beyond {
            Beyond::Nothing => "- no".to_owned(),
            Beyond::Router => format!("{anybody} no"),
            Beyond::Target(target) => format!("{target} yes"),
        };
        let input = format!("{link} {remote} {size} {anybody} {router} {beyond}\n");
        let answer = self.run(&EXAMINE, "causeway-examine", input.as_bytes()).await?;
        Ok(answers(&answer.sections))
    }
}

fn answers(sections: &Sections) -> Answers {
    let text = |name| sections.find(name).map(|section| section.text.as_str());
    let echo = |name| text(name).map(Echo::parse).unwrap_or_default();
    Answers {
        outside: echo("outside"),
        full: echo("full"),
        gateway: echo("gateway"),
        router: echo("router"),
        target: echo("target"),
        neighbour: text("neighbour").and_then(neighbour),
        way: text("way").map(way),
    }
}

/// From `242.1.0.1 from 10.0.1.1 dev demo \    cache iif eth0`.
fn way(text: &str) -> String {
    let mut words = text.split_whitespace().skip_while(|word| *word != "dev").skip(1);
    words.next().unwrap_or_default().to_owned()
}

/// From `242.1.0.1 lladdr 02:43:ac:32:10:15 REACHABLE`. A link that asks nobody has no such entry, or one that says so.
fn neighbour(text: &str) -> Option<bool> {
    let states: Vec<&str> = text.split_whitespace().collect();
    let has = |word: &str| states.contains(&word);
    match () {
        () if has("NOARP") => None,
        () if has("lladdr") => Some(true),
        () if has("FAILED") || has("INCOMPLETE") => Some(false),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_ping_prints_is_told_apart() {
        let cases = [
            ("64 bytes from 1.2.3.4: icmp_seq=1 ttl=64 time=0.045 ms", Echo::Answered(45)),
            ("64 bytes from 1.2.3.4: seq=0 ttl=64 time=151.2 ms", Echo::Answered(151_200)),
            (
                "From 10.100.0.2 icmp_seq=1 Time to live exceeded",
                Echo::Exceeded(Ipv4Addr::new(10, 100, 0, 2)),
            ),
            ("ping: local error: message too long, mtu=1400", Echo::TooLong(Some(1400))),
            ("ping: sendmsg: Message too long", Echo::TooLong(None)),
            ("From 1.2.3.4 icmp_seq=1 Frag needed and DF set (mtu = 1280)", Echo::TooLong(Some(1280))),
            (
                "From 1.2.3.4 icmp_seq=1 Destination Host Unreachable",
                Echo::Refused("Destination Host Unreachable".into()),
            ),
            (
                "ping: connect: Network is unreachable",
                Echo::Refused("connect: Network is unreachable".into()),
            ),
            ("2 packets transmitted, 0 received, 100% packet loss, time 1012ms", Echo::Silent),
            ("", Echo::Silent),
        ];
        for (line, expected) in cases {
            let text =
                format!("PING 1.2.3.4 (1.2.3.4) 56(84) bytes of data.\n{line}\n\n--- statistics ---\n");
            assert_eq!(Echo::parse(&text), expected, "{line}");
        }
        let late = "From 1.2.3.4 icmp_seq=1 Destination Host Unreachable\n64 bytes from 1.2.3.4: time=1 ms";
        assert_eq!(Echo::parse(late), Echo::Answered(1000), "the last answer counts");
    }

    #[test]
    fn a_neighbour_that_answered_has_an_ethernet_address() {
        assert_eq!(neighbour("242.1.0.1 lladdr 02:43:ac:32:10:15 REACHABLE \n"), Some(true));
        assert_eq!(neighbour("242.1.0.1  FAILED\n"), Some(false));
        assert_eq!(neighbour("242.1.0.1  INCOMPLETE\n"), Some(false));
        assert_eq!(neighbour("242.1.0.1 lladdr 0.0.0.0 NOARP\n"), None);
        assert_eq!(neighbour(""), None);
    }

    #[test]
    fn the_way_of_a_packet_is_the_link_that_it_leaves_by() {
        assert_eq!(way("242.1.0.0 from 10.0.1.1 dev demo \\    cache iif eth0 \n"), "demo");
        let elsewhere =
            "242.1.0.0 from 10.0.1.1 via 10.0.1.9 dev eth0 table 99 \\    cache <redirect> iif eth0\n";
        assert_eq!(way(elsewhere), "eth0");
        assert_eq!(way("RTNETLINK answers: Invalid argument\n"), "");
    }

    #[test]
    fn the_script_fits_the_url_that_common_proxies_accept() {
        let spared = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~+".contains(&byte);
        let encoded: usize = EXAMINE.bytes().map(|byte| if spared(byte) { 1 } else { 3 }).sum();
        assert!(encoded < 7400, "{encoded}");
    }

    proptest! {
        #[test]
        fn no_answer_breaks_it(text in "(?s)(From |ping: |mtu ?= ?|time=|icmp_seq=|[0-9. :]|\\PC|\n){0,40}") {
            let _ = (Echo::parse(&text), neighbour(&text), way(&text));
        }
    }
}
