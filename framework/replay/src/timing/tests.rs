//! Times worked out by hand.

use proptest::prelude::*;

use super::*;
use crate::Builder;

fn template(packets: &[(u64, usize)]) -> Template {
    let mut builder = Builder::in_memory();
    for (at, len) in packets {
        builder.push(*at, &vec![0xee; *len]).expect("a frame");
    }
    builder.finish().expect("a template")
}

fn times(template: &Template, rules: Rules) -> (Vec<u64>, Schedule) {
    let schedule = Schedule::new(template, rules).expect("a schedule");
    (Cursor::new(template, &schedule).map(|due| due.at).collect(), schedule)
}

fn rules(pace: Pace, loops: u64) -> Rules {
    Rules { pace, loops: Some(loops), ..Rules::default() }
}

#[test]
fn original_times_are_divided_and_loops_follow_at_the_mean_gap() {
    let template = template(&[(0, 60), (1_000, 60), (4_000, 60)]);
    let (due, schedule) = times(&template, rules(Pace::Original { factor: 2.0 }, 2));
    assert_eq!(due, [0, 500, 2_000, 3_000, 3_500, 5_000]);
    assert_eq!((schedule.period, schedule.planned, schedule.total()), (3_000, Some(5_000), Some(6)));
    let wish = Rules { loop_gap: Some(10), ..rules(Pace::Original { factor: 1.0 }, 2) };
    assert_eq!(times(&template, wish).0, [0, 1_000, 4_000, 4_010, 5_010, 8_010]);
}

#[test]
fn long_gaps_are_cut_and_what_follows_moves_along() {
    let day = 86_400_000_000_000;
    let template = template(&[(0, 60), (5, 60), (day, 60), (day + 7, 60)]);
    let (due, schedule) = times(&template, Rules { gap_max: Some(100), ..Rules::default() });
    assert_eq!(due, [0, 5, 105, 112]);
    assert_eq!((schedule.clamped, schedule.gap_longest, schedule.planned), (1, day - 5, Some(112)));
}

#[test]
fn rates_go_on_over_loops() {
    let template = template(&[(0, 100), (1, 200)]);
    assert_eq!(times(&template, rules(Pace::Packets { per_second: 1e6 }, 2)).0, [0, 1_000, 2_000, 3_000]);
    // 100 bytes at 8 Mbit/s take 100 µs
    assert_eq!(times(&template, rules(Pace::Bits { per_second: 8e6 }, 2)).0, [0, 100_000, 300_000, 400_000]);
    assert_eq!(
        times(&template, rules(Pace::TopSpeed, 2)),
        (vec![0; 4], Schedule::new(&template, rules(Pace::TopSpeed, 2)).expect("one"))
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let two = template(&[(0, 60), (1, 60)]);
    let said = |template: &Template, rules| Schedule::new(template, rules).expect_err("refused").to_string();
    assert_eq!(said(&template(&[]), Rules::default()), "the template has no packet");
    assert!(said(&two, rules(Pace::TopSpeed, 0)).starts_with("0 loops"));
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(said(&two, rules(Pace::Original { factor }, 1)).starts_with("the speed is"));
    }
    assert_eq!(Schedule::new(&two, rules(Pace::Packets { per_second: 1e-300 }, 1)), Err(TimingError::TooLong));
    let one = template(&[(0, 60)]);
    assert_eq!(Schedule::new(&one, rules(Pace::Original { factor: 1.0 }, 2)), Err(TimingError::LoopGap));
    assert!(Schedule::new(&one, rules(Pace::Original { factor: 1.0 }, 1)).is_ok());
}

#[test]
fn hours_of_loops_do_not_drift() {
    let template = template(&[(0, 60), (3, 60), (10, 60)]);
    let schedule = Schedule::new(&template, Rules { loops: None, ..Rules::default() }).expect("a schedule");
    let far = 1_000_000_007;
    let mut cursor = Cursor::new(&template, &schedule);
    cursor.round = far;
    assert_eq!(cursor.next().map(|due| (due.at, due.number)), Some((far * 15, far * 3)));
}

proptest! {
    #[test]
    fn times_never_go_back_and_end_as_planned(
        gaps in prop::collection::vec((0u64..5_000_000, 14usize..200), 2..40),
        loops in 1u64..4,
        pace in prop_oneof![
            (0.01f64..100.0).prop_map(|factor| Pace::Original { factor }),
            (1.0f64..1e7).prop_map(|per_second| Pace::Packets { per_second }),
            (1e3f64..1e10).prop_map(|per_second| Pace::Bits { per_second }),
        ],
        gap_max in prop::option::of(0u64..5_000_000),
    ) {
        let mut at = 0;
        let packets: Vec<_> = gaps.iter().map(|(gap, len)| { at += gap; (at, *len) }).collect();
        let template = template(&packets);
        let (due, schedule) = times(&template, Rules { gap_max, ..rules(pace, loops) });
        prop_assert_eq!(due.len() as u64, loops * schedule.packets);
        prop_assert!(due.windows(2).all(|pair| pair[0] <= pair[1]));
        prop_assert_eq!(due.last().copied(), schedule.planned);
    }
}
