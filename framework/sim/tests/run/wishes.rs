//! Single wishes of an actor: timers, aborts, encoding, answers given twice, requests to nobody.

use std::sync::{Arc, Mutex};

use rehearsal_core::kind::FrameRequest;
use rehearsal_core::plan::LinkSpec;
use rehearsal_core::units::ByteRange;
use rehearsal_core::{
    Event, Payload, Reply, Request, Role, Span, Status, SubjectId, Time, TimerKey, Token, Work, WorkKey, WorkResult,
};

use crate::actors::{Sending, Serving, receiver, sending, services};
use crate::lab::{act, group, node, plan, run};

fn request(to: SubjectId, token: u64, at: Time) -> Request {
    Request {
        to,
        token: Token(token),
        stream: 0,
        seq: token,
        attempt: 0,
        last: true,
        intended: at,
        at,
        deadline: Span::from_secs(5),
        limit: Span::ZERO,
        reply_bytes: 0,
        payload: Payload::EMPTY,
    }
}

#[test]
fn a_timer_that_is_moved_or_cancelled_expires_as_last_wished() {
    let fired = Arc::new(Mutex::new(Vec::new()));
    let log = fired.clone();
    let ms = |n| Time::ZERO + Span::from_millis(n);
    let actor = group("main", Role::Service, 1, move |_, _| {
        let log = log.clone();
        let mut step = 0;
        act(move |now, event, out| match event {
            Event::Start => {
                out.set_timer(TimerKey(0), ms(5));
                out.set_timer(TimerKey(0), ms(3));
            }
            Event::Timer { due, .. } => {
                log.lock().expect("one thread").push((now, due));
                step += 1;
                match step {
                    1 => out.set_timer(TimerKey(0), ms(1)),
                    2 => {
                        out.set_timer(TimerKey(0), ms(4));
                        out.set_timer(TimerKey(0), ms(9));
                    }
                    3 => {
                        out.set_timer(TimerKey(0), ms(11));
                        out.cancel_timer(TimerKey(0));
                        out.set_timer(TimerKey(0), Time::MAX);
                    }
                    _ => panic!("cancelled"),
                }
            }
            _ => {}
        })
    });
    let (end, _) = run(plan(vec![node("n", vec![actor])], LinkSpec::default()));
    // one set for the past comes at once and says what it was set for
    assert_eq!(*fired.lock().expect("one thread"), [(ms(3), ms(3)), (ms(3), ms(1)), (ms(9), ms(9))]);
    assert!(end.faults.is_empty());
}

#[test]
fn many_stale_timers_are_swept_out_and_the_rest_keep_their_order() {
    // ten thousand moves of one timer leave nothing behind but the last
    let count = Arc::new(Mutex::new(Vec::new()));
    let log = count.clone();
    let actor = group("main", Role::Service, 1, move |_, _| {
        let log = log.clone();
        act(move |now, event, out| match event {
            Event::Start => (0..10_000).for_each(|k| out.set_timer(TimerKey(0), Time::from_nanos(1_000_000 - k))),
            Event::Timer { .. } => log.lock().expect("one thread").push(now.as_nanos()),
            _ => {}
        })
    });
    run(plan(vec![node("n", vec![actor])], LinkSpec::default()));
    assert_eq!(*count.lock().expect("one thread"), [1_000_000 - 9_999]);
}

#[test]
fn an_aborted_attempt_is_aborted_and_its_answer_is_late() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let actor = group("main", Role::Sender, 1, move |_, wiring| {
        let (to, log) = (wiring.target("receiver/main")?, log.clone());
        act(move |now, event, out| match event {
            Event::Start => {
                (0..3).for_each(|token| out.request(request(to.base, token, now)));
                out.set_timer(TimerKey(0), now + Span::from_millis(10));
            }
            Event::Timer { .. } => {
                out.abort(Token(1));
                out.abort(Token(7));
            }
            Event::Outcome { request, outcome } => {
                log.lock().expect("one thread").push((request.token.0, outcome.status, now));
            }
            _ => {}
        })
    });
    let serving = Serving { pause: Span::from_millis(50), ..Serving::default() };
    let (end, _) = run(plan(vec![node("s", vec![actor]), receiver(serving)], LinkSpec::default()));
    let seen = seen.lock().expect("one thread");
    let order: Vec<(u64, Status)> = seen.iter().map(|s| (s.0, s.1)).collect();
    assert_eq!(order, [(1, Status::Aborted), (0, Status::Success), (2, Status::Success)]);
    assert_eq!(seen[0].2, Time::ZERO + Span::from_millis(10));
    let tally = end.groups[0].tally;
    assert_eq!((tally.success, tally.aborted, tally.aborted_attempts, end.late_replies), (2, 1, 1, 1));
}

#[test]
fn a_request_to_nobody_stays_unsent_and_is_lost() {
    let actor = group("main", Role::Sender, 1, |_, wiring| {
        let nobody = wiring.subject("lab.v1.t.ctl.n.nobody")?;
        act(move |now, event, out| match event {
            Event::Start => out.request(request(nobody, 1, now + Span::from_millis(5))),
            Event::Outcome { outcome, .. } => {
                assert_eq!(outcome.status, Status::Unsent);
                assert_eq!(now, Time::ZERO + Span::from_millis(5));
                out.finish();
            }
            _ => {}
        })
    });
    let (end, _) = run(plan(vec![node("s", vec![actor])], LinkSpec::default()));
    assert!(end.faults.is_empty(), "{:?}", end.faults);
    let tally = end.groups[0].tally;
    assert_eq!((tally.generated, tally.attempts, tally.lost), (1, 0, 1));
}

#[test]
fn a_second_answer_is_ignored_and_noted() {
    let twice = group("main", Role::Receiver, 1, |_, wiring| {
        wiring.serve(None);
        act(|_, event, out| {
            if let Event::Request { exchange, .. } = event {
                out.respond(exchange, Reply { status: Status::Rejected, payload: Payload::EMPTY });
                out.respond(exchange, Reply { status: Status::Success, payload: Payload::EMPTY });
            }
        })
    });
    let senders = node("s", vec![sending(1, Sending { requests: 3, retries: 0, ..Sending::default() })]);
    let (end, _) = run(plan(vec![senders, node("receiver", vec![twice]), services(1, None)], LinkSpec::default()));
    assert_eq!((end.groups[0].tally.rejected, end.groups[1].tally.turned_away), (3, 3));
    assert!(end.notes.iter().any(|n| n.starts_with("3 answers")), "{:?}", end.notes);
}

#[test]
fn encoding_makes_the_prepared_sizes_in_their_order() {
    let made = Arc::new(Mutex::new(Vec::new()));
    let log = made.clone();
    let camera = group("main", Role::Service, 1, move |_, wiring| {
        let bytes = ByteRange::exactly(100);
        let frames = wiring.frames(&FrameRequest { media: "clip".into(), bytes, live: true })?;
        let log = log.clone();
        act(move |_, event, out| match event {
            Event::Start => {
                (0..5).for_each(|frame| out.work(WorkKey(frame), Work::Encode { media: frames.media, frame }))
            }
            Event::WorkDone { key, result: WorkResult::Produced(payload) } => {
                assert_eq!(payload.recipe, frames.recipe);
                log.lock().expect("one thread").push((key.0, payload.bytes, payload.seq));
            }
            _ => {}
        })
    });
    run(plan(vec![node("n", vec![camera])], LinkSpec::default()));
    let made = made.lock().expect("one thread");
    assert_eq!(*made, [(0, 100, 0), (1, 200, 1), (2, 300, 2), (3, 100, 3), (4, 200, 4)]);
}
