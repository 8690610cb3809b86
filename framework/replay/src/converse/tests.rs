//! Both halves with a network between them that loses, repeats, delays and turns around; time is a number.

use std::collections::BTreeMap;

use proptest::prelude::*;

use rehearsal_core::dialogue::{Half, Heard, Loss, Manners, Outcome, Repertoire, Send, Split, Thinking};

use super::script::Scripts;
use crate::Direction;
use crate::converse::testing::{Line, template};

const MS: u64 = 1_000_000;
const MANNERS: Manners = Manners {
    thinking: Thinking { factor: Some(1.0), most: None },
    loss: Loss { resend: 3, after: 200 * MS },
    timeout: 10_000 * MS,
};

fn scripts(lines: &[Line]) -> Repertoire {
    Scripts::of(&template(lines), None, Split::Hosts).repertoire()
}

/// What becomes of the n-th packet on the wire: when its copies arrive, after how long.
type Fate<'a> = &'a mut dyn FnMut(u64, &Send, Direction) -> Vec<u64>;

/// What happened in a network.
#[derive(Debug, Default)]
struct Told {
    /// Conversation and position, in the order in which they were first sent.
    first: Vec<(u32, u32)>,
    /// When.
    at: Vec<u64>,
    again: u64,
    heard: BTreeMap<(u32, u32), u64>,
    round_trips: Vec<u64>,
}

/// Runs two halves until both have nothing to do.
fn run(halves: &mut [Half; 2], fate: Fate<'_>) -> Told {
    let (mut told, mut wire, mut sent) = (Told::default(), BTreeMap::new(), 0);
    let mut now = 1_000;
    for conversation in 0..halves[0].talks().len() as u32 {
        let opener = halves[0].script(conversation).opener();
        halves[opener.index()].begin(conversation, now);
    }
    for _ in 0..1_000_000 {
        for half in halves.iter_mut() {
            while let Some(send) = half.poll(now) {
                if send.again {
                    told.again += 1;
                } else {
                    told.first.push((send.conversation, send.position));
                    told.at.push(now);
                }
                let step = *half.script(send.conversation).step(send.position);
                assert_eq!(step.side, half.side());
                let Some(key) = step.key else { continue };
                for (copy, delay) in fate(sent, &send, half.side()).into_iter().enumerate() {
                    wire.insert((now + delay.max(1), sent, copy), (half.side().other(), send.conversation, key));
                }
                sent += 1;
            }
        }
        let arrival = wire.keys().next().map(|(at, ..)| *at);
        let next = halves.iter().filter_map(Half::next).chain(arrival).min();
        let Some(next) = next else { return told };
        now = now.max(next);
        while let Some(entry) = wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, conversation, key) = entry.remove();
            match halves[to.index()].hear(conversation, key, now) {
                Heard::New { position, round_trip, .. } => {
                    *told.heard.entry((conversation, position)).or_default() += 1;
                    told.round_trips.extend(round_trip);
                }
                Heard::Again => {}
                Heard::Strange => assert_eq!(halves[to.index()].talk(conversation).outcome, Outcome::TimedOut),
            }
        }
    }
    panic!("it does not end: {told:?}");
}

fn halves(scripts: &Repertoire, conversations: u32, manners: Manners) -> [Half; 2] {
    [Direction::Forward, Direction::Backward].map(|side| Half::new(side, scripts, conversations, manners))
}

/// A few exchanges with pauses of their own, ends with the server.
const TALK: [Line; 7] = [
    Line::C(0),
    Line::S(MS),
    Line::C(3 * MS),
    Line::S(10 * MS),
    Line::S(11 * MS),
    Line::C(2_011 * MS),
    Line::S(2_012 * MS),
];

#[test]
fn without_losses_each_packet_goes_once_in_its_order_and_at_its_time() {
    let scripts = scripts(&TALK);
    let mut halves = halves(&scripts, 1, MANNERS);
    let told = run(&mut halves, &mut |_, _, _| vec![20 * MS]);
    assert_eq!(told.first, (0..7).map(|position| (0, position)).collect::<Vec<_>>());
    // the other side's way of 20 ms, and thinking as in the template
    let due = [0, 21, 43, 70, 71, 2_091, 2_112].map(|ms| 1_000 + ms * MS);
    assert_eq!((told.at, told.again), (due.to_vec(), 0));
    assert_eq!(
        halves.each_ref().map(|half| (half.completed(), half.open(), half.talk(0).outcome)),
        [(1, 0, Outcome::Completed), (1, 0, Outcome::Completed)]
    );
    assert_eq!(told.round_trips, [40 * MS; 5], "thinking is no way");
}

#[test]
fn nobody_thinks_or_thinks_for_less_time() {
    let scripts = scripts(&TALK);
    let ends = [(None, None), (Some(2.0), None), (Some(1.0), Some(5 * MS))].map(|(factor, most)| {
        let manners = Manners { thinking: Thinking { factor, most }, ..MANNERS };
        run(&mut halves(&scripts, 1, manners), &mut |_, _, _| vec![MS]).at.last().copied()
    });
    let thought = [0, 1 + 2 + 8 + 2_000 + 1, 1 + 2 + 5 + 5 + 1];
    let expected =
        [thought[0] * MS, thought[1] * MS / 2, thought[2] * MS].map(|thought| Some(1_000 + 5 * MS + thought));
    assert_eq!(ends, expected);
}

#[test]
fn each_single_packet_may_be_lost_once_or_thrice_and_all_arrives() {
    let scripts = scripts(&TALK);
    for lost in 0..7 {
        for times in [1, 3] {
            let mut left = times;
            let mut halves = halves(&scripts, 1, MANNERS);
            let told = run(&mut halves, &mut |_, send, _| {
                let gone = send.position == lost && left > 0;
                left -= i32::from(gone);
                if gone { Vec::new() } else { vec![20 * MS] }
            });
            assert_eq!((left, told.first.len()), (0, 7));
            assert!(halves.iter().all(|half| half.completed() == 1), "packet {lost}, {times} times: {halves:?}");
            assert!(told.first.is_sorted() && told.again >= 1, "packet {lost}: {told:?}");
        }
    }
}

#[test]
fn who_is_never_answered_times_out_and_says_where() {
    let scripts = scripts(&TALK);
    // in the second case both ask again, and each time the client does the server answers: with two packets
    for (from, sent, again) in [(0, [1, 0], 3), (3, [2, 3], 3 + 6 + 6), (6, [3, 4], 3 + 3)] {
        let mut halves = halves(&scripts, 1, MANNERS);
        let told = run(&mut halves, &mut |_, send, _| if send.position >= from { Vec::new() } else { vec![20 * MS] });
        let [client, server] = halves.each_ref().map(|half| half.talk(0));
        assert_eq!(
            (client.outcome, [client.sent, server.sent], told.again),
            (Outcome::TimedOut, sent, again),
            "{from}"
        );
        assert_eq!(halves[0].open() + halves[1].open(), 0);
    }
}

#[test]
fn who_gives_up_sends_nothing_twice() {
    let scripts = scripts(&TALK);
    let manners = Manners { loss: Loss { resend: 0, after: 200 * MS }, timeout: 500 * MS, ..MANNERS };
    let mut halves = halves(&scripts, 1, manners);
    let told = run(&mut halves, &mut |_, send, _| if send.position == 2 { Vec::new() } else { vec![20 * MS] });
    assert_eq!((told.again, told.first.len()), (0, 3));
    assert_eq!(halves.each_ref().map(|half| half.talk(0).outcome), [Outcome::TimedOut; 2]);
    // the server had 2 ms to wait for thinking, and 500 more
    assert_eq!(halves[1].talk(0).progress, 1_000 + 21 * MS);
}

#[test]
fn what_comes_twice_is_heard_once() {
    let scripts = scripts(&TALK);
    let mut halves = halves(&scripts, 3, MANNERS);
    let told = run(&mut halves, &mut |_, _, _| vec![20 * MS, 21 * MS, 500 * MS]);
    assert!(halves.iter().all(|half| half.completed() == 3));
    assert_eq!((told.heard.len(), told.heard.values().sum::<u64>()), (21, 21));
}

#[test]
fn a_block_that_arrives_backwards_is_waited_for_and_then_answered() {
    let scripts = scripts(&[Line::C(0), Line::C(1), Line::C(2), Line::S(3)]);
    let mut halves = halves(&scripts, 1, MANNERS);
    let told = run(&mut halves, &mut |number, _, _| vec![[30, 20, 10, 10][number as usize] * MS]);
    assert_eq!((told.first, told.again), (vec![(0, 0), (0, 1), (0, 2), (0, 3)], 0));
    assert_eq!(told.at[3], 1_000 + 30 * MS + 1, "when the first one came, which was the last");
}

#[test]
fn a_stall_of_this_machine_is_no_loss() {
    let scripts = scripts(&TALK[..2]);
    let [mut client, _] = halves(&scripts, 1, MANNERS);
    client.begin(0, 1_000);
    assert!(client.poll(1_000).is_some_and(|send| !send.again));
    let now = 1_000 + 900 * MS;
    client.stalled(850 * MS);
    assert_eq!(client.poll(now), None, "50 ms of 201 are over");
    assert_eq!(client.next(), Some(1_000 + (850 + 201) * MS));
    assert!(client.poll(1_000 + 1_051 * MS).is_some_and(|send| send.again));
}

#[test]
fn the_same_packet_twice_in_a_template_is_two_packets() {
    let scripts = scripts(&[Line::C(0), Line::Same, Line::S(10), Line::C(20)]);
    let mut halves = halves(&scripts, 1, MANNERS);
    let told = run(&mut halves, &mut |_, _, _| vec![MS]);
    assert_eq!((told.heard.len(), told.again, halves[1].completed()), (4, 0, 1));
}

/// A word of a random conversation: whose it is, and how long it takes.
fn line() -> impl Strategy<Value = (bool, u64)> {
    (any::<bool>(), 0_u64..50)
}

proptest! {
    #![proptest_config(crate::testing::cases(200))]

    /// Whatever a network does to packets, what is sent is sent once in the order of the template, nothing goes before
    /// what it waits for has arrived, and all ends. If at most one copy in a row of each packet is lost, all completes.
    #[test]
    fn order_is_kept_through_any_network(
        words in prop::collection::vec(line(), 1..30),
        fates in prop::collection::vec((0_u8..100, 1_u64..80), 1..200),
        spares in any::<bool>(),
        conversations in 1_u32..4,
    ) {
        let mut at = 0;
        // the client's word is the first, and the last is answered
        let ends = [(true, 0), (false, 1)];
        let all = ends[..1].iter().chain(&words).chain(&ends[1..]);
        let lines: Vec<Line> = all.map(|(client, think)| {
            at += think * MS;
            if *client { Line::C(at) } else { Line::S(at) }
        }).collect();
        let scripts = scripts(&lines);
        let mut halves = halves(&scripts, conversations, MANNERS);
        let mut lost: BTreeMap<(u32, u32), bool> = BTreeMap::new();
        let told = run(&mut halves, &mut |number, send, _| {
            let (luck, delay) = fates[number as usize % fates.len()];
            let before = lost.get(&(send.conversation, send.position)).copied().unwrap_or(false);
            // one packet of three in ten is lost; with mercy not twice in a row
            let gone = luck < 30 && !(spares && before);
            lost.insert((send.conversation, send.position), gone);
            match luck {
                _ if gone => Vec::new(),
                90.. => vec![delay * MS, delay * 2 * MS],
                _ => vec![delay * MS],
            }
        });
        for conversation in 0..conversations {
            let order = told.first.iter().filter(|(of, _)| *of == conversation).map(|(_, position)| *position);
            let order: Vec<u32> = order.collect();
            let expected: Vec<u32> = (0..order.len() as u32).collect();
            prop_assert_eq!(&order, &expected);
            let [client, server] = halves.each_ref().map(|half| half.talk(conversation));
            prop_assert!(client.sent + server.sent == order.len() as u32);
            if spares {
                prop_assert_eq!(order.len(), lines.len());
                prop_assert_eq!((client.outcome, server.outcome), (Outcome::Completed, Outcome::Completed));
            }
        }
        prop_assert!(told.heard.values().all(|times| *times == 1));
        prop_assert!(halves.iter().all(|half| half.open() == 0));
    }
}
