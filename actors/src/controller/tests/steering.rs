//! Somebody steers a run, by the file or by hand.

use rehearsal_core::steer::{Answer, Ask, PlannedSteer, STEER_LEAD, Steer, Steering};

use super::*;

/// A run of sixty seconds that began at 1.5 s, and what was wished for at its start.
fn running(control: Vec<PlannedSteer>) -> (Stage, Vec<Command>) {
    let experiment =
        Experiment { stop: Stop::After(Span::from_secs(60)), nodes: NODES.to_vec(), control, ..Experiment::default() };
    let mut stage = experiment.build::<Controller>(&ServiceParams {}).expect("it builds");
    stage.tell(at(0), Event::Start);
    let mut wishes = Vec::new();
    for (node, _) in NODES {
        wishes = ready(&mut stage, 1000, node);
    }
    (stage, wishes)
}

fn ask(stage: &mut Stage, now: u64, node: Option<&str>, step: Option<Steering>) -> (Answer, Vec<Command>) {
    let wishes = stage.say_wire(at(now), Ask { id: 7, node: node.map(str::to_owned), step });
    let (subject, answer) = stage.published::<Answer>(&wishes).remove(0);
    assert_eq!((subject.as_str(), answer.id), ("lab.v1.r1.ctl.lab.main.answer", 7));
    (answer, wishes)
}

fn planned(seconds: u64, node: Option<&str>, step: Steering) -> PlannedSteer {
    PlannedSteer { at: Span::from_secs(seconds), node: node.map(str::to_owned), step }
}

#[test]
fn what_is_planned_is_said_at_the_start_and_once_more_when_it_is_due() {
    let plan = vec![planned(1, None, Steering::Pause), planned(2, Some("camera"), Steering::Resume)];
    let (mut stage, wishes) = running(plan);
    let said = stage.published::<Steer>(&wishes);
    let first = Steer { number: 0, at: at(2500), node: None, step: Steering::Pause };
    assert_eq!(said[0], ("lab.v1.r1.ctl.lab.main.steer".to_owned(), first.clone()));
    assert_eq!((said.len(), said[1].1.at, set(&wishes)), (2, at(3500), Some(at(1500))));
    let wishes = timer(&mut stage, 1500);
    assert_eq!((told(&wishes), set(&wishes)), (vec!["started".to_owned()], Some(at(2500))));
    let wishes = timer(&mut stage, 2500);
    assert_eq!(
        (messages::<Steer>(&wishes), told(&wishes), set(&wishes)),
        (vec![first], vec!["paused".to_owned()], Some(at(3500)))
    );
    let wishes = timer(&mut stage, 3500);
    assert_eq!(
        (told(&wishes), set(&wishes)),
        (vec!["resumed".to_owned()], Some(at(61_500))),
        "then the end comes next"
    );
    assert_eq!(messages::<LifeEvent>(&wishes)[0].text, "camera: traffic goes on");
}

#[test]
fn a_planned_end_is_the_end() {
    let (mut stage, wishes) = running(vec![planned(5, None, Steering::Stop)]);
    assert_eq!(messages::<Steer>(&wishes)[0].at, at(6500), "no schedule goes beyond it");
    timer(&mut stage, 1500);
    let wishes = timer(&mut stage, 6500);
    assert_eq!((reasons(&wishes), told(&wishes)), (vec![StopReason::Planned], vec!["stopped".to_owned()]));
    assert_eq!(set(&wishes), None);
}

#[test]
fn somebody_asks_and_everybody_is_told_ahead() {
    let (mut stage, _) = running(Vec::new());
    timer(&mut stage, 1500);
    let (answer, wishes) = ask(&mut stage, 5000, None, Some(Steering::Factor(0.5)));
    assert_eq!(
        (answer.accepted, answer.text.as_str()),
        (true, "0.5 times the rate of the experiment file from 3.6 s of the run on")
    );
    let effect = at(5000) + STEER_LEAD;
    assert_eq!((messages::<Steer>(&wishes)[0].at, set(&wishes), told(&wishes)), (effect, Some(effect), vec![]));
    let wishes = timer(&mut stage, 5100);
    assert_eq!((told(&wishes), set(&wishes)), (vec!["rate-changed".to_owned()], Some(at(61_500))));
    let (answer, wishes) = ask(&mut stage, 6000, None, None);
    assert_eq!(answer.text, "runs for 4.5 s, 0.5 times the rate of the experiment file");
    assert_eq!(wishes.len(), 1, "an answer, and nothing else");
    let (answer, wishes) = ask(&mut stage, 7000, None, Some(Steering::Stop));
    assert_eq!((answer.accepted, reasons(&wishes)), (true, vec![StopReason::Interrupted]));
    let (answer, _) = ask(&mut stage, 7001, None, Some(Steering::Pause));
    assert_eq!((answer.accepted, answer.text.as_str()), (false, "the run is stopping"));
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let (mut stage, _) = running(Vec::new());
    timer(&mut stage, 1500);
    for (node, step, text) in [
        (None, Steering::Factor(0.0), "a factor is above zero, not 0; to send nothing, `pause`"),
        (None, Steering::Factor(f64::NAN), "a factor is above zero, not NaN; to send nothing, `pause`"),
        (Some("sensor"), Steering::Pause, "there is no node `sensor`; there are camera-1, camera-2, receiver"),
    ] {
        let (answer, wishes) = ask(&mut stage, 2000, node, Some(step));
        assert_eq!((answer.accepted, answer.text.as_str(), wishes.len()), (false, text, 1));
    }
    let mut early = super::stage(Stop::AllRequestsDone, &NODES);
    early.tell(at(0), Event::Start);
    let (answer, _) = ask(&mut early, 1, None, Some(Steering::Pause));
    assert_eq!(answer.text, "traffic has not begun: not every node is ready");
    let (answer, wishes) = ask(&mut early, 2, None, Some(Steering::Stop));
    assert_eq!((answer.accepted, reasons(&wishes)), (true, vec![StopReason::Interrupted]));
}

#[test]
fn a_run_is_steered_only_so_often() {
    let (mut stage, _) = running(Vec::new());
    timer(&mut stage, 1500);
    let accepted = (0..1100).filter(|i| ask(&mut stage, 2000 + i, None, Some(Steering::Pause)).0.accepted).count();
    assert_eq!(accepted, 1024);
}
