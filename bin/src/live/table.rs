//! `--table`: a row on stderr for each second of a run.

use std::io::{IsTerminal, Write, stderr};

use rehearsal_core::messages::Metric;

use super::SoFar;

/// Rows between two heads. Assumed: fewer than a terminal has lines.
const HEAD_EVERY: u32 = 20;
/// What the columns hold, and how wide they are.
const HEADS: [(&str, usize); 9] = [
    ("second", 6),
    ("sent/s", 9),
    ("success/s", 9),
    ("received/s", 10),
    ("lost", 7),
    ("response p50", 12),
    ("p99", 10),
    ("lag p99", 10),
    ("CPU max", 7),
];
/// The column of losses.
const LOST: usize = 4;

/// The table.
pub struct Table {
    colour: bool,
    rows: u32,
}

impl Table {
    /// A table without rows, in colour on a terminal unless `NO_COLOR` is set.
    pub fn new() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Table { colour: stderr().is_terminal() && !plain, rows: 0 }
    }

    /// Adds the second that is complete now.
    pub fn show(&mut self, run: &SoFar) {
        let mut text = String::new();
        if self.rows.is_multiple_of(HEAD_EVERY) {
            text += &line(&HEADS.map(|(head, _)| head.to_owned()), None);
        }
        self.rows = self.rows.wrapping_add(1);
        let (lately, _) = run.lately();
        let marked = (self.colour && lately.lost > 0).then_some(LOST);
        text += &line(&cells(run), marked);
        // a courtesy: a closed stderr must not end the run
        let mut out = stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

fn cells(run: &SoFar) -> [String; 9] {
    let (lately, seconds) = run.lately();
    let rate = |count: u64| format!("{:.0}", count as f64 / f64::from(seconds));
    let ms = |metric, quantile| match run.times(metric) {
        Some(times) => format!("{:.2} ms", times.value_at_quantile(quantile) as f64 / 1e6),
        None => "-".to_owned(),
    };
    [
        run.seconds().to_string(),
        rate(lately.attempts),
        rate(lately.success),
        rate(lately.received.saturating_add(lately.datagrams_received)),
        lately.lost.to_string(),
        ms(Metric::Response, 0.5),
        ms(Metric::Response, 0.99),
        ms(Metric::Lag, 0.99),
        run.cpu_percent_max().map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.0} %")),
    ]
}

/// Cells under their heads; the marked one is red.
fn line(cells: &[String; 9], marked: Option<usize>) -> String {
    let padded = cells.iter().zip(HEADS).enumerate().map(|(at, (cell, (_, width)))| {
        let cell = format!("{cell:>width$}");
        if marked == Some(at) { format!("\x1b[31m{cell}\x1b[0m") } else { cell }
    });
    padded.collect::<Vec<_>>().join("  ") + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rehearsal_core::time::Span;

    use super::super::so_far::tests::report;
    use super::*;

    #[test]
    fn a_row_stands_under_its_heads_and_tells_rates_of_the_seconds_since_the_last() {
        let mut run = SoFar::new(Span::ZERO, BTreeSet::new(), false);
        run.add(&report("a", 0, 10, 9), |_, _, _, _| {});
        run.told();
        run.add(&report("a", 2, 40, 30), |_, _, _, _| {});
        assert_eq!(cells(&run), ["3", "15", "10", "0", "0", "-", "-", "-", "-"]);
        let head = line(&HEADS.map(|(head, _)| head.to_owned()), None);
        let row = line(&cells(&run), None);
        assert_eq!(head.chars().count(), row.chars().count());
        assert!(line(&cells(&run), Some(LOST)).contains("\x1b[31m      0\x1b[0m"));
    }
}
