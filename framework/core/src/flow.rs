//! Flows: one-way streams that are too fast to be an event each.
//!
//! An actor describes a flow once; the engine iterates the same seeded schedule in simulation and emulation and
//! reports each second. Two speeds, one truth.

use crate::ids::{FlowId, RecipeId, SubjectId};
use crate::rng::RngStream;
use crate::time::{Span, Time};
use crate::units::Rate;

/// A scheduled stream of datagrams.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// The actor's name for it.
    pub flow: FlowId,
    /// Subject of the receiving actor.
    pub to: SubjectId,
    /// Which of the actor's concurrent sources it is.
    pub stream: u32,
    /// How its payloads are made.
    pub recipe: RecipeId,
    /// Payload bytes of each datagram.
    pub bytes: u32,
    /// When the datagrams leave.
    pub arrivals: Arrivals,
    /// The first may leave at this time.
    pub from: Time,
    /// Departures before this time are left out; the others keep their numbers. Otherwise [`Time::ZERO`].
    pub after: Time,
    /// None leaves at or after this time.
    pub until: Time,
    /// At most so many.
    pub limit: u64,
    /// Feeds the schedule.
    pub rng: RngStream,
}

/// The law of the gaps between departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly spaced.
    Constant(Rate),
    /// Independent exponential gaps with this mean rate (a Poisson process).
    Poisson(Rate),
}

/// A change to a running flow; each is an event in the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSet {
    /// Departures due in a pause are given up and counted as skipped.
    Pause,
    /// Goes on.
    Resume,
    /// Another rate from now on, by the same law.
    Rate(Rate),
    /// Ends it.
    Stop,
}

/// What a flow did in one second of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Which one.
    pub flow: FlowId,
    /// Datagrams sent in this second.
    pub sent: u64,
    /// Payload bytes sent in this second.
    pub bytes: u64,
    /// Departures given up in this second.
    pub skipped: u64,
    /// Whether it has ended.
    pub ended: bool,
}

/// The departures of a flow, in order. Both engines walk this one.
#[derive(Clone, Debug)]
pub struct FlowSchedule {
    arrivals: Arrivals,
    rng: RngStream,
    base: Time,
    step: u64,
    next: Time,
    until: Time,
    left: u64,
    seq: u64,
}

impl FlowSchedule {
    /// The schedule of `spec`.
    pub fn new(spec: &FlowSpec) -> Self {
        let mut schedule = FlowSchedule {
            arrivals: spec.arrivals,
            rng: spec.rng.clone(),
            base: spec.from,
            step: 0,
            next: spec.from,
            until: spec.until,
            left: spec.limit,
            seq: 0,
        };
        if let Arrivals::Poisson(rate) = spec.arrivals {
            schedule.next = spec.from.saturating_add(schedule.rng.exponential(rate.gap()));
        }
        while schedule.peek().is_some_and(|at| at < spec.after) {
            schedule.advance();
        }
        schedule
    }

    /// When the next datagram leaves, or `None` at the end.
    #[inline]
    pub fn peek(&self) -> Option<Time> {
        (self.left > 0 && self.next < self.until).then_some(self.next)
    }

    /// Takes the next departure: its number and time.
    #[inline]
    pub fn advance(&mut self) -> Option<(u64, Time)> {
        let at = self.peek()?;
        let seq = self.seq;
        self.seq += 1;
        self.left -= 1;
        self.next = match self.arrivals {
            Arrivals::Constant(rate) => {
                self.step += 1;
                self.base.saturating_add(rate.offset(self.step))
            }
            Arrivals::Poisson(rate) => at.saturating_add(self.rng.exponential(rate.gap())),
        };
        Some((seq, at))
    }

    /// Another rate from `now` on.
    pub fn set_rate(&mut self, rate: Rate, now: Time) {
        self.base = now;
        self.step = 1;
        self.next = match self.arrivals {
            Arrivals::Constant(_) => {
                self.arrivals = Arrivals::Constant(rate);
                now.saturating_add(rate.offset(1))
            }
            Arrivals::Poisson(_) => {
                self.arrivals = Arrivals::Poisson(rate);
                now.saturating_add(self.rng.exponential(rate.gap()))
            }
        };
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.left = 0;
    }

    /// Mean gap at the present rate.
    pub fn gap(&self) -> Span {
        match self.arrivals {
            Arrivals::Constant(rate) | Arrivals::Poisson(rate) => rate.gap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn spec(arrivals: Arrivals) -> FlowSpec {
        let rng = RngStream::new(Seed { seed: 1, repetition: 0, group: "a/b", member: 0, stream: 0, purpose: "flow" });
        let until = Time::from_nanos(1_000_000_000);
        FlowSpec {
            flow: FlowId(0),
            to: SubjectId(0),
            stream: 0,
            recipe: RecipeId(0),
            bytes: 100,
            arrivals,
            from: Time::ZERO,
            after: Time::ZERO,
            until,
            limit: u64::MAX,
            rng,
        }
    }

    #[test]
    fn constant_departures_do_not_drift() {
        let mut schedule = FlowSchedule::new(&spec(Arrivals::Constant(Rate::per_second(3))));
        let times: Vec<u64> = std::iter::from_fn(|| schedule.advance()).map(|(_, t)| t.as_nanos()).collect();
        assert_eq!(times, [0, 333_333_333, 666_666_666]);
    }

    #[test]
    fn what_is_left_out_uses_up_numbers() {
        for arrivals in [Arrivals::Constant(Rate::per_second(100)), Arrivals::Poisson(Rate::per_second(100))] {
            let whole = spec(arrivals);
            let after = Time::from_nanos(400_000_000);
            let all = |spec: &FlowSpec| {
                let mut schedule = FlowSchedule::new(spec);
                std::iter::from_fn(move || schedule.advance()).collect::<Vec<_>>()
            };
            let rest: Vec<_> = all(&whole).into_iter().filter(|(_, at)| *at >= after).collect();
            assert!(rest.len() > 20 && rest[0].0 > 20);
            assert_eq!(all(&FlowSpec { after, ..whole }), rest);
        }
    }

    #[test]
    fn a_poisson_flow_repeats_and_ends() {
        let all = |mut s: FlowSchedule| std::iter::from_fn(move || s.advance()).collect::<Vec<_>>();
        let spec = spec(Arrivals::Poisson(Rate::per_second(1000)));
        let (a, b) = (all(FlowSchedule::new(&spec)), all(FlowSchedule::new(&spec)));
        assert_eq!(a, b);
        // 1000 expected, standard deviation 32
        assert!((800..1200).contains(&a.len()), "{} departures", a.len());
    }
}
