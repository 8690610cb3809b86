//! What a bundle says of nodes that were lost on the way, and of a load that was steered.

use std::collections::BTreeMap;

use rehearsal_core::life::{LossWindow, OnLoss};
use rehearsal_core::messages::LifeEvent;
use rehearsal_core::parts::tally::Tally;
use rehearsal_core::steer::{Steer, Steering};
use rehearsal_core::time::{Span, Time};
use rehearsal_core::{Body, sink::Sink as _};
use rehearsal_export::verdict::Code;
use rehearsal_export::{BundleMeta, BundleWriter, Finished, RunFacts, Severity, Status};

use crate::support::{Node, Scratch, facts, meta, rows, store, text, whole};

const START: Time = Time::from_nanos(1_000_000_000);

fn after(seconds: u64) -> Time {
    START + Span::from_secs(seconds)
}

fn planned(seconds: u64) -> BundleMeta {
    BundleMeta { planned: Some(Span::from_secs(seconds)), ..meta() }
}

fn window(node: &str, from: u64, to: Option<u64>, restarted: bool) -> LossWindow {
    LossWindow {
        node: node.to_owned(),
        from: after(from),
        to: to.map(after),
        restarted,
        why: "was not heard for 5 s".to_owned(),
    }
}

fn grave(finished: &Finished) -> Vec<(Code, Severity)> {
    let reasons = finished.verdict.reasons.iter().filter(|r| r.severity > Severity::Note);
    reasons.map(|r| (r.code, r.severity)).collect()
}

/// A camera that dies at 10 s with five exchanges under way, and whose next process begins at 13 s.
fn restarted(scratch: &Scratch, known: impl FnOnce(&mut RunFacts)) -> Finished {
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(20)).unwrap();
    let mut first = Node::camera("camera");
    for second in 0..10 {
        let mut report = first.second(25, 1_000_000);
        if second == 9 {
            for totals in [&mut first.totals, &mut report.groups[0].totals] {
                totals.success -= 5;
            }
        }
        store(&mut writer, report);
    }
    let mut second = Node { second: 13, ..Node::camera("camera") };
    for _ in 13..20 {
        let mut report = second.second(25, 1_000_000);
        second.totals.away = 75;
        report.groups[0].totals.away = 75;
        report.host.as_mut().unwrap().incarnation = 1;
        store(&mut writer, report);
    }
    let mut facts = facts(20, &[&second]);
    facts.on_loss = OnLoss::RestartNode;
    facts.losses = vec![window("camera", 10, Some(13), true)];
    facts.incarnations = BTreeMap::from([("camera".to_owned(), 1)]);
    known(&mut facts);
    writer.finish(facts).unwrap()
}

#[test]
fn the_processes_of_a_node_add_up() {
    let scratch = Scratch::new("restart");
    let finished = restarted(&scratch, |_| {});
    let totals = finished.summary.groups[0].measures.totals;
    assert_eq!((totals.generated, totals.success, totals.aborted, totals.away), (425, 420, 5, 75));
    assert_eq!(totals.generated + totals.away, 500, "what was due was generated, or due while the node was lost");
    assert!(totals.consistent() && totals.open() == 0);
    assert_eq!(finished.summary.groups[0].measures.counts["frames"], 425);
    let rows = rows(&finished.path.join("series.parquet"));
    let of = |name: &str| rows.iter().filter_map(|row| whole(row, name)).sum::<i64>();
    assert_eq!((of("generated"), of("success")), (425, 420), "the rows sum up to the totals");
    assert_eq!(grave(&finished), [(Code::NodeLost, Severity::Degraded), (Code::SnapshotsMissing, Severity::Degraded)]);
    let reason = &finished.verdict.reasons[0];
    assert_eq!(
        (reason.text.as_str(), reason.value),
        ("camera was not heard for 5 s: lost from 10.0 s to 13.0 s, when a new process of it took part", Some(3.0))
    );
}

#[test]
fn a_new_process_that_never_reported_adds_its_final_counters() {
    let scratch = Scratch::new("brief");
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(10)).unwrap();
    let mut first = Node::camera("camera");
    (0..9).for_each(|_| store(&mut writer, first.second(25, 1_000_000)));
    let mut last = Node::camera("camera");
    last.totals = Tally { generated: 3, attempts: 3, success: 3, ..Tally::default() };
    let mut facts = facts(10, &[&last]);
    facts.incarnations = BTreeMap::from([("camera".to_owned(), 2)]);
    facts.on_loss = OnLoss::RestartNode;
    facts.losses = vec![window("camera", 9, Some(9), true)];
    let finished = writer.finish(facts).unwrap();
    assert_eq!(finished.summary.total.totals.generated, 228);
    assert!(!grave(&finished).iter().any(|(code, _)| *code == Code::CountersBroken), "{:?}", finished.verdict);
}

#[test]
fn what_was_under_way_in_a_node_that_never_came_back_is_aborted() {
    let scratch = Scratch::new("gone");
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(20)).unwrap();
    let (mut dead, mut alive) = (Node::camera("camera-1"), Node::camera("camera-2"));
    for second in 0..20 {
        store(&mut writer, alive.second(25, 1_000_000));
        if second < 10 {
            let mut report = dead.second(25, 1_000_000);
            if second == 9 {
                report.groups[0].totals.success -= 2;
            }
            store(&mut writer, report);
        }
    }
    let mut facts = facts(20, &[&dead, &alive]);
    facts.groups[0].tally = None;
    facts.lost_nodes = vec!["camera-1".to_owned()];
    facts.on_loss = OnLoss::Continue;
    facts.losses = vec![window("camera-1", 10, None, false)];
    let finished = writer.finish(facts).unwrap();
    let totals = finished.summary.groups[0].measures.totals;
    assert_eq!((totals.generated, totals.success, totals.aborted, totals.open()), (250, 248, 2, 0));
    assert_eq!(grave(&finished), [(Code::NodeLost, Severity::Degraded)]);
    let events = rows(&finished.path.join("events.parquet"));
    assert!(events.iter().any(|row| text(row, "kind") == "aborted" && text(row, "text").starts_with("2 exchanges")));
}

#[test]
fn the_policy_says_how_grave_a_loss_is() {
    for (policy, severity) in [(OnLoss::Abort, Severity::Invalid), (OnLoss::Continue, Severity::Degraded)] {
        let scratch = Scratch::new("policy");
        let finished = restarted(&scratch, |facts| {
            facts.on_loss = policy;
            facts.lost_nodes = vec!["receiver".to_owned()];
        });
        let lost = finished.verdict.reasons.iter().filter(|r| r.code == Code::NodeLost);
        assert!(lost.clone().all(|r| r.severity == severity) && lost.count() == 2, "{:?}", finished.verdict.reasons);
    }
}

#[test]
fn a_load_that_was_steered_is_judged_by_what_was_asked_for() {
    let steer = |number, at, step| Steer { number, at: after(at), node: None, step };
    let steers =
        vec![steer(0, 5, Steering::Pause), steer(1, 10, Steering::Resume), steer(2, 15, Steering::Factor(2.0))];
    for (late, status) in [(50, Status::Valid), (30, Status::Invalid)] {
        let scratch = Scratch::new("steered");
        let mut writer = BundleWriter::create(&scratch.join("run"), planned(20)).unwrap();
        let mut camera = Node::camera("camera");
        for second in 0..20 {
            let count = match second {
                5..10 => 0,
                15.. => late,
                _ => 25,
            };
            store(&mut writer, camera.second(count, 1_000_000));
        }
        let kind = "paused".to_owned();
        writer.store(&Body::new(LifeEvent { at: after(5), kind, ..LifeEvent::default() })).unwrap();
        let finished = writer.finish(RunFacts { steers: steers.clone(), ..facts(20, &[&camera]) }).unwrap();
        assert_eq!(finished.summary.groups[0].target.unwrap().expected, Some(500.0));
        assert_eq!(finished.verdict.status, status, "{:?}", finished.verdict.reasons);
        assert!(finished.verdict.reasons.iter().any(|r| r.code == Code::RateChanged && r.severity == Severity::Note));
    }
}
