//! Thousands of data planes that all want the same rule, and what that costs.
//!
//! ```text
//!  edits ─▶ API server (this process) ─▶ `causeway controller --enable rules` (a child, measured) ─▶ clients (children)
//!  lines ─▶ a floor: bare tonic, or plain TCP (a child, measured) ──────────────────────────────────▶ the same clients
//! ```
//!
//! Every size has an API server, a controller, floors and clients of its own. A rule carries the instant of its edit, on
//! the clock that all processes share; each client takes the difference when it reads the rule, and answers with an
//! ACK. Everything ends with this process, and all of it stays on loopback.

#[path = "../../src/sandbox/apply.rs"]
#[allow(dead_code, reason = "the sandbox uses all of it")]
mod apply;
mod bad;
mod clients;
mod clock;
#[path = "../scale/cost.rs"]
#[allow(dead_code, reason = "the other benchmark uses all of it")]
mod cost;
mod crowd;
mod figures;
mod flat;
mod floors;
mod framing;
mod http2;
mod idle;
mod load;
mod metrics;
mod neighbours;
mod process;
mod rounds;
mod sample;
mod server;
mod site;
#[path = "../scale/table.rs"]
#[allow(dead_code, reason = "the other benchmark uses all of it")]
mod table;
mod unruly;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

const PARTS: [&str; 4] = ["fan-out", "idle", "neighbours", "flat"];

fn main() -> anyhow::Result<ExitCode> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == process::ROLE) {
        process::end_with_parent()?;
        play(&args[1..])?;
        return Ok(ExitCode::SUCCESS);
    }
    // `cargo test --benches` only wants to see that it starts.
    let Some(at) = args.iter().position(|arg| arg == "--bench") else { return Ok(ExitCode::SUCCESS) };
    args.remove(at);
    if args.is_empty() {
        args = PARTS.map(String::from).into();
    }
    // Already installed is as good: there is only one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Children inherit it.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let runtime = threads()?;
    for part in args {
        // Whoever else uses the cores is in every figure but the requests.
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let run = async {
            match part.as_str() {
                "fan-out" => rounds::run().await,
                "idle" => idle::run().await,
                "neighbours" => neighbours::run().await,
                "flat" => flat::run().await,
                _ => bail!("unknown part; there are {}", PARTS.join(", ")),
            }
        };
        runtime.block_on(run).with_context(|| part.clone())?;
        writeln!(std::io::stdout().lock(), "the machine's load before: {}", load.trim())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a child does.
fn play(args: &[String]) -> anyhow::Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        // One thread for all of them: they should cost little.
        ["clients", wire, address, first, count, apps] => {
            let clients = clients::Clients {
                wire: wire.parse()?,
                address: address.parse()?,
                numbers: first.parse()?..count.parse()?,
                apps: apps.parse()?,
            };
            Builder::new_current_thread().enable_all().build()?.block_on(clients.run())
        }
        ["unruly", vice, address] => {
            let client = unruly::Unruly { vice: vice.parse()?, address: address.parse()? };
            Builder::new_current_thread().enable_all().build()?.block_on(client.run())
        }
        ["tonic", rules] => threads()?.block_on(floors::tonic::run(rules.parse()?)),
        ["tcp", rules] => threads()?.block_on(floors::tcp::run(rules.parse()?)),
        _ => bail!("no such role: {args:?}"),
    }
}

/// As the controller has it.
fn threads() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}
