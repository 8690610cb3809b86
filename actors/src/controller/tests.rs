//! The controller at work: the start line, the end, steering, and nodes that are lost.

use rehearsal_core::Command;

use super::*;
use crate::testing::{Experiment, Stage, at, messages};

mod life;
mod steering;

fn stage(stop: Stop, nodes: &[(&'static str, bool)]) -> Stage {
    let experiment = Experiment { stop, nodes: nodes.to_vec(), ..Experiment::default() };
    experiment.build::<Controller>(&ServiceParams {}).expect("it builds")
}

fn ready(stage: &mut Stage, now: u64, node: &str) -> Vec<Command> {
    stage.say(at(now), Ready { node: node.into() })
}

fn done(stage: &mut Stage, now: u64, node: &str) -> Vec<Command> {
    stage.say_wire(at(now), NodeDone { node: node.into() })
}

fn timer(stage: &mut Stage, now: u64) -> Vec<Command> {
    stage.tell(at(now), Event::Timer { key: NEXT, due: at(now) })
}

fn set(wishes: &[Command]) -> Option<Time> {
    wishes.iter().find_map(|w| if let Command::SetTimer { at, .. } = w { Some(*at) } else { None })
}

fn reasons(wishes: &[Command]) -> Vec<StopReason> {
    messages::<StopRun>(wishes).into_iter().map(|stop| stop.reason).collect()
}

fn told(wishes: &[Command]) -> Vec<String> {
    messages::<LifeEvent>(wishes).into_iter().map(|event| event.kind).collect()
}

const NODES: [(&str, bool); 3] = [("camera-1", true), ("camera-2", true), ("receiver", false)];

#[test]
fn all_ready_then_one_common_start_and_an_end_by_time() {
    let mut stage = stage(Stop::After(Span::from_secs(60)), &NODES);
    let wishes = stage.tell(at(0), Event::Start);
    let subject = "lab.v1.r1.ctl.lab.main.prepare".to_owned();
    assert_eq!(stage.published(&wishes), [(subject, Prepare { round: 1 })]);
    assert_eq!(set(&wishes), Some(at(1000)));
    assert_eq!(ready(&mut stage, 3, "camera-1"), []);
    assert_eq!(ready(&mut stage, 4, "receiver"), []);
    assert_eq!(ready(&mut stage, 4, "somebody-else"), []);
    let wishes = timer(&mut stage, 1000);
    assert_eq!(stage.published::<Prepare>(&wishes).len(), 1);
    assert_eq!(set(&wishes), Some(at(2000)));
    assert_eq!(ready(&mut stage, 1003, "receiver"), [], "a second answer of the same node");

    let wishes = ready(&mut stage, 1010, "camera-2");
    assert_eq!(told(&wishes), ["prepared"]);
    let start = StartAt { at: at(1510), until: Some(at(61_510)) };
    assert_eq!(stage.published(&wishes), [("lab.v1.r1.ctl.lab.main.start".to_owned(), start)]);
    assert_eq!(set(&wishes), Some(at(1510)), "the timer moves to the start");
    assert_eq!(ready(&mut stage, 1020, "camera-1"), [], "there is one start");

    let wishes = timer(&mut stage, 1510);
    assert_eq!((told(&wishes), set(&wishes)), (vec!["started".to_owned()], Some(at(61_510))));
    assert_eq!(done(&mut stage, 30_000, "camera-1"), []);
    assert_eq!(done(&mut stage, 30_000, "camera-2"), [], "the duration is what counts");
    let wishes = timer(&mut stage, 61_510);
    assert_eq!(reasons(&wishes), [StopReason::Duration]);
    assert_eq!(told(&wishes), ["stopped"]);
    assert_eq!(stage.tell(at(61_511), Event::Stop), [], "it was told already");
}

#[test]
fn a_count_driven_run_ends_when_every_sending_node_is_done() {
    let mut stage = stage(Stop::AllRequestsDone, &NODES);
    stage.tell(at(0), Event::Start);
    for (node, _) in NODES {
        ready(&mut stage, 1, node);
    }
    assert_eq!(set(&timer(&mut stage, 501)), None, "no end is set");
    assert_eq!(done(&mut stage, 900, "camera-2"), []);
    assert_eq!(done(&mut stage, 901, "camera-2"), []);
    assert_eq!(done(&mut stage, 901, "receiver"), []);
    let wishes = done(&mut stage, 902, "camera-1");
    assert_eq!(reasons(&wishes), [StopReason::Done]);
    let (subject, event) = stage.published::<LifeEvent>(&wishes).remove(0);
    assert_eq!(subject, "lab.v1.r1.tel.lab.main.event");
    assert_eq!((event.at, event.text.as_str()), (at(902), "all requests are done"));
    assert_eq!(done(&mut stage, 903, "camera-1"), [], "it stops once");
}

#[test]
fn a_run_may_be_done_before_its_start_is_told() {
    let mut stage = stage(Stop::AllRequestsDone, &NODES[..1]);
    stage.tell(at(0), Event::Start);
    assert_eq!(done(&mut stage, 1, "camera-1"), [], "nothing is done before it has begun");
    ready(&mut stage, 2, "camera-1");
    assert_eq!(reasons(&done(&mut stage, 3, "camera-1")), [StopReason::Done]);
}

#[test]
fn a_run_without_senders_never_ends_by_itself() {
    let mut stage = stage(Stop::AllRequestsDone, &NODES[2..]);
    stage.tell(at(0), Event::Start);
    ready(&mut stage, 1, "receiver");
    assert_eq!(set(&timer(&mut stage, 501)), None);
    assert_eq!(done(&mut stage, 502, "receiver"), []);
    let wishes = stage.tell(at(9000), Event::Stop);
    assert_eq!((told(&wishes), reasons(&wishes)), (vec!["stopped".to_owned()], vec![]));
    assert_eq!(stage.tell(at(9001), Event::Stop), []);
}

#[test]
fn a_node_that_is_never_ready_is_named_after_thirty_tries() {
    let mut stage = stage(Stop::AllRequestsDone, &NODES);
    let mut wishes = stage.tell(at(0), Event::Start);
    ready(&mut stage, 1, "camera-1");
    let mut rounds = Vec::new();
    while let Some(next) = set(&wishes) {
        rounds.extend(stage.published::<Prepare>(&wishes).iter().map(|(_, p)| p.round));
        wishes = stage.tell(next, Event::Timer { key: NEXT, due: next });
    }
    assert_eq!(rounds, (1..=30).collect::<Vec<_>>());
    assert_eq!(reasons(&wishes), [StopReason::NotReady]);
    let (_, event) = stage.published::<LifeEvent>(&wishes).remove(0);
    assert_eq!(event.text, "not ready after 30 tries: camera-2, receiver");
    assert_eq!(ready(&mut stage, 40_000, "camera-2"), []);
}

#[test]
fn there_is_one_and_it_hears_loggers_and_engines() {
    let mut alone = stage(Stop::AllRequestsDone, &NODES);
    assert!(alone.hears("lab.v1.r1.ctl.camera-1.logger.ready"));
    assert!(alone.hears("lab.v1.r1.ctl.camera-1.host.done"));
    assert!(!alone.hears("lab.v1.r1.ctl.camera-1.logger.done"));
    for (count, first) in [(2, 0), (1, 1)] {
        let refusal = Experiment { count, first, ..Experiment::default() }.refusal::<Controller>(&ServiceParams {});
        assert_eq!(refusal.0, Some("count"));
    }
}
