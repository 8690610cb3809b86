//! A worker before a path that is made for tests.

use std::collections::VecDeque;

use super::*;
use crate::send::{Frame, Push, SendError};
use crate::timing::wait::Ended;
use crate::timing::{Pace, Pacing, Rules};
use crate::{Builder, Template};

/// One UDP stream for each size, packets taken in turns, 1 µs apart.
pub fn flows(sizes: &[u64]) -> Template {
    let mut builder = Builder::in_memory();
    let (mut at, most) = (0, sizes.iter().copied().max().unwrap_or(0));
    for round in 0..most {
        for (flow, _) in sizes.iter().enumerate().filter(|(_, size)| round < **size) {
            builder.push(at, &datagram(flow as u16, round as u32, 60)).expect("a frame");
            at += 1_000;
        }
    }
    builder.finish().expect("a template")
}

/// A frame with a UDP datagram of this flow; its payload begins with a number.
pub fn datagram(flow: u16, number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 8, 0];
    let total = (len - 14) as u16;
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    frame.extend((10_000 + flow).to_be_bytes());
    frame.extend(9_000u16.to_be_bytes());
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, 0x5a);
    frame
}

/// Takes what its script says, then everything.
#[derive(Default)]
struct Script {
    answers: VecDeque<Result<usize, SendError>>,
    taken: Vec<Vec<u8>>,
    settling: usize,
    /// Whether nothing is taken after the script any more.
    stuck: bool,
}

impl Push for Script {
    fn batch(&self) -> usize {
        4
    }

    fn submit(&mut self, frames: &[Frame<'_>]) -> Result<usize, SendError> {
        assert!(!frames.is_empty() && frames.len() <= 4);
        let then = if self.stuck { Err(SendError::Full) } else { Ok(frames.len()) };
        let taken = self.answers.pop_front().unwrap_or(then)?.min(frames.len());
        self.taken.extend(frames[..taken].iter().map(|frame| frame.bytes.to_vec()));
        Ok(taken)
    }

    fn settle(&mut self) -> Result<usize, SendError> {
        self.settling = self.settling.saturating_sub(1);
        Ok(self.settling)
    }
}

fn drive(template: &Template, rules: Rules, script: &mut Script, stop: &Stop) -> Tally {
    let spread = Spread::over(template, 1);
    let schedule = Schedule::new(template, rules).expect("a schedule");
    let fit = Fit { longest: 1514, udp: false };
    let share = Share {
        material: Material::plain(template),
        schedule,
        spread: &spread,
        me: 0,
        fit,
        start: wait::now(),
        stop,
        duration: None,
        core: None,
        real_time: false,
    };
    push(script, &share)
}

fn refused() -> SendError {
    SendError::Refused(io::Error::from_raw_os_error(libc::EMSGSIZE))
}

#[test]
fn everything_arrives_in_order_over_loops_whatever_the_path_says() {
    let template = flows(&[3, 2]);
    for pace in [Pace::TopSpeed, Pace::Original { factor: 1.0 }, Pace::Packets { per_second: 1e5 }] {
        for pacing in [Pacing::Absolute, Pacing::Dtrf] {
            let answers = [Ok(1), Err(SendError::Full), Ok(2), Err(refused()), Err(SendError::Full)];
            let mut script = Script { answers: answers.into(), settling: 3, ..Script::default() };
            let rules = Rules { pace, pacing, loops: Some(2), ..Rules::default() };
            let tally = drive(&template, rules, &mut script, &Stop::new());
            let all: Vec<_> = template.packets().map(|packet| packet.bytes.to_vec()).collect();
            let mut expected = [all.clone(), all].concat();
            let skipped = tally.refused_numbers.clone();
            assert_eq!(skipped.len(), 1);
            expected.remove(skipped[0] as usize);
            assert_eq!(script.taken, expected, "{pace:?} {pacing:?}");
            assert_eq!((tally.submitted, tally.refused, tally.full, tally.outstanding), (9, 1, 2, 0));
            assert!(tally.complete && tally.bytes == 9 * 60, "{tally:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_skipped_by_reason() {
    let mut builder = Builder::in_memory();
    for len in [13, 60, 1_514, 1_515] {
        builder.push(0, &vec![0xee; len]).expect("a frame");
    }
    let mut tagged = vec![0xee; 1_518];
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    builder.push(0, &tagged).expect("a frame");
    let template = builder.finish().expect("a template");
    let mut script = Script::default();
    let tally = drive(&template, Rules { loops: Some(3), ..Rules::default() }, &mut script, &Stop::new());
    assert_eq!(tally.skipped, BTreeMap::from([(Skipped::OverMtu, 3), (Skipped::TooShort, 3)]));
    assert_eq!(tally.submitted, 9);
}

#[test]
fn a_failure_ends_it_with_true_counts() {
    let template = flows(&[6]);
    let failed = SendError::Failed(io::Error::from_raw_os_error(libc::ENXIO));
    let mut script = Script { answers: [Ok(3), Err(failed)].into(), ..Script::default() };
    let stop = Stop::new();
    let rules = Rules { pace: Pace::TopSpeed, ..Rules::default() };
    let tally = drive(&template, rules, &mut script, &stop);
    assert_eq!((tally.submitted, tally.complete, tally.ended_before), (3, false, Some(3)));
    assert_eq!(stop.why(), Some(Ended::Failed));
    assert!(tally.why.is_some_and(|why| why.contains("No such device")));
}

#[test]
fn a_path_that_stays_full_is_given_up_with_true_counts() {
    let template = flows(&[6]);
    let mut script = Script { answers: [Ok(3)].into(), stuck: true, ..Script::default() };
    let stop = Stop::new();
    let rules = Rules { pace: Pace::TopSpeed, loops: None, ..Rules::default() };
    let tally = drive(&template, rules, &mut script, &stop);
    assert_eq!((tally.submitted, tally.complete, tally.ended_before), (3, false, Some(3)));
    assert!(stop.why() == Some(Ended::Stalled) && tally.full > 0, "{tally:?}");
}

#[test]
fn a_wish_to_stop_is_heard_between_loops_without_an_end() {
    let template = flows(&[2]);
    let stop = Stop::new();
    let rules = Rules { pace: Pace::TopSpeed, loops: None, ..Rules::default() };
    let mut script = Script::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            stop.set(Ended::Asked);
        });
        let tally = drive(&template, rules, &mut script, &stop);
        assert!(!tally.complete && tally.submitted > 2, "{tally:?}");
        assert_eq!(tally.ended_before, Some(tally.submitted));
    });
}

#[test]
fn stalls_are_counted_and_the_longest_kept() {
    let mut tally = Tally::default();
    for late_ns in 1..=40u64 {
        tally.stall(Stall { at_ns: 0, late_ns, packets: 1 });
    }
    assert_eq!((tally.stalls, tally.longest.len(), tally.longest[0].late_ns), (40, STALLS_KEPT, 40));
    assert!(tally.longest.is_sorted_by_key(|stall| std::cmp::Reverse(stall.late_ns)));
}
