//! What a usual run leaves behind.

use std::collections::BTreeMap;

use rehearsal_core::message::Body;
use rehearsal_core::messages::{LifeEvent, Metric, Ready};
use rehearsal_core::sink::Sink;
use rehearsal_core::time::{Span, Time};
use rehearsal_export::{BundleMeta, BundleWriter, Engine, Judgement, Op, StandIn, Status, Threshold};

use crate::support::{Node, Scratch, facts, meta, part, rows, store, text, usual_run, whole};

#[test]
fn a_usual_run_is_summed_up() {
    let scratch = Scratch::new("usual");
    let finished = usual_run(&scratch, "run", 60, meta());
    let s = &finished.summary;
    assert_eq!(finished.verdict.status, Status::Valid, "{:?}", finished.verdict.reasons);
    assert_eq!((s.total.totals.generated, s.total.totals.served), (3000, 3000));
    assert_eq!(s.groups.len(), 3);
    let camera = s.templates.iter().find(|t| t.template == "camera").unwrap();
    assert_eq!((camera.nodes, camera.measures.window.success), (2, 3000));
    assert_eq!(camera.measures.metrics["response"].count, 3000);
    let target = camera.target.unwrap();
    assert_eq!((target.per_second, target.seconds, target.expected), (Some(50.0), 59, Some(2950.0)));
    assert_eq!(target.left, Some(2950.0));
    assert_eq!(camera.measures.per_second.success, 50.0);
    assert_eq!(camera.measures.counts["frames"], 3000);
    assert!(s.checks.iter().all(|check| check.holds == Some(true)), "{:?}", s.checks);
    assert_eq!((s.telemetry.reports, s.telemetry.missing_seconds), (180, 0));
    assert_eq!(s.nodes.len(), 3);
    assert_eq!(s.nodes[0].cpu_percent_mean, Some(12.5));
}

#[test]
fn percentiles_of_a_template_are_merged_not_averaged() {
    let scratch = Scratch::new("merged");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let (mut slow, mut fast) = (Node::camera("camera-1"), Node::camera("camera-2"));
    store(&mut writer, slow.second(10, 900_000_000));
    store(&mut writer, fast.second(990, 1_000_000));
    let s = writer.finish(facts(1, &[&slow, &fast])).unwrap().summary;
    let response = &s.templates[0].measures.metrics["response"];
    // 10 of 1000 are slow: p99 is still the fast value, p999 is the slow one; an average would be neither
    assert!((999_000..1_001_000).contains(&response.p99_ns.unwrap()), "{response:?}");
    assert!((899_000_000..901_000_000).contains(&response.p999_ns.unwrap()), "{response:?}");
    assert_eq!((response.count, s.total.metrics["response"].count), (1000, 1000));
}

#[test]
fn the_series_has_a_row_per_second_and_group_and_host() {
    let scratch = Scratch::new("series");
    let finished = usual_run(&scratch, "run", 5, BundleMeta { csv: true, ..meta() });
    let rows = rows(&finished.path.join("series.parquet"));
    assert_eq!(rows.len(), 5 * 3 * 2);
    let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
    for row in &rows {
        let host = text(row, "actor") == "host";
        assert_eq!(whole(row, "sent").is_none(), host);
        assert_eq!(whole(row, "memory_bytes").is_some(), host);
        assert_eq!(whole(row, "throttled_ns"), None, "unknown, not zero");
        let key = (text(row, "node").to_owned(), text(row, "kind").to_owned());
        *sums.entry(key).or_default() += whole(row, "sent").unwrap_or(0);
        let handling = whole(row, "handling_p99_ns");
        assert_eq!(handling.is_some(), text(row, "kind") == "receiver");
    }
    assert_eq!(sums[&("camera-1".to_owned(), "camera".to_owned())], 125);
    assert_eq!(sums[&("receiver".to_owned(), "receiver".to_owned())], 0);

    let csv = std::fs::read_to_string(finished.path.join("series.csv")).unwrap();
    assert_eq!(csv.lines().count(), 31);
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let names: Vec<&str> = rows[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(head, names);
    assert!(csv.lines().all(|line| line.split(',').count() == names.len()));
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let scratch = Scratch::new("bytes");
    let on = |machine: &str, created| BundleMeta {
        machine: Some(machine.to_owned()),
        created_unix_ns: Some(created),
        csv: true,
        ..meta()
    };
    let a = usual_run(&scratch, "a", 20, on("laptop", 1));
    let b = usual_run(&scratch, "b", 20, on("server", 2));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&a.path).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let read = |path: &std::path::Path| std::fs::read(path.join(&name)).unwrap();
        assert_eq!(read(&a.path), read(&b.path), "{name}");
        names.push(name);
    }
    names.sort();
    let expected = [
        "events.parquet",
        "experiment.toml",
        "latency.hlog",
        "manifest.json",
        "series.csv",
        "series.parquet",
        "summary.json",
        "verdict.json",
    ];
    assert_eq!(names, expected);

    let emulated =
        usual_run(&scratch, "c", 20, BundleMeta { engine: Engine::Emulate, ..on("laptop", 1_700_000_000_000_000_000) });
    let hlog = std::fs::read_to_string(emulated.path.join("latency.hlog")).unwrap();
    assert!(hlog.starts_with("#[StartTime: 1700000001.000 "), "created, then a second until traffic");
}

#[test]
fn warm_up_and_cool_down_are_in_the_series_but_not_in_the_summary() {
    let scratch = Scratch::new("window");
    let trimmed = BundleMeta {
        warmup: Span::from_secs(2),
        cooldown: Span::from_millis(500),
        planned: Some(Span::from_secs(10)),
        ..meta()
    };
    let finished = usual_run(&scratch, "run", 10, trimmed);
    let s = &finished.summary;
    assert_eq!((s.window.from_second, s.window.to_second, s.window.seconds), (2, 9, 7.0));
    assert_eq!((s.total.totals.generated, s.total.window.generated), (500, 350));
    assert_eq!(s.total.metrics["response"].count, 350);
    assert_eq!(s.total.per_second.generated, 50.0);
    assert_eq!(s.groups[0].target.unwrap().seconds, 7);
    let text = finished.text();
    let footer = "\ncounts are of the measured seconds 2 to 9: what came due in them, and what ended in them\n";
    assert!(text.contains(footer), "{text}");
    assert_eq!(rows(&finished.path.join("series.parquet")).len(), 60);
}

#[test]
fn events_tell_their_time_since_the_start_of_traffic() {
    let scratch = Scratch::new("events");
    let mut writer = BundleWriter::create(&scratch.join("run"), meta()).unwrap();
    let mut camera = Node::camera("camera");
    let event = |at_ms: u64, kind: &str| LifeEvent {
        at: Time::ZERO + Span::from_millis(at_ms),
        kind: kind.to_owned(),
        node: "camera".to_owned(),
        actor: "main".to_owned(),
        text: format!("it is {kind}"),
        ..LifeEvent::default()
    };
    writer.store(&Body::new(event(400, "prepared"))).unwrap();
    store(&mut writer, camera.second(25, 1_000_000));
    writer.store(&Body::new(event(3_500, "fault"))).unwrap();
    let error = writer.store(&Body::new(Ready { node: "camera".to_owned() })).unwrap_err();
    assert_eq!(error.to_string(), "cannot store a record: a bundle keeps `node-report` and `life-event` only");
    let finished = writer.finish(facts(1, &[&camera])).unwrap();
    let rows = rows(&finished.path.join("events.parquet"));
    let told: Vec<_> =
        rows.iter().map(|r| (whole(r, "at_ns"), whole(r, "second"), text(r, "kind").to_owned())).collect();
    let expected =
        [(Some(-600_000_000), Some(-1), "prepared".to_owned()), (Some(2_500_000_000), Some(2), "fault".to_owned())];
    assert_eq!(told, expected);
    assert_eq!(finished.verdict.status, Status::Invalid, "a fault that an actor reported is a fault of the run");
    assert_eq!(finished.exit_code, 20);
}

#[test]
fn thresholds_are_held_against_the_measured_seconds() {
    let scratch = Scratch::new("thresholds");
    let threshold = |scope: Option<&str>, metric: &str, stat: &str, op, value| Threshold {
        text: format!("{metric}.{stat}"),
        scope: scope.map(str::to_owned),
        metric: metric.to_owned(),
        stat: stat.to_owned(),
        op,
        value,
        abort_after_ns: None,
    };
    let thresholds = vec![
        threshold(None, "response", "p99", Op::Less, 100e6),
        threshold(None, "lost", "ratio", Op::Less, 0.001),
        threshold(Some("camera"), "success", "rate", Op::GreaterOrEqual, 50.0),
        threshold(Some("camera-1/main"), "generated", "count", Op::Equal, 500.0),
        threshold(Some("receiver"), "handling", "p50", Op::Less, 1e6),
        threshold(Some("nobody"), "response", "p99", Op::Less, 1e9),
        threshold(Some("receiver"), "response", "p99", Op::Less, 1e9),
    ];
    let finished = usual_run(&scratch, "run", 20, BundleMeta { thresholds, ..meta() });
    let results: Vec<String> = finished.thresholds.iter().map(|t| format!("{:?}", t.result)).collect();
    assert_eq!(results, ["Pass", "Pass", "Pass", "Pass", "Fail", "Unknown", "Unknown"]);
    assert_eq!(finished.thresholds[2].measured, Some(50.0));
    assert_eq!(finished.exit_code, 10);
}

#[test]
fn the_largest_value_that_stands_in_for_a_percentile_is_named() {
    let scratch = Scratch::new("stand-in");
    let p99 = |value| Threshold {
        text: format!("lag.p99 <{value}"),
        scope: None,
        metric: "lag".to_owned(),
        stat: "p99".to_owned(),
        op: Op::Less,
        value,
        abort_after_ns: None,
    };
    let judged = |name: &str, values: &[u64]| {
        let meta = BundleMeta { thresholds: vec![p99(3e6), p99(1e6)], ..meta() };
        let mut writer = BundleWriter::create(&scratch.join(name), meta).unwrap();
        let mut camera = Node::camera("camera");
        camera.totals.generated = values.len() as u64;
        camera.totals.attempts = values.len() as u64;
        store(&mut writer, camera.report(vec![part(Metric::Lag, values)]));
        writer.finish(facts(1, &[&camera])).unwrap()
    };
    let few = judged("few", &[2_000_000; 57]);
    let [holds, fails] = few.thresholds.as_slice() else { panic!("two thresholds") };
    assert_eq!(holds.result, Judgement::Pass);
    assert_eq!(holds.stand_in, Some(StandIn { stat: "max".to_owned(), count: 57 }));
    assert_eq!((fails.result, fails.measured, &fails.stand_in), (Judgement::Unknown, None, &None));
    assert!(few.text().contains("max 2.01 ms (of 57 values)"), "{}", few.text());
    let many = judged("many", &[2_000_000; 100]);
    assert!(many.thresholds.iter().all(|t| t.measured.is_some() && t.stand_in.is_none()), "{:?}", many.thresholds);
    assert!(!many.text().contains("values)"), "{}", many.text());
}

#[test]
fn the_drain_belongs_to_the_run_but_not_to_a_window() {
    // 25 a second come due for four seconds, each a second before its answer, so the fifth second has answers alone
    let outcome = |warmup: u64| {
        let scratch = Scratch::new("drain");
        let success = |stat: &str| Threshold {
            text: format!("success.{stat}"),
            scope: None,
            metric: "success".to_owned(),
            stat: stat.to_owned(),
            op: Op::Equal,
            value: if stat == "rate" { 25.0 } else { 1.0 },
            abort_after_ns: None,
        };
        let thresholds = vec![success("rate"), success("ratio")];
        let meta = BundleMeta { warmup: Span::from_secs(warmup), thresholds, ..meta() };
        let mut writer = BundleWriter::create(&scratch.join("run"), meta).unwrap();
        let mut camera = Node::camera("camera");
        for second in 0..5 {
            let t = &mut camera.totals;
            let (due, answered) = (if second < 4 { 25 } else { 0 }, if second > 0 { 25 } else { 0 });
            (t.generated, t.attempts, t.success) = (t.generated + due, t.attempts + due, t.success + answered);
            let of = |metric, count: u64| part(metric, &vec![1_000_000; usize::try_from(count).unwrap()]);
            let times = vec![of(Metric::Response, answered), of(Metric::Service, answered), of(Metric::Lag, due)];
            let report = camera.report(times);
            store(&mut writer, report);
            camera.second += 1;
        }
        let finished = writer.finish(facts(4, &[&camera])).unwrap();
        let results = finished.thresholds.iter().map(|t| t.measured.unwrap()).collect::<Vec<_>>();
        let window = finished.summary.window;
        (window.to_second, window.seconds, finished.summary.total.metrics["response"].count, results)
    };
    assert_eq!(outcome(0), (5, 4.0, 100, vec![25.0, 1.0]));
    assert_eq!(outcome(1), (4, 3.0, 75, vec![25.0, 1.0]));
}

#[test]
fn what_is_stopped_by_us_belongs_to_the_drain() {
    let scratch = Scratch::new("stopped");
    let trimmed = BundleMeta { warmup: Span::from_secs(1), ..meta() };
    let mut writer = BundleWriter::create(&scratch.join("run"), trimmed).unwrap();
    let mut camera = Node::camera("camera");
    store(&mut writer, camera.second(25, 1_000_000));
    let mut last = camera.second(25, 1_000_000);
    // a queue is given up in the instant in which the last second ends
    for totals in [&mut camera.totals, &mut last.groups[0].totals] {
        (totals.generated, totals.aborted) = (totals.generated + 7, 7);
    }
    store(&mut writer, last);
    let finished = writer.finish(facts(2, &[&camera])).unwrap();
    let measures = &finished.summary.templates[0].measures;
    assert_eq!((measures.window.generated, measures.window.aborted, measures.totals.aborted), (32, 0, 7));
    assert!(finished.text().contains("what ended in them; 7 exchanges were stopped at the end of the run\n"));
}

#[test]
fn nothing_settled_is_no_ratio_of_zero() {
    let scratch = Scratch::new("unsettled");
    let lost = Threshold {
        text: "lost.ratio".to_owned(),
        scope: None,
        metric: "lost".to_owned(),
        stat: "ratio".to_owned(),
        op: Op::Less,
        value: 0.01,
        abort_after_ns: None,
    };
    let mut writer =
        BundleWriter::create(&scratch.join("run"), BundleMeta { thresholds: vec![lost], ..meta() }).unwrap();
    let mut camera = Node::camera("camera");
    camera.totals.generated = 50;
    store(&mut writer, camera.report(Vec::new()));
    camera.totals.aborted = 50;
    let finished = writer.finish(facts(1, &[&camera])).unwrap();
    assert_eq!((finished.thresholds[0].measured, finished.thresholds[0].result), (None, Judgement::Unknown));
    let text = finished.text();
    assert!(text.contains("sender       generated  success  lost  aborted    rate"), "{text}");
    let reasons: Vec<_> = finished.verdict.reasons.iter().map(|r| r.code.word()).collect();
    assert_eq!(reasons, ["no_success", "short_run"]);
}

#[test]
fn datagrams_are_judged_over_the_whole_run() {
    // 100 datagrams, of which the books learn only at the end, in the cool-down, that 5 were lost
    let scratch = Scratch::new("datagrams");
    let lost = |op, value| Threshold {
        text: "lost.ratio".to_owned(),
        scope: None,
        metric: "lost".to_owned(),
        stat: "ratio".to_owned(),
        op,
        value,
        abort_after_ns: None,
    };
    let thresholds = vec![lost(Op::Less, 0.04), lost(Op::Less, 0.06)];
    let trimmed = BundleMeta { cooldown: Span::from_secs(1), thresholds, ..meta() };
    let mut writer = BundleWriter::create(&scratch.join("run"), trimmed).unwrap();
    let mut camera = Node::camera("camera");
    for _ in 0..4 {
        let t = &mut camera.totals;
        (t.generated, t.attempts, t.datagrams_sent) = (t.generated + 25, t.attempts + 25, t.datagrams_sent + 25);
        let lag = part(Metric::Lag, &[0; 25]);
        store(&mut writer, camera.report(vec![lag]));
        camera.second += 1;
    }
    let t = &mut camera.totals;
    (t.success, t.lost, t.unacknowledged) = (95, 5, 5);
    store(&mut writer, camera.report(Vec::new()));
    let finished = writer.finish(facts(4, &[&camera])).unwrap();
    let results: Vec<_> = finished.thresholds.iter().map(|t| (t.measured, t.result)).collect();
    assert_eq!(results, [(Some(0.05), Judgement::Fail), (Some(0.05), Judgement::Pass)]);
    assert!(finished.thresholds.iter().all(|t| t.unit == "ratio"));
    assert_eq!(finished.verdict.status, Status::Valid, "{:?}", finished.verdict.reasons);
    let measures = &finished.summary.templates[0].measures;
    assert_eq!((finished.summary.window.seconds, measures.judged_seconds), (3.0, 4.0));
    assert_eq!((measures.per_second.generated, measures.per_second.success), (25.0, 23.75));
    let text = finished.text();
    assert!(
        text.contains("\ndatagrams are settled at the end: their counts and rates are of the whole run\n"),
        "{text}"
    );
    assert!(!text.contains("counts are of the measured seconds"), "{text}");
}
