//! Video in segments: rates by throughput, a buffer that fills and is kept full, and its end.

use rehearsal_core::units::BitRate;

use super::*;
use crate::diagram::module::Kind;
use crate::diagram::{Traffic, Wish};

const SEGMENT: Span = Span::from_secs(4);

/// Ten segments at 1, 2 or 4 Mbit/s, of which 12 s are loaded ahead.
fn film() -> Diagram {
    let module = Module {
        ladder: [1, 2, 4].map(|mbit| BitRate(mbit * 1_000_000)).to_vec(),
        segment: Some(SEGMENT),
        buffer: Some(Span::from_secs(12)),
        cv: Some(0.0),
        count: Some(10),
        ..Module::plain(Kind::Dash)
    };
    let watches = State { module: Some("film".to_owned()), to: to(&[("done", 1.0)]), ..State::default() };
    Diagram {
        about: About::default(),
        start: to(&[("watches", 1.0)]),
        states: [("watches".to_owned(), watches), ("done".to_owned(), State { last: true, ..State::default() })].into(),
        modules: [("film".to_owned(), module)].into(),
    }
}

/// When segments are asked for over a network of so many bit/s, and their bytes; the `bad`-th does not come.
fn watched(bits: f64, bad: usize) -> (Vec<(Time, u32)>, super::super::traffic::Tally) {
    let chain = Arc::new(Chain::new(&film()).expect("a chain"));
    let mut traffic = Traffic::new(chain, rng("film", 0), None);
    let (mut wishes, mut asked) = (Vec::new(), Vec::new());
    traffic.resize(Time::ZERO, 1, &mut wishes);
    loop {
        match wishes.pop() {
            Some(Wish::Load { at, user, flow, bytes, .. }) => {
                asked.push((at, bytes));
                let took = Span::from_secs_f64(f64::from(bytes) * 8.0 / bits);
                traffic.answered(at + took, user, flow, asked.len() != bad, &mut wishes);
            }
            Some(other) => panic!("{other:?}"),
            None if traffic.next().is_some() => traffic.step(&mut wishes),
            None => return (asked, traffic.tally()),
        }
    }
}

#[test]
fn rates_follow_the_throughput_and_the_buffer_is_kept_full() {
    let (asked, tally) = watched(3e6, 0);
    let sizes: Vec<u32> = asked.iter().map(|(_, bytes)| *bytes).collect();
    // 80 % of 3 Mbit/s allow 2 Mbit/s
    assert_eq!(sizes, [&[500_000][..], &[1_000_000; 9]].concat());
    assert_eq!((tally.done, tally.failed), (1, 0));
    let gaps: Vec<Span> = asked.windows(2).map(|pair| pair[1].0.since(pair[0].0)).collect();
    assert!(gaps[0] < SEGMENT && gaps[1] < SEGMENT, "it fills first: {gaps:?}");
    assert!(gaps[6..].iter().all(|gap| *gap == SEGMENT), "then one for each that was played: {gaps:?}");
    let (slow, _) = watched(0.5e6, 0);
    assert!(
        slow.iter().all(|(_, bytes)| *bytes == 500_000) && slow.len() == 10,
        "the lowest rate, and it stands still"
    );
}

#[test]
fn a_segment_that_does_not_come_ends_the_film() {
    let (asked, tally) = watched(3e6, 4);
    assert_eq!((asked.len(), tally.done, tally.failed), (4, 0, 1));
}

#[test]
fn figures_are_those_of_the_highest_rate() {
    let chain = Chain::new(&film()).expect("a chain");
    let flow = chain.modules[0].flow();
    // ten segments of 2 MB; all but the first three wait for room
    assert_eq!((flow.packets, flow.bytes, flow.seconds), (10.0, 20e6, 28.0));
    let flaw = |change: &dyn Fn(&mut Module)| {
        let mut diagram = film();
        change(diagram.modules.get_mut("film").expect("the film"));
        diagram.flaws().into_iter().next().map(|flaw| flaw.path.join(".")).unwrap_or_default()
    };
    assert_eq!(flaw(&|m| m.ladder.reverse()), "modules.film.ladder");
    assert_eq!(flaw(&|m| m.buffer = Some(Span::from_secs(1))), "modules.film.buffer");
    assert_eq!(flaw(&|m| m.segment = Some(Span::ZERO)), "modules.film.segment");
    assert_eq!(flaw(&|m| m.bytes = Some(ByteSize(1))), "modules.film.bytes");
}
