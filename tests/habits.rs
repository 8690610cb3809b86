//! What continuous integration and people who watch are used to: tags, JUnit, baselines, thresholds that end a run,
//! figures for a scraper, a table.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Bundle, Done, Scenario, Scratch};

/// Two sensors of 20/s for `duration`, and what a test adds.
fn small(duration: &str, more: &str) -> String {
    let sensor = Scenario { senders: 2, ..Scenario::sensor_for(duration, "rate = \"20/s\"") };
    format!("{}\n{more}\n", sensor.toml())
}

fn codes(bundle: &Bundle) -> Vec<&str> {
    bundle.verdict["reasons"].as_array().expect("reasons").iter().filter_map(|r| r["code"].as_str()).collect()
}

#[test]
fn tags_are_kept_shown_and_chosen_by() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("2s", ""));
    for (name, build) in [("a", "1"), ("b", "2")] {
        let tag = format!("build={build}");
        let args = ["simulate", "x.toml", "--quiet", "--tag", &tag, "--tag", "radio=5g", "--seed", build, "--out"];
        let done = scratch.run(&[&args[..], &[format!("runs/{name}").as_str()]].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let manifest = Bundle::read(&scratch.path("runs/a")).manifest;
    assert_eq!(manifest["tags"], serde_json::json!({ "build": "1", "radio": "5g" }));

    let listed = |args: &[&str]| {
        let runs = scratch.run(&[&["runs", "runs", "--format", "json"], args].concat()).json();
        let folders = runs.as_array().expect("a list").iter();
        folders.map(|run| run["folder"].as_str().expect("a folder").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]).len(), 2);
    assert_eq!(listed(&["--tag", "build=2"]), ["runs/b"]);
    assert_eq!(listed(&["--tag", "build=2", "--tag", "radio=4g"]), Vec::<String>::new());
    assert!(scratch.run(&["runs", "runs"]).stdout.contains("build=1 radio=5g"));

    let report = scratch.run(&["report", "runs", "--tag", "build=1"]);
    assert!(report.stdout.contains("tags      build=1 radio=5g"), "{}", report.stdout);
    assert!(!report.stdout.contains("build=2"), "{}", report.stdout);
    let none = scratch.run(&["report", "runs", "--tag", "build=3"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("none of 2 results is tagged build=3"), "{}", none.stderr);
}

#[test]
fn a_tag_that_is_none_is_refused() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("2s", ""));
    for (tags, said) in [
        (&["build"][..], "`build` is no tag; write for instance `build=1.4.2`"),
        (&["Build=1"], "`Build` cannot be a key"),
        (&["a=1", "a=2"], "`a` is both `1` and `2`"),
    ] {
        let flags: Vec<&str> = tags.iter().flat_map(|tag| ["--tag", tag]).collect();
        let done = scratch.run(&[&["simulate", "x.toml", "--out", "out"], &flags[..]].concat());
        assert_eq!(done.code, Some(2));
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
    assert_eq!(scratch.listing(), ["x.toml"]);
}

#[test]
fn junit_has_a_case_for_the_verdict_and_for_each_threshold() {
    let scratch = Scratch::new();
    let limits = "delay = \"5ms\"\n[thresholds]\n\"success.rate\" = \">30/s\"\n\"response.p50\" = \"<1ms\"";
    scratch.write("x.toml", small("2s", limits));
    let done = scratch.run(&[
        "simulate",
        "x.toml",
        "--quiet",
        "--out",
        "a",
        "--junit",
        "junit.xml",
        "--repetitions",
        "2",
        "--tag",
        "build=7",
    ]);
    assert_eq!(done.code, Some(10), "{}", done.stderr);
    let told = fs::read_to_string(scratch.path("junit.xml")).expect("the file");
    assert_eq!(told.matches("<testsuite ").count(), 2, "{told}");
    assert_eq!(told.matches("tests=\"3\" failures=\"1\" errors=\"0\"").count(), 2, "{told}");
    assert!(told.contains("name=\"response.p50 &lt;1ms\""), "{told}");
    let tag = "<property name=\"tag.build\" value=\"7\"/>";
    assert_eq!(told.matches(tag).count(), 2, "{told}");

    // an INVALID run has one too: nothing listens, nobody is answered
    let args = ["simulate", "x.toml", "--quiet", "--out", "b", "--junit", "b.xml", "--set", "links.default.loss=100%"];
    let lost = scratch.run(&args);
    assert_eq!(lost.code, Some(20), "{}", lost.stderr);
    let told = fs::read_to_string(scratch.path("b.xml")).expect("the file");
    assert!(told.contains("<error type=\"invalid\" message=\"INVALID: "), "{told}");

    let report = scratch.run(&["report", "a", "b", "--junit", "c.xml"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let told = fs::read_to_string(scratch.path("c.xml")).expect("the file");
    assert_eq!((told.matches("<testsuite ").count(), told.matches(tag).count()), (3, 2), "{told}");

    // a verdict that was improved by hand is none
    let verdict = fs::read_to_string(scratch.path("b/verdict.json")).expect("a verdict");
    fs::write(scratch.path("b/verdict.json"), verdict.replace("INVALID", "VALID")).expect("room on the disk");
    let report = scratch.run(&["report", "b", "--junit", "e.xml"]);
    assert!(report.stdout.starts_with("DEGRADED  "), "{}", report.stdout);
    let told = fs::read_to_string(scratch.path("e.xml")).expect("the file");
    assert!(told.contains("<error type=\"changed\" message=\"changed since the run: verdict.json\""), "{told}");

    let nowhere = scratch.run(&["simulate", "x.toml", "--out", "d", "--junit", "no/folder/x.xml"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(!scratch.path("d").exists(), "told before the run");
}

/// A dry run with a delay, compared with `a`.
fn against(scratch: &Scratch, delay: &str, more: &[&str]) -> Done {
    let set = format!("links.default.delay={delay}");
    let out = format!("out-{}", scratch.listing().len());
    let args = ["simulate", "x.toml", "--quiet", "--out", &out, "--set", &set, "--baseline", "a", "--baseline-force"];
    scratch.run(&[&args[..], more].concat())
}

#[test]
fn a_regression_against_a_baseline_fails() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("3s", "delay = \"10ms\""));
    assert_eq!(scratch.run(&["simulate", "x.toml", "--quiet", "--out", "a"]).code, Some(0));

    let same = against(&scratch, "10ms", &["--fail-on-regression"]);
    assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);
    let slower = against(&scratch, "12ms", &["--fail-on-regression=10%", "--junit", "junit.xml"]);
    assert_eq!(slower.code, Some(10), "{}", slower.stdout);
    let row = slower.stdout.lines().find(|line| line.starts_with("response.p99")).expect("its row");
    assert!(row.ends_with("REGRESSION"), "{row}");
    assert!(slower.stdout.contains("links.default.delay: `10ms` there, `12ms` here"), "{}", slower.stdout);
    let junit = fs::read_to_string(scratch.path("junit.xml")).expect("the file");
    assert!(junit.contains("name=\"response.p99 against the baseline\""), "{junit}");
    assert_eq!(junit.matches("<failure type=\"regression\"").count(), 4, "four percentiles: {junit}");
    // one figure alone, a wider limit, or no limit
    assert_eq!(against(&scratch, "12ms", &["--fail-on-regression=lost.ratio=10%"]).code, Some(0));
    assert_eq!(against(&scratch, "12ms", &["--fail-on-regression=30%"]).code, Some(0));
    assert_eq!(against(&scratch, "12ms", &[]).code, Some(0));
    assert!(against(&scratch, "9ms", &["--fail-on-regression=5%"]).stdout.contains("better"));
}

#[test]
fn repetitions_have_an_interval_and_a_report_compares_too() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("3s", "delay = \"10ms\"\njitter = \"2ms\"\n"));
    for (name, delay) in [("a", "10ms"), ("b", "20ms")] {
        let set = format!("links.default.delay={delay}");
        let done = scratch.run(&["simulate", "x.toml", "--quiet", "--repetitions", "3", "--out", name, "--set", &set]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let args = ["report", "b", "--baseline", "a", "--baseline-force", "--fail-on-regression", "--format", "json"];
    let report = scratch.run(&[&args[..], &["--html", "page.html"]].concat());
    let page = fs::read_to_string(scratch.path("page.html")).expect("the page");
    assert!(page.contains("Beside the baseline") && page.contains("REGRESSION"));
    assert_eq!(report.code, Some(10), "{}", report.stderr);
    let report = report.json();
    let comparison = &report[0]["comparison"];
    let rows = comparison["rows"].as_array().expect("rows");
    let p50 = rows.iter().find(|row| row["metric"] == "response.p50").expect("its row");
    assert_eq!((p50["judged"].as_str(), p50["now_n"].as_u64()), (Some("regression"), Some(3)));
    let low = p50["interval"][0].as_f64().expect("a bound");
    assert!((10e6..40e6).contains(&low), "two or four times 10 ms more: {p50}");
    assert_eq!(scratch.run(&["report", "a", "--baseline", "a", "--fail-on-regression=0%"]).code, Some(0));
}

#[test]
fn another_experiment_is_no_baseline() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("2s", ""));
    assert_eq!(scratch.run(&["simulate", "x.toml", "--quiet", "--out", "a"]).code, Some(0));
    let refused = |args: &[&str], said: &[&str]| {
        let done = scratch.run(&[args, &["--out", "b"]].concat());
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(said.iter().all(|text| done.stderr.contains(text)), "{said:?}: {}", done.stderr);
        assert!(!scratch.path("b").exists(), "told before the run");
    };
    let other = ["simulate", "x.toml", "--baseline", "a", "--set", "nodes.sender.actors.main.rate=30/s"];
    refused(&other, &["nodes.sender.actors.main.rate: `20/s` there, `30/s` here", "--baseline-force"]);
    refused(&["emulate", "x.toml", "--baseline", "a"], &["engine: `simulated` there, `emulated` here"]);
    refused(&["simulate", "x.toml", "--baseline", "nowhere"], &["nowhere"]);
    refused(&["simulate", "x.toml", "--baseline", "a", "--fail-on-regression=10"], &["has no unit"]);
    refused(&["simulate", "x.toml", "--fail-on-regression"], &["--baseline"]);
    // another seed is another draw of the same experiment
    let seed = scratch.run(&["simulate", "x.toml", "--quiet", "--out", "c", "--seed", "9", "--baseline", "a"]);
    assert_eq!(seed.code, Some(0), "{}", seed.stderr);
}

/// Ends a run that loses nearly everything after two seconds.
const ABORT: &str =
    "loss = \"0%\"\n[thresholds]\n\"success.rate\" = { limit = \">10/s\", abort = true, after = \"2s\" }\n";

#[test]
fn a_threshold_ends_a_run_in_either_engine() {
    let scratch = Scratch::new();
    // a receiver that takes longer than anybody waits: nothing succeeds
    let slow = small("30s", ABORT)
        .replace("kind = \"receiver\"", "kind = \"receiver\"\nanalyzer = { pause = \"10s\" }")
        .replace("rate = \"20/s\"", "rate = \"20/s\"\ntimeout = \"200ms\"\nin_flight = 100");
    scratch.write("slow.toml", slow);
    scratch.write("good.toml", small("4s", ABORT));
    for (verb, more) in [("simulate", &[][..]), ("emulate", &["--set", "experiment.grace=500ms"])] {
        let begun = Instant::now();
        let done = scratch.run(&[&[verb, "slow.toml", "--quiet", "--out", verb], more].concat());
        assert!(begun.elapsed() < Duration::from_secs(25), "{verb}: the run went on");
        let bundle = Bundle::read(&scratch.path(verb));
        assert!(codes(&bundle).contains(&"threshold_aborted"), "{verb}: {:#}", bundle.verdict);
        // that nothing succeeded may make it INVALID, which outranks the threshold
        assert!(matches!(done.code, Some(10 | 20)), "{}", done.stderr);
        let [threshold] = bundle.verdict["thresholds"].as_array().expect("thresholds").as_slice() else { panic!() };
        assert_eq!(threshold["result"], "fail");
        let seconds = threshold["aborted"]["seconds"].as_u64().expect("when");
        assert!(if verb == "simulate" { seconds == 2 } else { (2..10).contains(&seconds) }, "{verb}: {seconds}");
        let generated = bundle.total("generated");
        assert!((80..800).contains(&generated), "{verb}: 40/s for some seconds, not for thirty: {generated}");

        let good = scratch.run(&[&[verb, "good.toml", "--quiet", "--out", &format!("good-{verb}")], more].concat());
        let bundle = Bundle::read(&scratch.path(&format!("good-{verb}")));
        assert!(!codes(&bundle).contains(&"threshold_aborted"), "{verb}: {}", good.stdout);
        assert_eq!(bundle.total("generated"), 160, "{verb}");
    }
}

#[test]
fn a_run_that_a_threshold_ended_fails_with_ten() {
    let scratch = Scratch::new();
    let limit =
        "delay = \"5ms\"\n[thresholds]\n\"response.p50\" = { limit = \"<1us\", abort = true, after = \"1s\" }\n";
    scratch.write("x.toml", small("20s", limit));
    let done = scratch.run(&["simulate", "x.toml", "--quiet", "--out", "a"]);
    assert_eq!(done.code, Some(10), "{}{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&scratch.path("a"));
    assert_eq!((bundle.status(), bundle.doubts()), ("DEGRADED", vec!["threshold_aborted"]));
    assert!(done.stdout.contains("FAIL, ended the run"), "{}", done.stdout);
    // the resolved file says it too
    let again = scratch.run(&["simulate", "a/experiment.toml", "--quiet", "--out", "b"]);
    assert_eq!(again.code, Some(10), "{}", again.stderr);
    let digest = |name: &str| Bundle::read(&scratch.path(name)).schedule().to_owned();
    assert_eq!(digest("a"), digest("b"), "a dry run ends at the same event again");
}

#[test]
fn a_threshold_ends_a_run_of_processes() {
    if !crate::support::family::server() {
        return;
    }
    let scratch = Scratch::new();
    let limit =
        "delay = \"5ms\"\n[thresholds]\n\"response.p50\" = { limit = \"<1us\", abort = true, after = \"1s\" }\n";
    scratch.write("x.toml", small("30s", limit));
    let done = scratch.run(&["emulate", "x.toml", "--quiet", "--placement", "processes", "--out", "a"]);
    let bundle = Bundle::read(&scratch.path("a"));
    bundle.doubted(&["threshold_aborted"]);
    assert!(matches!(done.code, Some(10 | 20)), "{}", done.stderr);
    assert!(bundle.total("generated") < 800, "40/s, not for thirty seconds");
}

/// One request, and everything that is answered.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers and closes");
    text
}

/// The number of a sample, over all labels.
fn sum(page: &str, name: &str) -> f64 {
    let samples = page.lines().filter(|line| line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn figures_of_a_real_run_can_be_scraped_while_it_goes_on() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("6s", ""));
    let log = scratch.path("stderr");
    let mut command = scratch.command(
        crate::support::PROGRAM,
        &["emulate", "x.toml", "--out", "a", "--metrics", "127.0.0.1:0", "--tag", "why=test"],
    );
    command.stderr(fs::File::create(&log).expect("a log"));
    let mut running = crate::support::Running::spawn(command);
    let begun = Instant::now();
    let address = loop {
        let text = fs::read_to_string(&log).expect("the log");
        let url = text.lines().find_map(|line| line.strip_prefix("metrics: http://")?.strip_suffix("/metrics"));
        if let Some(address) = url {
            break address.to_owned();
        }
        assert!(running.runs() && begun.elapsed() < Duration::from_secs(60), "{text}");
        thread::sleep(Duration::from_millis(20));
    };
    let get = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut last = 0.0;
    let page = loop {
        let answer = ask(&address, &get);
        let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
        assert!(page.ends_with("\n# EOF\n"), "{page}");
        let attempts = sum(page, "rehearsal_attempts_total");
        assert!(attempts >= last, "a counter never falls: {attempts} after {last}");
        last = attempts;
        if sum(page, "rehearsal_run_seconds") >= 3.0 {
            break page.to_owned();
        }
        assert!(running.runs(), "it ended before three seconds were told");
        thread::sleep(Duration::from_millis(100));
    };
    assert!(last >= 100.0, "two sensors of 20/s for three seconds: {last}");
    let (success, count) = (sum(&page, "rehearsal_exchanges_total"), sum(&page, "rehearsal_response_seconds_count"));
    assert_eq!(success, count, "each success has a time");
    assert!(page.contains("rehearsal_run_info{engine=\"emulated\",experiment=\"trial\""), "{page}");
    assert!(page.contains("tag_why=\"test\""));
    assert!(ask(&address, &get.replace("GET", "POST")).starts_with("HTTP/1.1 405 "));
    assert!(ask(&address, &get.replace("/metrics", "/")).starts_with("HTTP/1.1 404 "));
    assert!(matches!(running.wait().code, Some(0 | 20)));
    Bundle::read(&scratch.path("a")).doubted(&[]);
}

#[test]
fn figures_are_not_served_to_everybody_unasked() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("1s", ""));
    let open = scratch.run(&["emulate", "x.toml", "--out", "a", "--metrics", "0.0.0.0:0"]);
    assert_eq!(open.code, Some(2));
    assert!(open.stderr.contains("`--metrics-public`"), "{}", open.stderr);
    assert!(!scratch.path("a").exists());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let refused = scratch.run(&["emulate", "x.toml", "--out", "a", "--metrics", &address]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
}

#[test]
fn a_table_has_a_row_for_each_second_and_no_colour_in_a_log() {
    let scratch = Scratch::new();
    scratch.write("x.toml", small("4s", "delay = \"5ms\""));
    let done = scratch.run(&["simulate", "x.toml", "--table", "--out", "a"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let rows: Vec<&str> = done.stderr.lines().collect();
    let heads: Vec<&str> = rows[0].split_whitespace().collect();
    assert_eq!(heads[..4], ["second", "sent/s", "success/s", "received/s"], "{}", done.stderr);
    let seconds: Vec<&str> = rows[1..].iter().filter_map(|row| row.split_whitespace().next()).collect();
    assert_eq!(seconds[..4], ["1", "2", "3", "4"], "{}", done.stderr);
    assert!(!done.stderr.contains('\u{1b}'));
    assert_eq!(scratch.run(&["simulate", "x.toml", "--table", "--quiet", "--out", "b"]).code, Some(2));
}
