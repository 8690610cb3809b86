//! One side by itself: when it speaks, what it says again, and how it ends.

use rehearsal_core::plan::{Carrier, LinkSpec};
use rehearsal_core::recording::Side;
use rehearsal_core::{Command, TimerKey, Times};

use super::*;
use crate::replayer::{InteractiveParams, Replayer, ReplayerParams};
use crate::testing::{Experiment, Stage, at, sender};

fn stage(side: Side, interactive: InteractiveParams) -> Stage {
    let params = ReplayerParams {
        template: "talk.pcap".to_owned(),
        speed: None,
        pps: None,
        bps: None,
        loops: None,
        loop_gap: None,
        gap_max: None,
        side,
        edit: Vec::new(),
        interactive: Some(interactive),
    };
    let told = rehearsal_core::sender::SenderParams { rate: None, requests: None, ..sender() };
    let link = LinkSpec { carrier: Carrier::Udp, ..LinkSpec::default() };
    let experiment = Experiment { sender: Some(told), link, ..Experiment::default() };
    experiment.build::<Replayer>(&params).expect("it builds")
}

/// What was sent: ms that it was due and was planned for, conversation, and number in it.
type Said = Vec<(u64, u64, u32, u64)>;

/// What is wished: what is said, when it wants to be woken, and whether it is done.
#[derive(Default, Debug)]
struct Wished {
    said: Said,
    wake: Option<Time>,
    done: bool,
}

fn ms(time: Time) -> u64 {
    (time.as_nanos() + 500_000) / 1_000_000
}

fn wished(wishes: Vec<Command>) -> Wished {
    let mut all = Wished::default();
    for wish in wishes {
        match wish {
            Command::Send(d) => all.said.push((ms(d.at), ms(d.intended), d.stream, d.seq)),
            Command::SetTimer { at, .. } => all.wake = Some(at),
            Command::Finished => all.done = true,
            _ => {}
        }
    }
    all
}

/// Its timer, until it says something or is done.
fn wait(stage: &mut Stage, first: Wished) -> Wished {
    let mut next = first;
    for _ in 0..20 {
        if !next.said.is_empty() || next.done {
            return next;
        }
        let due = next.wake.expect("it waits for something");
        next = wished(stage.tell(due, Event::Timer { key: TimerKey(0), due }));
    }
    panic!("it says nothing");
}

/// The other side's packet, by its number.
fn hear(stage: &mut Stage, now: Time, seq: u64) -> Wished {
    let from = Some(stage.assembly.groups[1].base);
    let head = Head { from, stream: 0, seq, ..Head::default() };
    let times = Times { intended: now, ready: now, sent: now, done: now };
    wished(stage.tell(now, Event::Datagram { head: &head, times: &times, payload: &Payload::EMPTY }))
}

fn begin(stage: &mut Stage) -> Wished {
    let first = wished(stage.say(at(0), StartAt { at: at(1000), until: None }));
    wait(stage, first)
}

#[test]
fn it_speaks_when_it_was_answered_and_has_thought() {
    let mut client = stage(Side::Client, InteractiveParams::default());
    assert_eq!(begin(&mut client).said, [(1000, 1000, 0, 0)]);
    // the answer is 40 ms late, and so is what answers it; the plan knows nothing of that
    let heard = hear(&mut client, at(1050), 0);
    assert!(heard.said.is_empty());
    assert_eq!(wait(&mut client, heard).said, [(1070, 1030, 0, 1)]);
    let end = hear(&mut client, at(1100), 1);
    assert!(end.said.is_empty() && end.done, "{end:?}");
}

#[test]
fn what_is_said_again_has_a_number_of_its_own() {
    let mut client = stage(Side::Client, InteractiveParams::default());
    let first = begin(&mut client);
    // no answer for 200 ms beyond its time to think
    let again = wait(&mut client, Wished { wake: first.wake, ..Wished::default() });
    assert_eq!(again.said, [(1210, 1000, 0, 2)]);
    let heard = hear(&mut client, at(1220), 0);
    assert_eq!(wait(&mut client, heard).said, [(1240, 1030, 0, 3)], "and so has what follows");
    // an old answer once more says nothing new
    assert!(hear(&mut client, at(1241), 2).said.is_empty());
}

#[test]
fn who_is_not_answered_times_out_and_who_hears_nothing_ends_too() {
    let impatient = InteractiveParams { resend: 0, timeout: Span::from_millis(300), ..InteractiveParams::default() };
    let mut client = stage(Side::Client, impatient.clone());
    let first = begin(&mut client);
    let wishes = first.wake.map(|due| client.tell(due, Event::Timer { key: TimerKey(0), due })).expect("a deadline");
    assert_eq!(client.counted(&wishes, "conversations.timed_out"), 1);
    assert_eq!(first.wake.map(ms), Some(1310), "10 ms to think, and 300 of patience");
    assert!(wished(wishes).done);
    let mut server = stage(Side::Server, impatient);
    assert!(begin(&mut server).done, "nobody began");
    let left = server.tell(at(2000), Event::Stop);
    assert_eq!(server.counted(&left, "conversations.not_begun"), 1);
}

#[test]
fn the_server_answers_again_after_its_end() {
    let mut server = stage(Side::Server, InteractiveParams::default());
    let first = wished(server.say(at(0), StartAt { at: at(1000), until: None }));
    assert!(first.said.is_empty());
    let heard = hear(&mut server, at(1005), 0);
    assert_eq!(wait(&mut server, heard).said, [(1015, 1010, 0, 0)]);
    let heard = hear(&mut server, at(1040), 1);
    let end = wait(&mut server, heard);
    assert_eq!((end.said, end.done), (vec![(1055, 1045, 0, 1)], true));
    // its last answer was lost, so the question comes once more
    let asked = hear(&mut server, at(1300), 3);
    let asked = if asked.said.is_empty() { wait(&mut server, asked) } else { asked };
    assert_eq!(asked.said, [(1300, 1045, 0, 3)]);
    let foreign = Head { from: Some(ActorId(77)), ..Head::default() };
    let times = Times { intended: at(1400), ready: at(1400), sent: at(1400), done: at(1400) };
    let event = Event::Datagram { head: &foreign, times: &times, payload: &Payload::EMPTY };
    let wishes = server.tell(at(1400), event);
    assert_eq!(server.counted(&wishes, "packets.strange"), 1);
}
