//! Who reaches whom: whoever lives in a namespace asks others, by sockets of our own made in there.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use futures::future::{join_all, try_join_all};
use serde::Serialize;
use tokio::net::UdpSocket;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};

use super::netns::Namespace;

/// How often somebody asks before it is said that nobody answers.
const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_millis(250);

/// How many milliseconds an answer took, by who asked and who was asked; none where there was no answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Matrix(pub(super) BTreeMap<String, BTreeMap<String, Option<f64>>>);

impl Matrix {
    /// An error that names who does not reach whom.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let pairs = self.0.iter().flat_map(|(from, row)| row.iter().map(move |(to, took)| (from, to, took)));
        let lost = pairs.filter(|(_, _, took)| took.is_none());
        let lost: Vec<String> = lost.map(|(from, to, _)| format!("{from} → {to}")).collect();
        anyhow::ensure!(lost.is_empty(), "no answer: {}", lost.join(", "));
        Ok(())
    }

    /// Who reaches whom.
    pub(super) fn answered(&self) -> Vec<String> {
        let pairs = self.0.iter().flat_map(|(from, row)| row.iter().map(move |(to, took)| (from, to, took)));
        pairs.filter(|(_, _, took)| took.is_some()).map(|(from, to, _)| format!("{from} → {to}")).collect()
    }

    /// Of several answers the slowest counts, and none if one of them did not come.
    fn note(&mut self, from: &str, to: &str, took: Option<f64>) {
        let row = self.0.entry(from.to_owned()).or_default();
        row.entry(to.to_owned())
            .and_modify(|slowest| *slowest = slowest.zip(took).map(|(one, other)| one.max(other)))
            .or_insert(took);
    }
}

/// Who asks whom.
#[derive(Debug)]
pub(super) struct Way<'a> {
    pub(super) from: String,
    pub(super) to: String,
    /// Where the one who asks lives.
    pub(super) inside: &'a Namespace,
    /// Where the other one echoes.
    pub(super) target: SocketAddr,
}

/// Sockets, one for each way.
pub(super) struct Lines(Vec<Line>);

struct Line {
    from: String,
    to: String,
    socket: UdpSocket,
    number: u32,
}

impl Lines {
    /// Opens them all.
    pub(super) async fn open(ways: impl IntoIterator<Item = Way<'_>>) -> anyhow::Result<Lines> {
        try_join_all(ways.into_iter().map(Line::open)).await.map(Lines)
    }

    /// Asks again and again until everybody has had an answer from everybody. Pending for ever while somebody has not:
    /// bound it outside.
    pub(super) async fn until_full(&mut self, pace: Duration) {
        join_all(self.0.iter_mut().map(|line| line.first_answer(pace))).await;
    }

    /// What takes how long right now. First all ask at once, then those who were answered one after another: whoever
    /// stands in line behind others measures these.
    pub(super) async fn matrix(&mut self) -> Matrix {
        let mut matrix = Matrix::default();
        let answers = join_all(self.0.iter_mut().map(Line::answer)).await;
        for (line, answer) in self.0.iter_mut().zip(answers) {
            let again = if answer.is_some() { line.ask().await } else { None };
            let quickest = answer.into_iter().chain(again).min().map(hundredths);
            matrix.note(&line.from, &line.to, quickest);
        }
        matrix
    }

    /// Asks so many times on each line; says how many questions and how many answers that were.
    pub(super) async fn count(&mut self, times: u64) -> (u64, u64) {
        let sent = times * u64::try_from(self.0.len()).unwrap_or(u64::MAX);
        let answers = join_all(self.0.iter_mut().map(|line| line.answers(times))).await;
        (sent, answers.into_iter().sum())
    }
}

impl Line {
    async fn open(way: Way<'_>) -> anyhow::Result<Line> {
        let Way { from, to, inside, target } = way;
        let any = match target {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let open = move || {
            let socket = std::net::UdpSocket::bind((any, 0))?;
            socket.connect(target)?;
            socket.set_nonblocking(true)?;
            UdpSocket::from_std(socket)
        };
        let socket = inside.run(open).await?.with_context(|| format!("cannot open a socket of {from}"))?;
        Ok(Line { from, to, socket, number: 0 })
    }

    /// Whatever comes counts, however long ago it was asked for. An error is an ICMP message: no answer.
    async fn first_answer(&mut self, pace: Duration) {
        let mut pace = interval(pace);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut buffer = [0; 64];
        loop {
            tokio::select! {
                _ = pace.tick() => {
                    let question = self.question();
                    let _ = self.socket.send(question.as_bytes()).await;
                }
                Ok(_) = self.socket.recv(&mut buffer) => return,
            }
        }
    }

    async fn answer(&mut self) -> Option<Duration> {
        for _ in 0..TRIES {
            let took = self.ask().await;
            if took.is_some() {
                return took;
            }
        }
        None
    }

    async fn answers(&mut self, times: u64) -> u64 {
        let mut answers = 0;
        for _ in 0..times {
            answers += u64::from(self.ask().await.is_some());
        }
        answers
    }

    async fn ask(&mut self) -> Option<Duration> {
        let question = self.question();
        let asked = Instant::now();
        let deadline = asked + PATIENCE;
        let answer = async {
            self.socket.send(question.as_bytes()).await.ok()?;
            let mut buffer = [0; 64];
            // An answer to an earlier question does not count for this one.
            while self.socket.recv(&mut buffer).await.ok()? != question.len()
                || !buffer.starts_with(question.as_bytes())
            {}
            Some(asked.elapsed())
        };
        let took = timeout_at(deadline, answer).await.ok().flatten();
        if took.is_none() {
            // "No route" comes at once, and what is mended meanwhile is to be seen.
            sleep_until(deadline).await;
        }
        took
    }

    fn question(&mut self) -> String {
        self.number += 1;
        format!("causeway {:08}", self.number)
    }
}

/// Milliseconds with two digits behind the point: more would pretend.
fn hundredths(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_not_reached_is_named() {
        let row = |to: &str, took| BTreeMap::from([(to.to_owned(), took)]);
        let mut matrix =
            Matrix(BTreeMap::from([("a".into(), row("b", Some(0.1))), ("b".into(), row("a", Some(0.2)))]));
        matrix.check().expect("everybody reaches everybody");
        matrix.0.insert("b".into(), row("a", None));
        assert_eq!(matrix.check().expect_err("somebody does not").to_string(), "no answer: b → a");
    }

    #[test]
    fn over_two_families_the_slower_answer_counts_and_both_must_come() {
        let noted = |answers: [Option<f64>; 2]| {
            let mut matrix = Matrix::default();
            answers.into_iter().for_each(|took| matrix.note("a", "b", took));
            matrix.0["a"]["b"]
        };
        assert_eq!(noted([Some(0.1), Some(0.3)]), Some(0.3));
        assert_eq!(noted([Some(0.3), Some(0.1)]), Some(0.3));
        assert_eq!((noted([None, Some(0.1)]), noted([Some(0.1), None])), (None, None));
    }
}
