//! Rates, dispersion and shapes of arrivals against what their courses say.

use rehearsal_core::Span;
use rehearsal_core::arrivals::{Arrivals, Process, Rows, Spacing, Stage, State};
use rehearsal_core::distribution::{Distribution, Name};
use rehearsal_core::rng::Seed;
use rehearsal_core::units::Rate;

use super::*;

fn plain(process: Process) -> Arrivals {
    Arrivals {
        process,
        rate: None,
        repeat: false,
        spacing: None,
        file: None,
        rows: None,
        trace: Vec::new(),
        gaps: None,
        on: None,
        off: None,
        stages: Vec::new(),
        states: Default::default(),
    }
}

fn exponential(mean: Span) -> Distribution<Span> {
    Distribution { mean: Some(mean), ..Distribution::plain(Name::Exponential) }
}

fn poisson() -> Arrivals {
    Arrivals { rate: Some(Rate::per_second(100)), ..plain(Process::Poisson) }
}

fn gamma() -> Arrivals {
    let gaps = Distribution { dist: Name::Gamma, cv: Some(2.0), ..exponential(Span::from_millis(10)) };
    Arrivals { gaps: Some(gaps), ..plain(Process::Renewal) }
}

fn on_off() -> Arrivals {
    let span = Span::from_millis;
    let gaps = Distribution { dist: Name::Constant, mean: None, value: Some(span(10)), ..exponential(span(1)) };
    let (on, off) = (Some(exponential(span(500))), Some(exponential(span(1500))));
    Arrivals { gaps: Some(gaps), on, off, ..plain(Process::OnOff) }
}

fn mmpp() -> Arrivals {
    let state = |rate, to: &str, out| State {
        rate: Some(Rate::per_second(rate)),
        to: [(to.to_owned(), Rate::per_second(out))].into(),
    };
    let states = [("busy".to_owned(), state(200, "idle", 2)), ("idle".to_owned(), state(10, "busy", 1))].into();
    Arrivals { states, ..plain(Process::Mmpp) }
}

fn ramp(spacing: Spacing) -> Arrivals {
    let stage = |seconds, target: Option<u64>| Stage {
        duration: Span::from_secs(seconds),
        target: target.map(Rate::per_second),
    };
    let stages = vec![stage(10, Some(100)), stage(10, Some(100)), stage(10, None)];
    Arrivals { stages, spacing: Some(spacing), ..plain(Process::Stages) }
}

fn traced() -> Arrivals {
    let trace = [1, 1, 4].map(Span::from_secs).to_vec();
    Arrivals { trace, rows: Some(Rows::Times), repeat: true, ..plain(Process::Trace) }
}

fn draws(arrivals: &Arrivals, stream: u32) -> Draws {
    let pattern = Pattern::new(&arrivals.course().expect("a course")).expect("a pattern");
    let seed = Seed { seed: 1, repetition: 0, group: "sensor/main", member: 0, stream, purpose: "arrivals" };
    Draws::new(&pattern, RngStream::new(seed))
}

/// Arrivals of one stream within so many seconds, in seconds.
fn times(arrivals: &Arrivals, stream: u32, seconds: u64) -> Vec<f64> {
    let mut draws = draws(arrivals, stream);
    let end = seconds * 1_000_000_000;
    std::iter::from_fn(|| draws.advance().filter(|at| *at < end)).map(|at| at as f64 / 1e9).collect()
}

/// Mean and variance of the counts of 2,000 streams of 40 s.
fn counts(arrivals: &Arrivals) -> (f64, f64) {
    let counts: Vec<f64> = (0..2000).map(|stream| times(arrivals, stream, 40).len() as f64).collect();
    let mean = counts.iter().sum::<f64>() / 2000.0;
    (mean, counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 1999.0)
}

/// The mean within five of its standard errors. A variance of 2,000 nearly normal counts has a standard error of
/// √(2 / 2000) = 3.2 %, five are 16 %; to this the bias of a time that is not endless is added, written beside each.
#[test]
fn counts_have_the_mean_and_the_dispersion_of_their_course() {
    // gaps of CV 2 that start with a whole one: t / mean + (cv² − 1) / 2 arrivals, Cox, Renewal Theory, §4.2
    // MMPP over 40 s: 1 − (1 − e^−rt) / rt with r = 3/s is 0.8 % short
    for (name, arrivals, bias) in [("poisson", poisson(), 0.0), ("gamma", gamma(), 1.5), ("mmpp", mmpp(), 0.0)] {
        let course = arrivals.course().expect(name);
        let (mean, variance) = counts(&arrivals);
        let expected = course.per_second() * 40.0 + bias;
        let dispersion = course.dispersion().expect(name);
        let error = (mean - expected) / (dispersion * expected / 2000.0).sqrt();
        assert!(error.abs() < 5.0, "{name}: mean {mean} and not {expected}: {error} standard errors");
        let ratio = variance / mean / dispersion;
        assert!((ratio - 1.0).abs() < 0.18, "{name}: dispersion {} and not {dispersion}", variance / mean);
    }
}

#[test]
fn on_off_is_on_for_its_share_and_keeps_its_gap() {
    let arrivals = on_off();
    let (mean, variance) = counts(&arrivals);
    // a quarter of 100/s for 40 s; five standard errors
    assert!((mean - 1000.0).abs() < 5.0 * (variance / 2000.0).sqrt(), "{mean}");
    let all = times(&arrivals, 0, 4000);
    let even = all.windows(2).filter(|w| (w[1] - w[0] - 0.01).abs() < 1e-9).count();
    let longer = all.windows(2).filter(|w| w[1] - w[0] > 0.011).count();
    // each gap falls into an end of a phase with 1 − e^(−10/500) = 2 %
    let share = longer as f64 / (all.len() - 1) as f64;
    assert!((even + longer).abs_diff(all.len() - 1) < all.len() / 500, "{even} + {longer} of {}", all.len());
    assert!((share - 0.0198).abs() < 0.0022, "five standard errors of a binomial share: {share}");
}

#[test]
fn the_clock_of_gaps_stands_still_while_it_is_off() {
    let constant = |ms| Distribution {
        dist: Name::Constant,
        mean: None,
        value: Some(Span::from_millis(ms)),
        ..exponential(Span::from_millis(1))
    };
    let (gaps, on, off) = (Some(constant(10)), Some(constant(25)), Some(constant(100)));
    let arrivals = Arrivals { gaps, on, off, ..plain(Process::OnOff) };
    for stream in 0..10 {
        let mut draws = draws(&arrivals, stream);
        let ms: Vec<u64> = (0..6).map_while(|_| draws.advance()).map(|at| at / 1_000_000).collect();
        // on from 0 to 25, from 125 to 150, from 250 on; or all of it 100 ms later, if it begins off
        let begins = if ms[0] < 100 { 0 } else { 100 };
        assert_eq!(ms, [10, 20, 130, 140, 150, 260].map(|at| at + begins), "{stream}");
    }
}

#[test]
fn even_stages_are_where_the_integral_of_the_rate_is_whole() {
    for stream in 0..20 {
        let all = times(&ramp(Spacing::Even), stream, 60);
        // 500 on the way up, 1,000 on top, 500 on the way down
        assert_eq!(all.len(), 2000);
        // 5 t² is the sum on the way up, then 500 + 100 (t − 10)
        let first = 5.0 * all[0] * all[0];
        assert!((0.0..1.0).contains(&first));
        for (k, at) in all.iter().enumerate().take(1400) {
            let sum = if *at < 10.0 { 5.0 * at * at } else { 500.0 + 100.0 * (at - 10.0) };
            assert!((sum - first - k as f64).abs() < 1e-5, "{k} at {at}: {sum}");
        }
        assert!(all.iter().all(|at| *at < 30.0));
    }
}

#[test]
fn stages_of_a_poisson_process_have_its_counts() {
    let (mean, variance) = counts(&ramp(Spacing::Poisson));
    assert!((mean - 2000.0).abs() < 5.0, "five standard errors: {mean}");
    assert!((variance / mean - 1.0).abs() < 0.16, "{variance}");
}

#[test]
fn what_repeats_begins_again_and_what_does_not_ends() {
    assert_eq!(times(&traced(), 0, 10), [1.0, 1.0, 4.0, 5.0, 5.0, 8.0, 9.0, 9.0]);
    let once = Arrivals { repeat: false, ..traced() };
    assert_eq!(times(&once, 0, 10), [1.0, 1.0, 4.0]);
    let again = Arrivals { repeat: true, ..ramp(Spacing::Even) };
    let all = times(&again, 3, 90);
    assert_eq!(all.len(), 6000);
    for k in 0..2000 {
        assert!((all[k] + 30.0 - all[k + 2000]).abs() < 1e-5, "{k}");
    }
}

#[test]
fn equal_seeds_draw_alike_and_streams_differ() {
    for arrivals in [poisson(), gamma(), on_off(), mmpp(), ramp(Spacing::Even), ramp(Spacing::Poisson)] {
        assert_eq!(times(&arrivals, 0, 20), times(&arrivals, 0, 20));
        assert_ne!(times(&arrivals, 0, 20), times(&arrivals, 1, 20));
    }
}

/// Golden vectors: the hundredth arrival of each in ns. They must never change, on no host and in no version.
#[test]
fn golden_vectors() {
    let all = [poisson(), gamma(), on_off(), mmpp(), ramp(Spacing::Even), ramp(Spacing::Poisson)];
    let drawn = all.map(|arrivals| {
        let mut draws = draws(&arrivals, 7);
        (0..100).map_while(|_| draws.advance()).last().unwrap_or(0)
    });
    assert_eq!(drawn, [1_025_490_984, 1_149_971_079, 2_733_622_353, 541_974_636, 4_449_876_126, 4_528_776_846]);
}
