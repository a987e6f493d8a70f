//! Time to the first packet of a new tunnel: the program's own `sandbox --measure`, judged.
//!
//! The sandbox is measured as people run it, as a process of its own, so nothing of this one is
//! in the figures.

use std::error::Error;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

const ROUNDS: &str = "20";
/// Half of the tunnels should carry a packet this soon.
const AIM_MS: f64 = 100.0;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // `cargo test --benches` only wants to see that it starts.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(ExitCode::SUCCESS);
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(["sandbox", "--measure", ROUNDS, "--output", "json"]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the sandbox ended with {}", output.status).into());
    }
    let measured: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| measured[name].as_f64().ok_or_else(|| format!("no {name} in the report"));
    let (p50, worst) = (number("p50Ms")?, number("worstMs")?);
    let verdict = if p50 <= AIM_MS { "met" } else { "missed" };
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nFirst packet through a new tunnel, both ends created at once, {ROUNDS} rounds")?;
    writeln!(out, "  p50   {p50:7.1} ms   (aim: {AIM_MS} ms, {verdict})")?;
    writeln!(out, "  worst {worst:7.1} ms")?;
    writeln!(out, "  all   {}", measured["samplesMs"])?;
    writeln!(out, "  the machine's load before: {}", load.trim())?;
    Ok(ExitCode::SUCCESS)
}
