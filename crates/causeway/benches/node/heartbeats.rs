//! What an agent costs that has nothing to do, while the kubelets of all nodes go on telling that they live.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_core::leases::Mode;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::agent::Agent;
use crate::load::Load;
use crate::nodes::NODES;
use crate::objects;
use crate::server::Cluster;
use crate::site::Machine;
use crate::table::Grid;

const SECONDS: u64 = 60;
/// Five thousand kubelets that write a hundred seconds apart.
const EACH_SECOND: u32 = 50;
/// Not a multiple of any usual number of nodes: beats are spread over them.
const STRIDE: u32 = 7_919;

pub(crate) async fn run() -> anyhow::Result<()> {
    let nodes = crate::given("NODES", NODES)?;
    let time = Duration::from_secs(crate::given("HEARTBEAT_SECONDS", SECONDS)?);
    let cluster = Cluster::start(nodes, Mode::HostGw).await?;
    let mut machine = Machine::new(&cluster, Mode::HostGw)?;
    let agent = machine.settled_agent(&cluster, nodes).await?;
    let mut grid = Grid::new(["UPDATES", "OF A CORE %", "CPU ms EACH", "RESIDENT MiB", "OTHERS' CORES"]);
    grid.row(
        measured(&agent, time, async {
            sleep(time).await;
            Ok(0)
        })
        .await?,
    );
    grid.row(measured(&agent, time, beat(&cluster, nodes, time)).await?);
    grid.print(&format!(
        "An agent among {nodes} nodes on {} for {} s: nothing happens, and {EACH_SECOND} nodes a second say that they live",
        cluster.kind(),
        time.as_secs()
    ))?;
    writeln!(std::io::stdout().lock(), "others' cores are the API server's too, where it is a real one")?;
    agent.end().await?;
    cluster.end().await
}

async fn measured(
    agent: &Agent,
    time: Duration,
    work: impl Future<Output = anyhow::Result<u32>>,
) -> anyhow::Result<[String; 5]> {
    let (load, before, start) = (Load::now()?, agent.cpu()?, Instant::now());
    let updates = work.await?;
    sleep(time.saturating_sub(start.elapsed())).await;
    let cpu = agent.cpu()? - before;
    let share = cpu.as_secs_f64() / start.elapsed().as_secs_f64();
    let each = if updates == 0 {
        "-".into()
    } else {
        format!("{:.3}", cpu.as_secs_f64() * 1e3 / f64::from(updates))
    };
    let others = format!("{:.2}", load.others(cpu)?);
    Ok([
        updates.to_string(),
        format!("{:.2}", share * 100.0),
        each,
        format!("{:.1}", agent.resident_mib()?),
        others,
    ])
}

/// So many kubelets a second write their status; returns how many did.
async fn beat(cluster: &Cluster, nodes: u32, time: Duration) -> anyhow::Result<u32> {
    let mut ticks = interval(Duration::from_secs(1) / EACH_SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut writes, start, mut beats) = (JoinSet::new(), Instant::now(), 0_u32);
    while start.elapsed() < time {
        ticks.tick().await;
        beats += 1;
        let number = beats.wrapping_mul(STRIDE) % nodes + 1;
        let patch = json!({ "status": { "conditions": objects::conditions(beats) } });
        let api = cluster.nodes();
        writes.spawn(async move {
            let name = objects::name(number);
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
        });
        while let Some(written) = writes.try_join_next() {
            written?.context("a heartbeat")?;
        }
    }
    for written in writes.join_all().await {
        written.context("a heartbeat")?;
    }
    Ok(beats)
}
