//! How fast the engine is beside a bare loop over the standard library's heap that does the same pops, pushes and draws, and
//! nothing else: the peer of the benchmark, built as this test is. Only the ratio is asserted, of CPU time per event, as
//! the median of pairs that take turns: it is the same on any machine that is not itself at fault.

use rehearsal_core::Span;
use rehearsal_sim::SimOptions;

#[path = "../../../../xtask/src/bench/peers/heap.rs"]
#[expect(dead_code, reason = "the peer is a program of its own, too")]
mod bare;
#[path = "../crowd/model.rs"]
mod model;

/// Sensors of the model.
const SENSORS: u32 = 1000;
/// Virtual time of each run; a fifth of it warms up. Six events for each sensor and second: about a tenth of a second.
const SECONDS: u64 = 100;
/// How often both run.
const PAIRS: usize = 9;
/// The least ratio. Measured in this profile, with its checks for overflow: 0.64 to 0.74, median 0.68; on a machine with ten
/// times the work it has cores for 0.60 to 0.79, median 0.65.
const RATIO_MIN: f64 = 0.6;

/// Events per CPU second of the engine.
fn engine() -> f64 {
    let simulation = model::simulation(SENSORS, Span::from_secs(SECONDS), SimOptions::default());
    let (mut first, mut last) = (None, None);
    simulation.run(&mut model::Nothing, &mut |at| {
        let mark = (bare::cpu_seconds(), at.events);
        if at.at.as_nanos() >= SECONDS / 5 * 1_000_000_000 {
            first.get_or_insert(mark);
        }
        last = Some(mark).filter(|_| !at.stopping).or(last);
    });
    let (first, last) = (first.expect("it ran a fifth"), last.expect("it ran"));
    (last.1 - first.1) as f64 / (last.0 - first.0)
}

/// Events per CPU second of the bare loop.
fn heap() -> f64 {
    let mut crowd = bare::Crowd::new(SENSORS);
    crowd.run(SECONDS / 5 * 1_000_000_000);
    let before = bare::cpu_seconds();
    let events = crowd.run(SECONDS * 1_000_000_000);
    events as f64 / (bare::cpu_seconds() - before)
}

#[test]
fn an_event_takes_not_much_longer_than_in_a_bare_loop() {
    let mut ratios: Vec<f64> = (0..PAIRS).map(|_| engine() / heap()).collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios[PAIRS / 2];
    println!("the engine handles {median:.2} of the events of a bare loop: {ratios:.2?}");
    assert!(median >= RATIO_MIN, "{median:.2} of the events of a bare loop, in {PAIRS} pairs {ratios:.2?}");
}
