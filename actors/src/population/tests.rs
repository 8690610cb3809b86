//! The population among its engine: what it wishes, in time, and what it does with answers, steers and the end.

use rehearsal_core::distribution::{Distribution, Name};
use rehearsal_core::messages::StartAt;
use rehearsal_core::plan::{Carrier, LinkSpec, Stop};
use rehearsal_core::sender::SenderParams;
use rehearsal_core::steer::{Steer, Steering};
use rehearsal_core::units::{ByteSize, Rate};
use rehearsal_core::{Command, Datagram, Event, Outcome, Payload, Request, Status, Time, TimerKey, Times};
use rehearsal_models::diagram::State;
use rehearsal_models::diagram::module::{Kind as Works, Module};

use super::*;
use crate::testing::{Experiment, Stage, at, sender};

/// Users who stay for a second and then do what `module` says, again and again.
fn params(users: u32, module: &str) -> PopulationParams {
    let text = format!(
        r#"{{"users":{users},"diagram":{{"start":{{"rest":1}},
            "states":{{"rest":{{"stay":{{"dist":"constant","value":"1s"}},"to":{{"act":1}}}},"act":{{"module":"m","to":{{"rest":1}}}}}},
            "modules":{{"m":{module}}}}}}}"#
    );
    serde_json::from_str(&text).expect("parameters")
}

const PACKETS: &str = r#"{"kind":"cbr","every":"100ms","bytes":"100B","count":3}"#;
const FILE: &str = r#"{"kind":"file","bytes":"50kB"}"#;

fn experiment(carrier: Carrier) -> Experiment {
    let sender = SenderParams { rate: None, requests: None, retries: 1, ..sender() };
    let link = LinkSpec { carrier, ..LinkSpec::default() };
    Experiment { sender: Some(sender), link, stop: Stop::After(Span::from_secs(60)), ..Experiment::default() }
}

fn begun(params: &PopulationParams, carrier: Carrier) -> (Stage, Vec<Command>) {
    let mut stage = experiment(carrier).build::<Population>(params).expect("it builds");
    let wishes = stage.say(at(0), StartAt { at: at(1000), until: Some(at(61_000)) });
    (stage, wishes)
}

fn timer(wishes: &[Command]) -> Option<Time> {
    wishes.iter().rev().find_map(|wish| match wish {
        Command::SetTimer { key: TimerKey(0), at } => Some(*at),
        _ => None,
    })
}

/// Fires the timer until `end`, always `late`; what is wished.
fn run(stage: &mut Stage, mut next: Option<Time>, end: Time, late: Span) -> Vec<Command> {
    let mut all = Vec::new();
    while let Some(due) = next.filter(|due| *due < end) {
        let wishes = stage.tell(due + late, Event::Timer { key: TimerKey(0), due });
        next = timer(&wishes);
        all.extend(wishes);
    }
    all
}

fn datagrams(wishes: &[Command]) -> Vec<Datagram> {
    let datagram = |wish: &Command| if let Command::Send(datagram) = wish { Some(*datagram) } else { None };
    wishes.iter().filter_map(datagram).collect()
}

fn requests(wishes: &[Command]) -> Vec<Request> {
    let request = |wish: &Command| if let Command::Request(request) = wish { Some(*request) } else { None };
    wishes.iter().filter_map(request).collect()
}

fn answer(stage: &mut Stage, now: Time, request: &Request, status: Status) -> Vec<Command> {
    let times = Times { intended: request.intended, done: now, ..Times::default() };
    stage.tell(now, Event::Outcome { request, outcome: &Outcome { status, times, reply_bytes: request.reply_bytes } })
}

#[test]
fn packets_leave_by_the_users_clock_however_late_it_is_woken() {
    let of = |late| {
        let (mut stage, wishes) = begun(&params(20, PACKETS), Carrier::Udp);
        assert_eq!(timer(&wishes), Some(at(2000)), "the first stay ends a second after the start");
        datagrams(&run(&mut stage, timer(&wishes), at(10_000), late))
    };
    let (prompt, late) = (of(Span::ZERO), of(Span::from_millis(30)));
    assert!(prompt.len() > 100 && prompt.iter().all(|d| d.payload.bytes == 100 && d.at == d.intended));
    let whole = late.len().min(prompt.len());
    assert_eq!(prompt[..whole], late[..whole]);
    for stream in 0..20 {
        let of: Vec<&Datagram> = prompt.iter().filter(|d| d.stream == stream).collect();
        assert!(of.iter().enumerate().all(|(row, d)| d.seq == row as u64), "numbers of stream {stream} have no gap");
        assert!(of.chunks(3).all(|flow| flow.len() < 3 || flow[2].at.since(flow[0].at) == Span::from_millis(200)));
    }
}

#[test]
fn a_datagram_has_room_for_its_header() {
    let (mut stage, wishes) = begun(&params(1, &PACKETS.replace("100B", "10B")), Carrier::Udp);
    let sent = datagrams(&run(&mut stage, timer(&wishes), at(5000), Span::ZERO));
    assert!(!sent.is_empty() && sent.iter().all(|d| d.payload.bytes == 32));
    let payload = Payload { bytes: 77, ..sent[0].payload };
    assert_eq!(stage.render(payload).len(), 77);
}

#[test]
fn what_is_loaded_down_is_asked_for_and_waited_for() {
    let (mut stage, wishes) = begun(&params(1, FILE), Carrier::Http1);
    let all = run(&mut stage, timer(&wishes), at(60_000), Span::ZERO);
    let [request] = requests(&all)[..] else { panic!("{all:?}") };
    assert_eq!((request.intended, request.payload.bytes, request.reply_bytes), (at(2000), 328, 50_000));
    assert_eq!(timer(&all), None, "nothing is due before the answer");
    // turned away, it is asked for again; then it comes, and the user rests for a second
    let again = answer(&mut stage, at(2100), &request, Status::Rejected);
    let [second] = requests(&again)[..] else { panic!("{again:?}") };
    assert!(second.last && second.attempt == 1 && second.at > at(2100) && second.seq == request.seq);
    let wishes = answer(&mut stage, at(3000), &second, Status::Success);
    assert_eq!(timer(&wishes), Some(at(4000)));
    assert_eq!(stage.counted(&wishes, "flows_done"), 1);
}

#[test]
fn a_user_who_fails_at_once_waits_a_moment() {
    let (mut stage, wishes) = begun(&params(1, FILE), Carrier::Http1);
    let all = run(&mut stage, timer(&wishes), at(60_000), Span::ZERO);
    let [request] = requests(&all)[..] else { panic!("{all:?}") };
    let wishes = answer(&mut stage, at(2000), &request, Status::Unsent);
    assert_eq!(timer(&wishes), Some(at(2001)));
    let wishes = run(&mut stage, timer(&wishes), at(2002), Span::ZERO);
    assert_eq!((stage.counted(&wishes, "flows_failed"), timer(&wishes)), (1, Some(at(3001))));
}

#[test]
fn who_gives_up_breaks_off_what_is_under_way() {
    let mut params = params(1, FILE);
    let act = params.diagram.as_mut().and_then(|d| d.states.get_mut("act")).expect("a state");
    act.impatience = serde_json::from_str(r#"{"dist":"constant","value":"500ms"}"#).expect("a distribution");
    let (mut stage, wishes) = begun(&params, Carrier::Http1);
    let all = run(&mut stage, timer(&wishes), at(2600), Span::ZERO);
    let [request] = requests(&all)[..] else { panic!("{all:?}") };
    assert!(all.contains(&Command::Abort(request.token)) && stage.counted(&all, "flows_given_up") == 1);
    // its outcome still comes, and moves nobody; there is no other attempt
    let wishes = answer(&mut stage, at(2600), &request, Status::Unacknowledged);
    assert_eq!((requests(&wishes), stage.counted(&wishes, "flows_done")), (Vec::new(), 0));
}

fn steer(number: u32, millis: u64, step: Steering) -> Steer {
    Steer { number, at: at(millis), node: None, step }
}

#[test]
fn users_stand_still_in_a_pause_and_go_on_where_they_were() {
    let plain = {
        let (mut stage, wishes) = begun(&params(10, PACKETS), Carrier::Udp);
        datagrams(&run(&mut stage, timer(&wishes), at(6000), Span::ZERO))
    };
    let (mut stage, wishes) = begun(&params(10, PACKETS), Carrier::Udp);
    let mut next = timer(&wishes);
    for (number, millis, step) in [(0, 3000, Steering::Pause), (1, 5000, Steering::Resume)] {
        next = timer(&stage.say(at(900), steer(number, millis, step))).or(next);
    }
    let paused = datagrams(&run(&mut stage, next, at(8000), Span::ZERO));
    assert!(!paused.iter().any(|d| d.at > at(3000) && d.at < at(5000)));
    let shifted = |d: &Datagram| if d.at < at(3000) { d.at } else { d.at + Span::from_secs(2) };
    let times = |all: &[Datagram]| all.iter().map(|d| (d.at, d.stream)).collect::<Vec<_>>();
    let expected: Vec<(Time, u32)> = plain.iter().map(|d| (shifted(d), d.stream)).collect();
    assert_eq!(times(&paused), expected);
}

#[test]
fn the_number_of_users_follows_schedule_and_steers() {
    let schedule = vec![Change { at: Span::from_secs(10), users: 60 }, Change { at: Span::from_secs(20), users: 5 }];
    let mut params = PopulationParams { schedule, users_max: Some(120), ..params(30, PACKETS) };
    let rest = params.diagram.as_mut().and_then(|d| d.states.get_mut("rest")).expect("a state");
    rest.stay = serde_json::from_str(r#"{"dist":"exponential","mean":"1s"}"#).expect("a distribution");
    let (mut stage, wishes) = begun(&params, Carrier::Udp);
    let next = timer(&stage.say(at(900), steer(0, 16_000, Steering::Factor(2.0)))).or(timer(&wishes));
    let all = run(&mut stage, next, at(40_000), Span::ZERO);
    let rate = |from: u64, to: u64| {
        let within = |d: &&Datagram| d.at >= at(from) && d.at < at(to);
        datagrams(&all).iter().filter(within).count() as f64 / (to - from) as f64 * 1000.0
    };
    // three packets each 1.25 s in the mean: 2.4 a second and user
    for (from, to, users) in
        [(4000, 11_000, 30.0), (12_000, 16_000, 60.0), (18_000, 21_000, 120.0), (23_000, 40_000, 10.0)]
    {
        let found = rate(from, to) / users;
        // some 150 flows each: a relative deviation of 8 %, three of them
        assert!((found - 2.4).abs() < 0.6, "{found} packets a second and user of {users} from {from} to {to}");
    }
}

#[test]
fn it_ends_when_it_is_stopped_and_all_has_come() {
    let (mut stage, wishes) = begun(&params(1, FILE), Carrier::Http1);
    let all = run(&mut stage, timer(&wishes), at(60_000), Span::ZERO);
    let [request] = requests(&all)[..] else { panic!("{all:?}") };
    assert!(!stage.tell(at(5000), Event::Stop).contains(&Command::Finished));
    let wishes = answer(&mut stage, at(5001), &request, Status::Success);
    assert_eq!((wishes.contains(&Command::Finished), timer(&wishes)), (true, None));
    let (mut stage, _) = begun(&params_of_packets(), Carrier::Udp);
    assert!(stage.tell(at(5000), Event::Stop).contains(&Command::Finished));
}

fn params_of_packets() -> PopulationParams {
    params(3, PACKETS)
}

#[test]
fn what_cannot_be_is_refused() {
    let refusal = |sender: SenderParams, params: &PopulationParams, carrier| {
        Experiment { sender: Some(sender), ..experiment(carrier) }.refusal::<Population>(params)
    };
    let plain = || SenderParams { rate: None, requests: None, ..sender() };
    let paced = SenderParams { rate: Some(Rate::per_second(1)), ..plain() };
    assert_eq!(refusal(paced, &params(1, PACKETS), Carrier::Udp).0, Some("rate"));
    let (key, reason) = refusal(plain(), &params(1, FILE), Carrier::Udp);
    assert!(key == Some("to") && reason.contains("waits for answers of its receiver"), "{reason}");
    let missing = PopulationParams { diagram: None, ..params(1, FILE) };
    assert_eq!(refusal(plain(), &missing, Carrier::Http1).0, Some("model"));
    let counted = Experiment { stop: Stop::AllRequestsDone, sender: Some(plain()), ..Experiment::default() };
    assert!(counted.refusal::<Population>(&params(1, FILE)).1.contains("give the experiment a `duration`"));

    let said = |change: &dyn Fn(&mut PopulationParams)| {
        let mut params = params(5, PACKETS);
        change(&mut params);
        Population::check(&params).into_iter().map(|c| c.path.join(".")).collect::<Vec<_>>()
    };
    assert_eq!(said(&|_| {}), Vec::<String>::new());
    assert_eq!(said(&|p| p.users_max = Some(3)), ["users_max"]);
    assert_eq!(said(&|p| p.ports = 0), ["ports"]);
    assert_eq!(said(&|p| drop(p.targets.insert("x".into(), "receiver/main".into()))), ["targets.x"]);
    assert_eq!(said(&|p| p.schedule = vec![Change { at: Span::ZERO, users: 1 }; 2]), ["schedule"]);
    assert_eq!(
        said(&|p| p.diagram.as_mut().expect("a diagram").states.get_mut("rest").expect("a state").to.clear()),
        ["diagram.states.rest"]
    );
}

#[test]
fn an_offer_is_what_users_send_in_the_long_run() {
    let offer = Population::offers(&params(40, PACKETS)).expect("it paces itself");
    // a flow of three lasts 250 ms in the mean: its first packet comes at a random point of its interval
    assert_eq!(offer.text, "40 users");
    assert!((offer.bytes.expect("a size") - 100.0).abs() < 1e-9, "{offer:?}");
    assert!((offer.per_second.expect("a rate") - 40.0 * 3.0 / 1.25).abs() < 1e-6, "{offer:?}");
    let changing = PopulationParams { schedule: vec![Change { at: Span::ZERO, users: 9 }], ..params(40, PACKETS) };
    assert_eq!(Population::offers(&changing).and_then(|offer| offer.per_second), None);
}

#[test]
fn a_module_has_the_keys_of_its_kind() {
    // the types that a model file is read into, so that a change of their names is seen
    let module: Module = serde_json::from_str(PACKETS).expect("a module");
    assert_eq!((module.kind, module.bytes, module.count), (Works::Cbr, Some(ByteSize(100)), Some(3)));
    let state: State = serde_json::from_str(r#"{"module":"m","to":{"a":1}}"#).expect("a state");
    assert_eq!(state.module.as_deref(), Some("m"));
    let law: Distribution<u32> = serde_json::from_str(r#"{"dist":"constant","value":3}"#).expect("a distribution");
    assert_eq!((law.dist, law.value), (Name::Constant, Some(3)));
}
