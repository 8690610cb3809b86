//! Laws that a population keeps, whichever its diagram: 20 random ones, with fixed seeds and all tests together at 1 % (Holm).

use super::*;

/// Significance of a whole family of tests.
const ALPHA: f64 = 0.01;
const DIAGRAMS: u32 = 20;

/// A random diagram: 2 to 5 stochastic states in a ring with random ways across, and one communication state.
fn random(number: u32) -> Diagram {
    let mut rng = rng("diagram", number);
    let many = 2 + rng.below(4) as usize;
    let name = |row: usize| if row == many { "talk".to_owned() } else { format!("s{row}") };
    let mut states = BTreeMap::new();
    for row in 0..=many {
        // on to the next one, so that every state is reached, and somewhere else
        let (next, other) = (name((row + 1) % (many + 1)), name(rng.below(many as u64 + 1) as usize));
        let share = 0.3 + 0.6 * rng.unit();
        let mut ways = BTreeMap::from([(next.clone(), share)]);
        *ways.entry(other).or_insert(0.0) += 1.0 - share;
        let mean = Span::from_millis(200 + rng.below(3_000));
        let mut state = State { to: ways, ..State::default() };
        match (row == many, rng.below(5)) {
            (true, _) => state.module = Some("m".to_owned()),
            (_, 0) => state.hypo = vec![mean, mean],
            (_, 1) => {
                let slow = Span::from_nanos(mean.as_nanos() * 5);
                state.hyper = vec![Branch { share: 0.8, mean }, Branch { share: 0.2, mean: slow }];
            }
            (_, 2) => state.stay = Some(constant(mean)),
            (_, 3) => state.coxian = vec![Phase { mean, on: 0.4 }, Phase { mean, on: 0.0 }],
            _ => state.stay = Some(exponential(mean)),
        }
        states.insert(name(row), state);
    }
    let module = packets(Span::from_millis(500), exponential(Span::from_millis(500 + rng.below(2_000))));
    let modules = BTreeMap::from([("m".to_owned(), module)]);
    Diagram { about: About::default(), start: BTreeMap::new(), states, modules }
}

/// The smallest of Holm's adjusted p-values must be above the level of the family: then nothing is rejected.
fn none_rejected(mut p: Vec<f64>) {
    let many = p.len();
    p.sort_by(f64::total_cmp);
    let smallest = p.iter().enumerate().map(|(rank, p)| p * (many - rank) as f64).fold(f64::INFINITY, f64::min);
    assert!(smallest > ALPHA, "a law does not hold: smallest adjusted p {smallest}, of {p:?}");
}

/// P(K > x) of Kolmogorov's distribution.
fn kolmogorov(x: f64) -> f64 {
    let terms = (1..=100).map(|k| {
        let k = f64::from(k);
        let sign = if k as u32 % 2 == 1 { 1.0 } else { -1.0 };
        sign * (-2.0 * k * k * x * x).exp()
    });
    if x < 0.2 { 1.0 } else { (2.0 * terms.sum::<f64>()).clamp(0.0, 1.0) }
}

/// The p-value of two samples being of one distribution.
fn two_samples(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (mut i, mut j, mut most) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let x = a[i].min(b[j]);
        while i < a.len() && a[i] <= x {
            i += 1;
        }
        while j < b.len() && b[j] <= x {
            j += 1;
        }
        most = most.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let effective = (n * m / (n + m)).sqrt();
    kolmogorov((effective + 0.12 + 0.11 / effective) * most)
}

/// Packets in each of many windows that begin anew: independent samples of one count, scattered within ties.
fn counts(run: impl Fn(u32) -> Vec<Time>, purpose: &str) -> Vec<f64> {
    let mut scatter = rng(purpose, 999);
    (0..150).map(|window| run(window).len() as f64 + scatter.unit() * 1e-3).collect()
}

/// N users in one population send as N populations of one user do.
#[test]
fn populations_add_up() {
    let end = Time::ZERO + Span::from_secs(6);
    let many = 12;
    let mut p = Vec::new();
    for number in 0..DIAGRAMS {
        let chain = chain(&random(number));
        let together = |window: u32| {
            let mut traffic = Traffic::new(Arc::clone(&chain), rng(&format!("together {number}"), window), None);
            walk(&mut traffic, many, end)
        };
        let apart = |window: u32| {
            let one = |user: u32| {
                let own = rng(&format!("apart {number} {window}"), user);
                walk(&mut Traffic::new(Arc::clone(&chain), own, None), 1, end)
            };
            (0..many).flat_map(one).collect()
        };
        let individual = |window: u32| {
            let people = (0..many).map(|user| rng(&format!("people {number} {window}"), user)).collect();
            walk(&mut Traffic::new(Arc::clone(&chain), rng("unused", 0), Some(people)), many, end)
        };
        let (a, b, c) = (counts(together, "ties a"), counts(apart, "ties b"), counts(individual, "ties c"));
        p.push(two_samples(a.clone(), b));
        p.push(two_samples(a, c));
    }
    none_rejected(p);
}

/// The test itself tells a population of 12 from one of 24.
#[test]
fn the_comparison_can_tell() {
    let (chain, end) = (chain(&random(0)), Time::ZERO + Span::from_secs(6));
    let of = |users: u32, purpose: &'static str| {
        let chain = Arc::clone(&chain);
        let run = move |window| walk(&mut Traffic::new(Arc::clone(&chain), rng(purpose, window), None), users, end);
        counts(run, purpose)
    };
    let p = two_samples(of(12, "twelve"), of(24, "two dozen"));
    assert!(p < 1e-4, "{p}");
}

/// Users in each state are N · π over a long time: batch means, Student's t of 20 batches.
#[test]
fn occupancy_is_that_of_the_long_run() {
    let mut p = Vec::new();
    for number in 0..DIAGRAMS {
        let chain = chain(&random(number));
        let shares = chain.stationary().expect("it has one").shares;
        let (users, batch) = (200, Span::from_secs(200));
        let mut traffic = Traffic::new(Arc::clone(&chain), rng("occupancy", number), None);
        let mut wishes = Vec::new();
        traffic.resize(Time::ZERO, users, &mut wishes);
        let mut before = vec![0.0; shares.len()];
        let mut means = vec![Vec::new(); shares.len()];
        for round in 0..=20 {
            let end = Time::ZERO + batch.saturating_mul(round + 1);
            while traffic.next().is_some_and(|at| at < end) {
                traffic.step(&mut wishes);
                wishes.clear();
            }
            let now = traffic.crowd().user_seconds(end);
            for (row, means) in means.iter_mut().enumerate() {
                // the first batch warms up
                if round > 0 {
                    means.push((now[row] - before[row]) / batch.as_secs_f64() / f64::from(users));
                }
            }
            before = now;
        }
        for (means, share) in means.iter().zip(&shares) {
            p.push(t_test(means, *share));
        }
    }
    none_rejected(p);
}

/// The two-sided p-value of a mean: Student's t, its density integrated by Simpson's rule.
fn t_test(values: &[f64], expected: f64) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = ((mean - expected) / (variance / n).sqrt()).abs();
    let area = |to: f64| {
        let steps = 20_000;
        let density = |row: i32| (1.0 + (to * f64::from(row) / f64::from(steps)).powi(2) / (n - 1.0)).powf(-n / 2.0);
        let weight = |row: i32| if row == 0 || row == steps { 1.0 } else { f64::from(2 + 2 * (row % 2)) };
        (0..=steps).map(|row| weight(row) * density(row)).sum::<f64>() * to / f64::from(steps) / 3.0
    };
    1.0 - area(t.min(400.0)) / area(400.0)
}

/// Given the state, memoryless stays end after exponential times with the sum of all rates: one sample, Kolmogorov–Smirnov.
#[test]
fn times_between_events_are_exponential_given_the_state() {
    let mut p = Vec::new();
    for number in 0..DIAGRAMS {
        let mut diagram = random(number);
        // all stays memoryless, and none that a flow decides
        let mut rng_of = rng("means", number);
        for state in diagram.states.values_mut() {
            *state = State {
                stay: Some(exponential(Span::from_millis(100 + rng_of.below(2_000)))),
                to: state.to.clone(),
                ..State::default()
            };
        }
        diagram.modules.clear();
        let chain = chain(&diagram);
        let mut crowd = Crowd::new(Arc::clone(&chain), rng("events", number), None);
        let (mut begun, mut now) = (Vec::new(), Time::ZERO);
        crowd.resize(now, 50, &mut begun);
        let mut uniform = Vec::new();
        for _ in 0..3_000 {
            let rate: f64 = crowd.users().iter().enumerate().map(|(row, n)| f64::from(*n) / chain.seconds(row)).sum();
            let Some(at) = crowd.next() else { break };
            // by its own law every time becomes uniform
            uniform.push((-rate * at.since(now).as_secs_f64()).exp());
            crowd.step(&mut begun);
            now = at;
        }
        uniform.sort_by(f64::total_cmp);
        let n = uniform.len() as f64;
        let distance = |(row, x): (usize, &f64)| ((row + 1) as f64 / n - x).max(x - row as f64 / n);
        let most = uniform.iter().enumerate().map(distance).fold(0.0, f64::max);
        p.push(kolmogorov((n.sqrt() + 0.12 + 0.11 / n.sqrt()) * most));
    }
    none_rejected(p);
}

/// A user who is kept one by one does the same whoever else there is.
#[test]
fn individual_users_do_not_move_each_other() {
    let (chain, end) = (chain(&random(3)), Time::ZERO + Span::from_secs(60));
    let first = |many: u32| {
        let people = (0..many).map(|user| rng("person", user)).collect();
        let mut traffic = Traffic::new(Arc::clone(&chain), rng("unused", 0), Some(people));
        let (mut wishes, mut times) = (Vec::new(), Vec::new());
        traffic.resize(Time::ZERO, many, &mut wishes);
        while traffic.next().is_some_and(|at| at < end) {
            traffic.step(&mut wishes);
            let of_first = wishes.drain(..).filter_map(|wish| match wish {
                Wish::Packet { at, user: 0, bytes, .. } => Some((at, bytes)),
                _ => None,
            });
            times.extend(of_first);
        }
        times
    };
    let alone = first(1);
    assert!(!alone.is_empty());
    assert_eq!(alone, first(40));
}

/// However often the number of users changes, there are as many as there should be, and nobody is lost.
#[test]
fn users_come_and_go() {
    for individual in [false, true] {
        let chain = chain(&random(5));
        let people = individual.then(|| (0..500).map(|user| rng("person", user)).collect());
        let mut traffic = Traffic::new(Arc::clone(&chain), rng("resize", 0), people);
        let mut wishes = Vec::new();
        let mut sizes = rng("sizes", 0);
        for round in 0..40 {
            let now = Time::ZERO + Span::from_secs(round * 20);
            let wanted = sizes.below(501) as u32;
            traffic.resize(now, wanted, &mut wishes);
            let end = now + Span::from_secs(20);
            while traffic.next().is_some_and(|at| at < end) {
                traffic.step(&mut wishes);
                wishes.clear();
            }
            let there: u32 = traffic.crowd().users().iter().sum();
            // flows last 2.5 s at most in the mean: after 20 s hardly anybody who should have left still talks
            assert_eq!(there, traffic.crowd().present());
            assert!(there >= wanted && there - wanted < 10, "{there} for {wanted}");
        }
    }
}

/// Times never go back, of what happens nor of what is sent.
#[test]
fn time_never_goes_back() {
    let chain = chain(&random(7));
    let mut traffic = Traffic::new(chain, rng("order", 0), None);
    let (mut wishes, mut before, mut sent) = (Vec::new(), Time::ZERO, 0);
    traffic.resize(before, 300, &mut wishes);
    for _ in 0..20_000 {
        let Some(at) = traffic.next() else { break };
        assert!(at >= before, "{at} after {before}");
        before = at;
        traffic.step(&mut wishes);
        for wish in wishes.drain(..) {
            assert!(matches!(wish, Wish::Packet { at: due, .. } if due == at), "{wish:?} at {at}");
            sent += 1;
        }
    }
    assert!(sent > 1_000, "{sent}");
}
