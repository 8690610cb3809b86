//! Pauses, other rates, early ends, and sources that take up what an earlier one has begun.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rehearsal_core::life::Rejoin;
use rehearsal_core::sender::SenderParams;
use rehearsal_core::steer::{Steer, Steering};
use rehearsal_core::units::Rate;
use rehearsal_core::{Event, MetricId, Time};

use super::rig::{AT, Rig, ms, params};
use super::{answers, starts};

fn steer(number: u32, at: Time, step: Steering) -> Steer {
    Steer { number, at, node: None, step }
}

/// A source that runs until `end`, told `steers` ahead of their time.
fn steered(params: &SenderParams, steers: &[Steer], end: Time) -> Rig {
    let mut rig = Rig::new(params, answers(ms(1)));
    rig.start(Some(end));
    steers.iter().for_each(|steer| rig.hear(AT, steer.clone()));
    rig.go_on(Time::MAX);
    rig
}

#[test]
fn a_pause_gives_its_slots_up_and_the_beat_stays() {
    let plain = steered(&params(Some(10), None), &[], AT + ms(3000));
    let pause = [steer(0, AT + ms(1000), Steering::Pause), steer(1, AT + ms(2000), Steering::Resume)];
    let rig = steered(&params(Some(10), None), &pause, AT + ms(3000));
    let (before, after) = (AT + ms(1000), AT + ms(2000));
    let kept: Vec<u64> = plain
        .requests
        .iter()
        .map(|r| r.intended)
        .filter(|t| *t < before || *t >= after)
        .map(|t| t.since(AT).as_nanos())
        .collect();
    assert_eq!(starts(&rig), kept);
    assert_eq!((rig.count(MetricId::PAUSED), rig.count(MetricId::SKIPPED), rig.finished), (10, 0, 1));
    let seqs: Vec<u64> = (0..rig.requests.len() as u64).collect();
    assert_eq!(rig.seqs(), seqs, "requests are numbered without a gap");
}

#[test]
fn a_pause_uses_up_no_request() {
    let mut rig = Rig::new(&params(Some(10), Some(20)), answers(ms(1)));
    rig.start(None);
    rig.hear(AT, steer(0, AT + ms(500), Steering::Pause));
    rig.go_on(AT + ms(5000));
    assert_eq!((rig.finished, rig.pending_timers()), (0, 0), "it waits to be steered");
    rig.hear(AT + ms(5000), steer(1, AT + ms(5100), Steering::Resume));
    rig.go_on(Time::MAX);
    assert_eq!((rig.requests.len(), rig.finished, rig.count(MetricId::PAUSED)), (20, 1, 46));
}

#[test]
fn another_rate_takes_effect_at_its_time_however_late_it_is_heard() {
    let change = steer(0, AT + ms(1000), Steering::Factor(2.0));
    let ahead = steered(&params(Some(10), None), std::slice::from_ref(&change), AT + ms(2000));
    let gaps: Vec<u64> = starts(&ahead).windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps[..9].iter().all(|g| *g == 100_000_000) && gaps[10..].iter().all(|g| *g == 50_000_000), "{gaps:?}");
    let again = [change.clone(), change, steer(1, AT + ms(1500), Steering::Rate(Rate::per_second(10)))];
    let twice = steered(&params(Some(10), None), &again, AT + ms(2500));
    assert_eq!(twice.requests.len(), 30, "one steer is heard once");
}

#[test]
fn a_steer_for_another_node_is_not_heard_and_an_end_is_one() {
    let other = Steer { node: Some("camera".into()), ..steer(0, AT + ms(100), Steering::Stop) };
    let rig = steered(&params(Some(10), Some(10)), &[other], AT + ms(10_000));
    assert_eq!((rig.requests.len(), rig.finished), (10, 1));
    let own = Steer { node: Some("sensor".into()), ..steer(0, AT + ms(500), Steering::Stop) };
    let rig = steered(&params(Some(10), Some(10)), &[own], AT + ms(10_000));
    assert_eq!((rig.requests.len(), rig.finished, rig.pending_timers()), (5, 1, 0));
}

#[test]
fn a_closed_loop_pauses_when_it_is_told_and_goes_on() {
    let mut rig = Rig::new(&params(None, Some(1000)), answers(ms(10)));
    rig.start(None);
    rig.hear(AT, steer(0, AT + ms(100), Steering::Pause));
    rig.go_on(AT + ms(5000));
    let paused = rig.requests.len();
    assert!((10..=11).contains(&paused), "{paused}");
    rig.hear(AT + ms(5000), steer(1, AT + ms(5000), Steering::Resume));
    rig.go_on(Time::MAX);
    assert_eq!((rig.requests.len(), rig.finished), (1000, 1));
    assert!(rig.requests[paused].intended >= AT + ms(5000));
}

#[test]
fn a_pause_that_lasts_until_the_stop_is_counted() {
    let mut rig = Rig::new(&params(Some(10), None), answers(ms(1)));
    rig.start(None);
    rig.hear(AT, steer(0, AT + ms(1000), Steering::Pause));
    rig.go_on(AT + ms(3000));
    rig.feed(AT + ms(3000), Event::Stop);
    assert_eq!((rig.requests.len(), rig.count(MetricId::PAUSED), rig.finished), (10, 20, 1));
}

fn rejoin(known: u64, from: u64, generated: u64) -> Rejoin {
    let (at, until) = (AT, None);
    let generated = BTreeMap::from([("main".to_owned(), generated)]);
    Rejoin { node: "sensor-1".into(), at, until, known_until: AT + ms(known), from: AT + ms(from), generated }
}

#[test]
fn a_new_source_goes_on_where_the_schedule_is() {
    let whole = Rig::new(&params(Some(10), Some(100)), answers(ms(1))).run(None);
    let mut rig = Rig::new(&params(Some(10), Some(100)), answers(ms(1)));
    rig.hear(AT + ms(4800), rejoin(3000, 5000, 30));
    rig.go_on(Time::MAX);
    let from = AT + ms(5000);
    let rest: Vec<u64> = whole.requests.iter().filter(|r| r.intended >= from).map(|r| r.seq).collect();
    assert_eq!(rig.seqs(), rest);
    assert_eq!((rig.count(MetricId::AWAY), rig.finished), (20, 1));
    assert_eq!(30 + rig.count(MetricId::AWAY) + rig.requests.len() as u64, 100, "nothing is counted twice");
}

#[test]
fn a_new_closed_loop_begins_what_is_left() {
    let mut rig = Rig::new(&SenderParams { streams: 3, ..params(None, Some(10)) }, answers(ms(1)));
    rig.hear(AT + ms(100), rejoin(0, 200, 11));
    rig.go_on(Time::MAX);
    assert_eq!((rig.requests.len(), rig.finished), (19, 1), "30 in all, 11 were begun before");
}

#[test]
fn who_hears_of_anothers_return_begins_with_everybody() {
    let mut rig = Rig::new(&params(Some(10), Some(10)), answers(ms(1)));
    rig.hear(Time::from_nanos(1), Rejoin { node: "camera-1".into(), ..rejoin(0, 0, 0) });
    rig.go_on(Time::MAX);
    assert_eq!((rig.requests.len(), rig.count(MetricId::AWAY)), (10, 0));
}

proptest! {
    /// Whatever is done on the way: what was due is sent, given up in a pause, or was due while the source was lost.
    #[test]
    fn slots_are_conserved(
        steps in prop::collection::vec((0_u64..3000, 0_u8..3, 1_u64..40), 0..8),
        known in 0_u64..30, lost in 1_u64..1000,
    ) {
        let mut steps = steps;
        steps.sort_unstable();
        let step = |(i, (at, what, rate)): (usize, &(u64, u8, u64))| {
            let step = match what {
                0 => Steering::Pause,
                1 => Steering::Resume,
                _ => Steering::Rate(Rate::per_second(*rate)),
            };
            steer(i as u32, AT + ms(*at), step)
        };
        let steers: Vec<Steer> = steps.iter().enumerate().map(step).collect();
        let end = AT + ms(4000);
        let whole = steered(&params(Some(20), None), &steers, end);
        let (known, from) = (AT + ms(known * 100), AT + ms(known * 100 + lost));
        let mut second = Rig::new(&params(Some(20), None), answers(ms(1)));
        steers.iter().for_each(|s| second.hear(AT, s.clone()));
        let again = Rejoin { until: Some(end), known_until: known, from, ..rejoin(0, 0, 0) };
        second.hear(AT, again);
        second.go_on(Time::MAX);
        let due = |after: Time, before: Time| whole.requests.iter().filter(|r| r.intended >= after && r.intended < before).count();
        prop_assert_eq!(second.requests.len(), due(from, end));
        prop_assert_eq!(second.count(MetricId::AWAY), due(known, from) as u64);
    }
}
