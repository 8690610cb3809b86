//! What a bundle says when telemetry is lost, late, doubled or wrong.

use rehearsal_core::messages::{HistogramPart, Metric};
use rehearsal_core::parts::tally::Tally;
use rehearsal_export::verdict::Code;
use rehearsal_export::{BundleWriter, Finished, Severity, Status};
use serde_bytes::ByteBuf;

use crate::support::{Node, Scratch, facts, meta, rows, store, text, try_store, whole};

fn has(finished: &Finished, code: Code) -> Option<Severity> {
    finished.verdict.reasons.iter().find(|r| r.code == code).map(|r| r.severity)
}

fn events(finished: &Finished) -> Vec<(String, String)> {
    let rows = rows(&finished.path.join("events.parquet"));
    rows.iter().map(|row| (text(row, "kind").to_owned(), text(row, "text").to_owned())).collect()
}

#[test]
fn a_missing_report_loses_times_but_no_count() {
    let scratch = Scratch::new("gap");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    for second in 0..10 {
        let report = camera.second(25, 1_000_000);
        if !(4..6).contains(&second) {
            store(&mut writer, report);
        }
    }
    let finished = writer.finish(facts(10, &[&camera])).unwrap();
    assert_eq!(
        events(&finished),
        [("gap".to_owned(), "no report of seconds 4 to 5; the next row holds their counts".to_owned())]
    );
    let rows = rows(&finished.path.join("series.parquet"));
    let sent: Vec<_> = rows.iter().filter_map(|row| whole(row, "sent")).collect();
    assert_eq!(sent, [25, 25, 25, 25, 75, 25, 25, 25]);
    assert_eq!(finished.summary.total.metrics["response"].count, 200);
    assert_eq!(finished.summary.telemetry.missing_seconds, 2);
    assert_eq!(has(&finished, Code::SnapshotsMissing), Some(Severity::Degraded));
    assert_eq!(has(&finished, Code::CountersBroken), None, "an incomplete count of times is no contradiction");
    assert!(finished.summary.checks.iter().any(|check| check.holds.is_none()));
}

#[test]
fn a_killed_node_is_named_and_what_it_did_not_report_has_a_row() {
    let scratch = Scratch::new("kill");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let (mut dead, mut alive) = (Node::camera("camera-1"), Node::camera("camera-2"));
    for second in 0..20 {
        store(&mut writer, alive.second(25, 1_000_000));
        if second < 10 {
            store(&mut writer, dead.second(25, 1_000_000));
        }
    }
    let mut known = facts(20, &[&dead, &alive]);
    known.groups[0].tally = None;
    let finished = writer.finish(known).unwrap();
    assert_eq!(finished.summary.groups[0].measures.totals.generated, 250, "all but the last snapshot is known");
    assert_eq!(has(&finished, Code::NodeLost), Some(Severity::Invalid));
    assert_eq!(finished.verdict.reasons[0].node.as_deref(), Some("camera-1"));
    assert_eq!(finished.exit_code, 20);
}

#[test]
fn what_no_report_holds_is_a_row_of_its_own() {
    let scratch = Scratch::new("rest");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    for _ in 0..3 {
        store(&mut writer, camera.second(25, 1_000_000));
    }
    let _lost = camera.second(10, 1_000_000);
    let finished = writer.finish(facts(4, &[&camera])).unwrap();
    let rows = rows(&finished.path.join("series.parquet"));
    let last = rows.last().unwrap();
    assert_eq!((whole(last, "second"), whole(last, "generated"), whole(last, "open")), (Some(3), Some(10), Some(0)));
    assert_eq!(events(&finished)[0].0, "unreported");
    assert_eq!(finished.summary.total.totals.generated, 85);
    assert_eq!(finished.verdict.status, Status::Valid);
}

#[test]
fn doubled_and_swapped_reports_change_nothing() {
    let scratch = Scratch::new("order");
    let mut straight = BundleWriter::create(&scratch.join("straight"), meta()).unwrap();
    let mut crooked = BundleWriter::create(&scratch.join("crooked"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    let reports: Vec<_> = (0..9).map(|i| camera.second(20 + i, 1_000_000 * (i + 1))).collect();
    for report in &reports {
        store(&mut straight, report.clone());
    }
    for at in [2, 0, 1, 1, 5, 4, 3, 0, 8, 8, 7, 6] {
        store(&mut crooked, reports[at].clone());
    }
    let straight = straight.finish(facts(9, &[&camera])).unwrap();
    let mut crooked = crooked.finish(facts(9, &[&camera])).unwrap();
    assert_eq!(crooked.summary.telemetry.duplicates, 3);
    crooked.summary.telemetry.duplicates = 0;
    assert_eq!(crooked.summary, straight.summary);
    for file in ["series.parquet", "latency.hlog", "events.parquet"] {
        let read = |f: &Finished| std::fs::read(f.path.join(file)).unwrap();
        assert_eq!(read(&crooked), read(&straight), "{file}");
    }
}

#[test]
fn counters_that_contradict_each_other_are_invalid() {
    type Spoil = fn(&mut Tally);
    let broken: [(&str, Spoil); 2] =
        [("settled", |t| t.success = t.generated + 1), ("went backwards", |t| t.attempts -= 10)];
    for (word, spoil) in broken {
        let scratch = Scratch::new("broken");
        let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
        let mut camera = Node::camera("camera");
        store(&mut writer, camera.second(25, 1_000_000));
        spoil(&mut camera.totals);
        store(&mut writer, camera.report(Vec::new()));
        let finished = writer.finish(facts(2, &[&camera])).unwrap();
        assert_eq!(has(&finished, Code::CountersBroken), Some(Severity::Invalid), "{word}");
        let told = events(&finished);
        assert!(told.iter().any(|(kind, text)| kind == "broken-counters" && text.contains(word)), "{told:?}");
    }
}

#[test]
fn a_time_that_was_recorded_twice_is_a_contradiction() {
    let scratch = Scratch::new("twice");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    let mut report = camera.second(25, 1_000_000);
    report.groups[0].histograms[0] = crate::support::part(Metric::Response, &[1_000_000; 26]);
    store(&mut writer, report);
    let finished = writer.finish(facts(1, &[&camera])).unwrap();
    let reason = &finished.verdict.reasons[0];
    assert_eq!((reason.code, reason.severity), (Code::CountersBroken, Severity::Invalid));
    assert!(reason.text.contains("camera/main: 26 times for 25"), "{}", reason.text);
}

#[test]
fn garbage_is_refused_and_leaves_no_trace() {
    let scratch = Scratch::new("garbage");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    let good = camera.second(25, 1_000_000);
    let mut bad = good.clone();
    bad.groups[0].histograms[1] = HistogramPart { metric: Metric::Service, v2: ByteBuf::from(vec![1, 2, 3]) };
    assert!(try_store(&mut writer, bad).unwrap_err().to_string().contains("`service` cannot be decoded"));
    let mut bad = good.clone();
    bad.node = "no such, name".to_owned();
    assert!(try_store(&mut writer, bad).unwrap_err().to_string().contains("is no name"));
    let mut bad = good.clone();
    bad.second = u32::MAX;
    assert!(try_store(&mut writer, bad).unwrap_err().to_string().contains("beyond the end of time"));
    store(&mut writer, good);
    let finished = writer.finish(facts(1, &[&camera])).unwrap();
    assert_eq!((finished.summary.telemetry.reports, finished.summary.total.totals.generated), (1, 25));
    assert_eq!(finished.verdict.status, Status::Valid);
}
