//! What somebody else takes out of the kernel, and how soon it is back.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_core::leases::{Have, Mode, Step, link_name};
use causeway_core::{Cidr, Family};

use crate::addresses::{mac, public, subnet};
use crate::load::Load;
use crate::server::Cluster;
use crate::site::Machine;
use crate::table::{Grid, met};
use crate::witness::{Witness, deletions, ours};

const PEERS: u32 = 1_000;
/// Of one thing; of everything a tenth of it.
const ROUNDS: u32 = 200;
const VNI: u32 = 1;
const ONE: Duration = Duration::from_millis(50);
const ALL: Duration = Duration::from_millis(200);
/// Between two rounds: until the agent has told and counted the last.
const PAUSE: Duration = Duration::from_millis(60);
/// Not a divisor of the number of peers: each round another one is harmed.
const STRIDE: u32 = 37;

/// How long each round took, and what for.
struct Times {
    what: &'static str,
    aim: Duration,
    all: Vec<Duration>,
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let rounds = crate::given("REPAIR_ROUNDS", ROUNDS)?;
    let vxlan = Mode::Vxlan { vni: VNI, port: 8472, direct: false };
    let mut times = Vec::new();
    let load = Load::now()?;
    let mut agents = Duration::ZERO;
    for mode in [Mode::HostGw, vxlan] {
        let cluster = Cluster::start(PEERS, mode).await?;
        let mut machine = Machine::new(&cluster, mode)?;
        let agent = machine.settled_agent(&cluster, PEERS).await?;
        let measured = tokio::task::block_in_place(|| match mode {
            Mode::HostGw => routes(&mut machine.witness, rounds),
            Mode::Vxlan { .. } => ends(&mut machine.witness, rounds),
        });
        times.extend(measured.with_context(|| agent.last_lines())?);
        agents += agent.cpu()?;
        agent.end().await?;
        cluster.end().await?;
    }
    print(&times, rounds, load.others(agents)?)
}

/// Peers that are harmed, one after another.
fn harmed(rounds: u32) -> impl Iterator<Item = u32> {
    (0..rounds).map(|round| round * STRIDE % PEERS + 1)
}

fn routes(witness: &mut Witness, rounds: u32) -> anyhow::Result<Vec<Times>> {
    let have = witness.holds(None)?;
    ensure!(ours(&have) == PEERS as usize, "the kernel holds {} routes", ours(&have));
    let mut one = Vec::new();
    for peer in harmed(rounds) {
        // They are in the order of their ranges, so in that of peers.
        let steps = deletions(&have, peer as usize - 1, 1);
        one.push(timed(witness, steps, &have, |witness| witness.until_reached([peer]))?);
    }
    let mut all = Vec::new();
    for _ in 0..tenth(rounds) {
        let steps = deletions(&have, 0, PEERS as usize);
        all.push(timed(witness, steps, &have, |witness| witness.until_reached(1..=PEERS))?);
    }
    ensure!(witness.holds(None)? == have, "the kernel does not hold what it held");
    Ok(vec![
        Times { what: "host-gw: one route of 1,000", aim: ONE, all: one },
        Times { what: "host-gw: all 1,000 routes", aim: ALL, all },
    ])
}

fn ends(witness: &mut Witness, rounds: u32) -> anyhow::Result<Vec<Times>> {
    let name = link_name(Family::V4, VNI);
    let name = Some(name.as_str());
    let have = witness.holds(name)?;
    ensure!(is_whole(&have), "the kernel does not hold everything");
    let link = have.link.as_ref().context("no link")?.index;
    let (mut route, mut fdb, mut neighbour) = (Vec::new(), Vec::new(), Vec::new());
    for peer in harmed(rounds) {
        let steps = deletions(&have, peer as usize - 1, 1);
        route.push(timed(witness, steps, &have, |witness| witness.until_reached([peer]))?);
        let steps = vec![Step::DropFdb(mac(peer), public(peer))];
        fdb.push(timed(witness, steps, &have, |witness| witness.until_fdb(link, mac(peer)))?);
        let end = subnet(peer).parse::<Cidr>()?.address();
        let steps = vec![Step::DropNeighbour(end)];
        neighbour.push(timed(witness, steps, &have, |witness| witness.until_neighbour(link, end))?);
    }
    let (mut all, mut device) = (Vec::new(), Vec::new());
    for _ in 0..tenth(rounds) {
        let have = witness.holds(name)?;
        let steps = deletions(&have, 0, PEERS as usize);
        all.push(timed(witness, steps, &have, |witness| witness.until_reached(1..=PEERS))?);
        let steps = vec![Step::DropStaleLink(have.link.as_ref().context("no link")?.index)];
        device.push(timed(witness, steps, &have, |witness| witness.until(name, is_whole))?);
    }
    Ok(vec![
        Times { what: "vxlan: one route of 1,000", aim: ONE, all: route },
        Times { what: "vxlan: one FDB entry of 1,000", aim: ONE, all: fdb },
        Times { what: "vxlan: one neighbour of 1,000", aim: ONE, all: neighbour },
        Times { what: "vxlan: all 1,000 routes", aim: ALL, all },
        Times { what: "vxlan: the device, with 1,000 of each", aim: ALL, all: device },
    ])
}

fn tenth(rounds: u32) -> u32 {
    rounds.div_ceil(10)
}

fn is_whole(have: &Have) -> bool {
    let peers = PEERS as usize;
    let ends = have.link.as_ref().map(|link| (link.fdb.len(), link.neighbours.len()));
    ours(have) == peers && ends == Some((peers, peers))
}

/// From just before the harm is done until it is undone.
fn timed(
    witness: &mut Witness,
    harm: Vec<Step>,
    have: &Have,
    wait: impl FnOnce(&mut Witness) -> anyhow::Result<()>,
) -> anyhow::Result<Duration> {
    let what = harm.first().map(ToString::to_string).unwrap_or_default();
    std::thread::sleep(PAUSE);
    let start = Instant::now();
    witness.change(harm, have)?;
    wait(witness).with_context(|| format!("after: {what}"))?;
    Ok(start.elapsed())
}

fn print(times: &[Times], rounds: u32, others: f64) -> anyhow::Result<()> {
    let mut grid = Grid::new(["TAKEN AWAY", "ROUNDS", "p50 ms", "p99 ms", "MAX ms", "AIM ms", ""]);
    let millis = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    for Times { what, aim, all } in times {
        let mut all = all.clone();
        all.sort_unstable();
        let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
        grid.row([
            (*what).into(),
            all.len().to_string(),
            millis(at(0.5)),
            millis(at(0.99)),
            millis(at(1.0)),
            millis(*aim),
            met(at(1.0) <= *aim).into(),
        ]);
    }
    grid.print(&format!(
        "Until it is back, from just before it is taken away; {rounds} rounds, of all a tenth; the aim is for the worst"
    ))?;
    writeln!(std::io::stdout().lock(), "others used {others:.2} cores meanwhile")?;
    Ok(())
}
