//! The long-lived command of a gateway in memory: it reads and prints what the script does.

use std::sync::Arc;
use std::time::Duration;

use causeway_core::vpc::{Link, LinkKind};
use causeway_datapath::vpc::Digest;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::{Instant, sleep, sleep_until};

use crate::gateway::Pod;
use crate::site::Reach;
use crate::weather::Fault;
use crate::world::{Place, World};

/// What it is told first.
struct Given {
    interval: Duration,
    change: String,
    pace: Duration,
}

impl Given {
    /// After the lengths of a script and of its input come both of them.
    async fn read(from: &mut BufReader<impl tokio::io::AsyncRead + Unpin>) -> Option<Self> {
        let mut line = String::new();
        from.read_line(&mut line).await.ok()?;
        let lengths: Vec<usize> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [script, input] = lengths[..] else { return None };
        let mut text = vec![0; script + input];
        from.read_exact(&mut text).await.ok()?;
        let words = String::from_utf8(text.split_off(script)).ok()?;
        let words: Vec<&str> = words.split(' ').collect();
        let [interval, change, pace] = words[..] else { return None };
        let interval = Duration::from_secs_f64(interval.parse().ok()?);
        Some(Self { interval, change: change.into(), pace: Duration::from_secs(pace.parse().ok()?) })
    }
}

/// What makes it say something.
enum Cause {
    Change,
    Asked(String),
    Listing,
    Probing,
}

/// Reports until its pod or its reader is gone, or its connection is.
pub(crate) async fn report(world: Arc<World>, pod: Arc<Pod>, stream: DuplexStream) {
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    let Some(Given { interval, mut change, pace }) = Given::read(&mut read).await else { return };
    let mut lines = read.lines();
    let reach = &world.site(Place::Cluster(pod.cluster)).reach;
    let (mut known, mut reached) = (pod.news.seen(), reach.seen());
    let (mut listing, mut probing) = (Instant::now() + interval, Instant::now());
    let (mut said, mut silent) = (None, 0);
    if write.write_all(b"causeway-alive\n").await.is_err() {
        return;
    }
    loop {
        let cause = tokio::select! {
            biased;
            news = pod.news.changed(&mut known) => match news {
                Some(_) => Cause::Change,
                None => return,
            },
            now = reach.changed(&mut reached) => match now {
                Reach::Open => continue,
                Reach::Refused => return,
                Reach::Silent => std::future::pending().await,
            },
            line = lines.next_line() => match line {
                Ok(Some(line)) => match line.strip_prefix('p') {
                    Some(announced) => {
                        change = announced.split(' ').next().unwrap_or_default().into();
                        probing = Instant::now() + world.dice.millis(2..50);
                        continue;
                    }
                    None => Cause::Asked(line),
                },
                Ok(None) | Err(_) => return,
            },
            () = sleep_until(listing) => Cause::Listing,
            () = sleep_until(probing) => Cause::Probing,
        };
        let text = match cause {
            Cause::Change => "a change\n".to_owned(),
            Cause::Probing => {
                probing = Instant::now() + pace;
                format!("causeway-probe {change}{}\n", answers(&world, &pod))
            }
            Cause::Listing | Cause::Asked(_) => {
                let asked = if let Cause::Asked(number) = cause { number } else { String::new() };
                listing = Instant::now() + interval;
                let digest = pod.memory.listing().digest;
                silent += 1;
                if asked.is_empty() && digest == said && silent < 4 {
                    continue;
                }
                (said, silent) = (digest, 0);
                format!("causeway-alive {} {asked}\n", said.as_ref().map_or("", Digest::as_str))
            }
        };
        if world.strikes(Fault::MonitorEnds) {
            return;
        }
        if world.strikes(Fault::MonitorSilent) {
            std::future::pending::<()>().await;
        }
        sleep(world.dice.millis(1..4)).await;
        if write.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// What the peers of a pod's tunnels answer.
fn answers(world: &World, pod: &Pod) -> String {
    let have = pod.memory.have();
    let led = |name: &str| have.routes.iter().any(|it| it.is_ours() && it.dev.as_deref() == Some(name));
    let ours = have.links.iter().filter(|(name, link)| link.is_ours() && led(name));
    let word = |(name, link): (&String, &Link)| match answered(world, pod, link) {
        true => format!(" {name}:800:+:0:0:"),
        false => format!(" {name}:-:?:0:0:"),
    };
    ours.map(word).collect()
}

/// Whether somebody at the far end has the same tunnel to us.
fn answered(world: &World, pod: &Pod, link: &Link) -> bool {
    let Some((identity, Some(peer))) = link.kind.as_ref().map(|kind| (identity(kind), kind.remote())) else {
        return false;
    };
    let back = |far: &Arc<Pod>| {
        let have = far.memory.have();
        have.links.values().any(|other| {
            let kind = other.kind.as_ref().filter(|_| other.up);
            kind.is_some_and(|kind| self::identity(kind) == identity && kind.remote() == Some(pod.external))
        })
    };
    link.up && world.pods().iter().filter(|far| far.external == peer).any(back)
}

/// What both ends have in common.
fn identity(kind: &LinkKind) -> (&'static str, Option<(u32, u16)>) {
    match kind {
        LinkKind::Vxlan { vni, port, .. } => ("vxlan", Some((*vni, *port))),
        LinkKind::Gre { .. } => ("gre", None::<(u32, u16)>),
    }
}
