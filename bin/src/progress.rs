//! Live progress on stderr, read from the same node reports that the bundle is made of.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use rehearsal_core::Body;
use rehearsal_core::messages::{Metric, NodeReport};
use rehearsal_core::parts::ledger::histogram;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::sink::{Sink, SinkError};

use crate::histograms::merge_v2;

/// Passes records on to `inner`, and shows each second that is complete.
pub struct ProgressSink<S> {
    inner: S,
    shown: Option<Line>,
}

impl<S: Sink> ProgressSink<S> {
    /// Shows a line a second, of `seconds` in all if that is known; nothing if `quiet`.
    pub fn new(inner: S, seconds: Option<u64>, quiet: bool) -> Self {
        ProgressSink { inner, shown: (!quiet).then(|| Line::new(seconds)) }
    }

    /// Ends the line and gives the sink back.
    pub fn into_inner(self) -> S {
        if let Some(mut line) = self.shown {
            line.end();
        }
        self.inner
    }
}

impl<S: Sink> Sink for ProgressSink<S> {
    fn store(&mut self, record: &Body) -> Result<(), SinkError> {
        if let (Some(line), Ok(report)) = (&mut self.shown, record.get::<NodeReport>()) {
            line.add(&report);
        }
        self.inner.store(record)
    }
}

/// Between two lines on a terminal, and between two lines in a log file.
const EVERY: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

struct Line {
    seconds: Option<u64>,
    second: u32,
    totals: BTreeMap<(String, String), Tally>,
    response: hdrhistogram::Histogram<u64>,
    before: Tally,
    terminal: bool,
    printed: Option<Instant>,
}

impl Line {
    fn new(seconds: Option<u64>) -> Self {
        Line {
            seconds,
            second: 0,
            totals: BTreeMap::new(),
            response: histogram(),
            before: Tally::default(),
            terminal: stderr().is_terminal(),
            printed: None,
        }
    }

    fn add(&mut self, report: &NodeReport) {
        if report.second > self.second {
            self.show();
            self.second = report.second;
            self.response.reset();
        }
        for group in &report.groups {
            self.totals.insert((group.node.clone(), group.actor.clone()), group.totals);
            for part in group.histograms.iter().filter(|p| p.metric == Metric::Response) {
                merge_v2(&mut self.response, &part.v2);
            }
        }
    }

    /// Shows the second that is complete now.
    fn show(&mut self) {
        let mut sum = Tally::default();
        for tally in self.totals.values() {
            sum.generated += tally.generated;
            sum.success += tally.success;
            sum.lost += tally.lost;
            sum.invalid += tally.invalid + tally.failed;
            sum.received += tally.received;
        }
        let every = EVERY[usize::from(!self.terminal)];
        if self.printed.is_none_or(|at| at.elapsed() >= every) {
            self.printed = Some(Instant::now());
            self.print(&sum);
        }
        self.before = sum;
    }

    fn print(&self, sum: &Tally) {
        let of = self.seconds.map_or(String::new(), |s| format!("/{s}"));
        let (done, rate) = match sum.generated {
            0 => (sum.received, sum.received - self.before.received),
            _ => (sum.success, sum.success - self.before.success),
        };
        let word = if sum.generated == 0 { "received" } else { "success" };
        let mut text = format!("{:>4}{of} s  {word} {done}  {rate}/s", self.second + 1);
        if !self.response.is_empty() {
            let ms = |q| self.response.value_at_quantile(q) as f64 / 1e6;
            text += &format!("  response p50 {:.2} ms p99 {:.2} ms", ms(0.5), ms(0.99));
        }
        if sum.lost + sum.invalid > 0 {
            text += &format!("  lost {}  refused {}", sum.lost, sum.invalid);
        }
        let mut out = stderr().lock();
        // progress is a courtesy: a closed stderr must not end the run
        let _ = if self.terminal { write!(out, "\r\x1b[2K{text}") } else { writeln!(out, "{text}") };
        let _ = out.flush();
    }

    fn end(&mut self) {
        self.show();
        if self.terminal && self.printed.is_some() {
            eprintln!();
        }
    }
}
