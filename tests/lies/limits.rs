//! Limits of the verdict that an experiment sets: a looser one is told wherever the verdict is, and the verdict comes
//! before every number.

use serde_json::Value;

use super::{reason, reasons};
use crate::support::{Scenario, Scratch};

/// A run of three seconds, and further lines.
fn trial(scratch: &Scratch, lines: &str) {
    let text = Scenario::sensor_for("3s", "rate = \"20/s\"").toml();
    scratch.write("trial.toml", text + lines);
}

#[test]
fn a_loosened_limit_is_told_by_verdict_manifest_and_check() {
    let scratch = Scratch::new();
    trial(
        &scratch,
        "\n[verdict]\nskipped = { invalid = \"20%\" }\nthrottled = { degraded = \"never\", invalid = \"0.5%\" }\n",
    );
    let bundle = scratch.simulate("trial.toml", "b", &[]);
    let told: Vec<&str> = reasons(&bundle, "limits_loosened").iter().filter_map(|r| r["text"].as_str()).collect();
    let skipped = "skipped: INVALID above 20 %, usually above 1 %";
    let throttled = "throttled: DEGRADED never, usually above 1 %";
    let tightened = "throttled: INVALID above 0.5 %, usually above 5 %";
    let expected = [skipped, throttled].map(|text| format!("the experiment asks for less than usual: {text}"));
    assert_eq!(told, expected);
    let changed = &bundle.manifest["verdict_limits_changed"];
    assert_eq!(*changed, serde_json::json!([skipped, throttled, tightened]));
    let limits = &bundle.manifest["verdict_limits"];
    assert_eq!(limits["skipped"]["invalid"].as_f64(), Some(20.0));
    assert_eq!(limits["stolen"]["invalid"].as_f64(), Some(5.0), "the usual ones are told as well");
    let check = scratch.run(&["check", "trial.toml"]);
    assert_eq!(check.code, Some(0), "{}", check.stderr);
    for line in [format!("  {skipped} (loosened)"), format!("  {throttled} (loosened)"), format!("  {tightened}")] {
        assert!(check.stdout.lines().any(|l| l == line), "{line}\n{}", check.stdout);
    }
    // a bundle's own file says the same again
    let again = scratch.simulate("b/experiment.toml", "again", &[]);
    assert_eq!(again.manifest["verdict_limits"], *limits);
    // nobody who sets nothing is told anything
    trial(&scratch, "");
    let usual = scratch.simulate("trial.toml", "usual", &[]);
    assert_eq!(reasons(&usual, "limits_loosened"), Vec::<&Value>::new());
    assert!(usual.manifest.get("verdict_limits_changed").is_none());
    assert!(!scratch.run(&["check", "trial.toml"]).stdout.contains("\nverdict\n"));
}

#[test]
fn a_limit_decides_the_verdict_and_the_exit_code() {
    let scratch = Scratch::new();
    trial(&scratch, "\n[verdict]\nshort_run = { degraded = \"1min\" }\n");
    let bundle = scratch.bundle("simulate", "trial.toml", "d", &["--strict"], &[20]);
    assert_eq!((bundle.status(), bundle.doubts()), ("DEGRADED", vec!["short_run"]));
    let own = reason(&bundle, "short_run");
    assert_eq!(
        (own["value"].as_f64(), own["limit"].as_f64(), &own["unit"]),
        (Some(3.0), Some(60.0), &Value::from("s"))
    );
    trial(&scratch, "\n[verdict]\nshort_run = { invalid = \"1min\" }\n");
    assert_eq!(scratch.bundle("simulate", "trial.toml", "i", &[], &[20]).status(), "INVALID");
    let set = ["--set", "verdict.short_run={ invalid = \"never\", note = \"never\" }"];
    let never = scratch.simulate("trial.toml", "n", &set);
    assert_eq!(reasons(&never, "short_run"), Vec::<&Value>::new());
}

#[test]
fn a_limit_that_cannot_be_read_is_an_error_with_its_line() {
    for (line, says, help) in [
        ("thrttled = { invalid = \"1%\" }", "thrttled", "did you mean `throttled`?"),
        ("throttled = { invald = \"1%\" }", "invald", "did you mean `invalid`?"),
        ("throttled = { invalid = 5 }", "`5` has no unit", "`5%`"),
        ("throttled = { invalid = \"5ms\" }", "5ms", "%"),
        ("short_run = { degraded = \"30\" }", "`30` has no unit", "`30s`"),
        ("throttled = \"5%\"", "a table is needed, not text", "`invalid`"),
        (
            "throttled = { degraded = \"9%\", invalid = \"2%\" }",
            "before it is anything lighter",
            "the graver, the larger",
        ),
        ("rate_missed = { degraded = \"90%\", invalid = \"95%\" }", "before it is anything lighter", "the smaller"),
        ("few_samples = { note = \"many\" }", "many", "whole number"),
    ] {
        let scratch = Scratch::new();
        trial(&scratch, &format!("\n[verdict]\n{line}\n"));
        let text = std::fs::read_to_string(scratch.path("trial.toml")).expect("it was written");
        let number = text.lines().position(|l| l == line).expect("the line") + 1;
        let done = scratch.run(&["check", "trial.toml"]);
        assert_eq!(done.code, Some(2), "{line}\n{}", done.stdout);
        assert!(done.stderr.contains(&format!("trial.toml:{number}:")), "{line}\n{}", done.stderr);
        assert!(done.stderr.contains(says) && done.stderr.contains(help), "{line}\n{}", done.stderr);
    }
}

#[test]
fn the_verdict_comes_before_every_number() {
    let scratch = Scratch::new();
    trial(&scratch, "\n[verdict]\nshort_run = { degraded = \"1min\" }\n");
    let run = |args: &[&str]| scratch.run(args).stdout;
    assert!(run(&["simulate", "trial.toml", "--quiet", "--out", "r/a"]).starts_with("DEGRADED  trial simulated"));
    let json = run(&["simulate", "trial.toml", "--quiet", "--out", "r/b", "--format", "json"]);
    assert!(json.starts_with("{\n  \"verdict\": {\n    \"status\": \"DEGRADED\""), "{json}");
    let repeated = ["simulate", "trial.toml", "--quiet", "--out", "r/c", "--set", "experiment.repetitions=2"];
    assert!(run(&repeated).starts_with("DEGRADED  trial simulated"));
    let json = run(&[&repeated[..4], &["r/d", "--set", "experiment.repetitions=2", "--format", "json"]].concat());
    assert!(json.starts_with("{\n  \"status\": \"DEGRADED\""), "{json}");
    assert!(run(&["report", "r/a"]).starts_with("DEGRADED  trial simulated"));
    assert!(run(&["report", "r/a", "--format", "json"]).starts_with("[\n  {\n    \"status\": \"DEGRADED\""));
    let csv = run(&["report", "r/a", "--format", "csv"]);
    assert!(csv.lines().nth(1).is_some_and(|l| l.contains("verdict") && l.contains("DEGRADED")), "{csv}");
    run(&["report", "r/a", "--html", "page.html"]);
    let page = std::fs::read_to_string(scratch.path("page.html")).expect("the page");
    let (verdict, table) = (page.find("verdict DEGRADED").expect("a verdict"), page.find("<table").expect("a table"));
    assert!(verdict < table);
    let runs = run(&["runs", "r"]);
    assert!(runs.starts_with("verdict ") && runs.lines().skip(1).all(|line| line.starts_with("DEGRADED ")), "{runs}");
    assert!(run(&["runs", "r", "--format", "csv"]).lines().skip(1).all(|line| line.starts_with("DEGRADED,")));
    assert!(run(&["runs", "r", "--format", "json"]).starts_with("[\n  {\n    \"status\": \"DEGRADED\""));
    let file = std::fs::read_to_string(scratch.path("r/a/verdict.json")).expect("the verdict");
    assert!(file.starts_with("{\n  \"status\": \"DEGRADED\""), "{file}");
}
