//! A replayer by itself: what it sends when, and what steers do to it.

use rehearsal_core::life::Rejoin;
use rehearsal_core::messages::StartAt;
use rehearsal_core::plan::{DatagramMode, LinkSpec};
use rehearsal_core::steer::{Steer, Steering};
use rehearsal_core::units::Rate;
use rehearsal_core::{Command, Event, MetricId, Time, TimerKey};

use super::*;
use crate::testing::{Experiment, Stage, at, sender};

fn params() -> ReplayerParams {
    ReplayerParams {
        template: "plant.pcap".to_owned(),
        speed: None,
        pps: None,
        bps: None,
        loops: Some(2),
        loop_gap: None,
        gap_max: None,
        side: Side::Both,
        edit: Vec::new(),
        interactive: None,
    }
}

fn plain() -> SenderParams {
    SenderParams { rate: None, requests: None, ..sender() }
}

fn experiment(sender: SenderParams, carrier: Carrier) -> Experiment {
    let link = LinkSpec { carrier, ..LinkSpec::default() };
    Experiment { sender: Some(sender), link, ..Experiment::default() }
}

fn stage(params: &ReplayerParams) -> Stage {
    experiment(plain(), Carrier::Udp).build::<Replayer>(params).expect("it builds")
}

/// What was sent: time, stream, number, item and bytes.
type Played = Vec<(u64, u32, u64, u64, u32)>;

/// Follows the timer until nothing more is due by `end`: (ms, stream, number in it, packet of all loops, bytes) of what left,
/// and whether it said that it is done.
fn play(stage: &mut Stage, mut wishes: Vec<Command>, end: Time) -> (Played, bool) {
    let (mut sent, mut done) = (Vec::new(), false);
    loop {
        let mut due = None;
        for wish in wishes {
            match wish {
                Command::Send(d) => {
                    assert_eq!(d.at, d.intended);
                    let ms = d.intended.as_nanos() as f64 / 1e6;
                    sent.push((ms.round() as u64, d.stream, d.seq, d.payload.seq, d.payload.bytes));
                }
                Command::SetTimer { key: TimerKey(0), at } => due = Some(at),
                Command::CancelTimer { .. } => due = None,
                Command::Finished => done = true,
                other => panic!("{other:?}"),
            }
        }
        let Some(at) = due.filter(|at| *at <= end) else { return (sent, done) };
        wishes = stage.tell(at, Event::Timer { key: TimerKey(0), due: at });
    }
}

fn begin(stage: &mut Stage, until: Option<Time>) -> Vec<Command> {
    stage.say(at(0), StartAt { at: at(1000), until })
}

#[test]
fn loops_go_on_in_numbers_and_times_and_then_it_is_done() {
    let mut stage = stage(&params());
    let first = begin(&mut stage, None);
    let (sent, done) = play(&mut stage, first, at(9000));
    let wanted = [
        (1000, 0, 0, 0, 100),
        (1010, 1, 0, 1, 100),
        (1020, 0, 1, 2, 100),
        (1030, 0, 2, 3, 100),
        (1040, 0, 3, 4, 100),
        (1050, 1, 1, 5, 100),
        (1060, 0, 4, 6, 100),
        (1070, 0, 5, 7, 100),
    ];
    assert_eq!((sent.as_slice(), done), (&wanted[..], true));
    assert_eq!(stage.tell(at(9000), Event::Stop), [], "it was done before");
}

#[test]
fn whoever_wakes_late_sends_the_same() {
    let mut stage = stage(&params());
    begin(&mut stage, None);
    let due = at(1000);
    let late = stage.tell(at(1035), Event::Timer { key: TimerKey(0), due });
    let (sent, done) = play(&mut stage, late, at(1035));
    assert_eq!(sent.iter().map(|s| s.0).collect::<Vec<_>>(), [1000, 1010, 1020, 1030]);
    assert!(!done);
}

#[test]
fn frames_are_longer_and_an_end_of_time_is_an_end() {
    let endless = ReplayerParams { loops: None, ..params() };
    let timed = Experiment { stop: Stop::After(Span::from_secs(1)), ..experiment(plain(), Carrier::Frames) };
    let mut stage = timed.build::<Replayer>(&endless).expect("it builds");
    assert!(stage.assembly.groups[0].frames.is_some());
    let first = begin(&mut stage, Some(at(1050)));
    let (sent, done) = play(&mut stage, first, at(9000));
    assert_eq!((sent.len(), sent[4], done), (5, (1040, 0, 3, 4, 142), false));
    assert_eq!(stage.tell(at(1050), Event::Stop).last(), Some(&Command::Finished));
}

fn steer(number: u32, ms: u64, step: Steering) -> Steer {
    Steer { number, at: at(ms), node: None, step }
}

#[test]
fn a_pause_is_a_pause_and_a_rate_is_of_all_its_streams() {
    let steps = [
        (1015, Steering::Pause),
        (1115, Steering::Resume),
        // 100 packets a second are as captured; from 1125 on half as fast
        (1125, Steering::Rate(Rate::per_second(50))),
        (1155, Steering::Factor(10.0)),
    ];
    let wanted = [1000, 1010, 1120, 1135, 1155, 1156, 1157, 1158];
    // all steers known ahead, and each known only when it is due
    for ahead in [true, false] {
        let mut stage = stage(&params());
        let mut wishes = begin(&mut stage, None);
        let mut all = Vec::new();
        for (number, (ms, step)) in steps.iter().enumerate() {
            if !ahead {
                let (sent, _) = play(&mut stage, std::mem::take(&mut wishes), at(*ms));
                all.extend(sent);
            }
            let now = if ahead { at(0) } else { at(*ms) };
            wishes.extend(stage.say(now, steer(number as u32, *ms, *step)));
        }
        let (sent, done) = play(&mut stage, wishes, at(9000));
        all.extend(sent);
        assert_eq!(all.iter().map(|s| s.0).collect::<Vec<_>>(), wanted, "ahead: {ahead}");
        assert!(done);
    }
}

#[test]
fn a_stop_ends_it_and_other_nodes_are_not_meant() {
    let mut stage = stage(&params());
    let mut wishes = begin(&mut stage, None);
    let other = Steer { node: Some("elsewhere".to_owned()), ..steer(0, 1005, Steering::Stop) };
    wishes.extend(stage.say(at(0), other));
    wishes.extend(stage.say(at(0), steer(1, 1025, Steering::Stop)));
    wishes.extend(stage.say(at(0), steer(1, 1025, Steering::Stop)));
    let (sent, done) = play(&mut stage, wishes, at(9000));
    assert_eq!((sent.len(), done), (3, true));
}

#[test]
fn one_that_comes_back_goes_on_and_counts_what_it_missed() {
    let mut stage = stage(&params());
    let again = Rejoin {
        node: "lab".to_owned(),
        at: at(1000),
        until: None,
        known_until: at(1010),
        from: at(1045),
        generated: Default::default(),
    };
    let mut wishes = stage.say(at(1045), again);
    assert_eq!(wishes.remove(0), Command::Count { metric: MetricId::AWAY, by: 4 });
    let (sent, done) = play(&mut stage, wishes, at(9000));
    assert_eq!(sent.first(), Some(&(1050, 1, 1, 5, 100)));
    assert!(done);
}

#[test]
fn what_it_cannot_do_is_refused_with_the_key() {
    let refused = |sender: SenderParams, link: LinkSpec, params: &ReplayerParams| {
        let experiment = Experiment { sender: Some(sender), link, ..Experiment::default() };
        experiment.refusal::<Replayer>(params).0.expect("a key")
    };
    let udp = || LinkSpec { carrier: Carrier::Udp, ..LinkSpec::default() };
    assert_eq!(refused(plain(), LinkSpec::default(), &params()), "to");
    assert_eq!(refused(plain(), LinkSpec { mode: DatagramMode::Echo, ..udp() }, &params()), "to");
    assert_eq!(refused(sender(), udp(), &params()), "rate");
    assert_eq!(refused(SenderParams { streams: 2, ..plain() }, udp(), &params()), "streams");
    assert_eq!(refused(SenderParams { spread: Spread::All, ..plain() }, udp(), &params()), "spread");
    let burst = ReplayerParams { template: "burst".to_owned(), ..params() };
    assert_eq!(refused(plain(), udp(), &burst), "loops");
    let flaws = |params: ReplayerParams| -> Vec<String> {
        Replayer::check(&params).into_iter().flat_map(|complaint| complaint.path).collect()
    };
    assert_eq!(flaws(params()), [""; 0]);
    assert_eq!(flaws(ReplayerParams { speed: Some(0.0), pps: Some(3.0), ..params() }), ["pps", "speed"]);
    assert_eq!(flaws(ReplayerParams { loops: Some(0), template: String::new(), ..params() }), ["loops", "template"]);
}

#[test]
fn what_it_offers_is_told_and_its_keys_are_read() {
    let read = |text: &str| serde_json::from_str::<ReplayerParams>(text);
    let all = r#"{"template": "a.pcap", "bps": "10Mbit/s", "loops": 3, "loop_gap": "1s", "gap_max": "2s", "side": "client", "edit": ["ttl=-1"]}"#;
    let params = read(all).expect("all keys");
    assert_eq!(params.request(true).pace, Pace::Bits(1e7));
    assert!(read("{}").is_err() && read(r#"{"template": "a", "rate": "3/s"}"#).is_err());
    let even = ReplayerParams { pps: Some(250.0), ..super::tests::params() };
    let offer = Replayer::offers(&even).expect("it paces itself");
    assert_eq!((offer.per_second, offer.text.as_str()), (Some(250.0), "250 packets/s"));
}
