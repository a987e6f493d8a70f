//! A node's agent among many nodes: how fast it fills a kernel, keeps it right, and what that costs.
//!
//! ```text
//!  routes:      leases ─▶ observe, plan, apply (a child, measured) ─▶ a namespace    `ip -batch` ─▶ another one
//!  the others:  nodes ─▶ API server ─▶ relay (this process) ─▶ `causeway node` (a child, measured) ─▶ a namespace
//! ```
//!
//! Nothing is called a route that the kernel was not asked for: a [`witness`] in the same namespace looks for each.
//! Everything ends with this process, and no packet leaves it.
//!
//! `BENCH_KUBECONFIG` names a real API server to use in place of the embedded one ([`server`]).

mod addresses;
mod agent;
#[path = "../scale/cost.rs"]
#[allow(dead_code, reason = "the other benchmark uses all of it")]
mod cost;
mod floor;
mod heartbeats;
#[path = "../rules/load.rs"]
mod load;
#[path = "../scale/namespace.rs"]
#[allow(dead_code, reason = "the other benchmark uses all of it")]
mod namespace;
mod nodes;
mod objects;
mod plot;
mod relay;
mod repair;
mod routes;
mod server;
mod site;
#[path = "../scale/table.rs"]
#[allow(dead_code, reason = "the other benchmark uses all of it")]
mod table;
mod witness;

use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};

const PARTS: [&str; 4] = ["routes", "repair", "nodes", "heartbeats"];
/// On a real API server only what has to do with it.
const USUAL_ON_REAL: [&str; 2] = ["nodes", "heartbeats"];

fn main() -> anyhow::Result<ExitCode> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == routes::ROLE) {
        routes::child::run(&args[1..])?;
        return Ok(ExitCode::SUCCESS);
    }
    // `cargo test --benches` only wants to see that it starts.
    let Some(at) = args.iter().position(|arg| arg == "--bench") else { return Ok(ExitCode::SUCCESS) };
    args.remove(at);
    if args.is_empty() {
        let usual: &[&str] = if server::given().is_some() { &USUAL_ON_REAL } else { &PARTS };
        args = usual.iter().copied().map(String::from).collect();
    }
    // Already installed is as good: there is only one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for part in args {
        // Whoever else uses the cores is in every figure.
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let run = async {
            match part.as_str() {
                "routes" => routes::run().await,
                "repair" => repair::run().await,
                "nodes" => nodes::run().await,
                "heartbeats" => heartbeats::run().await,
                _ => bail!("unknown part; there are {}", PARTS.join(", ")),
            }
        };
        runtime.block_on(run).with_context(|| part.clone())?;
        writeln!(std::io::stdout().lock(), "the machine's load before: {}", load.trim())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A number that the environment may set.
fn given<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    name: &'static str,
    usual: T,
) -> anyhow::Result<T> {
    match std::env::var(name) {
        Ok(text) => text.parse().context(name),
        Err(_) => Ok(usual),
    }
}
