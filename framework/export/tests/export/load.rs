//! Whether the load was offered, as the reports of a whole run tell it.

use rehearsal_core::messages::Metric;
use rehearsal_core::time::Span;
use rehearsal_export::verdict::Code;
use rehearsal_export::{BundleMeta, BundleWriter, Finished, Severity, Status};

use crate::support::{Node, Scratch, facts, meta, part, store};

fn planned(seconds: u64) -> BundleMeta {
    BundleMeta { planned: Some(Span::from_secs(seconds)), ..meta() }
}

fn grave(finished: &Finished) -> Vec<(Code, Severity)> {
    let reasons = finished.verdict.reasons.iter().filter(|r| r.severity > Severity::Note);
    reasons.map(|r| (r.code, r.severity)).collect()
}

#[test]
fn exchanges_that_wait_for_the_receiver_were_not_offered() {
    let scratch = Scratch::new("blocked");
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(20)).unwrap();
    let mut camera = Node::camera("camera");
    for second in 1..=20 {
        let mut report = camera.second(15, 60_000_000);
        camera.totals.generated += 10;
        report.groups[0].totals.generated += 10;
        report.groups[0].queue_length = second * 10;
        report.groups[0].histograms[3] = part(Metric::Blocked, &[300_000_000; 15]);
        store(&mut writer, report);
    }
    // the drain gives up what still waits
    camera.totals.aborted = 200;
    let finished = writer.finish(facts(20, &[&camera])).unwrap();
    let target = finished.summary.groups[0].target.unwrap();
    assert_eq!((target.seconds, target.expected, target.left), (20, Some(500.0), Some(300.0)));
    assert_eq!(target.achieved_per_second(), Some(15.0));
    assert_eq!(grave(&finished), [(Code::TargetSaturated, Severity::Invalid)]);
}

#[test]
fn a_sender_that_stops_sending_is_missed() {
    let scratch = Scratch::new("stall");
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(20)).unwrap();
    let mut camera = Node::camera("camera");
    for second in 0..20 {
        store(&mut writer, camera.second(if second < 10 { 25 } else { 0 }, 1_000_000));
    }
    let finished = writer.finish(facts(20, &[&camera])).unwrap();
    assert_eq!(grave(&finished), [(Code::RateMissed, Severity::Invalid)]);
}

#[test]
fn a_sender_that_is_done_early_is_not() {
    let scratch = Scratch::new("early");
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(20)).unwrap();
    let mut camera = Node::camera("camera");
    for second in 0..20 {
        let count = [25, 25, 25, 5].get(second).copied().unwrap_or(0);
        store(&mut writer, camera.second(count, 1_000_000));
    }
    let mut known = facts(20, &[&camera]);
    known.groups[0].target.as_mut().unwrap().requests = Some(80);
    let finished = writer.finish(known).unwrap();
    assert_eq!(grave(&finished), []);
    assert_eq!(finished.summary.groups[0].target.unwrap().seconds, 3, "the fourth was cut short");
}

#[test]
fn less_than_a_whole_second_is_not_judged() {
    let scratch = Scratch::new("short");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    store(&mut writer, camera.second(7, 1_000_000));
    let finished = writer.finish(facts(1, &[&camera])).unwrap();
    assert_eq!(finished.summary.groups[0].target.unwrap().expected, None);
    assert_eq!(finished.verdict.status, Status::Valid);
}

#[test]
fn an_interrupted_run_is_judged_by_what_it_did() {
    let scratch = Scratch::new("interrupted");
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(600)).unwrap();
    let mut camera = Node::camera("camera");
    for _ in 0..20 {
        store(&mut writer, camera.second(25, 1_000_000));
    }
    let mut known = facts(20, &[&camera]);
    known.interrupted = true;
    let finished = writer.finish(known).unwrap();
    assert_eq!(grave(&finished), [(Code::Interrupted, Severity::Degraded)]);
    assert_eq!(finished.exit_code, 0);
}

#[test]
fn closed_loops_have_no_target_to_miss() {
    let scratch = Scratch::new("closed");
    let mut writer = BundleWriter::create(&scratch.join("run"), planned(5)).unwrap();
    let mut camera = Node::camera("camera");
    for _ in 0..5 {
        store(&mut writer, camera.second(3, 300_000_000));
    }
    let mut known = facts(5, &[&camera]);
    known.groups[0].target.as_mut().unwrap().gap_ns = None;
    let finished = writer.finish(known).unwrap();
    assert_eq!(grave(&finished), []);
    assert!(finished.text().contains("closed loop"));
}
