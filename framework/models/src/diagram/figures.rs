//! What a long run comes to, without a network: every answer comes at once. For holding models against published figures.

use std::sync::Arc;

use rehearsal_core::{RngStream, Span, Time};

use super::chain::{Chain, Stay};
use super::traffic::{Tally, Traffic, Wish};
use super::{Figure, Published};

/// Steps of a trial, at most. Assumed: some seconds.
const STEPS_MAX: u64 = 50_000_000;

/// Counts of a trial.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Users times seconds.
    pub user_seconds: f64,
    /// User-seconds by state.
    pub states: Vec<f64>,
    /// User-seconds in communication states.
    pub flow_seconds: f64,
    /// Flows.
    pub flows: Tally,
    /// Packets and loads.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// Whether it came to its end.
    pub complete: bool,
}

impl Trial {
    /// `users` users for `span`.
    pub fn run(chain: &Arc<Chain>, users: u32, span: Span, rng: RngStream) -> Trial {
        Trial::watched(chain, users, span, rng, &mut |_, _| {})
    }

    /// The same, and the payload bytes of each `bin` of time.
    pub fn binned(chain: &Arc<Chain>, users: u32, span: Span, bin: Span, rng: RngStream) -> (Trial, Vec<f64>) {
        let mut bins = vec![0.0; (span.as_nanos() / bin.as_nanos().max(1)) as usize];
        let trial = Trial::watched(chain, users, span, rng, &mut |at, bytes| {
            if let Some(sum) = bins.get_mut((at.as_nanos() / bin.as_nanos().max(1)) as usize) {
                *sum += f64::from(bytes);
            }
        });
        (trial, bins)
    }

    fn watched(chain: &Arc<Chain>, users: u32, span: Span, rng: RngStream, seen: &mut dyn FnMut(Time, u32)) -> Trial {
        let mut traffic = Traffic::new(Arc::clone(chain), rng, None);
        let (mut wishes, end) = (Vec::new(), Time::ZERO + span);
        let mut trial = Trial { complete: true, ..Trial::default() };
        traffic.resize(Time::ZERO, users, &mut wishes);
        let mut steps = 0;
        loop {
            while let Some(wish) = wishes.pop() {
                let (Wish::Packet { at, bytes, .. } | Wish::Load { at, bytes, .. }) = wish else { continue };
                seen(at, bytes);
                (trial.packets, trial.bytes) = (trial.packets + 1, trial.bytes + u64::from(bytes));
                if let Wish::Load { at, user, flow, .. } = wish {
                    traffic.answered(at, user, flow, true, &mut wishes);
                }
            }
            steps += 1;
            match traffic.next() {
                Some(at) if at < end && steps < STEPS_MAX => traffic.step(&mut wishes),
                next => {
                    trial.complete = next.is_none_or(|at| at >= end);
                    break;
                }
            }
        }
        trial.user_seconds = f64::from(users) * span.as_secs_f64();
        trial.states = traffic.crowd().user_seconds(end);
        let talking = |row: &usize| matches!(chain.states[*row].stay, Stay::Flow(_));
        trial.flow_seconds = (0..chain.states.len()).filter(talking).map(|row| trial.states[row]).sum();
        trial.flows = traffic.tally();
        trial
    }

    /// A figure of it.
    pub fn figure(&self, figure: Figure) -> f64 {
        let (packets, bits, flows) = (self.packets as f64, self.bytes as f64 * 8.0, self.flows.begun as f64);
        match figure {
            Figure::UserRate => packets / self.user_seconds,
            Figure::UserBits => bits / self.user_seconds,
            Figure::FlowRate => packets / self.flow_seconds,
            Figure::FlowBits => bits / self.flow_seconds,
            Figure::Bytes => self.bytes as f64 / packets,
            Figure::FlowPackets => packets / flows,
            Figure::FlowBytes => self.bytes as f64 / flows,
            Figure::FlowsPerHour => flows * 3600.0 / self.user_seconds,
            Figure::Erlang => self.flow_seconds / self.user_seconds,
        }
    }

    /// Whether a published figure is met, and what it comes to here.
    pub fn holds(&self, published: &Published) -> (bool, f64) {
        let found = self.figure(published.figure);
        ((found - published.value).abs() <= published.within.0 * published.value.abs(), found)
    }
}
