//! What it costs to decide about one gateway with many tunnels:
//! `cargo run --release -p causeway-core --example one_gateway`.
#![allow(clippy::print_stdout, reason = "its purpose")]

#[path = "../tests/crowd/mod.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod crowd;

use std::time::{Duration, Instant};

use causeway_core::vpc::{Change, Event, Scope, State, compile, exchange, mains, member, published, status};

fn compile_all(state: &State, scopes: impl IntoIterator<Item = Scope>) -> usize {
    let compiled = scopes.into_iter().map(|scope| match scope {
        Scope::Gateway(name) => drop(compile::gateway(state, &name)),
        Scope::Tunnel(key) => drop(status::tunnel(state, &key)),
        Scope::Record(name) => drop(exchange::own_record(state, &name)),
        Scope::Watch(name) => drop(compile::watch(state, &name)),
        Scope::Vpc(vpc) => drop(mains::step(state, &vpc)),
        Scope::Export(name) => drop(exchange::export(state, &name)),
        Scope::Import(_, key) => drop(exchange::import(state, &key)),
        Scope::End(name) => drop(published::publish(state, &name)),
        Scope::Membership => drop(member::membership(state)),
    });
    compiled.count()
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let done = work();
    (started.elapsed(), done)
}

/// A tunnel comes and goes: what it touches is compiled, but for the gateway, which is a want of all tunnels.
fn one_change(state: &mut State, n: usize) -> Duration {
    let come = Event::Tunnels(Change::Put(crowd::key(n), crowd::tunnel(n)));
    let go = Event::Tunnels(Change::Gone(crowd::key(n)));
    let (took, ()) = timed(|| {
        for event in [come, go] {
            let touched = state.apply(event);
            compile_all(state, touched.into_iter().filter(|scope| !matches!(scope, Scope::Gateway(_))));
        }
    });
    took / 2
}

fn main() {
    println!("{:>8} {:>12} {:>12} {:>12} {:>12}", "tunnels", "list", "everything", "visit", "one change");
    for n in [100, 1_000, 5_000, 20_000] {
        let mut state = crowd::cluster(n + 1);
        let event = crowd::list(n);
        let (listed, scopes) = timed(|| state.apply(event));
        let (first, _) = timed(|| compile_all(&state, scopes));
        let found = crowd::outcome(&state);
        let (visited, _) = timed(|| state.apply(Event::Outcome(crowd::gateway(1), found)));
        let (everything, count) = timed(|| compile_all(&state, state.everything()));
        assert!(count > n);
        let mut changes: Vec<Duration> = (0..100).map(|_| one_change(&mut state, n)).collect();
        changes.sort_unstable();
        let (listed, everything, change) = (listed, first + everything, changes[50]);
        println!("{n:>8} {listed:>12.2?} {everything:>12.2?} {visited:>12.2?} {change:>12.2?}");
    }
}
