//! The arrivals of one stream, one after the other: a [`Course`] made ready, and where a stream is in it.
//!
//! | process | how the next arrival is found | source |
//! |---|---|---|
//! | renewal, Poisson | the last one and a gap | Cox, Renewal Theory, 1962 |
//! | on/off | a gap of a clock that stands still in phases `off` | Heffes & Lucantoni, IEEE JSAC 4(6), 1986 |
//! | MMPP | the earlier of an arrival and a change of state, each exponential | Fischer & Meier-Hellstern, Performance Evaluation 18, 1993 |
//! | stages | where the integral of the rate is next a whole number, or a sum of unit exponentials | Çinlar, Introduction to Stochastic Processes, 1975, §4.7 |
//! | trace | the last one and the next row | |
//!
//! How each begins: renewal and Poisson with a whole gap; on/off in a fresh phase, `on` with its share of time; MMPP in a state
//! drawn from the stationary distribution, so that it is stationary from its start; even stages with a uniform part
//! of one exchange, so that streams do not send together; a trace at its first row, the same for every stream.

use std::sync::Arc;

use rehearsal_core::arrivals::{Chain, Course, Ramp};
use rehearsal_core::{BuildError, RngStream};

use crate::distribution::Sampler;

/// Phases, states or stages that may pass before one arrival; after so many the stream ends. The checks of a course keep
/// their mean below 10,000.
const TURNS_MAX: u32 = 1_000_000;

/// A course with its samplers. Shared by all streams of a group.
#[derive(Clone, Debug)]
pub struct Pattern {
    kind: Kind,
    /// Mean rate per ns.
    mean: f64,
}

#[derive(Clone, Debug)]
enum Kind {
    Renewal(Sampler),
    OnOff(Box<OnOff>),
    Modulated(Chain),
    Stages(Ramp),
    Trace { gaps: Vec<u64>, repeat: bool },
}

/// Gaps while it is on, how long it is on and off, and the share of time that it is on.
#[derive(Clone, Debug)]
struct OnOff {
    gaps: Sampler,
    on: Sampler,
    off: Sampler,
    share: f64,
}

impl Pattern {
    /// The samplers of `course`.
    ///
    /// # Errors
    /// If one of them cannot work with its parameters.
    pub fn new(course: &Course) -> Result<Arc<Self>, BuildError> {
        let sampler = |law| Sampler::new("arrivals", law);
        let kind = match course {
            Course::Renewal(gaps) => Kind::Renewal(sampler(gaps)?),
            Course::OnOff { gaps, on, off } => {
                let share = on.moments().mean / (on.moments().mean + off.moments().mean);
                Kind::OnOff(Box::new(OnOff { gaps: sampler(gaps)?, on: sampler(on)?, off: sampler(off)?, share }))
            }
            Course::Modulated(chain) => Kind::Modulated(chain.clone()),
            Course::Stages(ramp) => Kind::Stages(ramp.clone()),
            Course::Trace { gaps, repeat } => Kind::Trace { gaps: gaps.clone(), repeat: *repeat },
        };
        Ok(Arc::new(Pattern { kind, mean: course.per_second() / 1e9 }))
    }

    /// Mean rate, per second.
    pub fn per_second(&self) -> f64 {
        self.mean * 1e9
    }
}

/// The arrivals of one stream. Times are nanoseconds since its start, on the pattern's own clock.
#[derive(Clone, Debug)]
pub struct Draws {
    pattern: Arc<Pattern>,
    rng: RngStream,
    /// The last arrival.
    at: u64,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Nothing to know.
    Plain,
    /// What is left of a phase, ns.
    OnOff {
        on: bool,
        left: u64,
    },
    State(u16),
    /// In which stage, when that began, and how much the rate adds up to until there and to the last arrival.
    Stage {
        index: usize,
        began: f64,
        before: f64,
        sum: f64,
    },
    Row(usize),
}

impl Draws {
    /// From the start on; `rng` is the stream's own.
    pub fn new(pattern: &Arc<Pattern>, mut rng: RngStream) -> Self {
        let phase = match &pattern.kind {
            Kind::Renewal(_) => Phase::Plain,
            Kind::OnOff(laws) => {
                let OnOff { on, off, share, .. } = &**laws;
                let is_on = rng.unit() < *share;
                let left = if is_on { on.whole(&mut rng) } else { off.whole(&mut rng) };
                Phase::OnOff { on: is_on, left }
            }
            Kind::Modulated(chain) => {
                let unit = rng.unit();
                Phase::State(pick(chain.shares.iter().copied().enumerate(), unit) as u16)
            }
            Kind::Stages(ramp) => {
                // the first arrival is where the sum is a uniform number
                let sum = if ramp.poisson { 0.0 } else { rng.unit() - 1.0 };
                Phase::Stage { index: 0, began: 0.0, before: 0.0, sum }
            }
            Kind::Trace { .. } => Phase::Row(0),
        };
        Draws { pattern: pattern.clone(), rng, at: 0, phase }
    }

    /// Mean rate of the pattern, per second.
    pub fn per_second(&self) -> f64 {
        self.pattern.per_second()
    }

    /// When the next arrival is; `None` at the end.
    pub fn advance(&mut self) -> Option<u64> {
        let pattern = &*self.pattern;
        let (rng, at) = (&mut self.rng, self.at);
        self.at = match (&pattern.kind, &mut self.phase) {
            (Kind::Renewal(gaps), _) => at.checked_add(gaps.whole(rng))?,
            (Kind::OnOff(laws), Phase::OnOff { on: is_on, left }) => {
                let OnOff { gaps, on, off, .. } = &**laws;
                let mut gap = gaps.whole(rng);
                let mut now = at;
                let mut turns = 0;
                // the gap's clock stands still while it is off
                while !*is_on || gap > *left {
                    now = now.checked_add(*left)?;
                    gap -= if *is_on { *left } else { 0 };
                    *is_on = !*is_on;
                    *left = if *is_on { on.whole(rng) } else { off.whole(rng) };
                    turns += 1;
                    if turns > TURNS_MAX {
                        return None;
                    }
                }
                *left -= gap;
                now.checked_add(gap)?
            }
            (Kind::Modulated(chain), Phase::State(state)) => modulated(chain, state, at, rng)?,
            (Kind::Stages(ramp), Phase::Stage { index, began, before, sum }) => {
                *sum += if ramp.poisson { rng.sample::<f64, _>(&rand_distr::Exp1) } else { 1.0 };
                climb(ramp, index, began, before, *sum)?.max(at)
            }
            (Kind::Trace { gaps, repeat }, Phase::Row(row)) => {
                if *row == gaps.len() {
                    if !*repeat {
                        return None;
                    }
                    *row = 0;
                }
                *row += 1;
                at.checked_add(gaps[*row - 1])?
            }
            // a phase is made with its pattern
            _ => return None,
        };
        Some(self.at)
    }
}

/// The next arrival of a modulated process: both clocks are memoryless, so the sum of rates tells when, a draw which.
fn modulated(chain: &Chain, state: &mut u16, at: u64, rng: &mut RngStream) -> Option<u64> {
    let mut now = at as f64;
    for _ in 0..TURNS_MAX {
        let (rate, exits) = (chain.rates[usize::from(*state)], &chain.exits[usize::from(*state)]);
        let out: f64 = exits.iter().map(|(_, rate)| rate).sum();
        now += rng.sample::<f64, _>(&rand_distr::Exp1) / (rate + out);
        if rng.unit() * (rate + out) < rate {
            return Some((now.round() as u64).max(at + 1));
        }
        let unit = rng.unit();
        *state = pick(exits.iter().map(|(to, rate)| (*to, rate / out)), unit) as u16;
    }
    None
}

/// When the rate of a ramp has added up to `sum`, in ns since the start.
fn climb(ramp: &Ramp, index: &mut usize, began: &mut f64, before: &mut f64, sum: f64) -> Option<u64> {
    for _ in 0..TURNS_MAX {
        if *index == ramp.pieces.len() {
            if !ramp.repeat {
                return None;
            }
            *index = 0;
        }
        let (duration, from, to) = ramp.pieces[*index];
        let whole = duration * (from + to) / 2.0;
        let part = sum - *before;
        if part < whole {
            // from · t + slope · t² / 2 = part, by the form of the root that does not cancel
            let slope = (to - from) / duration;
            let root = (from * from + 2.0 * slope * part).max(0.0).sqrt();
            let time = if from + root > 0.0 { (2.0 * part / (from + root)).min(duration) } else { 0.0 };
            return Some((*began + time).round() as u64);
        }
        *before += whole;
        *began += duration;
        *index += 1;
    }
    None
}

/// One of these by its share.
fn pick(shares: impl Iterator<Item = (usize, f64)>, unit: f64) -> usize {
    let (mut sum, mut last) = (0.0, 0);
    for (index, share) in shares {
        (sum, last) = (sum + share, index);
        if unit < sum {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests;
