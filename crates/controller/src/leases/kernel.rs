//! What the kernel holds: seen, compared, changed, and seen again.

use std::io;
use std::sync::Arc;

use causeway_core::Family;
use causeway_core::leases::state::Event;
use causeway_core::leases::{Have, Holding, Plan, Step, Want, plan, plan_again};
use causeway_datapath::leases::Kernel;

use super::links::again;
use super::{Leases, lock};
use crate::election::Term;
use crate::queue::Next;

/// Where more is left to do than this, nothing is said of what was done.
const MOST_COMPARED: usize = 1000;

/// What came of a look at the kernel.
pub(super) struct Looked {
    /// What was done, and seen to be done.
    pub(super) done: Vec<Step>,
    /// What the kernel holds by now.
    pub(super) holding: Holding,
    /// Whether it holds all that it should.
    pub(super) is_whole: bool,
    /// Whether we may change anything at all.
    may_change: bool,
    link: Option<u32>,
}

impl Leases {
    /// Has the kernel hold of a family what it should.
    pub(super) async fn keep_kernel(self: Arc<Self>, family: Family, term: &Term) -> Next {
        let heard = lock(&self.kept[&family].heard).take();
        let want = match self.wanted(family) {
            Ok(want) => want,
            Err(why) => {
                // What it holds it goes on holding; whatever is waited for comes as an event.
                let all = self.desk.state().waiting();
                self.say_waiting(&all.unwrap_or(why), term);
                return Next::Done;
            }
        };
        let (room, wanted) = (self.clone(), want.clone());
        let looked = tokio::task::spawn_blocking(move || room.converge(family, &wanted)).await;
        let looked = looked.map_err(io::Error::other).flatten();
        let kept = &self.kept[&family];
        match looked {
            Ok(looked) => {
                *lock(&kept.link) = looked.link;
                let before = lock(&kept.converged).clone();
                let is_repair = before.is_some_and(|before| Arc::ptr_eq(&before, &want) || before == want);
                self.report(family, &looked, heard.filter(|_| is_repair), is_repair, term);
                // Without its link it can be reached by nobody, so nobody is told that it can.
                let no_link = want.link.as_ref().filter(|_| looked.link.is_none()).map(|(name, _)| {
                    format!("there is no link {name}: {}", looked.holding.failed.join("; "))
                });
                let no_right = || {
                    let why = "the kernel lets this process change nothing: it needs CAP_NET_ADMIN";
                    (!looked.may_change).then(|| why.to_owned())
                };
                let trouble = no_link.or_else(no_right);
                let Looked { holding, is_whole, .. } = looked;
                self.desk.tell(Event::Held(family, trouble.map_or(Ok(holding), Err)));
                if !is_whole {
                    return Next::Retry;
                }
                *lock(&kept.converged) = Some(want);
                Next::After(self.options.check_every)
            }
            Err(error) => {
                let why = format!("the kernel cannot be seen or changed: {error}");
                tracing::warn!(%family, why);
                self.desk.tell(Event::Held(family, Err(why)));
                Next::Retry
            }
        }
    }

    /// What the kernel should hold, worked out once for each revision of the state.
    fn wanted(&self, family: Family) -> Result<Arc<Want>, String> {
        let state = self.desk.state();
        let revision = state.revision();
        let mut known = lock(&self.kept[&family].want);
        if let Some((of, want)) = &*known
            && *of == revision
        {
            return Ok(want.clone());
        }
        let (want, admitted) = state.want(family)?;
        self.say_refused(family, &admitted);
        let want = Arc::new(want);
        *known = Some((revision, want.clone()));
        Ok(want)
    }

    /// Opens a conversation with the kernel; what is changed in it is no news.
    fn open(&self, family: Family) -> io::Result<Kernel> {
        let kernel = Kernel::open()?;
        *lock(&self.kept[&family].port) = kernel.port();
        Ok(kernel)
    }

    fn converge(&self, family: Family, want: &Want) -> io::Result<Looked> {
        let kept = &self.kept[&family];
        let mut kernel = match lock(&kept.kernel).take() {
            Some(kernel) => kernel,
            None => self.open(family)?,
        };
        let is_first = lock(&kept.converged).is_none();
        // One that has failed may still have answers on their way: it is not kept.
        let looked = converge(&mut kernel, family, want, if is_first { plan } else { plan_again })?;
        *lock(&kept.kernel) = Some(kernel);
        Ok(looked)
    }
}

pub(super) fn observe(kernel: &mut Kernel, family: Family, want: &Want) -> io::Result<Have> {
    let link = want.link.as_ref().map(|(name, _)| name.as_str());
    again(|| kernel.observe(family, link))
}

fn converge(
    kernel: &mut Kernel,
    family: Family,
    want: &Want,
    plan: fn(&Want, &Have) -> Plan,
) -> io::Result<Looked> {
    let have = observe(kernel, family, want)?;
    let planned = plan(want, &have);
    if planned.steps.is_empty() {
        return Ok(looked(want, &have, planned.steps, Plan { steps: Vec::new(), ..planned }, Vec::new()));
    }
    let failures = kernel.apply(family, &planned, &have)?;
    // Success is observed.
    let have = observe(kernel, family, want)?;
    let may_change = !failures.iter().any(|it| it.error.kind() == io::ErrorKind::PermissionDenied);
    let failures = failures.iter().map(|failure| format!("{}: {}", failure.step, failure.error)).collect();
    Ok(Looked { may_change, ..looked(want, &have, planned.steps, plan(want, &have), failures) })
}

fn looked(want: &Want, have: &Have, planned: Vec<Step>, left: Plan, mut failed: Vec<String>) -> Looked {
    let Plan { steps: left, contested } = left;
    let (is_whole, makes_link) = (left.is_empty(), left.iter().any(|step| matches!(step, Step::AddLink(..))));
    let missing = left.iter().filter(|step| matches!(step, Step::AddRoute(..) | Step::PutRoute(..))).count();
    let routes = want.routes.len().saturating_sub(missing + contested.len());
    let done = match left.len() {
        0 => planned,
        1..=MOST_COMPARED => planned.into_iter().filter(|step| !left.contains(step)).collect(),
        _ => Vec::new(),
    };
    if is_whole {
        failed.clear();
    } else if failed.is_empty() {
        failed
            .extend(left.iter().take(1).map(|step| format!("{step}: it was done, and is to be done again")));
    }
    let link = have.link.as_ref().filter(|_| !makes_link).map(|link| link.index);
    Looked { done, holding: Holding { routes, contested, failed }, is_whole, may_change: true, link }
}
