//! Time as a line of characters: how much of what was sent in each moment came back, and what happened then.
//!
//! ```text
//!            -20       0         20        40 ms
//!            ├─────────┼─────────┼─────────┤
//!  answered  ██████████▅········▂██████████
//!                      a        b
//! ```
//!
//! Times here are milliseconds from the moment that the picture is about.

/// A stretch of time, cut into columns of one width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    start: f64,
    /// How much of it a column is.
    column: f64,
    columns: usize,
}

/// More would not fit beside the names of lines.
const WIDEST: usize = 64;
/// Columns between two numbers on the axis.
const STEP: usize = 10;

impl Window {
    /// From a time before the moment to one after it, in columns of a round width.
    pub(super) fn fit(from: f64, to: f64) -> Window {
        let widths = (0..).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        // Nothing is longer than a column of some hours.
        let fits = |width: &f64| (to - from) / width <= (WIDEST - 1) as f64;
        let column = widths.take(24).find(fits).unwrap_or(1e7);
        // The moment itself is the border of two columns.
        let start = (from / column).floor() * column;
        let columns = ((to - start) / column).ceil().clamp(1.0, WIDEST as f64) as usize;
        Window { start, column, columns }
    }

    /// The column of a time.
    pub(super) fn column(&self, at: f64) -> Option<usize> {
        let column = ((at - self.start) / self.column).floor();
        (0.0..self.columns as f64).contains(&column).then_some(column as usize)
    }

    /// Adds up what happened in each column.
    pub(super) fn sums(&self, events: impl IntoIterator<Item = (f64, f64)>) -> Vec<f64> {
        let mut sums = vec![0.0; self.columns];
        for (at, more) in events {
            if let Some(sum) = self.column(at).and_then(|column| sums.get_mut(column)) {
                *sum += more;
            }
        }
        sums
    }

    /// Numbers, and a line below them with a tick for each.
    pub(super) fn axis(&self) -> [String; 2] {
        let zero = (-self.start / self.column).round() as usize;
        let ticks: Vec<usize> = (0..self.columns).filter(|column| column % STEP == zero % STEP).collect();
        let mut numbers = String::new();
        for tick in &ticks {
            let number = format!("{:.0}", self.start + *tick as f64 * self.column);
            let gap = tick.saturating_sub(numbers.chars().count());
            numbers.push_str(&" ".repeat(gap));
            numbers.push_str(&number);
        }
        let line = (0..self.columns).map(|column| if ticks.contains(&column) { '┼' } else { '─' });
        [numbers + " ms", line.collect()]
    }

    /// Letters below what they stand for; those of one column stand below each other.
    pub(super) fn marks(&self, marks: impl IntoIterator<Item = (char, f64)>) -> Vec<String> {
        let mut rows: Vec<Vec<char>> = Vec::new();
        for (letter, at) in marks {
            let Some(column) = self.column(at) else { continue };
            let depth = rows.iter().take_while(|row| row[column] != ' ').count();
            if depth == rows.len() {
                rows.push(vec![' '; self.columns]);
            }
            rows[depth][column] = letter;
        }
        rows.into_iter().map(|row| row.into_iter().collect::<String>().trim_end().to_owned()).collect()
    }
}

const LEVELS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];

/// How much of what was sent came back: all, a part, nothing. Where nothing was sent it is as it was before.
pub(super) fn shares(sent: &[f64], came: &[f64]) -> String {
    let share = |share: f64| match share {
        share if share >= 0.999 => '█',
        share if share <= 0.001 => '·',
        // Whatever was lost shows, and whatever came back too.
        share => LEVELS[((share * 7.0) as usize).min(6)],
    };
    drawn(sent, came, share)
}

/// Who was at work: mostly, a little, not at all.
pub(super) fn busy(sent: &[f64], done: &[f64]) -> String {
    let busy = |share: f64| match share {
        share if share >= 0.5 => '█',
        share if share > 0.0 => '▄',
        _ => ' ',
    };
    drawn(sent, done, busy)
}

fn drawn(sent: &[f64], of_it: &[f64], cell: impl Fn(f64) -> char) -> String {
    let mut last = ' ';
    let mut draw = |(sent, of_it): (&f64, &f64)| {
        if *sent > 0.0 {
            last = cell(of_it / sent);
        }
        last
    };
    let line: String = sent.iter().zip(of_it).map(&mut draw).collect();
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_a_round_width_and_the_moment_is_a_border() {
        let window = Window::fit(-30.0, 95.0);
        assert_eq!(window, Window { start: -30.0, column: 2.0, columns: 63 });
        assert_eq!((window.column(-0.1), window.column(0.0)), (Some(14), Some(15)));
        assert_eq!((window.column(-31.0), window.column(96.0)), (None, None));
        let long = Window::fit(-1_000.0, 9_000.0);
        assert_eq!((long.column, long.columns), (200.0, 50));
    }

    #[test]
    fn the_axis_names_the_moment_and_every_tenth_column() {
        let [numbers, line] = Window::fit(-20.0, 25.0).axis();
        assert_eq!(numbers, "-20       -10       0         10        20 ms");
        assert_eq!(line, "┼─────────┼─────────┼─────────┼─────────┼────");
    }

    #[test]
    fn a_loss_shows_and_so_does_a_single_answer() {
        let sent = [10.0, 10.0, 10.0, 1_000.0, 0.0];
        assert_eq!(shares(&sent, &[10.0, 5.0, 0.0, 990.0, 0.0]), "█▄·▇▇", "nothing was sent in the last");
        assert_eq!(shares(&[1_000.0], &[5.0]), "▁");
        assert_eq!(busy(&sent, &[9.0, 2.0, 0.0, 600.0, 0.0]), "█▄ ██");
        assert_eq!(busy(&sent, &[9.0, 2.0, 0.0, 0.0, 0.0]), "█▄");
    }

    #[test]
    fn marks_of_one_moment_stand_below_each_other() {
        let window = Window::fit(0.0, 10.0);
        let rows = window.marks([('a', 0.0), ('b', 3.2), ('c', 3.9), ('d', 99.0)]);
        assert_eq!(rows, ["a  b", "   c"]);
    }

    #[test]
    fn what_happens_in_a_column_is_added_up() {
        let window = Window::fit(0.0, 4.0);
        assert_eq!(window.sums([(0.5, 1.0), (0.7, 2.0), (3.9, 1.0), (7.0, 1.0)]), [3.0, 0.0, 0.0, 1.0]);
    }
}
