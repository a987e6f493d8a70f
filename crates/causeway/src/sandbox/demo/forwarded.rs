//! Which gateway forwards: the kernel's own count of forwarded packets in each gateway of a cluster, read every millisecond.
//!
//! What a gateway sends of its own accord, such as questions to a peer, is not in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::time::sleep;

use super::super::addresses::{Gateway, Role};
use super::super::running::RunningPods;

const PACE: Duration = Duration::from_millis(1);

/// Packets that a gateway had forwarded since it was looked at before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) gateway: Gateway,
    pub(super) packets: u64,
}

type Samples = Arc<Mutex<Vec<Sample>>>;

/// Counts until it is dropped.
pub(super) struct Forwarded {
    samples: Samples,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarded {
    /// Counts what the gateways of a cluster forward from now on.
    pub(super) async fn watch(running: RunningPods) -> anyhow::Result<Forwarded> {
        let mut counters = BTreeMap::new();
        for gateway in Gateway::ALL {
            let Some(mut counter) = Counter::open(&running, gateway).await else { continue };
            // It has forwarded for others before.
            counter.more();
            counters.insert(gateway, counter);
        }
        let (samples, over, runtime) = (Samples::default(), Arc::<AtomicBool>::default(), Handle::current());
        let mut forwarded = Forwarded { samples: samples.clone(), over: over.clone(), thread: None };
        let count = move || {
            while !over.load(Ordering::Relaxed) {
                count(&runtime, &running, &mut counters, &samples);
                thread::sleep(PACE);
            }
        };
        // No other work of this process is in the way of a thread.
        forwarded.thread = Some(thread::Builder::new().name("counts".into()).spawn(count)?);
        Ok(forwarded)
    }

    /// Waits until a gateway forwards something, and says when that was seen.
    pub(super) async fn first(&self, gateway: Gateway, since: Instant) -> Instant {
        loop {
            let its = |sample: &&Sample| sample.gateway == gateway && sample.at >= since;
            let first = lock(&self.samples).iter().find(its).map(|sample| sample.at);
            if let Some(at) = first {
                return at;
            }
            sleep(PACE).await;
        }
    }

    /// All that was counted.
    pub(super) fn samples(&self) -> Vec<Sample> {
        lock(&self.samples).clone()
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // One that panicked has nothing more to say.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock(samples: &Samples) -> MutexGuard<'_, Vec<Sample>> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A gateway in one of its lives.
struct Counter {
    life: String,
    /// Belongs to the network of whoever opened it, for as long as it is open.
    file: File,
    last: u64,
}

impl Counter {
    async fn open(running: &RunningPods, gateway: Gateway) -> Option<Counter> {
        let pod = running.get(Role::Gateway(gateway))?;
        let opened = pod.net.namespace.run(|| File::open("/proc/thread-self/net/snmp")).await;
        Some(Counter { life: pod.mark.clone(), file: opened.ok()?.ok()?, last: 0 })
    }

    /// How many more there are than before.
    fn more(&mut self) -> u64 {
        let now = read(&self.file).unwrap_or(self.last);
        let more = now.saturating_sub(self.last);
        self.last = now;
        more
    }
}

/// Looks at each gateway once.
fn count(
    runtime: &Handle,
    running: &RunningPods,
    counters: &mut BTreeMap<Gateway, Counter>,
    samples: &Samples,
) {
    for gateway in Gateway::ALL {
        let life = running.get(Role::Gateway(gateway)).map(|pod| pod.mark.clone());
        if counters.get(&gateway).map(|counter| &counter.life) != life.as_ref() {
            counters.remove(&gateway);
            let new = runtime.block_on(Counter::open(running, gateway));
            counters.extend(new.map(|counter| (gateway, counter)));
        }
        let Some(counter) = counters.get_mut(&gateway) else { continue };
        let (packets, at) = (counter.more(), Instant::now());
        if packets > 0 {
            lock(samples).push(Sample { at, gateway, packets });
        }
    }
}

fn read(file: &File) -> io::Result<u64> {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0)?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    forwarded(&text).ok_or_else(|| io::Error::other("the kernel does not say what was forwarded"))
}

/// Two lines are about IP: names, and their values in the same order.
fn forwarded(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(name, _)| *name == "ForwDatagrams")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_stands_under_its_name() {
        let text =
            "Ip: Forwarding DefaultTTL ForwDatagrams InDelivers\nIp: 1 64 17 4\nIcmp: InMsgs\nIcmp: 3\n";
        assert_eq!(forwarded(text), Some(17));
        assert_eq!(forwarded("Ip: Forwarding\n"), None);
        assert_eq!(forwarded(""), None);
    }

    #[test]
    fn this_kernel_says_it() {
        assert!(read(&File::open("/proc/thread-self/net/snmp").expect("a file")).is_ok());
    }
}
