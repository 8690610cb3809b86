//! Whatever the experiment: the books close, every request has one outcome, and the run repeats, on the wire too.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use rehearsal_core::plan::{Connection, LinkSpec};
use rehearsal_core::run::RunEnd;
use rehearsal_core::units::{BitRate, ByteSize, Fraction};
use rehearsal_core::{Span, Status};
use rehearsal_sim::SimOptions;

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{Kept, plan, run_with};

fn links() -> impl Strategy<Value = LinkSpec> {
    let rate = prop::option::of(1_u64..200).prop_map(|r| r.map(|mbit| BitRate(mbit * 1_000_000)));
    (rate, 0_u64..20_000, 0_u64..5_000, 0_u32..30, 1_000_u64..200_000, any::<bool>()).prop_map(
        |(rate, delay, jitter, loss, queue, fresh)| LinkSpec {
            rate,
            delay: Span::from_micros(delay),
            jitter: Span::from_micros(jitter),
            loss: Fraction(f64::from(loss / 3 * 3) / 100.0),
            queue: ByteSize(queue),
            connection: if fresh { Connection::PerRequest } else { Connection::KeepAlive },
            ..LinkSpec::default()
        },
    )
}

fn sendings() -> impl Strategy<Value = Sending> {
    let gap = prop::option::of((1_u64..30, any::<bool>()).prop_map(|(ms, random)| (Span::from_millis(ms), random)));
    let law = (gap, 1_u64..20, 1_u32..4, 1_u32..4, 0_u32..10);
    let attempt = (0_u32..4000, 1_u64..400, 0_u32..3, 0_u64..50, prop::bool::weighted(0.1));
    (law, attempt).prop_map(|((gap, requests, streams, in_flight, queue), (bytes, deadline, retries, backoff, bad))| {
        Sending {
            gap,
            requests,
            streams,
            in_flight,
            queue,
            bytes,
            deadline: Span::from_millis(deadline),
            retries,
            backoff: Span::from_millis(backoff),
            malformed: bad,
            ..Sending::default()
        }
    })
}

fn servings() -> impl Strategy<Value = Serving> {
    let faults = (prop::bool::weighted(0.1), prop::option::weighted(0.1, 1_u64..50));
    (1_usize..8, 0_usize..8, 0_u64..30_000, 0_u64..5_000, any::<bool>(), faults).prop_map(
        |(workers, backlog, pause, spin, random, (mute, panic_at))| {
            let (pause, spin) = (Span::from_micros(pause), Span::from_micros(spin));
            Serving { workers, backlog, pause, spin, random, mute, panic_at }
        },
    )
}

fn once(link: &LinkSpec, sending: &Sending, serving: Serving, after: Option<u64>, wire: bool) -> (RunEnd, Kept) {
    let mut server = receiver(serving);
    server.vcpu = Some(1.5);
    let nodes = vec![senders("s", 3, sending.clone()), server, services(1, after.map(Span::from_millis))];
    let mut kept = Kept::default();
    let options = SimOptions { wire, events_max: 1_000_000, ..SimOptions::default() };
    let end = run_with(plan(nodes, link.clone()), options, &mut kept);
    (end, kept)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_books_close_and_every_request_has_one_outcome(
        link in links(),
        sending in sendings(),
        serving in servings(),
        after in prop::option::of(0_u64..2_500),
    ) {
        let (end, kept) = once(&link, &sending, serving, after, false);
        for group in &end.groups {
            prop_assert!(group.tally.consistent(), "{:?}", group.tally);
            prop_assert_eq!((group.tally.open(), group.tally.open_attempts()), (0, 0), "{:?}", group.tally);
        }
        prop_assert!(kept.snapshots.iter().all(|s| s.totals.consistent()));
        let tally = end.groups[0].tally;
        let outcomes = sending.outcomes();
        prop_assert_eq!(outcomes.len() as u64, sending.asked.load(Ordering::Relaxed));
        let left = outcomes.iter().filter(|(_, o)| o.status != Status::Unsent).count() as u64;
        prop_assert_eq!(left, tally.attempts);
        let firsts = outcomes.iter().filter(|(r, _)| r.attempt == 0).count() as u64;
        prop_assert_eq!(firsts, tally.generated);
        for (request, outcome) in &outcomes {
            let times = outcome.times;
            prop_assert!(times.intended <= times.ready && times.ready == times.sent && times.sent <= times.done);
            prop_assert!(outcome.status == Status::Aborted || times.done.since(times.sent) <= request.deadline);
        }
        let last = kept.snapshots.iter().rfind(|s| s.node == "s").map(|s| s.totals);
        prop_assert_eq!(last, Some(tally));
        let (again, _) = once(&link, &sending, serving, after, true);
        prop_assert_eq!(again, end);
    }
}
