//! What an agent does with so many leases, in a process of its own, so that its memory is too.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use causeway_controller::leases::links::{Selection, Wanted, detect};
use causeway_core::Family;
use causeway_core::leases::state::{Event, State};
use causeway_core::leases::{Backend, Given, Lease, Mode, Network, Node, Own, Plan, Seen, plan};
use causeway_core::room::{Change, State as _};
use causeway_datapath::leases::Kernel;

use super::Figures;
use crate::addresses;
use crate::objects::name;
use crate::table::middle;

const FAMILY: Family = Family::V4;
const CHECKS: usize = 5;

/// Does it in the namespace that it is started in, and prints its figures.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let [leases, hops] = args else { return Err(anyhow!("how many leases?")) };
    let mut kernel = Kernel::open()?;
    let state = state(&mut kernel, leases.parse()?, hops.parse()?)?;
    let start = Instant::now();
    let (want, admitted) = state.want(FAMILY).map_err(|why| anyhow!(why))?;
    ensure!(admitted.refused.is_empty(), "some are refused");
    drop(admitted);
    let compile = start.elapsed();
    let start = Instant::now();
    let have = kernel.observe(FAMILY, None)?;
    let failures = kernel.apply(FAMILY, &plan(&want, &have), &have)?;
    let apply = start.elapsed();
    drop(have);
    ensure!(failures.is_empty(), "{:?}", failures.first());
    let mut checks = Vec::new();
    for _ in 0..CHECKS {
        let start = Instant::now();
        let left = plan(&want, &kernel.observe(FAMILY, None)?);
        checks.push(start.elapsed());
        ensure!(left == Plan::default(), "something is left to do");
    }
    let figures = Figures { compile, apply, check: middle(&checks), peak_kib: peak()? };
    print(&figures)
}

/// What an agent knows by then.
fn state(kernel: &mut Kernel, leases: u32, hops: u32) -> anyhow::Result<State> {
    let network = Network { range: addresses::NETWORK.parse()?, mode: Mode::HostGw };
    let given = Given { name: name(0), networks: vec![network], ..Given::default() };
    let own = Own { subnets: vec![Ok(addresses::subnet(0).parse()?)], ..Own::default() };
    let mut nodes = BTreeMap::from([(name(0), Seen { node: None, own: Some(own) })]);
    for number in 1..=leases {
        let (subnet, public) = (addresses::subnet(number).parse()?, addresses::hop(number, hops));
        let lease = Lease { subnet, public, backend: Backend::HostGw };
        let node = Node { since: i64::from(number), leases: vec![Ok(lease)] };
        nodes.insert(name(number), Seen { node: Some(node), own: None });
    }
    let mut state = State::new(given);
    state.apply(Event::Nodes(Change::Reset(nodes)));
    let selection = Selection(vec![Wanted::Named("eth0".into())]);
    state.apply(Event::Interface(FAMILY, detect(kernel, FAMILY, &selection, None)?));
    Ok(state)
}

fn peak() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no memory")?;
    Ok(line.trim_end_matches("kB").trim().parse()?)
}

fn print(figures: &Figures) -> anyhow::Result<()> {
    let Figures { compile, apply, check, peak_kib } = figures;
    let [compile, apply, check] = [compile, apply, check].map(Duration::as_nanos);
    writeln!(std::io::stdout().lock(), "{compile} {apply} {check} {peak_kib}")?;
    Ok(())
}

/// What a child printed.
pub(super) fn parse(text: &str) -> anyhow::Result<Figures> {
    let numbers: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [compile, apply, check, peak_kib] = numbers[..] else { return Err(anyhow!("a child said: {text}")) };
    let time = Duration::from_nanos;
    Ok(Figures { compile: time(compile), apply: time(apply), check: time(check), peak_kib })
}
