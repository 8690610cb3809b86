//! What is printed at the end of a run.

use rehearsal_export::verdict::{Code, GroupEvidence, judge};
use rehearsal_export::{Evidence, Limits, Report};

use crate::support::{Scratch, meta, usual_run};

#[test]
fn the_report_tells_the_verdict_first() {
    let scratch = Scratch::new("text");
    let finished = usual_run(&scratch, "run", 60, meta());
    let text = finished.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "VALID  pl5g simulated: 60 s of traffic, seed 7, repetition 1");
    let expected = [
        "sender          generated  success  lost    rate  target  response p50      p99  service p50      p99  lag p99",
        "camera/main ×2       3000     3000     0  50.0/s  50.0/s       23.4 ms  26.8 ms      23.4 ms  26.8 ms     0 ns",
        "receiver       received  served  refused  turned away  served rate  handling p50      p99",
        "receiver/main      3000    3000        0            0       50.0/s       24.9 ms  27.9 ms",
    ];
    for line in expected {
        assert!(lines.contains(&line), "{line}\nis not in\n{text}");
    }
    assert!(text.ends_with(&format!("results: {}\n", finished.path.display())));
    let json: serde_json::Value = serde_json::from_str(&finished.json()).unwrap();
    assert_eq!(json["verdict"]["status"], "VALID");
    assert_eq!(json["summary"]["total"]["totals"]["generated"], 3000);
}

#[test]
fn many_reasons_of_one_kind_are_counted() {
    let scratch = Scratch::new("reasons");
    let summary = usual_run(&scratch, "run", 2, meta()).summary;
    let late = |n: u32| GroupEvidence {
        node: format!("camera-{n}"),
        actor: "main".to_owned(),
        sends: true,
        gap_ns: Some(40_000_000),
        generated: 1,
        lag_p99_ns: Some(30_000_000),
        ..GroupEvidence::default()
    };
    let evidence =
        Evidence { groups: (1..=5).map(late).collect(), notes: vec!["by the way".to_owned()], ..Evidence::default() };
    let verdict = judge(&evidence, &Limits::default());
    assert_eq!(verdict.reasons.iter().filter(|r| r.code == Code::GeneratorLate).count(), 5);
    let text = Report { summary: &summary, verdict: &verdict, thresholds: &[] }.to_string();
    let lines: Vec<&str> = text.lines().take(6).collect();
    let expected = [
        "INVALID  pl5g simulated: 2 s of traffic, seed 7, repetition 1",
        "  invalid   generator_late: camera-1/main sent late by its own fault: lag p99 is 30.00 ms, the limit is 20.00 ms",
        "  invalid   generator_late: camera-2/main sent late by its own fault: lag p99 is 30.00 ms, the limit is 20.00 ms",
        "  invalid   generator_late: camera-3/main sent late by its own fault: lag p99 is 30.00 ms, the limit is 20.00 ms",
        "  invalid   generator_late: 2 more like these in verdict.json",
        "  note      by the way",
    ];
    assert_eq!(lines, expected);
}
