//! The long run against closed forms.

use rehearsal_core::units::Rate;

use super::*;

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{found}, not {expected}");
}

#[test]
fn two_states_share_time_by_their_means() {
    let chain = chain(&calls());
    let long = chain.stationary().expect("it has one");
    near(long.shares[chain.state("call").expect("it is there")], 0.25);
    near(long.offered[0].flows, 1.0 / 80.0);
    near(long.offered[0].packets, 0.25 * 10.0);
    near(long.offered[0].bytes, 0.25 * 1000.0);
}

/// A birth and death chain: shares go down by the ratio of the rates, here 1 : 2 : 4 / 3 by hand.
#[test]
fn rates_balance() {
    let by = |rates: &[(&str, u64)]| State {
        rates: rates.iter().map(|(name, rate)| ((*name).to_owned(), Rate::per_second(*rate))).collect(),
        ..State::default()
    };
    let states = BTreeMap::from([
        ("a".to_owned(), by(&[("b", 2)])),
        ("b".to_owned(), by(&[("a", 1), ("c", 2)])),
        ("c".to_owned(), by(&[("b", 3)])),
    ]);
    let diagram = Diagram { about: About::default(), start: BTreeMap::new(), states, modules: BTreeMap::new() };
    let shares = chain(&diagram).stationary().expect("it has one").shares;
    let sum = 1.0 + 2.0 + 4.0 / 3.0;
    for (share, weight) in shares.iter().zip([1.0, 2.0, 4.0 / 3.0]) {
        near(*share, weight / sum);
    }
}

/// Means of phase-type stays: 0.9 · 1 + 0.1 · 10, 1 + 2, and 1 + 0.5 · 4.
#[test]
fn phases_have_their_means() {
    let seconds = Span::from_secs;
    let there = |state: State| State { to: to(&[("back", 1.0)]), ..state };
    let hyper = vec![Branch { share: 0.9, mean: seconds(1) }, Branch { share: 0.1, mean: seconds(10) }];
    let coxian = vec![Phase { mean: seconds(1), on: 0.5 }, Phase { mean: seconds(4), on: 0.0 }];
    for (state, mean) in [
        (there(State { hyper, ..State::default() }), 1.9),
        (there(State { hypo: vec![seconds(1), seconds(2)], ..State::default() }), 3.0),
        (there(State { coxian, ..State::default() }), 3.0),
    ] {
        let back = State { stay: Some(constant(seconds(1))), to: to(&[("there", 1.0)]), ..State::default() };
        let states = BTreeMap::from([("back".to_owned(), back), ("there".to_owned(), state)]);
        let diagram = Diagram { about: About::default(), start: BTreeMap::new(), states, modules: BTreeMap::new() };
        near(chain(&diagram).stationary().expect("it has one").shares[1], mean / (mean + 1.0));
    }
}

/// Of an exponential flow of 20 s and an exponential patience of 60 s the shorter has a mean of 15 s; a quarter give up.
#[test]
fn impatience_shortens_flows() {
    let mut diagram = calls();
    let call = diagram.states.get_mut("call").expect("it is there");
    call.impatience = Some(exponential(Span::from_secs(60)));
    call.impatient = to(&[("call", 1.0)]);
    let chain = chain(&diagram);
    let long = chain.stationary().expect("it has one");
    let share = long.shares[chain.state("call").expect("it is there")];
    // a call is followed by another in a quarter of all cases: 15 / 0.75 = 20 s for each 60 s
    assert!((share - 0.25).abs() < 1e-4, "{share}");
    let trial = Trial::run(&chain, 400, Span::from_secs(4_000), rng("impatience", 0));
    let gave_up = trial.flows.impatient as f64 / trial.flows.begun as f64;
    assert!((gave_up - 0.25).abs() < 0.015, "{gave_up}");
    assert!((trial.figure(Figure::Erlang) - 0.25).abs() < 0.01, "{}", trial.figure(Figure::Erlang));
}

#[test]
fn several_closed_sets_are_weighed_by_their_start() {
    let seconds = Span::from_secs;
    let again = |name: &str, module: &str| {
        (name.to_owned(), State { module: Some(module.to_owned()), to: to(&[(name, 1.0)]), ..State::default() })
    };
    let once = |every| Module { lasts: None, count: Some(1), ..packets(every, constant(seconds(1))) };
    let diagram = Diagram {
        about: About::default(),
        start: to(&[("slow", 0.75), ("fast", 0.25)]),
        states: BTreeMap::from([again("slow", "slow"), again("fast", "fast")]),
        modules: BTreeMap::from([("slow".to_owned(), once(seconds(100))), ("fast".to_owned(), once(seconds(10)))]),
    };
    let long = chain(&diagram).stationary().expect("it has one");
    assert_eq!(long.shares, [0.25, 0.75]);
    // a flow of one packet lasts half its interval in the mean, as it begins at a random point
    near(long.offered[0].flows, 0.25 / 5.0);
    near(long.offered[1].flows, 0.75 / 50.0);
}

#[test]
fn what_has_no_long_run_says_so() {
    let mut diagram = calls();
    let idle = diagram.states.get_mut("idle").expect("it is there");
    idle.when.insert("call".into(), Condition { state: "call".into(), at_least: None, below: Some(3) });
    assert_eq!(chain(&diagram).stationary(), None);
    // at most three talk, however many would like to
    let chain = chain(&diagram);
    let mut traffic = Traffic::new(Arc::clone(&chain), rng("conditions", 0), None);
    let mut wishes = Vec::new();
    traffic.resize(Time::ZERO, 1000, &mut wishes);
    let (call, end) = (chain.state("call").expect("it is there"), Time::ZERO + Span::from_secs(600));
    let mut most = 0;
    while traffic.next().is_some_and(|at| at < end) {
        traffic.step(&mut wishes);
        wishes.clear();
        if traffic.next().is_some_and(|at| at > Time::ZERO + Span::from_secs(200)) {
            most = most.max(traffic.crowd().users()[call]);
        }
    }
    assert_eq!(most, 3);
}

#[test]
fn drawings_name_every_state_and_way() {
    let (dot, svg) = (calls().dot(), calls().svg());
    for text in ["\"idle\" [shape=ellipse", "\"call\" [shape=box", "\"idle\" -> \"call\" [label=\"1\"]", "voice: cbr"] {
        assert!(dot.contains(text), "{text}: {dot}");
    }
    for text in ["<ellipse", "<rect", ">idle</text>", "voice: cbr", "marker-end"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
}
