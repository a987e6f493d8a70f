//! The link by which this node is reached, and what the kernel says by itself.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_core::Family;
use causeway_core::leases::Interface;
use causeway_core::leases::interface::{Choice, choose, still};
use causeway_core::leases::state::{Event, Scope};
use causeway_datapath::leases::{Heard, Kernel, Monitor};
use regex_lite::Regex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{Leases, lock};
use crate::sources::{Feed, Standing};

/// Whoever changes one thing often changes several: what is heard within this is looked into at once.
const DEBOUNCE: Duration = Duration::from_millis(2);

/// Whether anybody still listens is asked this often.
const LISTENS_FOR: Duration = Duration::from_secs(1);

/// One way to say which link is meant.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// That of a name, or with an address.
    Named(String),
    /// One whose name or address fits.
    Fitting(Regex),
    /// That by which an address is reached.
    Reaching(IpAddr),
}

/// By which link this node is reached: the first of these that there is; without any, that of the default route.
#[derive(Debug, Clone, Default)]
pub struct Selection(pub Vec<Wanted>);

/// Finds the link of a family; or says why there is none. The one that others know stays while it can. That the kernel
/// cannot be asked is an error.
pub fn detect(
    kernel: &mut Kernel,
    family: Family,
    selection: &Selection,
    known: Option<&Interface>,
) -> io::Result<Result<Interface, String>> {
    let links = kernel.links()?;
    if let Some(interface) = known.and_then(|known| still(known, &links)) {
        return Ok(Ok(interface));
    }
    if selection.0.is_empty() {
        let way = kernel.default_way(family)?;
        return Ok(choose(family, &Choice::Default, &links, way));
    }
    let mut whys = Vec::new();
    for wanted in &selection.0 {
        let found = match wanted {
            Wanted::Named(name) => choose(family, &Choice::Named(name), &links, None),
            Wanted::Fitting(regex) => {
                let fits = |text: &str| regex.is_match(text);
                choose(family, &Choice::Fitting(&fits, regex.as_str()), &links, None)
            }
            Wanted::Reaching(address) => {
                let way = kernel.way_to(*address)?;
                choose(family, &Choice::Reaching(*address), &links, way)
            }
        };
        match found {
            Ok(interface) => return Ok(Ok(interface)),
            Err(why) => whys.push(why),
        }
    }
    Ok(Err(whys.join("; ")))
}

/// Listens to the kernel for ever.
pub(super) async fn follow(room: Arc<Leases>, feed: Feed<Leases>) {
    let mut pace = feed.pace();
    sweep(&room).await;
    loop {
        let opened = Instant::now();
        let Err(error) = listen(&room, &feed).await;
        tracing::warn!(%error, "the kernel cannot be listened to");
        feed.note(Standing::Waiting(error.to_string()));
        if opened.elapsed() > Duration::from_secs(60) {
            pace.reset();
        }
        sleep(pace.pause()).await;
    }
}

/// Takes away what is left of a family that the network has no more.
async fn sweep(room: &Arc<Leases>) {
    let others: Vec<Family> =
        Family::ALL.into_iter().filter(|family| !room.kept.contains_key(family)).collect();
    let swept = tokio::task::spawn_blocking(move || {
        let mut kernel = Kernel::open()?;
        let mut words = Vec::new();
        for family in others {
            let (done, failed) = super::once::clean_family(&mut kernel, family)?;
            words.extend(done.into_iter().chain(failed));
        }
        Ok::<_, io::Error>(words)
    });
    match swept.await.map_err(io::Error::other).flatten() {
        Ok(words) => words.iter().for_each(|what| tracing::info!(what, "of a family that is not enabled")),
        Err(error) => tracing::warn!(%error, "a family that is not enabled cannot be looked at"),
    }
}

async fn listen(room: &Arc<Leases>, feed: &Feed<Leases>) -> io::Result<Infallible> {
    let (news, mut heard) = mpsc::channel(1);
    let monitor = Monitor::open()?;
    let ears = room.clone();
    std::thread::Builder::new().name("kernel monitor".into()).spawn(move || hear(&ears, monitor, &news))?;
    // Whatever happened before anybody listened is looked for.
    let mut news: BTreeSet<Heard> = [Heard::TooMuch].into();
    loop {
        match look(room, feed, &news).await {
            Ok(()) => {
                feed.note(Standing::Listed);
                news = heard.recv().await.ok_or_else(|| io::Error::other("its thread ended"))??;
            }
            Err(error) => {
                tracing::warn!(%error, "the links cannot be seen");
                // What is said meanwhile is heard all the same.
                sleep(LISTENS_FOR).await;
            }
        }
    }
}

/// Passes on what the kernel says for as long as anybody wants to know. A thread of its own, for it waits for nothing else.
fn hear(room: &Leases, mut monitor: Monitor, news: &mpsc::Sender<io::Result<BTreeSet<Heard>>>) {
    while !news.is_closed() {
        let heard = monitor.wait(LISTENS_FOR).and_then(|ready| {
            if !ready {
                return Ok(BTreeSet::new());
            }
            let first = Instant::now();
            std::thread::sleep(DEBOUNCE);
            let heard = monitor.read(&room.interest())?;
            for (_, kept) in room.kept.iter().filter(|(family, _)| concerns(&heard, **family)) {
                lock(&kept.heard).get_or_insert(first);
            }
            Ok(heard)
        });
        let is_over = heard.is_err();
        let is_news = !heard.as_ref().is_ok_and(BTreeSet::is_empty);
        if is_news && news.blocking_send(heard).is_err() || is_over {
            return;
        }
    }
}

/// Has whatever may have changed looked into.
async fn look(room: &Arc<Leases>, feed: &Feed<Leases>, heard: &BTreeSet<Heard>) -> io::Result<()> {
    let all = heard.contains(&Heard::TooMuch);
    if all || heard.contains(&Heard::Links) {
        find(room, feed).await?;
    }
    if all || heard.contains(&Heard::Rules) {
        room.desk.add(Scope::Traffic);
    }
    for family in room.families().filter(|family| concerns(heard, *family)) {
        room.desk.add(Scope::Kernel(family));
    }
    Ok(())
}

/// Finds the links by which this node is reached.
async fn find(room: &Arc<Leases>, feed: &Feed<Leases>) -> io::Result<()> {
    let known = |(family, kept): (&Family, &super::Kept)| (*family, lock(&kept.interface).clone());
    let known: Vec<_> = room.kept.iter().map(known).collect();
    let selection = room.options.selection.clone();
    let found = tokio::task::spawn_blocking(move || {
        let mut kernel = Kernel::open()?;
        let found = known.into_iter().map(|(family, known)| {
            let interface = again(|| detect(&mut kernel, family, &selection, known.as_ref()))?;
            Ok((family, interface))
        });
        found.collect::<io::Result<Vec<_>>>()
    });
    for (family, interface) in found.await.map_err(io::Error::other)?? {
        if let Ok(interface) = &interface {
            *lock(&room.kept[&family].interface) = Some(interface.clone());
        }
        feed.tell(Event::Interface(family, interface));
    }
    Ok(())
}

/// Whether what was heard may be about what the kernel holds of a family.
fn concerns(heard: &BTreeSet<Heard>, family: Family) -> bool {
    [Heard::Links, Heard::Ends, Heard::TooMuch, Heard::Routes(family)].iter().any(|news| heard.contains(news))
}

/// A list that changed while it was made may lack something.
pub(super) fn again<T>(mut list: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const TRIES: u32 = 20;
    for _ in 1..TRIES {
        match list() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            listed => return listed,
        }
    }
    list()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_interrupted_is_made_again_but_not_for_ever() {
        fn interrupted<T>() -> io::Result<T> {
            Err(io::ErrorKind::Interrupted.into())
        }
        let mut left = 3;
        let listed = again(|| {
            left -= 1;
            if left > 0 { interrupted() } else { Ok("all") }
        });
        assert_eq!(listed.expect("the third is whole"), "all");
        let error = again(interrupted::<()>).expect_err("never whole");
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        let mut tries = 0;
        let error = again(|| {
            tries += 1;
            Err::<(), _>(io::ErrorKind::PermissionDenied.into())
        });
        assert_eq!((error.expect_err("it may not").kind(), tries), (io::ErrorKind::PermissionDenied, 1));
    }
}
