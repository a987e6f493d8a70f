//! Many tunnels on real gateways, and what they cost the controller, the gateways and the packets.
//!
//! ```text
//!  creates ─▶ API server (this process) ─▶ `causeway controller` (a child, measured)
//!                   ▲ status                     │ exec
//!                   └────────────────────────────┘ ──▶ API server ─▶ nsenter ─▶ namespaces
//! ```
//!
//! Every size has a cluster, gateways and a controller of its own. The clock runs from the first
//! create until the last tunnel says `Ready=True`; then the kernels are counted, so that nothing
//! is called ready that is not there. Everything ends with this process.
//!
//! `BENCH_KUBECONFIG` names a real API server to use in place of the embedded one ([`real`]).

#[path = "../../src/sandbox/apply.rs"]
#[allow(dead_code, reason = "the sandbox uses all of it")]
mod apply;
mod broker;
mod calm;
mod cluster;
mod controller;
mod cost;
mod crowd;
mod exec;
mod far;
mod flood;
mod floor;
mod gateways;
mod idle;
mod many;
mod namespace;
mod objects;
mod one;
mod packets;
mod pretend;
mod real;
mod shape;
mod single;
mod stage;
mod table;
mod traffic;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};

const PARTS: [&str; 8] = ["single", "many", "one", "crowd", "idle", "packets", "flood", "calm"];
/// Those that are run unless some are named. `calm` takes ten minutes; packets do not meet the API server.
const USUAL: [&str; 7] = ["single", "many", "one", "crowd", "idle", "packets", "flood"];
const USUAL_ON_REAL: [&str; 4] = ["single", "many", "one", "calm"];

fn main() -> anyhow::Result<ExitCode> {
    let mut parts: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` only wants to see that it starts.
    let Some(at) = parts.iter().position(|arg| arg == "--bench") else { return Ok(ExitCode::SUCCESS) };
    parts.remove(at);
    if parts.is_empty() {
        let usual: &[&str] = if real::given().is_some() { &USUAL_ON_REAL } else { &USUAL };
        parts = usual.iter().copied().map(String::from).collect();
    }
    // Already installed is as good: there is only one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for part in parts {
        // Whoever else uses the cores is in every figure but the requests.
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        runtime
            .block_on(async {
                match part.as_str() {
                    "single" => single::run().await,
                    "many" => many::run().await,
                    "one" => one::run().await,
                    "crowd" => crowd::run().await,
                    "idle" => idle::run().await,
                    "packets" => packets::run().await,
                    "flood" => flood::run().await,
                    "calm" => calm::run().await,
                    _ => bail!("unknown part; there are {}", PARTS.join(", ")),
                }
            })
            .with_context(|| part.clone())?;
        writeln!(std::io::stdout().lock(), "the machine's load before: {}", load.trim())?;
    }
    Ok(ExitCode::SUCCESS)
}
