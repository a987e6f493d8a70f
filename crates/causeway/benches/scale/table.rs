//! The figures as tables.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::UTF8_BORDERS_ONLY;

/// A table under way.
pub(crate) struct Grid(Table);

impl Grid {
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Grid {
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY).set_header(header);
        Grid(table)
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells.into_iter().collect::<Vec<_>>());
    }

    pub(crate) fn print(&self, title: &str) -> anyhow::Result<()> {
        writeln!(std::io::stdout().lock(), "\n{title}\n{}", self.0)?;
        Ok(())
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64())
}

pub(crate) fn met(aim: bool) -> &'static str {
    if aim { "met" } else { "missed" }
}

/// The one that half are not above.
pub(crate) fn middle<T: Copy + PartialOrd + Default>(all: &[T]) -> T {
    let mut all = all.to_vec();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// How many tunnels: those of `SCALE_SIZES`, or these.
pub(crate) fn sizes<const N: usize>(usual: [usize; N]) -> anyhow::Result<Vec<usize>> {
    match std::env::var("SCALE_SIZES") {
        Ok(text) => text.split(',').map(|size| size.parse().context("SCALE_SIZES")).collect(),
        Err(_) => Ok(usual.to_vec()),
    }
}
