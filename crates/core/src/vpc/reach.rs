//! Whether a tunnel's peer answers, by what was asked through the tunnel itself.
//!
//! A gateway asks each of its tunnels two questions, again and again. The near one is for the peer's gateway: its answer
//! proves the link, its identifier and both directions. The far one is for what lies behind that gateway, its VPC's
//! router; not every router answers, so only one that did before is missed. One answer makes a new tunnel reachable;
//! after that a change of mind takes [`MISSES`] or [`ANSWERS`] in a row, so nothing flaps when a packet is lost.

use std::collections::{BTreeMap, VecDeque};

use super::want::TunnelWant;
use crate::names::{GatewayName, ObjectKey};

/// So many questions in a row must stay without an answer before a peer counts as silent.
pub const MISSES: u8 = 3;
/// So many answers in a row bring one back that was silent.
pub const ANSWERS: u8 = 2;

/// What one round of questions in a gateway gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// The pod it was.
    pub pod_uid: String,
    /// The newest change that had been announced there when it began ([`super::Outcome::asked`]).
    pub asked: u64,
    /// By link.
    pub answers: Vec<Answer>,
}

/// What came back through one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The link.
    pub link: String,
    /// Of the peer's gateway.
    pub near: Near,
    /// Of what lies behind it, if that was asked.
    pub far: Option<bool>,
    /// Where packets to the peer's range go instead, if not into the link: another link, or nowhere.
    pub astray: Option<String>,
}

/// The answer to the near question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Near {
    /// It came, after so many microseconds if they could be counted.
    Answered(Option<u32>),
    /// None came.
    Silent,
    /// It could not be asked.
    NotAsked,
}

/// What is known of a tunnel's peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Nothing was heard.
    Awaited,
    /// It was asked, and not often enough to say that it is silent.
    Asked,
    /// It cannot be asked.
    NotAsked,
    /// Nobody has said for long whether it answers.
    Unheard,
    /// It answers.
    Answers {
        /// About how long that takes, in microseconds.
        micros: Option<u32>,
        /// Whether what lies behind it does too; if not, it never did.
        behind: bool,
    },
    /// It does not answer.
    Silent,
    /// It answers, and what lies behind it no longer does.
    SilentBehind,
    /// Packets to it go elsewhere: by another link, or nowhere.
    Astray(String),
}

/// Something that holds or not, and does not change at the first sign of the contrary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Level {
    holds: Option<bool>,
    /// Signs in a row that speak against it.
    against: u8,
}

impl Level {
    fn take(&mut self, seen: bool) {
        if self.holds == Some(seen) {
            self.against = 0;
            return;
        }
        self.against += 1;
        let enough = match (self.holds, seen) {
            (None, true) => 1,
            (_, false) => MISSES,
            (Some(_), true) => ANSWERS,
        };
        if self.against >= enough {
            *self = Self { holds: Some(seen), against: 0 };
        }
    }
}

/// So many times are remembered.
const TIMES: usize = 8;

/// A time to show: that of before while the present one is of the same size, in whatever unit.
pub(super) fn steady(shown: Option<u32>, now: Option<u32>) -> Option<u32> {
    let is_near = |(shown, now): &(u32, u32)| *now / 3 <= *shown && *shown / 3 <= *now;
    shown.zip(now).filter(is_near).map_or(now.or(shown), |(shown, _)| Some(shown))
}

/// What was heard of one tunnel's peer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    /// What was built.
    tunnel: TunnelWant,
    /// Questions asked before this change was announced were about another tunnel.
    since: u64,
    near: Level,
    far: Level,
    straight: Level,
    astray: Option<String>,
    /// Rounds in a row in which it could not be asked.
    unasked: u8,
    /// Whether there were no rounds for long.
    unheard: bool,
    /// The last times that it took: a machine that is busy makes some of them long.
    times: VecDeque<u32>,
    /// As shown: it follows only large changes, or every round would be a write.
    shown: Option<u32>,
}

impl Asked {
    fn new(tunnel: TunnelWant, since: u64, answers_behind: bool) -> Self {
        let far = Level { holds: answers_behind.then_some(true), against: 0 };
        let (near, straight) = (Level::default(), Level { holds: Some(true), against: 0 });
        Self {
            tunnel,
            since,
            near,
            far,
            straight,
            astray: None,
            unasked: 0,
            unheard: false,
            times: VecDeque::new(),
            shown: None,
        }
    }

    fn take(&mut self, answer: &Answer) {
        self.unheard = false;
        match answer.near {
            Near::Answered(micros) => {
                self.near.take(true);
                self.time(micros);
            }
            Near::Silent => self.near.take(false),
            Near::NotAsked => self.unasked = self.unasked.saturating_add(1),
        }
        if answer.near != Near::NotAsked {
            self.unasked = 0;
        }
        // Where nothing ever answered, silence says nothing; and where the peer is silent, so is what is behind it.
        if let Some(answered) = answer.far
            && (answered || self.far.holds.is_some() && answer.near != Near::Silent)
        {
            self.far.take(answered);
        }
        self.straight.take(answer.astray.is_none());
        self.astray = answer.astray.clone().or(self.astray.take());
    }

    fn time(&mut self, micros: Option<u32>) {
        self.times.extend(micros);
        if self.times.len() > TIMES {
            self.times.pop_front();
        }
        self.shown = steady(self.shown, self.micros());
    }

    /// The shortest of the last few.
    fn micros(&self) -> Option<u32> {
        self.times.iter().min().copied()
    }

    fn reach(&self) -> Reach {
        match (self.near.holds, self.far.holds) {
            _ if self.unheard => Reach::Unheard,
            _ if self.straight.holds == Some(false) => Reach::Astray(self.astray.clone().unwrap_or_default()),
            (Some(false), _) => Reach::Silent,
            (_, _) if self.unasked >= MISSES => Reach::NotAsked,
            (None, _) if self.near.against == 0 => Reach::Awaited,
            (None, _) => Reach::Asked,
            (Some(true), Some(false)) => Reach::SilentBehind,
            (Some(true), behind) => Reach::Answers { micros: self.shown, behind: behind == Some(true) },
        }
    }
}

/// What was heard of all tunnels' peers.
#[derive(Debug, Clone, Default)]
pub(super) struct Reaches(BTreeMap<GatewayName, Heard>);

/// The same of one gateway's.
#[derive(Debug, Clone, Default)]
struct Heard {
    pod_uid: String,
    /// By link.
    asked: BTreeMap<String, Asked>,
    owners: BTreeMap<ObjectKey, String>,
}

impl Reaches {
    /// What is known of a tunnel's peer.
    pub(super) fn of(&self, gateway: &GatewayName, key: &ObjectKey) -> Reach {
        let asked = || {
            let heard = self.0.get(gateway)?;
            heard.asked.get(heard.owners.get(key)?)
        };
        asked().map_or(Reach::Awaited, Asked::reach)
    }

    /// The time that a tunnel's peer takes to answer, in microseconds.
    pub(super) fn micros(&self, gateway: &GatewayName, key: &ObjectKey) -> Option<u32> {
        let heard = self.0.get(gateway)?;
        let asked = heard.asked.get(heard.owners.get(key)?)?;
        asked.micros().filter(|_| matches!(asked.reach(), Reach::Answers { .. }))
    }

    /// These tunnels, by link, are built on a pod of a gateway, and no others. What was heard before of one that is built
    /// otherwise, or of another pod, no longer counts. Whether what lies behind a peer is known to answer, the object says.
    pub(super) fn built<'a>(
        &mut self,
        gateway: &GatewayName,
        pod_uid: &str,
        since: u64,
        tunnels: impl Iterator<Item = (&'a str, &'a TunnelWant, bool)>,
    ) {
        let mut before = self.0.remove(gateway).filter(|heard| heard.pod_uid == pod_uid).unwrap_or_default();
        let mut heard = Heard { pod_uid: pod_uid.into(), ..Heard::default() };
        for (link, tunnel, answers_behind) in tunnels {
            let known = before.asked.remove(link).filter(|asked| asked.tunnel == *tunnel);
            let asked = known.unwrap_or_else(|| Asked::new(tunnel.clone(), since, answers_behind));
            heard.asked.insert(link.into(), asked);
            heard.owners.insert(tunnel.owner.clone(), link.into());
        }
        if !heard.asked.is_empty() {
            self.0.insert(gateway.clone(), heard);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes a round in; gives the tunnels of which something else is true now.
    pub(super) fn take(&mut self, gateway: &GatewayName, probed: &Probed) -> Vec<ObjectKey> {
        self.each(gateway, &probed.pod_uid, |heard| {
            let mut changed = Vec::new();
            for answer in &probed.answers {
                let Some(asked) = heard.asked.get_mut(&answer.link) else { continue };
                if probed.asked < asked.since {
                    continue;
                }
                let before = asked.reach();
                asked.take(answer);
                if asked.reach() != before {
                    changed.push(asked.tunnel.owner.clone());
                }
            }
            changed
        })
    }

    /// Nothing was heard for long of any of a pod's tunnels.
    pub(super) fn unheard(&mut self, gateway: &GatewayName, pod_uid: &str) -> Vec<ObjectKey> {
        self.each(gateway, pod_uid, |heard| {
            let mut changed = Vec::new();
            for asked in heard.asked.values_mut().filter(|asked| !asked.unheard) {
                // What was true before may not be: whoever is heard next begins anew.
                (asked.unheard, asked.near) = (true, Level::default());
                changed.push(asked.tunnel.owner.clone());
            }
            changed
        })
    }

    fn each(
        &mut self,
        gateway: &GatewayName,
        pod_uid: &str,
        change: impl FnOnce(&mut Heard) -> Vec<ObjectKey>,
    ) -> Vec<ObjectKey> {
        let heard = self.0.get_mut(gateway).filter(|heard| heard.pod_uid == pod_uid);
        heard.map(change).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn answer(near: Near, far: Option<bool>) -> Answer {
        Answer { link: "t1".into(), near, far, astray: None }
    }

    fn asked(answers_behind: bool) -> Asked {
        let tunnel = TunnelWant {
            owner: "ns/t1".parse().expect("a key"),
            kind: crate::vpc::TunnelKind::Gre,
            local: [172, 16, 0, 1].into(),
            remote: [172, 16, 0, 2].into(),
            address: "10.100.0.1/24".parse().expect("an address"),
            remote_range: "242.1.0.0/16".parse().expect("a range"),
            egress: "242.0.0.1-242.0.0.8".parse().expect("addresses"),
            own: "242.0.0.0/16".parse().expect("a range"),
            seat: Default::default(),
        };
        Asked::new(tunnel, 0, answers_behind)
    }

    const YES: Near = Near::Answered(Some(900));

    #[test]
    fn one_answer_makes_a_new_tunnel_reachable_and_three_misses_make_it_silent() {
        let mut tunnel = asked(false);
        assert_eq!(tunnel.reach(), Reach::Awaited);
        tunnel.take(&answer(Near::Silent, None));
        tunnel.take(&answer(Near::Silent, None));
        assert_eq!(tunnel.reach(), Reach::Asked, "the other end may not be there yet");
        tunnel.take(&answer(YES, None));
        assert_eq!(tunnel.reach(), Reach::Answers { micros: Some(900), behind: false });
        for _ in 0..2 {
            tunnel.take(&answer(Near::Silent, None));
            tunnel.take(&answer(Near::Silent, None));
            tunnel.take(&answer(YES, None));
            assert!(matches!(tunnel.reach(), Reach::Answers { .. }), "a lost packet or two");
        }
        (0..MISSES).for_each(|_| tunnel.take(&answer(Near::Silent, None)));
        assert_eq!(tunnel.reach(), Reach::Silent);
        tunnel.take(&answer(YES, None));
        assert_eq!(tunnel.reach(), Reach::Silent, "once may be chance");
        tunnel.take(&answer(YES, None));
        assert!(matches!(tunnel.reach(), Reach::Answers { .. }));
    }

    #[test]
    fn what_lies_behind_the_peer_is_missed_only_where_it_answered() {
        let mut never = asked(false);
        (0..9).for_each(|_| never.take(&answer(YES, Some(false))));
        assert_eq!(never.reach(), Reach::Answers { micros: Some(900), behind: false });
        for mut known in [never, asked(true)] {
            known.take(&answer(YES, Some(true)));
            assert_eq!(known.reach(), Reach::Answers { micros: Some(900), behind: true });
            (0..9).for_each(|_| known.take(&answer(YES, None)));
            (0..2).for_each(|_| known.take(&answer(YES, Some(false))));
            assert!(matches!(known.reach(), Reach::Answers { .. }));
            known.take(&answer(YES, Some(false)));
            assert_eq!(known.reach(), Reach::SilentBehind);
            (0..2).for_each(|_| known.take(&answer(YES, Some(true))));
            assert!(matches!(known.reach(), Reach::Answers { behind: true, .. }));
        }
    }

    #[test]
    fn one_that_cannot_be_asked_says_so_and_one_astray_too() {
        let mut tunnel = asked(false);
        (0..3).for_each(|_| tunnel.take(&answer(Near::NotAsked, None)));
        assert_eq!(tunnel.reach(), Reach::NotAsked);
        tunnel.take(&answer(YES, None));
        assert!(matches!(tunnel.reach(), Reach::Answers { .. }));
        let astray = Answer { astray: Some("net1".into()), ..answer(YES, None) };
        (0..3).for_each(|_| tunnel.take(&astray));
        assert_eq!(tunnel.reach(), Reach::Astray("net1".into()));
        (0..2).for_each(|_| tunnel.take(&answer(YES, None)));
        assert!(matches!(tunnel.reach(), Reach::Answers { .. }));
    }

    #[test]
    fn the_time_that_is_shown_follows_large_changes_only() {
        let mut tunnel = asked(false);
        let mut shown = std::collections::BTreeSet::new();
        for n in 0..200 {
            tunnel.take(&answer(Near::Answered(Some(1000 + 97 * (n % 10))), None));
            shown.insert(tunnel.shown);
        }
        assert_eq!(shown.len(), 1, "{shown:?}");
        (0..50).for_each(|_| tunnel.take(&answer(Near::Answered(Some(80_000)), None)));
        assert!(tunnel.shown > Some(13_000), "{:?}", tunnel.shown);
    }

    fn any_answer() -> impl Strategy<Value = Answer> {
        let near = prop_oneof![
            (1..9000u32).prop_map(|micros| Near::Answered(Some(micros))),
            Just(Near::Answered(None)),
            Just(Near::Silent),
            Just(Near::NotAsked),
        ];
        (near, any::<Option<bool>>()).prop_map(|(near, far)| answer(near, far))
    }

    proptest! {
        #[test]
        fn whatever_was_before_a_few_equal_answers_decide(history in vec(any_answer(), 0..40), behind: bool) {
            let mut tunnel = asked(behind);
            history.iter().for_each(|answer| tunnel.take(answer));
            let (mut up, mut down) = (tunnel.clone(), tunnel);
            (0..ANSWERS).for_each(|_| up.take(&answer(YES, Some(true))));
            let answers = matches!(up.reach(), Reach::Answers { behind: true, .. });
            prop_assert!(answers, "{up:?}");
            (0..MISSES).for_each(|_| down.take(&answer(Near::Silent, None)));
            prop_assert_eq!(down.reach(), Reach::Silent);
        }

        /// Where every question is answered but for one or two in a row, it never stops being reachable.
        #[test]
        fn it_never_flaps_while_packets_cross(lost in vec(0..=2u8, 0..60)) {
            let mut tunnel = asked(true);
            tunnel.take(&answer(YES, Some(true)));
            for lost in lost {
                (0..lost).for_each(|_| tunnel.take(&answer(Near::Silent, None)));
                tunnel.take(&answer(YES, Some(true)));
                let answers = matches!(tunnel.reach(), Reach::Answers { .. });
                prop_assert!(answers);
            }
        }
    }
}
