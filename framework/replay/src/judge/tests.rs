//! Judgements worked out by hand.

use super::expect::Packet;
use super::*;
use crate::receive::{Seen, Streams};
use crate::testing::frames;
use crate::timing::Rules;
use crate::{Builder, worker};

const START: u64 = 1_000_000_000;

fn expected(packets: &[(u64, u64, u64)]) -> Expected {
    let packets = packets.iter().map(|(due, key, flow)| Packet { due: *due, key: *key, flow: *flow }).collect();
    Expected { packets, padded: Vec::new() }
}

fn heard(frames: &[(u64, u64)]) -> Heard {
    let seen = |(at, key): &(u64, u64)| Seen { at: START + at, key: *key };
    Heard { frames: frames.iter().map(seen).collect(), ..Heard::default() }
}

/// 1,000 packets 100 µs apart, each with a key of its own; the second of a pair arrives as late as `late` says.
fn run(late: impl Fn(u64) -> u64) -> (Expected, Matched) {
    let packets: Vec<_> = (0..1_000u64).map(|n| (n * 100_000, n, 0)).collect();
    let frames: Vec<_> = packets.iter().map(|(due, key, _)| (due + 500 + late(*key), *key)).collect();
    let expected = expected(&packets);
    let matched = Matched::of(&expected, &heard(&frames), START, true);
    (expected, matched)
}

#[test]
fn a_perfect_run_has_no_error() {
    let (expected, matched) = run(|_| 0);
    let gaps = GapError::of(&expected, &matched).expect("gaps");
    assert_eq!((gaps.gaps, gaps.mean_ns, gaps.max_ns), (999, 0.0, 0));
    let offset = Offset::of(&expected, &matched).expect("offsets");
    assert_eq!((offset.max_abs_ns, offset.end_ns, offset.drift_ppm), (0, 0, 0.0));
    let windows = Window::all(&expected, &matched);
    assert_eq!(windows.iter().map(|w| (w.width_ms, w.windows)).collect::<Vec<_>>(), [(1, 100), (10, 10)]);
    assert_eq!(windows[0].packets_mean, 10.0);
    assert!(windows.iter().all(|w| w.planned_cv < 1e-12 && w.difference_percent == 0.0), "{windows:?}");
}

/// 201 packets 10 ms apart: the last one is alone in a window that is not over.
#[test]
fn a_window_that_is_not_whole_is_left_out() {
    let packets: Vec<_> = (0..201u64).map(|n| (n * 10_000_000, n, 0)).collect();
    let frames: Vec<_> = packets.iter().map(|(due, key, _)| (due + 500, *key)).collect();
    let expected = expected(&packets);
    let windows = Window::all(&expected, &Matched::of(&expected, &heard(&frames), START, true));
    let widest = windows.iter().find(|w| w.width_ms == 100).expect("two seconds have windows of 100 ms");
    assert_eq!((widest.windows, widest.packets_mean, widest.planned_cv), (20, 10.0, 0.0));
}

#[test]
fn one_late_packet_is_two_gap_errors_and_no_drift() {
    let (expected, matched) = run(|n| if n == 500 { 40_000 } else { 0 });
    let gaps = GapError::of(&expected, &matched).expect("gaps");
    assert_eq!((gaps.mean_ns, gaps.p50_ns, gaps.p99_ns, gaps.max_ns), (80_000.0 / 999.0, 0, 0, 40_000));
    let offset = Offset::of(&expected, &matched).expect("offsets");
    assert_eq!((offset.max_abs_ns, offset.end_ns, offset.drift_ppm), (40_000, 0, 0.0));
}

#[test]
fn a_drift_is_small_in_every_gap_and_large_at_the_end() {
    // each packet 6 µs later than the one before: 6 % of the gap
    let (expected, matched) = run(|n| n * 6_000);
    let error = TimestampError::of(&expected, &matched).expect("errors");
    assert_eq!(error.eq1_mean_gap_ns, 6_000.0);
    assert_eq!((error.cumulative_end_ns, error.cumulative_max_ns), (5_994_000, 5_994_000));
    let offset = Offset::of(&expected, &matched).expect("offsets");
    assert!((offset.drift_ppm - 60_000.0).abs() < 1.0, "{offset:?}");
    assert_eq!(offset.end_ns, 6_000 * 499);
}

#[test]
fn losses_duplicates_and_strangers_are_told_apart() {
    let expected = expected(&[(0, 7, 0), (10, 8, 0), (20, 9, 1)]);
    let matched = Matched::of(&expected, &heard(&[(1, 7), (2, 7), (5, 99), (21, 9)]), START, true);
    assert_eq!((matched.arrived(), matched.duplicated, matched.foreign), (2, 1, 1));
    assert_eq!(matched.at, [START + 1, 0, START + 21]);
    assert_eq!(GapError::of(&expected, &matched), None, "no two packets that follow each other arrived");
}

#[test]
fn a_lost_packet_of_a_loop_is_not_taken_for_one_of_the_next() {
    let packets: Vec<_> = (0..5u64).map(|n| (n * 1_000_000, 7, 0)).collect();
    let frames = [(400, 7), (2_000_400, 7), (3_000_400, 7), (4_000_400, 7)];
    let expected = expected(&packets);
    let matched = Matched::of(&expected, &heard(&frames), START, true);
    assert_eq!(matched.at.iter().map(|at| *at != 0).collect::<Vec<_>>(), [true, false, true, true, true]);
    // what is late by more than a loop is still what it is when nothing is lost
    let late: Vec<_> = (0..5u64).map(|n| (n * 1_000_000 + 1_700_000, 7)).collect();
    let matched_late = Matched::of(&expected, &heard(&late), START, true);
    assert_eq!((matched_late.arrived(), matched_late.order), (5, vec![0, 1, 2, 3, 4]));
    // without times only the order is left
    let matched = Matched::of(&expected, &heard(&frames), START, false);
    assert_eq!(matched.at.iter().map(|at| *at != 0).collect::<Vec<_>>(), [true, true, true, true, false]);
}

#[test]
fn a_stall_is_not_taken_for_a_loss_that_comes_later() {
    // 40 loops of ten packets 100 µs apart; loop 10 stands still for three loops, and catches up
    let packets: Vec<_> = (0..400u64).map(|n| (n * 100_000, n % 10, 0)).collect();
    let late = |n: u64| if (100..130).contains(&n) { (130 - n) * 100_000 } else { 500 };
    let arrivals = |lost: &[u64]| {
        let arrived = packets.iter().zip(0..).filter(|(_, n)| !lost.contains(n));
        heard(&arrived.map(|((due, key, _), n)| (due + late(n), *key)).collect::<Vec<_>>())
    };
    let expected = expected(&packets);
    for lost in [&[399][..], &[250, 251, 399], &[3, 45, 200], &(380..400).collect::<Vec<_>>()] {
        let matched = Matched::of(&expected, &arrivals(lost), START, true);
        let missed: Vec<_> = (0..400u64).filter(|n| matched.at[*n as usize] == 0).collect();
        assert_eq!((missed, matched.reordered(&expected)), (lost.to_vec(), 0));
    }
}

#[test]
fn order_is_of_each_stream() {
    let expected = expected(&[(0, 1, 0), (1, 2, 1), (2, 3, 0), (3, 4, 1)]);
    let across = Matched::of(&expected, &heard(&[(0, 2), (1, 1), (2, 3), (3, 4)]), START, true);
    assert_eq!(across.reordered(&expected), 0);
    let within = Matched::of(&expected, &heard(&[(0, 3), (1, 1), (2, 2), (3, 4)]), START, true);
    assert_eq!(within.reordered(&expected), 1);
}

#[test]
fn a_short_frame_is_known_with_its_padding() {
    let mut expected = expected(&[(0, 7, 0)]);
    expected.padded = vec![(70, 7)];
    let matched = Matched::of(&expected, &heard(&[(5, 70)]), START, true);
    assert_eq!((matched.arrived(), matched.foreign), (1, 0));
}

#[test]
fn rates_are_of_whole_windows() {
    let counts: Vec<_> = (0..=100u64).map(|ms| (START + ms * 1_000_000, ms * 5)).collect();
    let rates = Rates::of_counts(&counts).expect("rates");
    assert_eq!((rates.elapsed_ns, rates.packets_per_second), (100_000_000, 5_000.0));
    assert_eq!(
        rates.windows.iter().map(|w| (w.width_ms, w.min, w.max)).collect::<Vec<_>>(),
        [(1, 5e3, 5e3), (10, 5e3, 5e3)]
    );
    assert_eq!(Rates::of_counts(&counts[..1]), None);
}

#[test]
fn streams_are_held_while_each_is_heard_every_ten_seconds() {
    let second = 1_000_000_000;
    // three streams open a second apart; the first is heard again after 9 s, the others not
    let expected = expected(&[(0, 1, 1), (second, 2, 2), (2 * second, 3, 3), (9 * second, 4, 1), (30 * second, 5, 2)]);
    let frames: Vec<_> = expected.packets.iter().map(|packet| (packet.due, packet.key)).collect();
    let matched = Matched::of(&expected, &heard(&frames), START, true);
    let held = Held::of(&expected, &matched).expect("streams");
    assert_eq!((held.streams, held.held_max, held.held_at_end), (3, 3, 1));
    assert_eq!((held.opened_ns, held.opened_per_second), (2 * second, 1.0));
    assert_eq!((held.curve_ms, held.curve.len()), (100, 301));
    assert_eq!([0, 10, 20, 109, 110, 120, 189, 190, 300].map(|tenth| held.curve[tenth]), [1, 2, 3, 3, 2, 1, 1, 0, 1]);
}

#[test]
fn streams_that_were_counted_need_no_frames() {
    let mut streams = Streams::default();
    (0..100u64).for_each(|n| streams.hear(1 + n % 10, START + n * 1_000_000));
    let counts = vec![(START, 0), (START + 50_000_000, 51), (START + 99_000_000, 100)];
    let heard = Heard { counts, streams: Some(streams), ..Heard::default() };
    let mut builder = Builder::in_memory();
    (0..).zip(frames(10)).for_each(|(at, frame)| builder.push(at, &frame).expect("a frame"));
    let template = builder.finish().expect("a template");
    let sent = worker::others(&template, Rules { loops: Some(10), ..Rules::default() }).expect("a schedule");
    let judged = judge(Material::plain(&template), &sent, &heard, Mode::Streams);
    assert_eq!((judged.sent, judged.arrived, judged.lost, judged.reordered), (100, 100, 0, None));
    let held = judged.held.expect("streams");
    assert_eq!((held.streams, held.held_max, held.opened_ns, held.beyond), (10, 10, 9_000_000, 0));
    assert!((held.opened_per_second - 1_000.0).abs() < 1e-9);
}
