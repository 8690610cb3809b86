//! Arrivals of a Poisson process as they were drawn, and as they were sent: both are held against the exponential law by the
//! test of Kolmogorov and Smirnov.

use std::collections::BTreeMap;

use super::{Attempt, attempts};
use crate::support::{Scenario, Scratch, alone};

/// Streams, and gaps of each: drawn ones are as many as asked for, so that none is cut off by an end.
const STREAMS: u64 = 80;
const GAPS: u64 = 30;
/// Mean gap of a stream, ns: a sender that is a millisecond late moves no gap by more than a hundredth of it.
const MEAN_NS: f64 = 100e6;
/// Beyond it, independent exponential gaps lie once in 1,000 times, times the root of their number. Source: Kolmogorov's
/// distribution, 1 − K(1.949) = 0.001. The seed is fixed, so drawn gaps always pass or never do.
const CRITICAL: f64 = 1.949;

/// Gaps of each stream, ns.
fn gaps(attempts: &[Attempt], at: fn(&Attempt) -> u64) -> Vec<f64> {
    let mut streams: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for attempt in attempts {
        streams.entry(attempt.stream).or_default().push(at(attempt));
    }
    let mut gaps = Vec::new();
    for times in streams.values_mut() {
        times.sort_unstable();
        gaps.extend(times.windows(2).map(|pair| (pair[1] - pair[0]) as f64));
    }
    gaps
}

/// The largest distance between the gaps' distribution and the exponential one of this mean, times the root of their number.
fn distance(mut gaps: Vec<f64>, mean: f64) -> f64 {
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let of = |(row, gap): (usize, &f64)| {
        let law = 1.0 - (-gap / mean).exp();
        (law - row as f64 / n).abs().max((law - (row + 1) as f64 / n).abs())
    };
    gaps.iter().enumerate().map(of).fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn a2_gaps_that_were_sent_are_those_of_a_poisson_process() {
    let _quiet = alone();
    let scratch = Scratch::new();
    let arrivals = "arrivals = { process = \"poisson\", rate = \"10/s\" }";
    let lines = format!("{arrivals}\nstreams = {STREAMS}\nrequests = {}\nin_flight = 8", GAPS + 1);
    let experiment = "stop = \"all-requests-done\"\nrecord_requests = \"100%\"".to_owned();
    let receiver = "workers = 1000".to_owned();
    scratch.write("trial.toml", Scenario { experiment, receiver, ..Scenario::sensor(&lines) }.toml());
    let bundle = scratch.emulate("trial.toml", "b", &[]);
    let attempts = attempts(&bundle);
    let [drawn, sent] = [gaps(&attempts, |a| a.intended_ns), gaps(&attempts, |a| a.sent_ns)];
    assert_eq!((drawn.len() as u64, sent.len() as u64), (STREAMS * GAPS, STREAMS * GAPS));
    let [drawn, sent] = [drawn, sent].map(|gaps| distance(gaps, MEAN_NS));
    println!("Kolmogorov-Smirnov: {drawn:.3} as drawn, {sent:.3} as sent, {CRITICAL} is the bound");
    assert!(drawn < CRITICAL, "as drawn: {drawn}");
    assert!(sent < CRITICAL, "as sent: {sent}");
}

#[test]
fn another_law_does_not_pass() {
    let n = STREAMS * GAPS;
    let share = |row: u64| (row as f64 + 0.5) / n as f64;
    let exact = |mean: f64| (0..n).map(|row| -(1.0 - share(row)).ln() * mean).collect::<Vec<_>>();
    assert!(distance(exact(MEAN_NS), MEAN_NS) < 0.1, "quantiles of the law itself");
    assert!(distance(exact(1.2 * MEAN_NS), MEAN_NS) > CRITICAL, "a mean that is a fifth too long");
    assert!(distance(vec![MEAN_NS; n as usize], MEAN_NS) > CRITICAL, "even gaps");
    let uniform = (0..n).map(|row| share(row) * 2.0 * MEAN_NS).collect();
    assert!(distance(uniform, MEAN_NS) > CRITICAL, "uniform gaps");
}
