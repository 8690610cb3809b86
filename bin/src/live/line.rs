//! One line of progress on stderr: written anew on a terminal, one every few seconds in a log.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use rehearsal_core::messages::Metric;
use rehearsal_core::parts::tally::Tally;

use super::SoFar;

/// Between two lines on a terminal, and between two lines in a log file.
const EVERY: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// The line.
pub struct Line {
    seconds: Option<u64>,
    terminal: bool,
    printed: Option<Instant>,
}

impl Line {
    /// The line of a run of so many seconds, if that is known.
    pub fn new(seconds: Option<u64>) -> Self {
        Line { seconds, terminal: stderr().is_terminal(), printed: None }
    }

    /// Shows the second that is complete now.
    pub fn show(&mut self, run: &SoFar) {
        let every = EVERY[usize::from(!self.terminal)];
        if self.printed.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.printed = Some(Instant::now());
        let text = self.text(run);
        let mut out = stderr().lock();
        // progress is a courtesy: a closed stderr must not end the run
        let _ = if self.terminal { write!(out, "\r\x1b[2K{text}") } else { writeln!(out, "{text}") };
        let _ = out.flush();
    }

    fn text(&self, run: &SoFar) -> String {
        let of = self.seconds.map_or(String::new(), |s| format!("/{s}"));
        let (sum, (lately, seconds)) = (run.sum(), run.lately());
        let (word, of_tally) = progress(&sum);
        let (done, rate) = (of_tally(&sum), of_tally(&lately) / u64::from(seconds));
        // what is under way at the end is waited for, and that is no second of the run
        let second = self.seconds.map_or(u64::from(run.seconds()), |all| all.min(u64::from(run.seconds())));
        let mut text = format!("{second:>4}{of} s  {word} {done}  {rate}/s");
        if let Some(times) = run.times(Metric::Response) {
            let ms = |q| times.value_at_quantile(q) as f64 / 1e6;
            text += &format!("  response p50 {:.2} ms p99 {:.2} ms", ms(0.5), ms(0.99));
        }
        let refused = sum.invalid + sum.failed;
        if sum.lost + refused > 0 {
            text += &format!("  lost {}  refused {refused}", sum.lost);
        }
        text
    }

    /// Ends the line.
    pub fn end(&mut self) {
        if self.terminal && self.printed.is_some() {
            eprintln!();
        }
    }
}

/// What tells how far a run is: answers as wanted; what came in, where nothing is sent from here or nothing is answered; what
/// was sent, if nobody here takes it in.
fn progress(sum: &Tally) -> (&'static str, fn(&Tally) -> u64) {
    let came = |tally: &Tally| tally.received.saturating_add(tally.datagrams_received);
    // datagrams without echoes are settled at the end
    let one_way = sum.datagrams_sent > 0 && sum.datagrams_sent == sum.attempts && sum.success == 0;
    match (sum.generated, one_way) {
        (0, _) => ("received", came),
        (_, true) if came(sum) > 0 => ("received", came),
        (_, true) => ("sent", |tally| tally.datagrams_sent),
        (_, false) => ("success", |tally| tally.success),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rehearsal_core::time::Span;

    use super::super::so_far::tests::report;
    use super::*;

    #[test]
    fn datagrams_that_nobody_answers_are_told_by_what_came_in_or_left() {
        let said = |change: fn(&mut Tally)| {
            let mut run = SoFar::new(Span::ZERO, BTreeSet::new(), false);
            let mut report = report("a", 0, 10, 0);
            change(&mut report.groups[0].totals);
            run.add(&report, |_, _, _, _| {});
            Line::new(Some(5)).text(&run)
        };
        assert_eq!(said(|t| t.success = 9), "   1/5 s  success 9  9/s");
        assert_eq!(said(|t| t.datagrams_sent = 10), "   1/5 s  sent 10  10/s");
        assert_eq!(said(|t| (t.datagrams_sent, t.datagrams_received) = (10, 8)), "   1/5 s  received 8  8/s");
        assert_eq!(said(|t| *t = Tally { received: 7, ..Tally::default() }), "   1/5 s  received 7  7/s");
    }
}
