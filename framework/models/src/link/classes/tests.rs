//! What classes promise: shares, urgency, waits near the target, and that nothing is made or forgotten.

use proptest::prelude::*;
use rehearsal_core::units::{BitRate, ByteSize};

use super::*;

/// 12.304 Mbit/s: a full frame of 1538 B takes 1 ms.
const FRAME_MS: u64 = 12_304_000;

fn class(dscp: &[&str], weight: u32) -> LinkClass {
    LinkClass { dscp: dscp.iter().map(|d| d.parse().expect("a DSCP")).collect(), weight }
}

fn spec(scheduler: Scheduler, classes: Vec<LinkClass>) -> LinkSpec {
    LinkSpec { rate: Some(BitRate(FRAME_MS)), scheduler, classes, ..LinkSpec::default() }
}

fn ms(n: u64) -> Time {
    Time::from_nanos(n * 1_000_000)
}

fn frames(n: u64) -> Load {
    Load::packets(1538 * n, n)
}

/// Everything up to the end, by the wakes alone: (token, when it left in ms).
fn drain(link: &mut Classes) -> Vec<(u64, Option<u64>)> {
    let mut all = Vec::new();
    for _ in 0..100_000 {
        while let Some(d) = link.decided() {
            all.push((d.token, d.leaves.map(|at| at.as_nanos() / 1_000_000)));
        }
        let Some(at) = link.wake() else { return all };
        link.advance(at);
    }
    panic!("it never ends");
}

#[test]
fn the_urgent_waits_for_one_packet_and_not_for_a_message() {
    let mut link = Classes::of(&spec(Scheduler::Priority, vec![class(&["EF"], 1), class(&[], 1)]));
    // a message of 100 frames, then an urgent packet in the middle of its fourth
    assert!(link.offer(ms(0), frames(100), Dscp::DF, 1));
    assert!(link.offer(Time::from_nanos(3_500_000), frames(1), Dscp::EF, 2));
    assert_eq!(drain(&mut link), [(2, Some(5)), (1, Some(101))]);
}

#[test]
fn without_classes_it_is_first_come_first_served() {
    let mut link = Classes::of(&LinkSpec { codel: Some(Codel::default()), ..spec(Scheduler::Fifo, Vec::new()) });
    assert!(link.offer(ms(0), frames(3), Dscp::DF, 1));
    assert!(link.offer(ms(0), frames(1), Dscp::EF, 2));
    assert!(link.offer(ms(1), frames(1), Dscp::DF, 3));
    assert_eq!(drain(&mut link), [(1, Some(3)), (2, Some(4)), (3, Some(5))]);
}

#[test]
fn a_class_without_a_weight_has_the_smallest_share() {
    let mut link = Classes::of(&spec(Scheduler::Weighted, vec![class(&["EF"], 0), class(&[], 3)]));
    assert!(link.offer(ms(0), frames(1), Dscp::DF, 1));
    assert!(link.offer(ms(0), frames(2), Dscp::EF, 2));
    assert!(link.offer(ms(0), frames(4), Dscp::DF, 3));
    // three of the others, one of the first, two that are left of the others, and the last: an end
    assert_eq!(drain(&mut link), [(1, Some(1)), (3, Some(6)), (2, Some(7))]);
}

#[test]
fn the_rate_is_shared_by_the_weights() {
    let classes = vec![class(&["EF"], 5), class(&["AF41"], 2), class(&[], 1)];
    let marks = ["EF", "AF41", "DF"].map(|d| d.parse().expect("a DSCP"));
    let mut link = Classes::of(&LinkSpec { queue: ByteSize(100_000_000), ..spec(Scheduler::Weighted, classes) });
    // messages of different lengths: shares are of bytes, not of messages
    for token in 0..4000 {
        let row = (token % 3) as usize;
        assert!(link.offer(ms(0), frames([1, 4, 10][row]), marks[row], token));
    }
    link.advance(ms(1600));
    let mut sent = [0; 3];
    while let Some(d) = link.decided() {
        let row = (d.token % 3) as usize;
        sent[row] += [1, 4, 10][row];
    }
    // 1600 frames in rounds of 8; a message counts when its last frame leaves
    let off = [1000_i64, 400, 200].iter().zip(sent).map(|(wanted, got)| (wanted - got).abs()).max();
    assert!(off <= Some(10), "{sent:?}");
    assert!(link.busy().as_nanos().abs_diff(1_601_000_000) <= 1_601, "it never rests while something waits");
}

#[test]
fn an_idle_class_leaves_its_share_to_the_others() {
    let mut link = Classes::of(&spec(Scheduler::Weighted, vec![class(&["EF"], 1000), class(&[], 1)]));
    for token in 0..50 {
        assert!(link.offer(ms(0), frames(1), Dscp::DF, token));
    }
    assert_eq!(drain(&mut link).last(), Some(&(49, Some(50))));
}

#[test]
fn each_class_has_a_queue_of_its_own() {
    let classes = vec![class(&["EF"], 1), class(&[], 1)];
    let small = LinkSpec { queue_packets: Some(5), ..spec(Scheduler::Priority, classes) };
    let mut link = Classes::of(&small);
    let taken = (0..20).filter(|token| link.offer(ms(0), frames(1), Dscp::DF, *token)).count();
    assert_eq!(taken, 6, "one is sent, five wait");
    assert!(link.offer(ms(0), frames(1), Dscp::EF, 99), "the flood does not keep the urgent out");
    assert_eq!(drain(&mut link)[1], (99, Some(2)));
}

/// A sender that gives up three tenths of its rate when something was dropped within a round trip of 50 ms, and adds a
/// packet to what it sends in one otherwise. Without CoDel it fills the queue of a second; with it the wait of what is
/// carried stays near the target, and the link is used all the same.
#[test]
fn codel_holds_the_wait_near_its_target_where_the_queue_would_stand_full() {
    let course = |codel: Option<Codel>| {
        let scheduler = if codel.is_some() { Scheduler::Fifo } else { Scheduler::Priority };
        let mut link = Classes::of(&LinkSpec { codel, queue: ByteSize(1_538_000), ..spec(scheduler, Vec::new()) });
        let (mut waits, mut dropped, mut rate, mut credit) = (Vec::new(), false, 100.0_f64, 0.0);
        for k in 0..60_000 {
            if k % 50 == 0 {
                rate = if std::mem::take(&mut dropped) { (rate * 0.7).max(1.0) } else { rate + 1.0 };
            }
            credit += rate / 50.0;
            while credit >= 1.0 {
                credit -= 1.0;
                dropped |= !link.offer(ms(k), frames(1), Dscp::DF, k);
            }
            link.advance(ms(k));
            while let Some(d) = link.decided() {
                match d.leaves {
                    Some(at) if k >= 20_000 => waits.push(at.since(d.offered).as_nanos() / 1_000_000),
                    left => dropped |= left.is_none(),
                }
            }
        }
        waits.sort_unstable();
        (waits[waits.len() / 2], waits.len())
    };
    let (standing, _) = course(None);
    assert!(standing > 400, "{standing} ms");
    let (median, carried) = course(Some(Codel::default()));
    assert!((1..=10).contains(&median), "within two targets: {median} ms");
    assert!(carried > 32_000, "of 40,000 that fit: {carried}");
}

proptest! {
    #[test]
    fn nothing_is_made_or_forgotten(
        offers in prop::collection::vec((0_u64..3_000_000, 1_u64..9, 0_usize..4), 1..200),
        scheduler in prop_oneof![Just(Scheduler::Fifo), Just(Scheduler::Priority), Just(Scheduler::Weighted)],
        codel in any::<bool>(),
        queue in 1_000_u64..60_000,
        packets in prop::option::of(1_u64..40),
        mbit in prop::option::of(1_u64..100),
    ) {
        let classes = vec![class(&["EF"], 3), class(&["AF41", "AF42"], 2), class(&[], 1)];
        let mut link = Classes::of(&LinkSpec {
            rate: mbit.map(|m| BitRate(m * 1_000_000)),
            queue: ByteSize(queue),
            queue_packets: packets,
            codel: codel.then_some(Codel { target: Span::from_millis(1), interval: Span::from_millis(5) }),
            ..spec(scheduler, classes)
        });
        let marks = [46, 34, 36, 0].map(|n| Dscp::new(n).expect("six bits"));
        let (mut now, mut taken, mut decided, mut bytes) = (Time::ZERO, Vec::new(), Vec::new(), 0);
        let mut last = [Time::ZERO; 4];
        let mut collect = |link: &mut Classes, now: Time| {
            let mut any = false;
            while let Some(d) = link.decided() {
                decided.push(d.token);
                any = true;
                if let Some(at) = d.leaves {
                    prop_assert!(at >= d.offered && at >= now, "{at} at {now}");
                    let of = (d.token % 4) as usize;
                    prop_assert!(at >= last[of], "one class keeps its order");
                    last[of] = at;
                }
            }
            Ok(any)
        };
        for (token, (gap, n, mark)) in (0_u64..).zip(offers) {
            let next = now + Span::from_nanos(gap);
            // all that is decided before is decided when the link asked to be visited
            while let Some(at) = link.wake().filter(|at| *at < next) {
                link.advance(at);
                collect(&mut link, at)?;
            }
            now = next;
            let token = token * 4 + mark as u64;
            if link.offer(now, Load::packets(700 * n, n), marks[mark], token) {
                taken.push(token);
                bytes += 700 * n;
            }
            collect(&mut link, now)?;
            for class in &link.queues {
                prop_assert!(class.bytes <= queue.max(700 * 9) && class.packets <= packets.unwrap_or(u64::MAX).max(9));
            }
        }
        let mut rounds = 0;
        while let Some(at) = link.wake() {
            link.advance(at);
            collect(&mut link, at)?;
            rounds += 1;
            prop_assert!(rounds < 100_000);
        }
        decided.sort_unstable();
        prop_assert_eq!(&decided, &taken, "everything that was taken is decided once");
        prop_assert_eq!(link.waiting_bytes(now), 0);
        if let Some(m) = mbit.filter(|_| !codel) {
            let exact = bytes * 8_000 / m;
            prop_assert!(link.busy().as_nanos().abs_diff(exact) <= 2_000, "{} {exact}", link.busy());
        }
    }
}
