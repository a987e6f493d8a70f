//! Work in a network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns};

/// Does something on a thread of its own that is in a network namespace: `/run/netns/demo`, or without any the one that
/// this process is in. A thread that has entered one is of no use for anything else, so it ends with the work.
pub fn inside<T: Send>(namespace: Option<&Path>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let entered = || {
        if let Some(path) = namespace {
            setns(File::open(path)?.as_fd(), CloneFlags::CLONE_NEWNET)?;
        }
        Ok(work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("bridges".into()).spawn_scoped(scope, entered)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the work panicked")))
    })
}

/// Waits until nobody else works in the network namespace that this thread is in, and keeps others out for as long as the
/// value lives: a lock on the namespace itself, which needs no file.
pub fn alone() -> io::Result<Flock<File>> {
    let namespace = File::open("/proc/thread-self/ns/net")?;
    Flock::lock(namespace, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
}
