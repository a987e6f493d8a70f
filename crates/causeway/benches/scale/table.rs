//! The figures as a table, beside what they are compared with.

use std::io::Write;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::UTF8_BORDERS_ONLY;

use crate::cluster::Requests;

/// What the Go operator took for 1,000 tunnels, with commands that only pretended to run.
const GO_SECONDS: f64 = 151.0;
const GO_MIB: f64 = 454.0;
/// A tenth of its time, a quarter of its memory.
const AIM_SECONDS: f64 = 15.0;
const AIM_MIB: f64 = 113.0;

/// One size.
pub(crate) struct Row {
    pub(crate) size: usize,
    /// From the first create until all were ready.
    pub(crate) up: Duration,
    /// Requests until then.
    pub(crate) asked: Requests,
    /// The controller's CPU time until then.
    pub(crate) cpu_up: Duration,
    /// Requests until nothing more was asked.
    pub(crate) settled: Requests,
    /// The controller's CPU time until then.
    pub(crate) cpu_settled: Duration,
    /// CPU time of the commands in the gateways until all were ready.
    pub(crate) commands: Duration,
    /// From the first delete until all were gone.
    pub(crate) down: Duration,
    /// The controller's peak memory.
    pub(crate) peak_mib: f64,
}

impl Row {
    fn each(&self, count: u64) -> f64 {
        count as f64 / self.size as f64
    }

    fn cells(&self) -> [String; 10] {
        [
            self.size.to_string(),
            seconds(self.up),
            format!("{:.2}", self.each(self.asked.all())),
            format!("{:.2}", self.each(self.asked.execs())),
            format!("{:.2}", self.each(self.settled.all())),
            seconds(self.cpu_up),
            seconds(self.cpu_settled),
            seconds(self.commands),
            format!("{:.0}", self.peak_mib),
            seconds(self.down),
        ]
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64())
}

/// Prints everything.
pub(crate) fn print(rows: &[Row], floor: Duration, load: &str) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header([
        "TUNNELS",
        "READY s",
        "REQUESTS each",
        "EXECS each",
        "REQUESTS settled",
        "CPU s",
        "CPU settled s",
        "COMMANDS CPU s",
        "PEAK MiB",
        "DELETED s",
    ]);
    for row in rows {
        table.add_row(row.cells());
    }
    let go = |size: &str, ready: &str, cpu: &str, memory: &str| {
        [size, ready, "", "", "", cpu, "", "", memory, ""].map(String::from)
    };
    table.add_row(go("Go, 1", "0.27", "", ""));
    table.add_row(go("Go, 1,000", "151", "12.6", "454"));
    table.add_row(go("aim, 1,000", "≤ 15", "", "≤ 113"));
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nTunnels created at once on 20 gateways, to 50 clusters\n{table}")?;
    writeln!(out, "floor: bare ip and iptables commands for 1,000 tunnels: {} s", seconds(floor))?;
    // Whoever else uses the cores is in every figure but the requests.
    writeln!(out, "the machine's load before: {load}")?;
    // A single tunnel costs less CPU time than the clock can tell.
    let many: Vec<&Row> = rows.iter().filter(|row| row.size > 1).collect();
    for pair in many.windows(2) {
        let times = |of: fn(&Row) -> f64| of(pair[1]) / of(pair[0]);
        writeln!(
            out,
            "{} → {}: tunnels × {:.0}, time × {:.1}, CPU × {:.1}, memory × {:.1}",
            pair[0].size,
            pair[1].size,
            times(|row| row.size as f64),
            times(|row| row.up.as_secs_f64()),
            times(|row| row.cpu_settled.as_secs_f64()),
            times(|row| row.peak_mib),
        )?;
    }
    for row in rows.iter().filter(|row| row.size == 1_000) {
        let (up, peak) = (row.up.as_secs_f64(), row.peak_mib);
        let (time, memory) = (GO_SECONDS / up, GO_MIB / peak);
        let met = |aim: bool| if aim { "met" } else { "missed" };
        writeln!(out, "time: {time:.1} times as fast as the Go operator, aim {}", met(up <= AIM_SECONDS))?;
        writeln!(out, "memory: {memory:.1} times as little, aim {}", met(peak <= AIM_MIB))?;
    }
    for row in rows {
        let each = |(what, count): (String, u64)| format!("{what} {:.2}", row.each(count));
        let kinds: Vec<String> = row.settled.kinds().into_iter().map(each).collect();
        let conflicts = row.settled.conflicts();
        writeln!(out, "{} tunnels, requests each: {}; conflicts: {conflicts}", row.size, kinds.join(", "))?;
    }
    Ok(())
}
