//! Nodes are lost, return, or are started again; words of the life cycle are lost and said again.

use std::collections::BTreeMap;

use rehearsal_core::life::{Beat, NodeBack, NodeLost, OnLoss, Rejoin};
use rehearsal_core::steer::{PlannedSteer, Steer, Steering};

use super::*;

fn running(on_loss: OnLoss, stop: Stop) -> Stage {
    let control = vec![PlannedSteer { at: Span::from_secs(1), node: None, step: Steering::Pause }];
    let experiment = Experiment { stop, nodes: NODES.to_vec(), control, on_loss, ..Experiment::default() };
    let mut stage = experiment.build::<Controller>(&ServiceParams {}).expect("it builds");
    stage.tell(at(0), Event::Start);
    for (node, _) in NODES {
        ready(&mut stage, 1000, node);
    }
    timer(&mut stage, 1500);
    stage
}

fn lost(stage: &mut Stage, now: u64, node: &str, again: bool) -> Vec<Command> {
    let generated = BTreeMap::from([("main".to_owned(), 30)]);
    stage.say(at(now), NodeLost { node: node.into(), again, known_until: at(3500), generated })
}

fn beat(node: &str, incarnation: u32, stage: Far) -> Beat {
    Beat { node: node.into(), incarnation, stage, done: false, second: None, generated: BTreeMap::new() }
}

#[test]
fn a_count_driven_run_does_not_wait_for_a_lost_node() {
    let mut stage = running(OnLoss::Continue, Stop::AllRequestsDone);
    assert_eq!(reasons(&done(&mut stage, 3000, "camera-1")), []);
    assert_eq!(reasons(&lost(&mut stage, 4000, "camera-2", false)), [StopReason::Done]);
    let mut stage = running(OnLoss::Continue, Stop::AllRequestsDone);
    lost(&mut stage, 3000, "camera-2", false);
    stage.say(at(3500), NodeBack { node: "camera-2".into() });
    assert_eq!(reasons(&done(&mut stage, 4000, "camera-1")), [], "it is back, and has work left");
    assert_eq!(reasons(&done(&mut stage, 5000, "camera-2")), [StopReason::Done]);
}

#[test]
fn a_run_starts_without_a_node_that_was_lost_before() {
    for (on_loss, starts) in [(OnLoss::Continue, 1), (OnLoss::Abort, 0)] {
        let experiment = Experiment { nodes: NODES.to_vec(), on_loss, ..Experiment::default() };
        let mut stage = experiment.build::<Controller>(&ServiceParams {}).expect("it builds");
        stage.tell(at(0), Event::Start);
        ready(&mut stage, 1, "camera-1");
        ready(&mut stage, 2, "receiver");
        assert_eq!(messages::<StartAt>(&lost(&mut stage, 3, "camera-2", false)).len(), starts);
    }
}

#[test]
fn a_new_process_is_asked_for_and_told_where_the_run_is() {
    let mut stage = running(OnLoss::RestartNode, Stop::AllRequestsDone);
    let wishes = lost(&mut stage, 4000, "camera-1", true);
    assert_eq!((messages::<Prepare>(&wishes).len(), reasons(&wishes)), (1, vec![]));
    assert_eq!(reasons(&done(&mut stage, 4100, "camera-2")), [], "the lost one has not finished");
    assert_eq!(ready(&mut stage, 4200, "receiver"), [], "the others answer too");
    assert_eq!(messages::<Prepare>(&timer(&mut stage, 5000)).len(), 1, "once a second");
    let wishes = ready(&mut stage, 5600, "camera-1");
    let again = Rejoin {
        node: "camera-1".into(),
        at: at(1500),
        until: None,
        known_until: at(3500),
        from: at(5800),
        generated: BTreeMap::from([("main".to_owned(), 30)]),
    };
    assert_eq!(stage.published(&wishes), [("lab.v1.r1.ctl.lab.main.start".to_owned(), again.clone())]);
    assert_eq!(messages::<Steer>(&wishes).len(), 1, "it hears what was done to the load");
    assert_eq!(messages::<Prepare>(&timer(&mut stage, 6000)), [], "nobody is asked for any more");
    let wishes = stage.say(at(6500), beat("camera-1", 1, Far::Waiting));
    assert_eq!(messages::<Rejoin>(&wishes), [again], "who has not heard it is told again");
    assert_eq!(reasons(&done(&mut stage, 9000, "camera-1")), [StopReason::Done]);
}

#[test]
fn who_is_behind_is_told_again_what_it_missed() {
    let mut stage = running(OnLoss::Abort, Stop::After(Span::from_secs(60)));
    let wishes = stage.say_wire(at(2000), beat("camera-1", 0, Far::Waiting));
    assert_eq!(messages::<StartAt>(&wishes), [StartAt { at: at(1500), until: Some(at(61_500)) }]);
    assert_eq!(stage.say_wire(at(2001), beat("camera-1", 0, Far::Running)), []);
    assert_eq!(stage.say_wire(at(2002), beat("somebody", 0, Far::Waiting)), []);
    timer(&mut stage, 2500);
    timer(&mut stage, 61_500);
    let wishes = stage.say(at(62_000), beat("camera-2", 0, Far::Running));
    assert_eq!(reasons(&wishes), [StopReason::Duration]);
    assert_eq!(stage.say(at(62_001), beat("camera-2", 0, Far::Stopping)), []);
}

#[test]
fn a_new_process_that_missed_the_start_joins_late() {
    let experiment = Experiment { nodes: NODES.to_vec(), on_loss: OnLoss::RestartNode, ..Experiment::default() };
    let mut stage = experiment.build::<Controller>(&ServiceParams {}).expect("it builds");
    stage.tell(at(0), Event::Start);
    lost(&mut stage, 500, "camera-1", true);
    for (node, _) in NODES {
        ready(&mut stage, 1000, node);
    }
    timer(&mut stage, 1500);
    let wishes = stage.say(at(3000), beat("camera-1", 1, Far::Waiting));
    let again = messages::<Rejoin>(&wishes);
    assert_eq!((again[0].known_until, again[0].from), (at(1500), at(3200)), "all that was due until then was lost");
}

#[test]
fn the_end_of_the_senders_is_told_by_beats_too() {
    let mut stage = running(OnLoss::Abort, Stop::AllRequestsDone);
    done(&mut stage, 3000, "camera-1");
    let wishes = stage.say(at(4000), Beat { done: true, ..beat("camera-2", 0, Far::Running) });
    assert_eq!(reasons(&wishes), [StopReason::Done]);
}
