//! What can go wrong at a place where something is sent, and how often it does.
//!
//! Each run has a weather of its own: some of the faults, each at a rate of its own, so that a fault that would hide another
//! is absent from some runs.

use std::collections::BTreeMap;

use crate::dice::Dice;

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A controller's process ends right before a write.
    CrashBeforeWrite,
    /// It ends when a write is done, and before it hears so.
    CrashAfterWrite,
    CrashBeforeExec,
    CrashAfterExec,
    /// A request does not arrive, and nobody says so.
    RequestLost,
    /// It is carried out, and nobody says so.
    AnswerLost,
    /// A server refuses a request, having done nothing.
    Refused,
    /// Something takes seconds.
    Slow,
    /// An event arrives late, and so after events of other kinds that came later.
    EventLate,
    EventDoubled,
    /// A connection ends, and the event on it is lost with it.
    WatchCut,
    /// A connection falls silent, and nobody says so.
    WatchSilent,
    /// The history that a watch would go on from is gone, so that what happened meanwhile is seen only by its result.
    Compacted,
    /// A list shows what was a while ago.
    StaleList,
    /// A command cannot be begun.
    ExecRefused,
    /// It is cut off in the middle.
    ExecHalfWay,
    /// It is carried out, and its answer is lost.
    ExecAnswerLost,
    /// It hangs, and nothing happens.
    ExecHangs,
    /// It hangs, and is carried out when nobody waits for it any more.
    ExecLate,
    /// The kernel refuses a single step.
    StepRefused,
    MonitorEnds,
    MonitorSilent,
}

impl Fault {
    const ALL: [Self; 22] = [
        Self::CrashBeforeWrite,
        Self::CrashAfterWrite,
        Self::CrashBeforeExec,
        Self::CrashAfterExec,
        Self::RequestLost,
        Self::AnswerLost,
        Self::Refused,
        Self::Slow,
        Self::EventLate,
        Self::EventDoubled,
        Self::WatchCut,
        Self::WatchSilent,
        Self::Compacted,
        Self::StaleList,
        Self::ExecRefused,
        Self::ExecHalfWay,
        Self::ExecAnswerLost,
        Self::ExecHangs,
        Self::ExecLate,
        Self::StepRefused,
        Self::MonitorEnds,
        Self::MonitorSilent,
    ];

    /// The highest of its rates, in a thousand.
    fn most(self) -> u64 {
        match self {
            Self::CrashBeforeWrite | Self::CrashAfterWrite => 60,
            Self::CrashBeforeExec | Self::CrashAfterExec => 80,
            Self::RequestLost | Self::AnswerLost => 30,
            Self::Refused => 100,
            Self::Slow => 100,
            Self::EventLate => 300,
            Self::EventDoubled => 200,
            Self::WatchCut => 100,
            Self::WatchSilent => 5,
            Self::Compacted => 500,
            Self::StaleList => 500,
            Self::ExecRefused | Self::ExecHalfWay | Self::ExecAnswerLost => 150,
            Self::ExecHangs | Self::ExecLate => 60,
            Self::StepRefused => 30,
            Self::MonitorEnds => 50,
            Self::MonitorSilent => 10,
        }
    }
}

/// The faults that there are, and how often in a thousand they strike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weather(BTreeMap<Fault, u32>);

impl Weather {
    /// A weather of this run's own: calm days are among them.
    pub(crate) fn drawn(dice: &Dice) -> Self {
        let share = dice.pick(&[0, 200, 400, 700]).unwrap_or_default();
        let there = Fault::ALL.into_iter().filter(|_| dice.strikes(share));
        Self(
            there
                .map(|fault| (fault, u32::try_from(dice.number(1..fault.most() + 1)).unwrap_or(1)))
                .collect(),
        )
    }

    pub(crate) fn rate(&self, fault: Fault) -> u32 {
        self.0.get(&fault).copied().unwrap_or(0)
    }
}
