//! How runs end: drained, aborted after the grace, by a fault, or because nothing can happen any more.

use rehearsal_core::messages::{StartAt, StopReason};
use rehearsal_core::plan::LinkSpec;
use rehearsal_core::subject::Plane;
use rehearsal_core::{Actor, Event, Outbox, Role, Span, SubjectId, Time, TimerKey};
use rehearsal_sim::SimOptions;

use crate::actors::{START, Sending, Serving, receiver, senders, services};
use crate::lab::{Kept, group, node, plan, run, run_with};

const SECOND: Span = Span::from_secs(1);

#[test]
fn a_count_driven_run_ends_when_the_last_sender_has_finished() {
    let is = Sending { requests: 10, ..Sending::default() };
    let nodes = vec![senders("a", 3, is.clone()), senders("b", 2, is), receiver(Serving::default()), services(2, None)];
    let (end, kept) = run(plan(nodes, LinkSpec::default()));
    assert_eq!((end.reason, end.start), (StopReason::Done, Some(START)));
    // the last exchanges are due at 90 ms and done at 91 ms; each message takes 100 µs
    assert_eq!(end.stop.since(START).as_nanos() / 100_000, 911);
    assert_eq!(end.groups.iter().map(|g| g.tally.success).sum::<u64>(), 50);
    assert_eq!(end.end.since(end.stop), Span::from_micros(100), "the last snapshots are stored");
    assert!(kept.snapshots.iter().all(|s| s.second == 0));
    assert_eq!((kept.snapshots.len(), kept.hosts.len()), (5, 4));
    assert_eq!(end.notes, Vec::<String>::new());
}

#[test]
fn what_is_under_way_at_the_stop_is_waited_for_and_what_waits_stays_unsent() {
    let is = Sending { requests: 100, retries: 0, queue: 50, ..Sending::default() };
    let serving = Serving { pause: Span::from_millis(35), ..Serving::default() };
    let nodes = vec![senders("s", 1, is.clone()), receiver(serving), services(1, Some(Span::from_millis(205)))];
    let (end, _) = run(plan(nodes, LinkSpec::default()));
    let tally = end.groups[0].tally;
    // due at 0, 10 … 200 ms: 21; left at 0, 35 … 175 ms: 6; the last is done at 210 ms, in the drain
    assert_eq!((tally.generated, tally.attempts, tally.success, tally.aborted), (21, 6, 6, 15));
    assert_eq!(tally.aborted_attempts, 0);
    assert_eq!(end.reason, StopReason::Duration);
    assert_eq!(is.outcomes().len(), 21, "one outcome for each");
}

#[test]
fn after_the_grace_the_rest_is_aborted() {
    let is = Sending { requests: 5, in_flight: 8, deadline: Span::from_secs(60), ..Sending::default() };
    let nodes = |is: &Sending| {
        let mute = Serving { mute: true, ..Serving::default() };
        vec![senders("s", 2, is.clone()), receiver(mute), services(1, Some(SECOND))]
    };
    let (end, kept) = run(plan(nodes(&is), LinkSpec::default()));
    let tally = end.groups[0].tally;
    assert_eq!((tally.generated, tally.aborted, tally.aborted_attempts, tally.attempts), (10, 10, 10, 10));
    assert_eq!(is.outcomes().len(), 10);
    let closed = end.stop + SECOND;
    assert!(is.outcomes().iter().all(|(_, o)| o.times.done == closed), "the grace is one second");
    assert_eq!(end.end.since(closed), Span::from_micros(100));
    // second 0, second 1 at the end of the grace's second, and no time left for another
    assert_eq!(kept.snapshots.iter().filter(|s| s.node == "s").map(|s| s.second).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_receiver_that_panics_is_a_named_fault_and_its_requests_fail() {
    let is = Sending { requests: 50, in_flight: 50, retries: 0, ..Sending::default() };
    let serving = Serving { pause: Span::from_millis(95), panic_at: Some(20), ..Serving::default() };
    let nodes = vec![senders("s", 1, is.clone()), receiver(serving), services(1, None)];
    let (end, _) = run(plan(nodes, LinkSpec::default()));
    assert_eq!(end.reason, StopReason::Fault);
    assert_eq!(end.faults.len(), 1, "{:?}", end.faults);
    let fault = &end.faults[0];
    assert_eq!((fault.node.as_str(), fault.actor.as_str()), ("receiver", "main"));
    assert!(fault.text.contains("told to"), "{}", fault.text);
    assert_eq!(fault.at, START + Span::from_millis(190));
    let (sender, server) = (end.groups[0].tally, end.groups[1].tally);
    // twenty left; ten were served by then (0 … 90 ms, done from 95 ms on), the other ten failed
    assert_eq!((sender.attempts, sender.success, sender.failed), (20, 10, 10));
    assert_eq!((server.received, server.served, server.unserved), (20, 10, 10));
    assert_eq!((sender.open(), sender.open_attempts()), (0, 0));
}

#[test]
fn a_sender_that_panics_leaves_no_hole_in_the_books() {
    let is = Sending { requests: 50, in_flight: 50, panic_at: Some(3), ..Sending::default() };
    let serving = Serving { pause: Span::from_millis(45), ..Serving::default() };
    let nodes = vec![senders("s", 2, is), receiver(serving), services(1, None)];
    let (end, _) = run(plan(nodes, LinkSpec::default()));
    // both panic at their third outcome, at the same instant but for the order of their replies
    assert_eq!(end.faults.iter().map(|f| f.actor.as_str()).collect::<Vec<_>>(), ["main-1", "main-2"]);
    let tally = end.groups[0].tally;
    assert_eq!(tally.success, tally.attempts, "what was under way is booked all the same: {tally:?}");
    assert!(tally.attempts >= 14, "{tally:?}");
    assert_eq!((tally.open(), tally.open_attempts()), (0, 0));
}

/// Sets a timer for now, again and again.
struct Restless;

impl Actor for Restless {
    fn handle(&mut self, now: Time, _: Event<'_>, out: &mut Outbox) {
        out.set_timer(TimerKey(0), now);
    }
}

#[test]
fn a_run_that_goes_on_and_on_is_ended_with_a_fault() {
    let restless = group("main", Role::Service, 1, |_, _| Ok(Box::new(vec![Restless])));
    let options = SimOptions { events_max: 10_000, ..SimOptions::default() };
    let end = run_with(plan(vec![node("n", vec![restless])], LinkSpec::default()), options, &mut Kept::default());
    assert_eq!((end.reason, end.events, end.faults.len()), (StopReason::Fault, 10_000, 1));
    assert_eq!(end.end, Time::ZERO);
}

#[test]
fn a_closed_loop_that_costs_nothing_is_ended_with_a_fault() {
    // this sender does not listen to the end: what it still asks for is bounded by its requests
    let is = Sending { gap: None, requests: 100_000, ..Sending::default() };
    let serving = Serving { pause: Span::ZERO, ..Serving::default() };
    let nodes = vec![senders("s", 1, is), receiver(serving), services(1, Some(SECOND))];
    let options = SimOptions { beat_events_max: 50_000, ..SimOptions::default() };
    let end = run_with(plan(nodes, LinkSpec::default()), options, &mut Kept::default());
    assert_eq!((end.reason, end.faults.len()), (StopReason::Fault, 1));
    let done = end.groups[0].tally.success;
    assert!((10_000..50_000).contains(&done), "{done} of 100,000 exchanges");
    assert!(end.end.since(START) < Span::from_millis(67));
}

/// Uses a timer that it has not declared.
struct Greedy;

impl Actor for Greedy {
    fn handle(&mut self, now: Time, _: Event<'_>, out: &mut Outbox) {
        out.set_timer(TimerKey(1), now);
    }
}

#[test]
fn an_undeclared_timer_is_the_actors_fault() {
    let greedy =
        group("main", Role::Service, 2, |cx, _| Ok(Box::new(cx.members.clone().map(|_| Greedy).collect::<Vec<_>>())));
    let (end, _) = run(plan(vec![node("n", vec![greedy])], LinkSpec::default()));
    assert_eq!(end.faults.iter().map(|f| f.actor.as_str()).collect::<Vec<_>>(), ["main-1", "main-2"]);
}

#[test]
fn a_run_without_traffic_ends_when_nothing_is_pending() {
    let nodes = vec![senders("s", 1, Sending::default()), receiver(Serving::default())];
    let (end, _) = run(plan(nodes, LinkSpec::default()));
    assert_eq!((end.reason, end.start, end.stop), (StopReason::Done, None, Time::ZERO));
}

/// Begins traffic, and nothing more.
struct Starter(SubjectId);

impl Actor for Starter {
    fn handle(&mut self, _: Time, event: Event<'_>, out: &mut Outbox) {
        if matches!(event, Event::Start) {
            out.publish(self.0, StartAt { at: START, until: None });
        }
    }
}

#[test]
fn without_a_controller_a_run_ends_in_the_first_second_in_which_nothing_is_left() {
    let starter = group("starter", Role::Service, 1, |_, wiring| {
        let start = wiring.own(Plane::Control, "start");
        Ok(Box::new(vec![Starter(start)]))
    });
    let is = Sending { requests: 250, ..Sending::default() };
    let nodes = vec![senders("s", 1, is), receiver(Serving::default()), node("n", vec![starter])];
    let (end, _) = run(plan(nodes, LinkSpec::default()));
    assert_eq!((end.reason, end.groups[0].tally.success), (StopReason::Done, 250));
    // the last exchange is over at 2.491 s; the deadline that was set first, 3 s, is looked at before the sample
    assert_eq!(end.stop.since(START), Span::from_secs(3));
}

#[test]
fn a_sink_that_fails_is_one_fault_and_ends_the_run() {
    let is = Sending { requests: 250, ..Sending::default() };
    let nodes = vec![senders("s", 1, is), receiver(Serving::default()), services(1, None)];
    let mut kept = Kept { refuse: true, ..Kept::default() };
    let end = run_with(plan(nodes, LinkSpec::default()), SimOptions::default(), &mut kept);
    assert_eq!(end.reason, StopReason::Fault);
    // the first report comes at the end of the first second, when a hundred of 250 are done
    let tally = &end.groups[0].tally;
    assert!((99..=101).contains(&tally.success), "{} done", tally.success);
    assert_eq!((tally.open(), end.faults.len()), (0, 1));
    assert!(end.faults[0].text.contains("the disk is full"));
}
