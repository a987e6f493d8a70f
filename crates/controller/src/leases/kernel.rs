//! What the kernel holds: seen, compared, changed, and seen again.

use std::io;
use std::sync::Arc;

use causeway_core::Family;
use causeway_core::leases::state::Event;
use causeway_core::leases::{Have, Holding, Plan, Step, Want, plan};
use causeway_datapath::leases::Kernel;

use super::links::again;
use super::{Leases, lock};
use crate::election::Term;
use crate::queue::Next;

/// What came of a look at the kernel.
pub(super) struct Looked {
    /// What was done.
    pub(super) steps: Vec<Step>,
    /// What the kernel holds by now.
    pub(super) holding: Holding,
    /// Whether it holds all that it should.
    pub(super) is_whole: bool,
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
                let before = lock(&kept.converged).replace(want.clone());
                *lock(&kept.link) = looked.link;
                let is_repair = before.is_some_and(|before| Arc::ptr_eq(&before, &want) || before == want);
                self.report(family, &looked, heard.filter(|_| is_repair), is_repair, term);
                let next = if looked.is_whole { Next::After(self.options.check_every) } else { Next::Retry };
                self.desk.tell(Event::Held(family, Ok(looked.holding)));
                next
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
        let mut kept = lock(&self.kept[&family].kernel);
        let mut kernel = match kept.take() {
            Some(kernel) => kernel,
            None => self.open(family)?,
        };
        // One that has failed may still have answers on their way: it is not kept.
        let looked = converge(&mut kernel, family, want)?;
        *kept = Some(kernel);
        Ok(looked)
    }
}

pub(super) fn observe(kernel: &mut Kernel, family: Family, want: &Want) -> io::Result<Have> {
    let link = want.link.as_ref().map(|(name, _)| name.as_str());
    again(|| kernel.observe(family, link))
}

fn converge(kernel: &mut Kernel, family: Family, want: &Want) -> io::Result<Looked> {
    let have = observe(kernel, family, want)?;
    let Plan { steps, contested } = plan(want, &have);
    if steps.is_empty() {
        let holding = Holding { routes: want.routes.len() - contested.len(), contested, failed: Vec::new() };
        return Ok(Looked { steps, holding, is_whole: true, link: have.link.map(|link| link.index) });
    }
    let planned = Plan { steps, contested };
    let failures = kernel.apply(family, &planned, &have)?;
    // Success is observed.
    let have = observe(kernel, family, want)?;
    let left = plan(want, &have);
    let missing = left.steps.iter().filter(|step| matches!(step, Step::PutRoute(..))).count();
    let failed = failures.iter().map(|failure| format!("{}: {}", failure.step, failure.error)).collect();
    let routes = want.routes.len().saturating_sub(missing + left.contested.len());
    let is_whole = left.steps.is_empty();
    let holding =
        Holding { routes, contested: left.contested, failed: if is_whole { Vec::new() } else { failed } };
    Ok(Looked { steps: planned.steps, holding, is_whole, link: have.link.map(|link| link.index) })
}
