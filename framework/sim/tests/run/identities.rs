//! The counters add up at every second and at the end, whatever the link and the deadlines do.

use rehearsal_core::Span;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::plan::{Connection, LinkSpec};
use rehearsal_core::run::RunEnd;
use rehearsal_core::units::{BitRate, ByteSize, Fraction};

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{Kept, plan, run};

fn link(mbit: Option<u64>, delay_ms: u64, loss: f64) -> LinkSpec {
    LinkSpec {
        rate: mbit.map(|m| BitRate(m * 1_000_000)),
        delay: Span::from_millis(delay_ms),
        loss: Fraction(loss),
        queue: ByteSize(100_000),
        ..LinkSpec::default()
    }
}

/// A hundred Poisson senders, one worker of 90 µs at nine tenths of its capacity.
fn crowd(link: LinkSpec, deadline: Span) -> (RunEnd, Kept) {
    let is = Sending {
        gap: Some((Span::from_millis(10), true)),
        requests: 200,
        deadline,
        in_flight: 4,
        queue: 20,
        ..Sending::default()
    };
    let serving = Serving { workers: 1, backlog: 16, pause: Span::from_micros(90), random: true, ..Serving::default() };
    run(plan(vec![senders("sensor", 100, is), receiver(serving), services(1, None)], link))
}

fn closed(tally: &Tally) {
    assert!(tally.consistent(), "{tally:?}");
    assert_eq!((tally.open(), tally.open_attempts()), (0, 0), "{tally:?}");
}

#[test]
fn everything_generated_is_settled_on_choked_links_and_short_deadlines_and_two_runs_agree() {
    let ms = Span::from_millis;
    let per_request = LinkSpec { connection: Connection::PerRequest, ..link(Some(100), 5, 0.0) };
    let jittered = LinkSpec { jitter: ms(3), ..link(Some(100), 5, 0.001) };
    let cases = [
        (link(None, 5, 0.0), ms(3000)),
        (link(Some(40), 5, 0.0), ms(3000)),
        (link(Some(100), 5, 0.0), ms(3000)),
        (link(Some(100), 5, 0.0), ms(22)),
        (link(None, 5, 0.0), ms(21)),
        (link(None, 5, 0.0), ms(11)),
        (link(Some(100), 5, 0.02), ms(500)),
        (per_request, ms(25)),
        (jittered, ms(3000)),
    ];
    let mut prints = Vec::new();
    for (spec, deadline) in cases {
        let (end, kept) = crowd(spec.clone(), deadline);
        let tally = &end.groups[0].tally;
        closed(tally);
        assert_eq!(tally.generated, 100 * 200, "{spec:?}");
        assert_eq!(tally.success + tally.lost, tally.generated, "{spec:?}: {tally:?}");
        assert_eq!((tally.aborted, end.faults.len()), (0, 0), "{spec:?}: {tally:?}");
        // what the receiver answered in time is what the senders saw
        let server = &end.groups[1].tally;
        assert_eq!(server.served + server.turned_away, server.received, "{server:?}");
        assert!(server.served + server.turned_away >= tally.success + tally.rejected, "{spec:?}");
        // every answer is counted once, in time or late, but for the few that wait to be retransmitted at the end
        let unseen = server.served + server.turned_away - tally.success - tally.rejected - end.late_replies;
        assert!(unseen <= if spec.loss == Fraction(0.0) { 0 } else { 10 }, "{spec:?}: {unseen}");
        let sent = &kept.snapshots;
        assert!(sent.iter().all(|s| s.totals.consistent()), "at every second");
        assert!(sent.len() >= 3 * 3, "at least three seconds of three groups, {} snapshots", sent.len());
        let last = sent.iter().rfind(|s| s.node == "sensor").expect("the sensors report");
        assert_eq!(last.totals, *tally, "the last snapshot holds the final totals");
        let (again, _) = crowd(spec, deadline);
        assert_eq!(again, end, "the same seed, the same run");
        let attempts = tally.attempts;
        println!("{attempts} attempts, {} late, {} events: {tally:?}", end.late_replies, end.events);
        prints.push(end.fingerprint);
    }
    let all = prints.len();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), all, "every case has a trace of its own");
}

#[test]
fn another_seed_is_another_run_and_one_more_actor_changes_nobody_elses_schedule() {
    let build = |seed, others| {
        let is = Sending { gap: Some((Span::from_millis(10), true)), ..Sending::default() };
        let other = senders("other", others, is.clone());
        let nodes = vec![senders("sensor", 10, is), receiver(Serving::default()), services(2, None), other];
        let mut plan = plan(nodes, link(None, 1, 0.0));
        plan.seed = seed;
        run(plan).0
    };
    let (a, b, c) = (build(1, 1), build(2, 1), build(1, 2));
    assert_ne!(a.fingerprint, b.fingerprint);
    assert_ne!(a.groups[0].schedule, b.groups[0].schedule);
    assert_eq!(a.groups[0].schedule, c.groups[0].schedule);
    assert_ne!(a.fingerprint, c.fingerprint);
}
