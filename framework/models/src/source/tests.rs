//! Sources at work: schedules, closed loops, retries, limits and ends.

use rehearsal_core::messages::StartAt;
use rehearsal_core::plan::{Carrier, Stop};
use rehearsal_core::sender::{Limit, LimitReading, OnLate, SenderParams, Spread};
use rehearsal_core::units::Fraction;
use rehearsal_core::{Actor, Body, Event, MetricId, Request, Span, Status, SubjectId, Time, TimerKey, WorkResult};

mod rig;
mod steering;

use proptest::prelude::*;

use super::stream::Stream;
use rig::{AT, Bench, ENCODE_FAILED, Rig, SPOILED, ms, params, resolve};

/// A peer that answers everything after `service`.
fn answers(service: Span) -> impl Fn(&Request) -> (Status, Span) {
    move |_| (Status::Success, service)
}

fn starts(rig: &Rig) -> Vec<u64> {
    rig.requests.iter().map(|r| r.intended.since(AT).as_nanos()).collect()
}

#[test]
fn a_paced_stream_keeps_its_schedule_and_ends_once() {
    let rig = Rig::new(&SenderParams { streams: 2, ..params(Some(10), Some(40)) }, answers(ms(1))).run(None);
    assert_eq!((rig.source.timers(), rig.finished, rig.pending_timers()), (2, 1, 0));
    let mut phases = Vec::new();
    for stream in 0..2 {
        let own: Vec<&Request> = rig.requests.iter().filter(|r| r.stream == stream).collect();
        let phase = own[0].intended.since(AT).as_nanos();
        assert!(phase < 100_000_000, "a phase below one gap");
        for (k, request) in own.iter().enumerate() {
            assert_eq!(request.seq, k as u64);
            assert_eq!(request.intended, AT + Span::from_nanos(phase) + ms(100) * k as u64);
            assert_eq!(request.at, request.intended);
            assert_eq!((request.to, request.payload.bytes), (SubjectId(100), 200));
        }
        assert_eq!(own.len(), 40);
        phases.push(phase);
    }
    assert_ne!(phases[0], phases[1], "streams do not all send at once");
}

#[test]
fn nothing_is_due_at_or_after_the_end() {
    let rig = Rig::new(&params(Some(10), None), answers(ms(1))).run(Some(AT + ms(1000)));
    assert_eq!((rig.requests.len(), rig.finished), (10, 1));
    assert!(rig.requests.iter().all(|r| r.intended < AT + ms(1000)));
    let rig = Rig::new(&params(Some(10), None), answers(ms(1))).run(Some(AT));
    assert_eq!((rig.requests.len(), rig.finished), (0, 1), "an empty schedule ends at once");
}

#[test]
fn a_late_stream_queues_and_does_not_thin_out() {
    let rig = Rig::new(&params(Some(10), Some(20)), answers(ms(350))).run(None);
    assert_eq!((rig.requests.len(), rig.finished, rig.count(MetricId::SKIPPED)), (20, 1, 0));
    assert_eq!(rig.requests[19].intended.since(rig.requests[0].intended), ms(1900));
}

#[test]
fn a_skipping_stream_gives_slots_up_and_uses_up_no_requests() {
    let params = SenderParams { on_late: OnLate::Skip, ..params(Some(10), Some(5)) };
    let rig = Rig::new(&params, answers(ms(250))).run(None);
    let first = rig.requests[0].intended;
    let slots: Vec<u64> = rig.requests.iter().map(|r| r.intended.since(first).as_nanos() / 100_000_000).collect();
    assert_eq!(slots, [0, 3, 6, 9, 12]);
    assert_eq!(rig.seqs(), [0, 1, 2, 3, 4]);
    assert_eq!((rig.count(MetricId::SKIPPED), rig.open_max, rig.finished), (8, 1, 1));
    // and by time: the last slots may be given up, and it still ends
    let params = SenderParams { requests: None, ..params };
    let rig = Rig::new(&params, answers(ms(250))).run(Some(AT + ms(1000)));
    assert_eq!((rig.requests.len(), rig.count(MetricId::SKIPPED), rig.finished), (4, 6, 1));
}

#[test]
fn a_timer_that_is_late_costs_a_skipping_stream_its_old_slots() {
    let params = SenderParams { on_late: OnLate::Skip, in_flight: 10, ..params(Some(10), None) };
    let mut rig = Rig::new(&params, answers(ms(1)));
    rig.start(Some(AT + ms(10_000)));
    rig.go_on(AT + ms(150));
    let (sent, last) = (rig.requests.len(), rig.requests.last().expect("one was sent").intended);
    // the next five slots pass before the engine wakes up, 30 ms after the fifth
    let next = last + ms(100);
    rig.feed(last + ms(530), Event::Timer { key: TimerKey(0), due: next });
    assert_eq!(rig.count(MetricId::SKIPPED), 4, "those more than one gap late");
    assert_eq!(rig.requests.len(), sent + 1);
    assert_eq!(rig.requests.last().map(|r| r.intended), Some(last + ms(500)), "late by 30 ms, less than a gap");
}

#[test]
fn a_closed_loop_begins_the_next_when_the_last_has_ended() {
    let rig = Rig::new(&params(None, Some(4)), answers(ms(30))).run(None);
    assert_eq!(starts(&rig), [0, 30_000_000, 60_000_000, 90_000_000]);
    assert_eq!((rig.source.timers(), rig.open_max, rig.finished), (0, 1, 1));

    let params = SenderParams { in_flight: 3, streams: 2, ..params(None, Some(10)) };
    let rig = Rig::new(&params, answers(ms(30))).run(None);
    assert_eq!((rig.requests.len(), rig.open_max, rig.finished), (20, 6, 1));
    for stream in 0..2 {
        let seqs: Vec<u64> = rig.requests.iter().filter(|r| r.stream == stream).map(|r| r.seq).collect();
        assert_eq!(seqs, (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn a_closed_loop_ends_by_time() {
    let rig = Rig::new(&params(None, None), answers(ms(30))).run(Some(AT + ms(90)));
    assert_eq!((starts(&rig), rig.finished), (vec![0, 30_000_000, 60_000_000], 1));
}

#[test]
fn a_rejected_exchange_is_sent_again_and_counts_from_its_intended_time() {
    let peer = |r: &Request| (if r.attempt < 2 { Status::Rejected } else { Status::Success }, ms(10));
    let rig = Rig::new(&params(None, Some(2)), peer).run(None);
    let shape: Vec<(u64, u32, bool)> = rig.requests.iter().map(|r| (r.seq, r.attempt, r.last)).collect();
    let expected = [(0, 0, false), (0, 1, false), (0, 2, false), (1, 0, false), (1, 1, false), (1, 2, false)];
    assert_eq!(shape, expected);
    let waits: Vec<u64> = rig.requests.windows(2).map(|w| w[1].at.since(w[0].at).as_nanos() / 1_000_000).collect();
    assert!((60..=160).contains(&waits[0]) && (110..=310).contains(&waits[1]), "100 and 200 ms ± 50 %: {waits:?}");
    assert!(rig.requests[..3].iter().all(|r| r.intended == AT));
    assert_eq!(rig.finished, 1);
}

#[test]
fn a_lost_exchange_is_followed_by_the_next() {
    let peer = |r: &Request| (if r.seq == 0 { Status::Unacknowledged } else { Status::Success }, ms(10));
    let rig = Rig::new(&SenderParams { retries: 1, ..params(None, Some(2)) }, peer).run(None);
    let shape: Vec<(u64, u32, bool)> = rig.requests.iter().map(|r| (r.seq, r.attempt, r.last)).collect();
    assert_eq!((shape, rig.finished), (vec![(0, 0, false), (0, 1, true), (1, 0, false)], 1));
    let rig = Rig::new(&SenderParams { retries: 0, ..params(None, Some(2)) }, peer).run(None);
    let shape: Vec<(u64, bool)> = rig.requests.iter().map(|r| (r.seq, r.last)).collect();
    assert_eq!((shape, rig.finished), (vec![(0, true), (1, true)], 1));
}

#[test]
fn a_closed_loop_waits_when_nothing_can_leave() {
    let rig = Rig::new(&params(None, None), |_| (Status::Unsent, Span::ZERO)).run(Some(AT + ms(1000)));
    assert_eq!((rig.requests.len(), rig.finished), (10, 1), "one each 100 ms, the back-off");
    let params = SenderParams { backoff: Span::ZERO, ..params(None, None) };
    let rig = Rig::new(&params, |_| (Status::Unsent, Span::ZERO)).run(Some(AT + ms(1000)));
    assert_eq!((rig.requests.len(), rig.finished), (1000, 1), "one each millisecond at most");
}

#[test]
fn a_closed_loop_does_not_spin_on_a_target_that_refuses() {
    let refuses = |_: &Request| (Status::Unacknowledged, Span::from_micros(50));
    let once = |backoff| SenderParams { retries: 0, backoff, ..params(None, None) };
    for (backoff, number) in [(ms(100), 10), (Span::ZERO, 1000)] {
        let rig = Rig::new(&once(backoff), refuses).run(Some(AT + ms(1000)));
        assert_eq!((rig.requests.len(), rig.finished), (number, 1), "one each back-off or millisecond");
    }
    // a time-out has been waited for already
    let rig = Rig::new(&once(ms(100)), |_| (Status::Unacknowledged, ms(250))).run(Some(AT + ms(1000)));
    assert_eq!(starts(&rig), [0, 250_000_000, 500_000_000, 750_000_000]);
}

#[test]
fn a_stop_ends_everything_but_what_is_under_way() {
    let mut rig = Rig::new(&SenderParams { streams: 3, ..params(Some(10), None) }, |_| (Status::Rejected, ms(150)));
    rig.start(None);
    rig.go_on(AT + ms(100));
    assert_eq!((rig.requests.len(), rig.pending_timers(), rig.finished), (3, 3, 0));
    rig.feed(AT + ms(101), Event::Stop);
    assert_eq!((rig.pending_timers(), rig.finished), (0, 0));
    rig.feed(AT + ms(102), Event::Timer { key: TimerKey(0), due: AT + ms(100) });
    let before = rig.requests.len();
    rig.go_on(Time::MAX);
    assert_eq!((rig.requests.len(), rig.finished), (before, 1), "a rejected attempt is not made again");
    rig.feed(AT + ms(500), Event::Stop);
    assert_eq!(rig.finished, 1);
}

#[test]
fn a_stop_before_the_start_ends_it_and_a_second_start_changes_nothing() {
    let mut rig = Rig::new(&params(Some(10), None), answers(ms(1)));
    rig.feed(Time::ZERO, Event::Start);
    rig.feed(Time::ZERO, Event::Stop);
    assert_eq!(rig.finished, 1);
    rig.start(None);
    assert_eq!((rig.pending_timers(), rig.requests.len(), rig.finished), (0, 0, 1));

    let mut rig = Rig::new(&params(Some(10), Some(5)), answers(ms(1)));
    rig.start(None);
    let other = Body::new(StartAt { at: AT + ms(5), until: None });
    rig.feed(AT, Event::Message { subject: SubjectId(0), body: &other });
    rig.go_on(Time::MAX);
    assert_eq!((rig.requests.len(), rig.finished), (5, 1));
}

#[test]
fn the_share_of_spoiled_payloads_is_the_one_asked_for() {
    let params = SenderParams { malformed: Fraction(0.2), ..params(Some(1000), Some(10_000)) };
    let rig = Rig::new(&params, answers(ms(0))).run(None);
    let spoiled = rig.requests.iter().filter(|r| r.payload.recipe == SPOILED).count() as u64;
    // binomial: standard deviation 40; five of them
    assert!((1800..2200).contains(&spoiled), "{spoiled} of 10,000");
    assert_eq!(rig.count(MetricId::MALFORMED), spoiled);
    assert!(rig.requests.iter().all(|r| r.payload.bytes == 200), "the length tells nothing");
}

#[test]
fn datagrams_have_no_outcome_and_need_a_rate() {
    let mut bench = Bench::new(1, Carrier::Udp);
    let rig = Rig::over(&mut bench, &params(Some(10), Some(5)), false, answers(ms(1))).run(None);
    assert_eq!((rig.datagrams.len(), rig.requests.len(), rig.finished), (5, 0, 1));
    assert!(rig.datagrams.iter().enumerate().all(|(k, d)| d.seq == k as u64 && d.at == d.intended));
    let refused = resolve(&mut bench, &params(None, Some(5)), Stop::AllRequestsDone).expect_err("a closed loop");
    assert_eq!(refused.key, Some("rate"));
    assert!(refused.reason.contains("`rate`"), "{refused}");
    let spec = resolve(&mut bench, &params(Some(1), None), Stop::After(ms(1))).expect("paced");
    assert!(spec.check_bytes("bytes", 32, 65_507).is_ok());
    assert_eq!(spec.check_bytes("bytes", 31, 31).expect_err("too short").key, Some("bytes"));
    assert!(spec.check_bytes("frame", 100_000, 200_000).is_err());
}

#[test]
fn a_request_to_all_is_one_exchange_for_each_instance() {
    let mut bench = Bench::new(3, Carrier::Http1);
    let all = SenderParams { spread: Spread::All, ..params(None, Some(4)) };
    // the third instance is slow: the next request waits for it
    let peer = |r: &Request| (Status::Success, ms(if r.to == SubjectId(102) { 50 } else { 10 }));
    let rig = Rig::over(&mut bench, &all, false, peer).run(None);
    assert_eq!(rig.seqs(), (0..12).collect::<Vec<_>>());
    assert!(rig.requests.iter().all(|r| u64::from(r.to.0 - 100) == r.seq % 3));
    assert_eq!((rig.open_max, rig.finished), (3, 1));
    assert_eq!(rig.requests[11].intended, AT + ms(150));
    let declared = bench.streams.expect("it declared its streams");
    assert_eq!((declared.in_flight, declared.queue, declared.requests), (3, 3000, Some(12)));
    let rig = Rig::over(&mut bench, &SenderParams { ..params(None, Some(5)) }, false, answers(ms(1))).run(None);
    assert_eq!(rig.requests.iter().map(|r| r.to.0).collect::<Vec<_>>(), [100, 101, 102, 100, 101]);
}

#[test]
fn a_live_stream_encodes_one_at_a_time_and_counts_from_the_schedule() {
    let mut rig = Rig::over(&mut Bench::new(1, Carrier::Http1), &params(Some(10), Some(3)), true, answers(ms(1)));
    rig.encoding.0 = ms(150);
    let rig = rig.run(None);
    assert_eq!((rig.encodes.clone(), rig.seqs()), (vec![0, 1, 2], vec![0, 1, 2]));
    let late = rig.requests.iter().zip(&rig.wished).map(|(r, wished)| wished.since(r.at).as_nanos() / 1_000_000);
    assert_eq!(late.collect::<Vec<_>>(), [150, 200, 250], "each waits for the one before it, and is late by that");
    assert!(rig.requests.iter().all(|r| r.at == r.intended));
    assert!(rig.requests.iter().all(|r| r.payload.bytes == 150));
    assert_eq!(rig.finished, 1);
}

#[test]
fn an_encoder_that_is_too_slow_has_a_bounded_queue() {
    let params = SenderParams { queue: 2, ..params(Some(10), Some(5)) };
    let mut rig = Rig::over(&mut Bench::new(1, Carrier::Http1), &params, true, answers(ms(1)));
    rig.encoding.0 = ms(1000);
    let rig = rig.run(None);
    assert_eq!((rig.requests.len(), rig.finished), (5, 1));
    // slots 0, 1 and 2 are being made or wait; then one each second, when a place is free again
    assert_eq!(rig.count(MetricId::SKIPPED), 16);
}

#[test]
fn what_waits_for_an_encoder_at_the_stop_is_skipped() {
    for (len, spread, fan) in [(1, Spread::RoundRobin, 1), (3, Spread::All, 3)] {
        let params = SenderParams { queue: 3, spread, ..params(Some(10), None) };
        let mut rig = Rig::over(&mut Bench::new(len, Carrier::Http1), &params, true, answers(ms(1)));
        rig.encoding.0 = ms(450);
        rig.start(None);
        rig.go_on(AT + ms(2_000));
        rig.feed(AT + ms(2_000), Event::Stop);
        let skipped = rig.count(MetricId::SKIPPED);
        rig.go_on(Time::MAX);
        assert_eq!(rig.count(MetricId::SKIPPED), skipped, "what is made after the stop is counted once");
        let generated = rig.requests.len() as u64;
        // one slot each 100 ms for two seconds, whatever the phase; four or so were sent
        assert_eq!(generated + skipped, 20 * fan, "{generated} + {skipped}");
        assert!((3 * fan..=4 * fan).contains(&generated), "{generated}");
        assert_eq!(rig.finished, 1);
    }
    // a closed loop has no schedule: what it has begun and not sent was never due
    let params = SenderParams { in_flight: 3, ..params(None, None) };
    let mut rig = Rig::over(&mut Bench::new(1, Carrier::Http1), &params, true, answers(ms(1)));
    rig.start(None);
    rig.feed(AT, Event::Stop);
    rig.go_on(Time::MAX);
    assert_eq!((rig.encodes.len(), rig.count(MetricId::SKIPPED), rig.finished), (1, 0, 1));
}

#[test]
fn slots_that_a_late_timer_has_not_used_are_skipped_at_the_stop() {
    let mut rig = Rig::new(&params(Some(10), None), answers(ms(1)));
    rig.start(None);
    rig.go_on(AT + ms(500));
    // the timer of these five slots comes too late
    rig.feed(AT + ms(1_000), Event::Stop);
    assert_eq!((rig.requests.len(), rig.count(MetricId::SKIPPED), rig.finished), (5, 5, 1));
}

#[test]
fn a_clip_that_cannot_be_encoded_ends_its_stream() {
    let mut rig = Rig::over(&mut Bench::new(1, Carrier::Http1), &params(Some(10), None), true, answers(ms(1)));
    rig.encoding = (ms(450), WorkResult::Invalid);
    let rig = rig.run(None);
    // four more came due meanwhile, at any phase
    assert_eq!(rig.count(MetricId::SKIPPED), 5);
    assert_eq!((rig.count(ENCODE_FAILED), rig.requests.len(), rig.finished, rig.pending_timers()), (1, 0, 1, 0));
}

#[test]
fn a_limit_has_three_readings() {
    let read = |reading| {
        let mut bench = Bench::new(1, Carrier::Http1);
        let limited = SenderParams { limit: Some(Limit { deadline: ms(100), reading }), ..params(None, Some(1)) };
        let rig = Rig::over(&mut bench, &limited, false, answers(ms(1))).run(None);
        let threshold = bench.streams.expect("declared").threshold;
        (rig.requests[0].deadline, rig.requests[0].limit, threshold)
    };
    assert_eq!(read(LimitReading::Threshold), (Span::from_secs(10), Span::ZERO, Some(ms(100))));
    assert_eq!(read(LimitReading::Timeout), (ms(100), Span::ZERO, None));
    assert_eq!(read(LimitReading::ReceiverDeadline), (Span::from_secs(10), ms(100), None));
}

#[test]
fn what_cannot_work_is_refused_and_what_works_is_declared() {
    let mut bench = Bench::new(1, Carrier::Http1);
    let good = SenderParams { on_late: OnLate::Burst, streams: 4, in_flight: 2, queue: 7, ..params(Some(25), Some(9)) };
    resolve(&mut bench, &good, Stop::AllRequestsDone).expect("it works");
    let declared = bench.streams.expect("declared");
    assert_eq!((declared.per_member, declared.in_flight, declared.queue, declared.burst), (4, 2, 7, true));
    assert_eq!((declared.gap, declared.requests, declared.threshold), (Some(ms(40)), Some(9), None));
    assert_eq!(bench.patterns, ["lab.v1.r1.ctl.*.*.start", "lab.v1.r1.ctl.*.*.steer"]);
    let mut refused = |params: SenderParams| resolve(&mut bench, &params, Stop::AllRequestsDone).expect_err("no").key;
    assert_eq!(refused(SenderParams { requests: None, ..good.clone() }), Some("requests"));
    assert_eq!(refused(SenderParams { streams: 0, ..good.clone() }), Some("streams"));
    assert_eq!(refused(SenderParams { in_flight: 0, ..good.clone() }), Some("in_flight"));
    assert_eq!(refused(SenderParams { timeout: Span::ZERO, ..good.clone() }), Some("timeout"));
    assert_eq!(refused(SenderParams { retries: 256, ..good }), Some("retries"));
}

#[test]
fn a_hundred_thousand_members_fit_into_memory() {
    assert!(size_of::<Stream>() <= 144, "{} B", size_of::<Stream>());
    assert!(size_of::<super::Source<rig::Plain>>() <= 64, "{} B", size_of::<super::Source<rig::Plain>>());
}

proptest! {
    #[test]
    fn whatever_the_peer_does_every_exchange_is_numbered_and_the_end_comes_once(
        keys in (1_u32..4, 1_u32..4, prop::option::of(5_u64..50), 1_u64..30, 0_u32..4),
        on_late in prop::sample::select(vec![OnLate::Queue, OnLate::Skip, OnLate::Burst]),
        fates in prop::collection::vec((0_usize..5, 0_u64..300), 1..20),
        until_ms in prop::option::of(0_u64..3_000),
        all in prop::bool::ANY,
    ) {
        let (streams, in_flight, rate, requests, retries) = keys;
        let spread = if all { Spread::All } else { Spread::RoundRobin };
        let params =
            SenderParams { streams, in_flight, retries, on_late, spread, queue: 5, ..params(rate, Some(requests)) };
        let peer = move |r: &Request| {
            let (status, wait) = fates[(r.seq as usize * 7 + r.attempt as usize) % fates.len()];
            let ends = [Status::Success, Status::Rejected, Status::Unacknowledged, Status::Failed, Status::Unsent];
            (ends[status], ms(wait))
        };
        let until = until_ms.map(|n| AT + ms(n));
        let rig = Rig::over(&mut Bench::new(2, Carrier::Http1), &params, false, peer).run(until);
        prop_assert_eq!((rig.finished, rig.pending_timers()), (1, 0));
        let fan = if all { 2 } else { 1 };
        for stream in 0..streams {
            let own: Vec<&Request> = rig.requests.iter().filter(|r| r.stream == stream).collect();
            let first: Vec<u64> = own.iter().filter(|r| r.attempt == 0).map(|r| r.seq).collect();
            prop_assert_eq!(&first, &(0..first.len() as u64).collect::<Vec<_>>());
            prop_assert!(first.len() as u64 <= requests * fan);
            prop_assert!(until.is_some() || first.len() as u64 == requests * fan);
            prop_assert!(own.iter().all(|r| r.attempt <= retries && r.last == (r.attempt == retries)));
            prop_assert!(own.iter().all(|r| until.is_none_or(|end| r.intended < end)));
        }
        if rate.is_none() || on_late == OnLate::Skip {
            prop_assert!(rig.open_max as u64 <= u64::from(streams * in_flight) * fan);
        }
    }
}
