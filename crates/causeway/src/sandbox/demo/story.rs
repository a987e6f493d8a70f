//! What a demonstration showed: to programs as numbers, to people as a picture.

use std::fmt::Write;
use std::time::Instant;

use serde::Serialize;

use super::super::addresses::Gateway;
use super::forwarded::Sample;
use super::picture::{self, Window};
use super::traffic::{Packet, RATE};

/// The last of so many questions decide whether traffic flows.
const LAST: usize = RATE as usize / 5;
/// A part of the picture is what was before, and one what came after.
const BEFORE: f64 = 0.2;
const AFTER: f64 = 0.35;

/// All there is to say.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::sandbox) struct Story {
    /// Which demonstration.
    pub(super) demo: &'static str,
    /// What is done in it.
    pub(super) about: String,
    /// Questions a second.
    pub(super) rate: u32,
    pub(super) sent: usize,
    pub(super) answered: usize,
    pub(super) lost: usize,
    /// The longest time in which no answer came.
    pub(super) silence_ms: f64,
    /// Every one of the last questions was answered.
    pub(super) flows_again: bool,
    /// What happened, in order.
    pub(super) moments: Vec<Moment>,
    /// Packets that each gateway forwarded.
    pub(super) forwarded: Vec<Carried>,
    /// What objects said meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) said: Vec<String>,
    #[serde(skip)]
    strips: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Moment {
    /// From just before the first thing that was done.
    pub(super) ms: f64,
    pub(super) what: String,
}

/// What went through a gateway, there and back.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Carried {
    pub(super) gateway: String,
    pub(super) packets: u64,
}

/// What is put together in the course of a demonstration.
pub(super) struct Draft {
    pub(super) demo: &'static str,
    pub(super) about: String,
    /// Just before the first thing that was done.
    pub(super) zero: Instant,
    pub(super) packets: Vec<Packet>,
    /// Each with the cluster that its gateways are in.
    pub(super) forwarded: Vec<(String, Vec<Sample>)>,
    pub(super) moments: Vec<(Instant, String)>,
    pub(super) said: Vec<String>,
    /// The picture ends somewhat after this.
    pub(super) until: Instant,
}

/// Milliseconds with one digit behind the point: more would pretend.
pub(super) fn ms(zero: Instant, at: Instant) -> f64 {
    let ms = match at.checked_duration_since(zero) {
        Some(after) => after.as_secs_f64(),
        None => -zero.duration_since(at).as_secs_f64(),
    };
    (ms * 10_000.0).round() / 10.0
}

impl Draft {
    /// The moments in order, the counts, and the picture.
    pub(super) fn finish(mut self) -> Story {
        self.moments.sort();
        let zero = self.zero;
        let moments: Vec<Moment> =
            self.moments.iter().map(|(at, what)| Moment { ms: ms(zero, *at), what: what.clone() }).collect();
        let answers: Vec<Instant> = self.packets.iter().filter_map(|packet| packet.answered).collect();
        let strips = self.strips(&moments);
        Story {
            demo: self.demo,
            rate: RATE,
            sent: self.packets.len(),
            answered: answers.len(),
            lost: self.packets.len() - answers.len(),
            silence_ms: silence(answers),
            flows_again: self.packets.len() > LAST
                && self.packets.iter().rev().take(LAST).all(|packet| packet.answered.is_some()),
            forwarded: self.forwarded.iter().flat_map(|(cluster, its)| carried(cluster, its)).collect(),
            about: self.about,
            moments,
            said: self.said,
            strips,
        }
    }

    fn strips(&self, moments: &[Moment]) -> Vec<String> {
        let at = |moment: Instant| ms(self.zero, moment);
        let shown = at(self.until).max(10.0);
        let last = self.packets.last().map_or(shown, |packet| at(packet.sent));
        let window = Window::fit(-BEFORE * shown, ((1.0 + AFTER) * shown).min(last));
        let sent = window.sums(self.packets.iter().map(|packet| (at(packet.sent), 1.0)));
        let answered = self.packets.iter().filter(|packet| packet.answered.is_some());
        let came = window.sums(answered.map(|packet| (at(packet.sent), 1.0)));
        let mut named = vec![("answered".to_owned(), picture::shares(&sent, &came))];
        for (cluster, samples) in &self.forwarded {
            for gateway in Gateway::ALL {
                let its = samples.iter().filter(|sample| sample.gateway == gateway);
                // A question and its answer are two packets.
                let done = window.sums(its.map(|sample| (at(sample.at), sample.packets as f64 / 2.0)));
                named.push((format!("{cluster} {}", gateway.name()), picture::busy(&sent, &done)));
            }
        }
        let margin = named.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 2;
        let line = |name: &str, rest: &str| format!("  {name:margin$}{rest}").trim_end().to_owned();
        let axis = window.axis().map(|part| line("", &part));
        let marks = window.marks(letters().zip(moments).map(|(letter, moment)| (letter, moment.ms)));
        let strips = named.iter().map(|(name, strip)| line(name, strip));
        axis.into_iter().chain(strips).chain(marks.iter().map(|row| line("", row))).collect()
    }
}

fn letters() -> impl Iterator<Item = char> {
    'a'..='z'
}

/// The longest time between two answers.
fn silence(mut answers: Vec<Instant>) -> f64 {
    answers.sort();
    let gap = |pair: &[Instant]| ms(pair[0], pair[1]);
    answers.windows(2).map(gap).fold(0.0, f64::max)
}

fn carried(cluster: &str, samples: &[Sample]) -> Vec<Carried> {
    let of = |gateway: Gateway| {
        let its = samples.iter().filter(|sample| sample.gateway == gateway);
        let packets = its.map(|sample| sample.packets).sum();
        Carried { gateway: format!("{cluster} {}", gateway.name()), packets }
    };
    Gateway::ALL.map(of).to_vec()
}

impl Story {
    /// Whether packets cross again.
    pub(in crate::sandbox) fn flows_again(&self) -> bool {
        self.flows_again
    }

    /// For a terminal.
    pub(in crate::sandbox) fn text(&self) -> String {
        let mut text = format!("\n{}: {}\n\n", self.demo, self.about);
        for strip in &self.strips {
            let _ = writeln!(text, "{strip}");
        }
        text.push('\n');
        for (letter, moment) in letters().zip(&self.moments) {
            let _ = writeln!(text, "  {letter} {:9.1} ms  {}", moment.ms, moment.what);
        }
        for said in &self.said {
            let _ = writeln!(text, "  {said}");
        }
        let _ = writeln!(text, "\n{}", self.verdict());
        text
    }

    fn verdict(&self) -> String {
        let (sent, rate, lost) = (self.sent, self.rate, self.lost);
        let carried: Vec<String> =
            self.forwarded.iter().map(|it| format!("{} forwarded {}", it.gateway, it.packets)).collect();
        format!(
            "{} {sent} packets at {rate} a second, {lost} lost; the longest silence was {:.0} ms; {}{}",
            if self.flows_again { '✔' } else { '✘' },
            self.silence_ms,
            carried.join(", "),
            if self.flows_again { "" } else { "; traffic does not flow again" },
        )
    }
}

#[cfg(test)]
impl Story {
    /// In which nothing was sent, so nothing flows.
    pub(in crate::sandbox) fn of_nothing() -> Story {
        let zero = Instant::now();
        let (packets, forwarded, moments, said) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Draft { demo: "failover", about: String::new(), zero, packets, forwarded, moments, said, until: zero }
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A question each 2 ms, from 100 ms before to 400 ms after, of which those from 10 to 40 ms are lost.
    fn draft(zero: Instant) -> Draft {
        let packet = |number: u64| {
            let sent = zero - Duration::from_millis(100) + Duration::from_millis(2 * number);
            let is_lost =
                (zero + Duration::from_millis(10)..zero + Duration::from_millis(40)).contains(&sent);
            let answered = (!is_lost).then(|| sent + Duration::from_micros(300));
            Packet { sent, answered }
        };
        let sample =
            |millis, gateway| Sample { at: zero + Duration::from_millis(millis), gateway, packets: 2 };
        Draft {
            demo: "failover",
            about: "something is lost".into(),
            zero,
            packets: (0..250).map(packet).collect(),
            forwarded: vec![("c1".into(), vec![sample(0, Gateway::Gw1), sample(40, Gateway::Gw2)])],
            moments: vec![
                (zero + Duration::from_millis(40), "it is there again".into()),
                (zero, "it is lost".into()),
            ],
            said: vec!["somebody said something".into()],
            until: zero + Duration::from_millis(40),
        }
    }

    #[test]
    fn losses_and_the_longest_silence_are_counted() {
        let story = draft(Instant::now() + Duration::from_secs(60)).finish();
        assert_eq!((story.sent, story.answered, story.lost), (250, 235, 15));
        assert_eq!(story.silence_ms, 32.0);
        assert!(story.flows_again);
        let json = serde_json::to_value(&story).expect("serializable");
        assert_eq!(json["flowsAgain"], true);
        assert_eq!(json["moments"][1]["ms"], 40.0);
        assert_eq!(json["forwarded"][1]["gateway"], "c1 gw2");
    }

    #[test]
    fn the_picture_shows_what_was_lost_between_its_marks() {
        let text = draft(Instant::now() + Duration::from_secs(60)).finish().text();
        let answered = text.lines().find(|line| line.contains("answered")).expect("a strip");
        let (_, strip) = answered.split_once("answered").expect("its name");
        let strip: Vec<char> = strip.trim_start().chars().collect();
        assert_eq!(strip.iter().filter(|cell| **cell == '·').count(), 30, "{text}");
        assert!(
            text.contains("  a       0.0 ms  it is lost\n  b      40.0 ms  it is there again\n"),
            "{text}"
        );
        assert!(
            text.contains("✔ 250 packets at 500 a second, 15 lost; the longest silence was 32 ms"),
            "{text}"
        );
    }

    #[test]
    fn traffic_that_ends_with_a_loss_does_not_flow_again() {
        let mut draft = draft(Instant::now() + Duration::from_secs(60));
        draft.packets.last_mut().expect("the last").answered = None;
        let story = draft.finish();
        assert!(!story.flows_again);
        assert!(story.text().contains("✘"), "{}", story.text());
    }
}
