//! A small picture of figures that grow by powers of ten.

use std::fmt::Write as _;

/// Columns of one power of ten.
const DECADE: f64 = 12.0;

/// One line for each, as long as the logarithm of its value; what is below `least` has no length.
pub(crate) fn bars<'a>(
    lines: impl IntoIterator<Item = (&'a str, usize, f64)>,
    least: f64,
    unit: &str,
) -> String {
    let mut text = String::new();
    for (label, size, value) in lines {
        let length = ((value / least).log10() * DECADE).round().max(0.0) as usize;
        let _ = writeln!(text, "{size:>8} {label:<9} {} {value:.3} {unit}", "█".repeat(length));
    }
    text
}
