//! Diagrams: what is refused, the long run against closed forms and against simulation, superposition, memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use rehearsal_core::rng::Seed;
use rehearsal_core::units::ByteSize;
use rehearsal_core::{RngStream, Span, Time};

use super::figures::Trial;
use super::*;

mod dash;
mod exact;
mod gbar;
mod laws;
mod refused;
mod steps;

pub(super) fn rng(purpose: &str, stream: u32) -> RngStream {
    RngStream::new(Seed { seed: 7, repetition: 0, group: "users/main", member: 0, stream, purpose })
}

pub(super) fn exponential(mean: Span) -> Distribution<Span> {
    law(rehearsal_core::distribution::Name::Exponential, |d| d.mean = Some(mean))
}

pub(super) fn constant(value: Span) -> Distribution<Span> {
    law(rehearsal_core::distribution::Name::Constant, |d| d.value = Some(value))
}

pub(super) fn law(
    dist: rehearsal_core::distribution::Name,
    with: impl FnOnce(&mut Distribution<Span>),
) -> Distribution<Span> {
    let mut law = Distribution::plain(dist);
    with(&mut law);
    law
}

pub(super) fn to(targets: &[(&str, f64)]) -> BTreeMap<String, f64> {
    targets.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect()
}

/// A module of packets of 100 B.
pub(super) fn packets(every: Span, lasts: Distribution<Span>) -> Module {
    Module { lasts: Some(lasts), every: Some(every), bytes: Some(ByteSize(100)), ..module(module::Kind::Cbr) }
}

pub(super) fn module(kind: module::Kind) -> Module {
    Module::plain(kind)
}

/// Idle for 60 s, then a call of 20 s with a packet every 100 ms.
pub(super) fn calls() -> Diagram {
    let states = BTreeMap::from([
        (
            "idle".to_owned(),
            State { stay: Some(exponential(Span::from_secs(60))), to: to(&[("call", 1.0)]), ..State::default() },
        ),
        ("call".to_owned(), State { module: Some("voice".to_owned()), to: to(&[("idle", 1.0)]), ..State::default() }),
    ]);
    let voice = packets(Span::from_millis(100), exponential(Span::from_secs(20)));
    Diagram {
        about: About::default(),
        start: BTreeMap::new(),
        states,
        modules: BTreeMap::from([("voice".to_owned(), voice)]),
    }
}

pub(super) fn chain(diagram: &Diagram) -> Arc<Chain> {
    Arc::new(Chain::new(diagram).expect("a diagram"))
}

/// Walks `traffic` to `end`; times at which flows began, and of packets.
pub(super) fn walk(traffic: &mut Traffic, users: u32, end: Time) -> Vec<Time> {
    let (mut wishes, mut times) = (Vec::new(), Vec::new());
    traffic.resize(Time::ZERO, users, &mut wishes);
    while let Some(at) = traffic.next().filter(|at| *at < end) {
        traffic.step(&mut wishes);
        for wish in wishes.drain(..) {
            if let Wish::Packet { at: sent, .. } = wish {
                assert_eq!(sent, at, "a packet leaves when it is due");
                times.push(sent);
            }
        }
    }
    times
}

#[test]
fn an_idle_user_takes_less_than_100_bytes() {
    // composed: a count if its stay is memoryless, else an end; individual: a state, a generator and an end
    let stay = size_of::<std::cmp::Reverse<(Time, u32)>>();
    assert!(stay <= 16, "{stay}");
    let person = size_of::<RngStream>() + 2 * size_of::<u16>();
    // beside: the engine's gate (4 B), the actor's count (8 B), the place of a flow (8 B), and 32 B where a stream is watched
    let all = person.next_multiple_of(8) + stay + 4 + 8 + size_of::<Option<Box<u8>>>() + 32;
    assert!(all < 100, "{all}");
}

#[test]
fn a_trial_comes_to_what_the_long_run_says() {
    let chain = chain(&calls());
    let offered = chain.stationary().expect("it has one").total();
    let trial = Trial::run(&chain, 400, Span::from_secs(4_000), rng("trial", 0));
    assert!(trial.complete);
    // 20,000 flows: a relative deviation of their number is below 1 %, four of them
    let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.04, "{found} for {expected}");
    near(trial.figure(Figure::UserRate), offered.packets);
    near(trial.figure(Figure::UserBits), offered.bytes * 8.0);
    near(trial.figure(Figure::FlowsPerHour), offered.flows * 3600.0);
    near(trial.figure(Figure::Erlang), 0.25);
    near(trial.figure(Figure::FlowRate), 10.0);
}
