//! Gates: what waits is blocked, what finds no room is lost, and a retry holds its place.

use rehearsal_core::plan::LinkSpec;
use rehearsal_core::{Span, Status, Time};

use crate::actors::{START, Sending, Serving, receiver, senders, services};
use crate::lab::{plan, run};

fn ms(time: Time) -> u64 {
    time.since(START).as_nanos() / 1_000_000
}

#[test]
fn an_overloaded_stream_blocks_and_its_queue_overflows() {
    // due every 10 ms, served in 25 ms, one under way, three may wait
    let is = Sending { requests: 20, queue: 3, ..Sending::default() };
    let serving = Serving { pause: Span::from_millis(25), ..Serving::default() };
    let nodes = vec![senders("s", 1, is.clone()), receiver(serving), services(1, None)];
    let (end, _) = run(plan(nodes, LinkSpec::default()));
    let tally = end.groups[0].tally;
    // one goes at 0 and one whenever one is done, every 25 ms up to 175 ms, with three waiting at the last: 8 + 3
    assert_eq!((tally.generated, tally.success, tally.queue_full, tally.lost), (20, 11, 9, 9));
    assert_eq!(tally.attempts, 11, "what found no room was no attempt");
    let sent: Vec<(u64, u64)> = is
        .outcomes()
        .iter()
        .filter(|(_, o)| o.status == Status::Success)
        .map(|(_, o)| (ms(o.times.sent), ms(o.times.intended)))
        .collect();
    let leave: Vec<u64> = sent.iter().map(|s| s.0).collect();
    assert_eq!(leave, (0..11).map(|k| 25 * k).collect::<Vec<_>>());
    assert!(sent.iter().all(|(sent, intended)| sent >= intended));
    assert!(is.outcomes().iter().all(|(_, o)| o.times.ready == o.times.sent), "a simulated generator is never late");
}

#[test]
fn blocked_time_and_queue_length_are_reported() {
    let is = Sending { gap: Some((Span::from_millis(100), false)), requests: 15, ..Sending::default() };
    let serving = Serving { pause: Span::from_millis(250), ..Serving::default() };
    let nodes = vec![senders("s", 1, is.clone()), receiver(serving), services(1, None)];
    let (end, kept) = run(plan(nodes, LinkSpec::default()));
    assert_eq!(end.groups[0].tally.success, 15);
    let first = kept.snapshots.iter().find(|s| s.node == "s" && s.second == 0).expect("a snapshot");
    // by 1 s ten were due (0 … 900 ms; the one due at 1 s came before the sample) and five left (0, 250, … 1000 ms)
    assert_eq!((first.totals.generated, first.totals.attempts, first.queue_length), (11, 5, 6));
    let names: Vec<&str> = first.histograms.iter().map(|h| h.metric.name()).collect();
    assert_eq!(names, ["response", "service", "lag", "blocked", "inter-departure", "jitter"]);
    let blocked: Vec<u64> =
        is.outcomes().iter().map(|(r, o)| o.times.ready.since(r.at).as_nanos() / 1_000_000).collect();
    assert_eq!(blocked, (0..15).map(|k| 150 * k).collect::<Vec<_>>());
}

#[test]
fn a_retry_holds_its_place_in_the_gate() {
    // one worker, no backlog; another sender keeps it busy for 100 ms, so the first attempt is rejected
    let busy = Sending { requests: 1, ..Sending::default() };
    let is = Sending { requests: 3, retries: 9, backoff: Span::from_millis(30), ..Sending::default() };
    let serving = Serving { workers: 1, backlog: 0, pause: Span::from_millis(100), ..Serving::default() };
    let nodes = vec![senders("a", 1, busy), senders("b", 1, is.clone()), receiver(serving), services(2, None)];
    let (end, _) = run(plan(nodes, LinkSpec::default()));
    let tally = end.groups[1].tally;
    assert_eq!((tally.generated, tally.success, tally.lost, tally.rejected), (3, 3, 0, 3));
    let order: Vec<(u64, u32, u64)> = is.outcomes().iter().map(|(r, o)| (r.seq, r.attempt, ms(o.times.sent))).collect();
    // the second and third exchange were due at 10 and 20 ms, and waited for all attempts of the first
    assert_eq!(order, [(0, 0, 0), (0, 1, 30), (0, 2, 90), (0, 3, 180), (1, 0, 280), (2, 0, 380)]);
}

#[test]
fn a_closed_loop_of_four_with_20_ms_of_work_makes_exactly_200_a_second() {
    let is = Sending { gap: None, requests: 1_000_000, streams: 4, retries: 0, ..Sending::default() };
    let serving = Serving { pause: Span::from_millis(20), ..Serving::default() };
    let nodes = vec![senders("s", 1, is), receiver(serving), services(1, Some(Span::from_secs(5)))];
    let (end, kept) = run(plan(nodes, LinkSpec::default()));
    let totals: Vec<u64> = kept.snapshots.iter().filter(|s| s.node == "s").map(|s| s.totals.success).collect();
    let per_second: Vec<u64> = totals.windows(2).map(|w| w[1] - w[0]).take(4).collect();
    assert_eq!(per_second, [200; 4], "{totals:?}");
    let tally = end.groups[0].tally;
    // at the stop the first stream has just begun its 251st; the others' 250th are nanoseconds away, one after the other on the link
    assert_eq!((tally.generated, tally.success, tally.aborted), (1001, 1001, 0));
}
