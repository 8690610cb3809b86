//! Conversations found in small captures.

use rehearsal_core::dialogue::Step;

use super::*;
use crate::converse::testing::{Line, template};
use crate::testing::{datagram, ethernet, segment};
use crate::{Builder, Direction};

const C: &str = "10.0.0.1";
const S: &str = "10.0.0.2";

fn sides(script: &Script) -> String {
    script.steps.iter().map(|step| if step.side == Direction::Forward { 'c' } else { 's' }).collect()
}

#[test]
fn a_packet_waits_for_all_that_the_other_side_said_before() {
    let template = template(&[Line::C(0), Line::S(10), Line::S(15), Line::C(20), Line::C(90), Line::S(100)]);
    let scripts = Scripts::of(&template, None, Split::Hosts);
    let script = &scripts.all[0];
    assert_eq!((sides(script).as_str(), script.kind()), ("csscCs".to_lowercase().as_str(), "TCP 80".to_owned()));
    let of = |step: &Step| (step.before, step.needs, step.think);
    assert_eq!(
        script.steps.iter().map(of).collect::<Vec<_>>(),
        [(0, 0, 0), (1, 1, 10), (1, 1, 15), (2, 2, 5), (2, 2, 75), (3, 3, 10)]
    );
    assert_eq!((script.own(Direction::Forward), script.audible(Direction::Backward)), (&[0, 3, 4][..], &[1, 2, 5][..]));
    assert_eq!((script.opener(), script.first, scripts.left_out, scripts.silent), (Direction::Forward, 0, 0, 0));
}

/// FTP: the data connection is opened after the answer on the other one, and from the server's side.
#[test]
fn connections_of_two_hosts_are_one_conversation_unless_they_are_split() {
    let mut builder = Builder::in_memory();
    let packets = [
        segment((C, 4000), (S, 21), 0x02, b""),
        segment((S, 21), (C, 4000), 0x12, b""),
        segment((C, 4000), (S, 21), 0x18, b"PORT"),
        segment((S, 20), (C, 5000), 0x02, b""),
        segment((C, 5000), (S, 20), 0x12, b""),
    ];
    for (at, frame) in packets.iter().enumerate() {
        builder.push(at as u64, frame).expect("a frame");
    }
    let template = builder.finish().expect("a template");
    let one = Scripts::of(&template, None, Split::Hosts);
    assert_eq!((one.all.len(), sides(&one.all[0]).as_str(), one.all[0].kind()), (1, "cscsc", "TCP 21".to_owned()));
    assert_eq!(one.all[0].openers, [0, 3]);
    let two = Scripts::of(&template, None, Split::Streams);
    assert_eq!(
        two.all.iter().map(|script| (sides(script), script.kind())).collect::<Vec<_>>(),
        [("csc".to_owned(), "TCP 21".to_owned()), ("cs".to_owned(), "TCP 5000".to_owned())]
    );
    assert_eq!(two.all[1].client.to_string(), S, "who opens the stream");
}

#[test]
fn an_answer_that_was_recorded_before_its_question_is_put_right() {
    let mut builder = Builder::in_memory();
    let packets = [
        segment((S, 80), (C, 4000), 0x12, b""),
        segment((C, 4000), (S, 80), 0x02, b""),
        segment((C, 4000), (S, 80), 0x10, b""),
        // a SYN that was sent again stays where it is
        segment((C, 4000), (S, 80), 0x02, b""),
    ];
    for (at, frame) in packets.iter().enumerate() {
        builder.push(1_000 * at as u64, frame).expect("a frame");
    }
    let template = builder.finish().expect("a template");
    let scripts = Scripts::of(&template, None, Split::Hosts);
    let script = &scripts.all[0];
    assert_eq!(script.steps.iter().map(|step| step.packet).collect::<Vec<_>>(), [1, 0, 2, 3]);
    assert_eq!((sides(script).as_str(), script.opener(), scripts.put_right), ("cscc", Direction::Forward, 1));
    assert_eq!(script.steps.iter().map(|step| step.think).collect::<Vec<_>>(), [0, 0, 2_000, 3_000]);
}

#[test]
fn a_packet_that_stands_there_twice_is_known_by_its_order() {
    let template = template(&[Line::C(0), Line::Same, Line::S(10)]);
    let scripts = Scripts::of(&template, None, Split::Hosts);
    let script = &scripts.all[0];
    assert_eq!(script.step(0).key, script.step(1).key);
}

#[test]
fn what_is_between_no_two_hosts_is_left_out_and_what_cannot_be_told_is_only_sent() {
    let mut builder = Builder::in_memory();
    let mut quoting = datagram((S, 0), (C, 0), &[0; 40]);
    // destination unreachable, instead of UDP
    quoting[23] = 1;
    quoting[34] = 3;
    let packets = [
        ethernet(0x0806, &[0; 28]),
        datagram((C, 5353), ("224.0.0.251", 5353), b"who"),
        datagram((C, 68), ("255.255.255.255", 67), b"dhcp"),
        datagram((C, 4000), (S, 53), b"name"),
        quoting,
        datagram((S, 53), (C, 4000), b"address"),
    ];
    for (at, frame) in packets.iter().enumerate() {
        builder.push(at as u64, frame).expect("a frame");
    }
    let template = builder.finish().expect("a template");
    let scripts = Scripts::of(&template, None, Split::Hosts);
    assert_eq!((scripts.all.len(), scripts.left_out, scripts.silent), (1, 3, 1));
    let script = &scripts.all[0];
    let of = |step: &Step| (step.before, step.needs, step.key.is_some());
    assert_eq!(script.steps.iter().map(of).collect::<Vec<_>>(), [(0, 0, true), (1, 1, false), (1, 1, true)]);
    assert_eq!((script.own(Direction::Backward).len(), script.audible(Direction::Backward)), (2, &[2][..]));
}
