//! The loss of a VPC's main gateway under traffic: the program's own `sandbox --demo failover --rounds`, judged.
//!
//! The sandbox is measured as people run it, as a process of its own, so nothing of this one is in the figures. In it are both
//! clusters, the broker, the gateways and the traffic; they share the cores with the controllers.

use std::error::Error;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

/// A loss that the API server tells of, and one that nobody does.
const CAUSES: [(&[&str], &str, f64); 2] = [
    (&[], "its pod is deleted", 200.0),
    (&["--silent"], "it dies in silence, and its pod stays ready", 1_000.0),
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // `cargo test --benches` only wants to see that it starts.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(ExitCode::SUCCESS);
    }
    let rounds = std::env::var("FAILOVER_ROUNDS").unwrap_or_else(|_| "20".into());
    let sizes = std::env::var("FAILOVER_TUNNELS").unwrap_or_else(|_| "1,1000".into());
    for (flags, what, aim) in CAUSES {
        for tunnels in sizes.split(',') {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            let measured = measure(flags, &rounds, tunnels)?;
            print(&measured, &format!("{what}; {tunnels} tunnels on it, {rounds} rounds"), aim)?;
            writeln!(std::io::stdout().lock(), "  the machine's load before: {}", load.trim())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(flags: &[&str], rounds: &str, tunnels: &str) -> Result<Value, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args([
        "sandbox",
        "--demo",
        "failover",
        "--rounds",
        rounds,
        "--tunnels",
        tunnels,
        "--output",
        "json",
    ]);
    let output = command.args(flags).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the sandbox ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// All from the loss.
fn print(measured: &Value, title: &str, aim: f64) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nThe main gateway is lost: {title}")?;
    let lines = [
        ("written", "the VPC's routes are written"),
        ("firstPacket", "the first packet goes through the standby"),
        ("firstAnswer", "an answer is here"),
    ];
    for (name, what) in lines {
        let number = |of: &str| measured[name][of].as_f64().ok_or_else(|| format!("no {name}.{of}"));
        let (p50, worst) = (number("p50Ms")?, number("worstMs")?);
        writeln!(out, "  {what:42} p50 {p50:7.1} ms   worst {worst:7.1} ms")?;
        writeln!(out, "    all {}", measured[name]["samplesMs"])?;
        if name == "firstPacket" {
            let verdict = |ms: f64| if ms <= aim { "met" } else { "missed" };
            writeln!(out, "    (aim: {aim} ms; p50 {}, worst {})", verdict(p50), verdict(worst))?;
        }
    }
    writeln!(out, "  packets lost, at 500 a second: {}", measured["lost"])?;
    Ok(())
}
