//! Whatever the experiment: the books close, every request has one outcome, and the run repeats, on the wire too.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use rehearsal_core::dscp::Dscp;
use rehearsal_core::plan::{Carrier, Codel, Connection, GilbertElliott, JitterShape, LinkClass, LinkSpec, Scheduler};
use rehearsal_core::run::RunEnd;
use rehearsal_core::units::{BitRate, ByteSize, Fraction};
use rehearsal_core::{Span, Status};
use rehearsal_sim::SimOptions;

use crate::actors::{Sending, Serving, receiver, senders, services};
use crate::lab::{Kept, plan, run_with};

fn links() -> impl Strategy<Value = LinkSpec> {
    let rate = prop::option::of(1_u64..200).prop_map(|r| r.map(|mbit| BitRate(mbit * 1_000_000)));
    let carrier = prop_oneof![Just(Carrier::Http1), Just(Carrier::Nats)];
    let ways = (carrier, any::<bool>(), any::<bool>());
    (rate, 0_u64..20_000, 0_u64..5_000, 0_u32..30, 1_000_u64..200_000, ways, extras()).prop_map(
        |(rate, delay, jitter, loss, queue, (carrier, fresh, reorder), extra)| LinkSpec {
            carrier,
            reorder,
            rate: if extra.rate_steps.is_empty() {
                rate.or(extra.schedules().then_some(BitRate(9_000_000)))
            } else {
                None
            },
            delay: Span::from_micros(delay),
            jitter: Span::from_micros(jitter),
            loss: Fraction(if extra.gilbert_elliott.is_some() { 0.0 } else { f64::from(loss / 3 * 3) / 100.0 }),
            queue: ByteSize(queue),
            connection: if fresh { Connection::PerRequest } else { Connection::KeepAlive },
            ..extra
        },
    )
}

/// What few links have: traces, bursts, other shapes of jitter, classes, CoDel, a capacity that is shared.
fn extras() -> impl Strategy<Value = LinkSpec> {
    let shape = prop_oneof![Just(JitterShape::Uniform), Just(JitterShape::Normal), Just(JitterShape::Lognormal)];
    let scheduler =
        prop_oneof![3 => Just(Scheduler::Fifo), 1 => Just(Scheduler::Priority), 1 => Just(Scheduler::Weighted)];
    let rare = || prop::bool::weighted(0.25);
    (shape, scheduler, prop::option::of(1_u64..20), rare(), rare(), rare(), rare()).prop_map(
        |(jitter_shape, scheduler, queue_packets, trace, bursts, codel, cell)| {
            let class = |n: u64| LinkClass { dscp: vec![Dscp::new(n).expect("six bits")], weight: 1 + n as u32 };
            let share = Fraction;
            let bursts = bursts.then_some(GilbertElliott {
                begin: share(0.05),
                end: share(0.3),
                loss_between: share(0.01),
                loss_within: share(0.8),
            });
            let ms = Span::from_millis;
            LinkSpec {
                jitter_shape,
                scheduler,
                queue_packets,
                rate_steps: if trace {
                    vec![(ms(0), BitRate(30_000_000)), (ms(300), BitRate(500_000))]
                } else {
                    vec![]
                },
                gilbert_elliott: bursts,
                codel: codel.then_some(Codel { target: ms(1), interval: ms(10) }),
                classes: if scheduler == Scheduler::Fifo { vec![] } else { vec![class(46), class(0)] },
                members: if cell { vec!["s->receiver".to_owned(), "receiver->s".to_owned()] } else { vec![] },
                ..LinkSpec::default()
            }
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
        let spec_of_choices = link.schedules();
        let (end, kept) = once(&link, &sending, serving, after, false);
        for group in &end.groups {
            prop_assert!(group.tally.consistent(), "{:?}", group.tally);
            prop_assert_eq!((group.tally.open(), group.tally.open_attempts()), (0, 0), "{:?}", group.tally);
        }
        prop_assert!(kept.snapshots.iter().all(|s| s.totals.consistent()));
        for link in &end.links {
            // where packets are chosen one by one, what still waits at the end is open
            prop_assert!(link.open == 0 || spec_of_choices, "{:?}", link);
            prop_assert_eq!(link.offered, link.delivered + link.lost + link.full + link.open, "{:?}", link);
            prop_assert!(link.retransmitted <= link.lost + link.full);
        }
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
