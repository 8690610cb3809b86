//! Checked arrivals, and what is known of them before a run.

use super::chain::Chain;
use super::{Arrivals, ROWS_MAX, STAGES_MAX, Spacing};
use crate::distribution::Law;
use crate::time::Span;
use crate::units::Rate;

/// Phases or states that may pass for each exchange, in the mean. Assumed: it bounds the work of one draw.
pub(super) const TURNS_MAX: f64 = 10_000.0;

/// Checked arrivals of a stream. Times are in nanoseconds, rates per nanosecond.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// Independent gaps.
    Renewal(Law),
    /// Independent gaps on a clock that runs while it is on.
    OnOff {
        /// The gaps.
        gaps: Law,
        /// How long it is on.
        on: Law,
        /// How long it is off.
        off: Law,
    },
    /// A Poisson process that a Markov chain modulates.
    Modulated(Chain),
    /// A ramp of rates.
    Stages(Ramp),
    /// Given gaps.
    Trace {
        /// ns each, the first from the start.
        gaps: Vec<u64>,
        /// Begins again at its end.
        repeat: bool,
    },
}

/// Rates in straight lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    /// Duration in ns, rate at its beginning and at its end per ns.
    pub pieces: Vec<(f64, f64, f64)>,
    /// An inhomogeneous Poisson process.
    pub poisson: bool,
    /// Begins again at its end.
    pub repeat: bool,
}

impl Ramp {
    pub(super) fn new(arrivals: &Arrivals) -> Result<Ramp, String> {
        if arrivals.stages.len() > STAGES_MAX {
            return Err(format!("there are more than {STAGES_MAX} stages"));
        }
        let per_ns = |rate: Option<Rate>| rate.map_or(0.0, |rate| rate.as_f64() / 1e9);
        let mut at = per_ns(arrivals.rate);
        let mut pieces = Vec::new();
        for stage in &arrivals.stages {
            let target = per_ns(stage.target);
            if stage.duration.is_zero() {
                // a step: the next stage begins at another rate
                at = target;
                continue;
            }
            pieces.push((stage.duration.as_nanos() as f64, at, target));
            at = target;
        }
        let poisson = arrivals.spacing == Some(Spacing::Poisson);
        let ramp = Ramp { pieces, poisson, repeat: arrivals.repeat };
        if ramp.total() * TURNS_MAX < ramp.pieces.len() as f64 || ramp.total() <= 0.0 {
            return Err("`stages` add up to no exchange; give a `target` and a `duration`".to_owned());
        }
        Ok(ramp)
    }

    /// Exchanges of all stages.
    pub fn total(&self) -> f64 {
        self.pieces.iter().map(|(duration, from, to)| duration * (from + to) / 2.0).sum()
    }

    /// Duration of all stages, ns.
    pub fn length(&self) -> f64 {
        self.pieces.iter().map(|(duration, ..)| duration).sum()
    }

    /// Exchanges that are due within so many ns.
    fn expected(&self, ns: f64) -> f64 {
        let length = self.length();
        let (rounds, rest) = if self.repeat { ((ns / length).floor(), ns % length) } else { (0.0, ns.min(length)) };
        let (mut left, mut sum) = (rest, rounds * self.total());
        for (duration, from, to) in &self.pieces {
            let part = left.min(*duration);
            sum += part * (from + (to - from) * part / duration / 2.0);
            left -= part;
        }
        sum
    }
}

impl Course {
    pub(super) fn poisson(rate: Option<Rate>) -> Course {
        Course::Renewal(Law::exponential(rate.map_or(f64::NAN, |rate| 1e9 / rate.as_f64())))
    }

    pub(super) fn on_off(gaps: Law, on: Law, off: Law) -> Result<Course, String> {
        if gaps.moments().mean > TURNS_MAX * on.moments().mean {
            return Err(format!("a gap takes more than {TURNS_MAX} phases `on`; make them longer"));
        }
        Ok(Course::OnOff { gaps, on, off })
    }

    pub(super) fn trace(rows: &[Span], times: bool, repeat: bool) -> Result<Course, String> {
        if rows.is_empty() {
            return Err("there is no row; name a `file` with a duration in each row".to_owned());
        }
        if rows.len() > ROWS_MAX {
            return Err(format!("there are more than {ROWS_MAX} rows"));
        }
        let mut before = Span::ZERO;
        let mut gaps = Vec::with_capacity(rows.len());
        for (number, row) in (1..).zip(rows) {
            if times && *row < before {
                return Err(format!("row {number}: {row} comes before {before}; times do not descend"));
            }
            gaps.push(if times { row.as_nanos() - before.as_nanos() } else { row.as_nanos() });
            before = *row;
        }
        let sum = gaps.iter().try_fold(0_u64, |sum, gap| sum.checked_add(*gap));
        match sum {
            None | Some(0) => Err("its rows take no time, or more than can be told".to_owned()),
            Some(_) => Ok(Course::Trace { gaps, repeat }),
        }
    }

    /// Exchanges per second: in the long run, or over all of what ends.
    pub fn per_second(&self) -> f64 {
        let per_ns = match self {
            Course::Renewal(gaps) => 1.0 / gaps.moments().mean,
            Course::OnOff { gaps, on, off } => {
                let (on, off) = (on.moments().mean, off.moments().mean);
                on / (on + off) / gaps.moments().mean
            }
            Course::Modulated(chain) => chain.mean(),
            Course::Stages(ramp) => ramp.total() / ramp.length(),
            Course::Trace { gaps, .. } => gaps.len() as f64 / gaps.iter().sum::<u64>() as f64,
        };
        per_ns * 1e9
    }

    /// The same as a rate, to six digits or so.
    pub fn rate(&self) -> Option<Rate> {
        let per_second = self.per_second();
        let gap = || Rate::new(1, Span::from_secs_f64(1.0 / per_second)).ok();
        let whole = per_second.round();
        if (per_second - whole).abs() < 1e-9 * whole {
            return Rate::new(whole as u64, Span::from_secs(1)).ok();
        }
        // rounded to a nanosecond, a gap of a millisecond keeps six digits
        if per_second < 1000.0 {
            gap()
        } else {
            Rate::new((per_second * 1e3).round() as u64, Span::from_secs(1000)).ok()
        }
    }

    /// The highest rate that it keeps for a while, per second; `None` if that is the mean rate.
    pub fn peak_per_second(&self) -> Option<f64> {
        let per_ns = match self {
            Course::Renewal(_) | Course::Trace { .. } => return None,
            Course::OnOff { gaps, .. } => 1.0 / gaps.moments().mean,
            Course::Modulated(chain) => chain.rates.iter().copied().fold(0.0, f64::max),
            Course::Stages(ramp) => ramp.pieces.iter().map(|(_, from, to)| from.max(*to)).fold(0.0, f64::max),
        };
        Some(per_ns * 1e9)
    }

    /// Coefficient of variation of the gaps, where they are independent or given.
    pub fn gap_cv(&self) -> Option<f64> {
        match self {
            Course::Renewal(gaps) => Some(gaps.moments().cv()),
            Course::Trace { gaps, .. } => {
                let n = gaps.len() as f64;
                let mean = gaps.iter().sum::<u64>() as f64 / n;
                let square = gaps.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum::<f64>() / n;
                Some(square.sqrt() / mean)
            }
            _ => None,
        }
    }

    /// Index of dispersion of counts over a long time, variance by mean. `None` where it is not known in closed form, and
    /// where the rate changes by plan: what a second should hold then cannot be told from the mean.
    ///
    /// Of independent gaps it is the square of their coefficient of variation. Source: Cox & Lewis, The Statistical Analysis of
    /// Series of Events, 1966, §4.5.
    pub fn dispersion(&self) -> Option<f64> {
        match self {
            Course::Renewal(gaps) => Some(gaps.moments().cv().powi(2)).filter(|d| d.is_finite()),
            Course::Modulated(chain) => chain.dispersion(),
            _ => None,
        }
    }

    /// Exchanges expected within `span` of the start.
    pub fn expected(&self, span: Span) -> f64 {
        let ns = span.as_nanos() as f64;
        match self {
            Course::Stages(ramp) => ramp.expected(ns),
            Course::Trace { gaps, repeat } => {
                let all: u64 = gaps.iter().sum();
                let rounds = if *repeat { span.as_nanos() / all } else { 0 };
                let mut left = span.as_nanos() - rounds * all;
                let within = gaps.iter().take_while(|gap| {
                    let is = **gap < left;
                    left = left.saturating_sub(**gap);
                    is
                });
                rounds as f64 * gaps.len() as f64 + within.count() as f64
            }
            _ => self.per_second() / 1e9 * ns,
        }
    }

    /// Exchanges after which it ends by itself, in the mean.
    pub fn ends_after(&self) -> Option<f64> {
        match self {
            Course::Stages(ramp) if !ramp.repeat => Some(ramp.total()),
            Course::Trace { gaps, repeat: false } => Some(gaps.len() as f64),
            _ => None,
        }
    }

    /// In words, for `rehearsal check`.
    pub fn words(&self) -> String {
        let mean = number(self.per_second());
        let peak = self.peak_per_second().map_or(String::new(), |peak| {
            format!(", peak {}/s ({} times the mean)", number(peak), number(peak / self.per_second()))
        });
        match self {
            Course::Renewal(gaps) => match gaps.moments().cv() {
                cv if cv.is_finite() => format!("random gaps, mean {mean}/s each, CV {}", number(cv)),
                _ => format!("random gaps, mean {mean}/s each, no variance"),
            },
            Course::OnOff { .. } => format!("on/off, mean {mean}/s each{peak}"),
            Course::Modulated(chain) => {
                let dispersion = chain.dispersion().map_or(String::new(), |d| format!(", dispersion {}", number(d)));
                format!("MMPP of {} states, mean {mean}/s each{peak}{dispersion}", chain.rates.len())
            }
            Course::Stages(ramp) => {
                let end = if ramp.repeat { ", repeated" } else { ", then it ends" };
                format!("{} stages, mean {mean}/s each{peak}{end}", ramp.pieces.len())
            }
            Course::Trace { gaps, repeat } => {
                let end = if *repeat { ", repeated" } else { ", then it ends" };
                let cv = number(self.gap_cv().unwrap_or(0.0));
                format!("a trace of {}, mean {mean}/s each, CV {cv}{end}", gaps.len())
            }
        }
    }
}

/// Three digits or so.
fn number(value: f64) -> String {
    let text = if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
