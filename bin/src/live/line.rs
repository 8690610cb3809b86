//! One line of progress on stderr: written anew on a terminal, one every few seconds in a log.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use rehearsal_core::messages::Metric;

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
        let (word, done, new) = match sum.generated {
            0 => ("received", sum.received, lately.received),
            _ => ("success", sum.success, lately.success),
        };
        let rate = new / u64::from(seconds);
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
