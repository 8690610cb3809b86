//! Gamma-beta autoregressive frames: the law of each by itself, correlations, and what a flow comes to.

use rehearsal_core::units::ByteSize;

use super::*;
use crate::diagram::Figure;
use crate::diagram::module::Kind;

const FLOWS: usize = 20_000;
const CORRELATION: f64 = 0.9;
const CV: f64 = 0.6;

/// A conference of 25 frames/s with 4 kB in the mean.
fn conference() -> Diagram {
    let module = Module {
        every: Some(Span::from_millis(40)),
        bytes: Some(ByteSize(4_000)),
        cv: Some(CV),
        correlation: Some(CORRELATION),
        lasts: Some(exponential(Span::from_secs(60))),
        ..Module::plain(Kind::Gbar)
    };
    let talks = State { module: Some("video".to_owned()), to: to(&[("talks", 1.0)]), ..State::default() };
    Diagram {
        about: About::default(),
        start: BTreeMap::new(),
        states: [("talks".to_owned(), talks)].into(),
        modules: [("video".to_owned(), module)].into(),
    }
}

/// Sizes of the first 21 frames of many flows.
fn flows() -> Vec<Vec<f64>> {
    let chain = chain(&conference());
    let works = &chain.modules[0];
    let (gbar, first) = (works.gbar.as_ref().expect("its kind"), works.sizes.as_ref().expect("a law"));
    let mut rng = rng("gbar", 0);
    let flow = |_| {
        let mut size = first.sampler.draw(&mut rng);
        let mut sizes = vec![size];
        for _ in 0..20 {
            size = gbar.next(size, &mut rng);
            sizes.push(size);
        }
        sizes
    };
    (0..FLOWS).map(flow).collect()
}

/// Kolmogorov's limit for one good sampler in a thousand; the seed is fixed.
#[test]
fn every_frame_has_the_gamma_law() {
    let chain = chain(&conference());
    let law = &chain.modules[0].sizes.as_ref().expect("a law").law;
    let flows = flows();
    for place in [0, 1, 20] {
        let mut sizes: Vec<f64> = flows.iter().map(|flow| flow[place]).collect();
        sizes.sort_by(f64::total_cmp);
        let distance = |(i, size): (usize, &f64)| ((i as f64 + 0.5) / FLOWS as f64 - (1.0 - law.survival(*size))).abs();
        let farthest = sizes.iter().enumerate().map(distance).fold(0.0, f64::max) * (FLOWS as f64).sqrt();
        assert!(farthest < 1.95, "frame {place}: {farthest}");
    }
}

/// Frames k apart have the correlation ρ^k. Its standard error over 20,000 flows is below 0.01.
#[test]
fn correlations_fall_geometrically() {
    let flows = flows();
    for apart in [1, 2, 10, 20] {
        let many = FLOWS as f64;
        let mean = |place: usize| flows.iter().map(|flow| flow[place]).sum::<f64>() / many;
        let (first, then) = (mean(0), mean(apart));
        let sum = |a: usize, b: usize, of: (f64, f64)| -> f64 {
            flows.iter().map(|flow| (flow[a] - of.0) * (flow[b] - of.1)).sum()
        };
        let scale = (sum(0, 0, (first, first)) * sum(apart, apart, (then, then))).sqrt();
        let found = sum(0, apart, (first, then)) / scale;
        let expected = CORRELATION.powi(apart as i32);
        assert!((found - expected).abs() < 0.04, "{apart} apart: {found} and not {expected}");
    }
}

/// Packets and bytes are those of the long run. Frames go together, so the million of 200 users in 200 s tell as much as 50,000
/// that do not: a deviation of 0.3 %.
#[test]
fn a_flow_comes_to_what_the_long_run_says() {
    let chain = chain(&conference());
    let offered = chain.stationary().expect("it has one").total();
    assert!((offered.bytes - 100_000.0).abs() < 1.0, "{offered:?}");
    let trial = Trial::run(&chain, 200, Span::from_secs(200), rng("conference", 0));
    for (figure, expected) in [(Figure::FlowBits, offered.bytes * 8.0), (Figure::FlowRate, offered.packets)] {
        let found = trial.figure(figure);
        assert!((found / expected - 1.0).abs() < 0.02, "{figure:?}: {found} and not {expected}");
    }
}

#[test]
fn what_is_no_such_process_is_told() {
    let fault = |change: &dyn Fn(&mut Module)| {
        let mut diagram = conference();
        change(diagram.modules.get_mut("video").expect("a module"));
        let flaws = diagram.flaws();
        (flaws[0].path.join("."), flaws[0].reason.clone())
    };
    for (correlation, cv, key) in
        [(1.0, CV, "correlation"), (0.0, CV, "correlation"), (-0.2, CV, "correlation"), (0.9, 0.0, "cv")]
    {
        let (path, reason) = fault(&|module| (module.correlation, module.cv) = (Some(correlation), Some(cv)));
        assert_eq!(path, format!("modules.video.{key}"), "{reason}");
    }
    let (path, reason) = fault(&|module| module.correlation = None);
    assert!(path == "modules.video.kind" && reason.contains("needs `correlation`"), "{path}: {reason}");
    assert_eq!(fault(&|module| module.bytes = Some(ByteSize(2 << 20))).0, "modules.video.bytes");
}
