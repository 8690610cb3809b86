//! What a run leaves behind: the same files and columns from either engine, the same bytes for the same seed, and an
//! experiment that can be run again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use crate::support::{Bundle, CONFIGS, Scenario, Scratch, beside, files};

/// Two sensors of whose payloads a tenth is spoiled, by chance, over a link that delays by chance.
fn by_chance() -> String {
    let scenario = Scenario {
        senders: 2,
        link: "delay = \"2ms\"\njitter = \"1ms\"\nloss = \"1%\"".to_owned(),
        receiver: "analyzer = { pause = \"1ms\" }".to_owned(),
        ..Scenario::sensor_for("3s", "rate = \"100/s\"\nin_flight = 100\nmalformed = \"10%\"")
    };
    scenario.toml()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", by_chance());
    let [one, again, wire] = [("one", &[][..]), ("again", &[]), ("wire", &["--wire"])].map(|(name, more)| {
        scratch.simulate("trial.toml", name, &[&["--csv"], more].concat());
        files(&scratch.path(name))
    });
    assert_eq!(one.len(), 8, "{:?}", one.keys());
    assert!(one == again, "two runs of one seed differ");
    assert!(one == wire, "messages that are written and read again change the results");
    let other = scratch.simulate("trial.toml", "other", &["--seed", "2"]);
    let first = Bundle::read(&scratch.path("one"));
    assert_ne!(first.summary["fingerprint"], other.summary["fingerprint"]);
    assert_ne!(first.schedule(), other.schedule());
    assert_ne!(one["series.parquet"], fs::read(scratch.path("other/series.parquet")).expect("a series"));
}

#[test]
fn repetitions_are_whole_bundles_beside_an_index() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", by_chance());
    for verb in ["simulate", "emulate"] {
        let flags = ["--repetitions", "3", "--duration", "1s", "--format", "json", "--quiet"];
        let done = scratch.run(&[&[verb, "trial.toml", "--out", verb], &flags[..]].concat());
        let index = fs::read_to_string(scratch.path(verb).join("index.json")).expect("an index");
        let index: Value = serde_json::from_str(&index).expect("JSON");
        assert_eq!(done.json(), index, "the index is printed");
        let rows = index["repetitions"].as_array().expect("repetitions");
        assert_eq!(done.code, rows.iter().filter_map(|r| r["exit_code"].as_i64()).max().map(|c| c as i32));
        let folders: Vec<_> = rows.iter().map(|r| r["folder"].as_str().expect("a folder")).collect();
        assert_eq!(folders, ["rep-01", "rep-02", "rep-03"]);
        let mut digests: Vec<String> = Vec::new();
        for (number, folder) in folders.iter().enumerate() {
            let bundle = Bundle::read(&scratch.path(verb).join(folder));
            assert_eq!(bundle.summary["repetition"], number + 1);
            assert_eq!(rows[number]["totals"], bundle.summary["total"]["totals"]);
            assert_eq!(bundle.schedule(), rows[number]["schedule_digest"]);
            digests.push(bundle.schedule().to_owned());
        }
        digests.dedup();
        assert_eq!(digests.len(), 3, "each repetition draws anew");
    }
}

#[test]
fn both_engines_leave_the_same_files_and_columns() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor_for("2s", "rate = \"50/s\"").toml());
    let [simulated, emulated] = scratch.both("trial.toml", "b", &["--csv"]);
    let names = |b: &Bundle| files(&b.folder).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&simulated), names(&emulated));
    for table in ["series.parquet", "events.parquet"] {
        assert_eq!(columns(&simulated.folder.join(table)), columns(&emulated.folder.join(table)), "{table}");
    }
    let series = columns(&simulated.folder.join("series.parquet"));
    for (column, kind) in
        [("second", "INT32"), ("generated", "INT64"), ("response_p99_ns", "INT64"), ("cpu_ghz", "DOUBLE")]
    {
        assert_eq!(series.get(column).map(String::as_str), Some(kind));
    }
    let header = |b: &Bundle| {
        let text = fs::read_to_string(b.folder.join("series.csv")).expect("a series");
        text.lines().next().map(str::to_owned)
    };
    assert_eq!(header(&simulated), header(&emulated));
    for document in ["summary.json", "verdict.json", "manifest.json"] {
        assert_eq!(keys(&simulated, document), keys(&emulated, document), "{document}");
    }
    assert_eq!(simulated.manifest["experiment_sha256"], emulated.manifest["experiment_sha256"]);
    assert_eq!(simulated.manifest["machine"], Value::Null);
    assert!(emulated.manifest["machine"].is_string());
}

/// Columns of a table with their types.
fn columns(table: &Path) -> BTreeMap<String, String> {
    let file = File::open(table).unwrap_or_else(|why| panic!("{}: {why}", table.display()));
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let schema = reader.metadata().file_metadata().schema_descr();
    schema.columns().iter().map(|c| (c.name().to_owned(), c.physical_type().to_string())).collect()
}

fn keys(bundle: &Bundle, document: &str) -> Vec<String> {
    let text = fs::read_to_string(bundle.folder.join(document)).expect("a document");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    value.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn the_experiment_in_a_bundle_gives_the_same_run_again() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", by_chance());
    let flags = ["--seed", "7", "--set", "nodes.sender.count=3", "--duration", "2s"];
    let first = scratch.simulate("trial.toml", "first", &flags);
    let second = scratch.simulate("first/experiment.toml", "second", &[]);
    assert_eq!(first.summary["fingerprint"], second.summary["fingerprint"]);
    let (mut one, mut two) = (files(&first.folder), files(&second.folder));
    for own in ["experiment.toml", "manifest.json"] {
        // the first says that it was read from trial.toml, the second from the first
        assert!(one.remove(own).is_some() && two.remove(own).is_some());
    }
    assert!(one == two, "the resolved experiment gives other results");
    let done = scratch.run(&[&["check", "trial.toml", "--resolved"], &flags[..]].concat());
    let kept = fs::read_to_string(first.folder.join("experiment.toml")).expect("the experiment");
    assert_eq!(done.stdout, kept);
}

#[test]
fn standard_output_is_for_programs() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", by_chance());
    let done = scratch.run(&["simulate", "trial.toml", "--format", "json", "--out", "b"]);
    let (document, bundle) = (done.json(), Bundle::read(&scratch.path("b")));
    assert_eq!(document["summary"], bundle.summary);
    assert_eq!(document["verdict"]["status"], bundle.verdict["status"]);
    assert_eq!((document["path"].as_str(), document["exit_code"].as_i64()), (Some("b"), Some(0)));
    let digest = scratch.run(&["simulate", "trial.toml", "--digest", "--quiet"]);
    let told = bundle.summary["fingerprint"].as_str().expect("a fingerprint").to_owned();
    assert!(format!("{}{}", digest.stdout, digest.stderr).contains(&told), "{}", digest.stderr);
    let named = scratch.listing().into_iter().find(|n| n.starts_with("results/trial-simulate-"));
    assert!(named.is_some(), "a bundle without --out goes to results/<experiment>-<engine>-<time>");
}

#[test]
fn a_variable_stands_below_a_flag_and_above_the_file() {
    let scratch = Scratch::new();
    scratch.write(
        "trial.toml",
        Scenario { experiment: "duration = \"1s\"\nseed = 1".to_owned(), ..Scenario::default() }.toml(),
    );
    let seed = |flags: &[&str], variable: Option<&str>| {
        let args = [&["check", "trial.toml", "--resolved"], flags].concat();
        let mut command = scratch.command(crate::support::PROGRAM, &args);
        command.envs(variable.map(|v| ("REHEARSAL_SEED", v)));
        let done = crate::support::Running::spawn(command).wait();
        let line = done.stdout.lines().find(|l| l.starts_with("seed")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{done:?}"))
    };
    assert_eq!(seed(&[], None), "seed = 1");
    assert_eq!(seed(&[], Some("2")), "seed = 2");
    assert_eq!(seed(&["--seed", "3"], Some("2")), "seed = 3");
}

#[test]
fn a_threshold_that_fails_has_its_own_exit_code() {
    let scratch = Scratch::new();
    let text = Scenario::sensor_for("1s", "rate = \"50/s\"").toml();
    for (bound, code) in [("<100ms", 0), ("<1ns", 10)] {
        scratch.write("trial.toml", format!("{text}\n[thresholds]\n\"response.p50\" = \"{bound}\"\n"));
        let done = scratch.run(&["simulate", "trial.toml", "--set", "links.default.delay=1ms"]);
        assert_eq!(done.code, Some(code), "{}", done.stdout);
    }
}

#[test]
fn every_experiment_that_is_shipped_is_right() {
    let _busy = beside();
    let scratch = Scratch::new();
    // the paper's own figures are no experiment; nor are calibrations, facilities, sweeps and models of users
    let folders = ["calibration/", "facilities/", "models/", "sweeps/"];
    let other = |name: &str| folders.iter().any(|folder| name.starts_with(folder));
    let is_experiment = |name: &str| name.ends_with(".toml") && name != "pl5g/paper.toml" && !other(name);
    let shipped: Vec<String> = files(Path::new(CONFIGS)).into_keys().filter(|n| is_experiment(n)).collect();
    assert_eq!(shipped.len(), 28, "{shipped:?}");
    for name in shipped {
        let file = format!("{CONFIGS}/{name}");
        let done = scratch.run(&["check", &file]);
        assert_eq!(done.code, Some(0), "{name}\n{}", done.stderr);
        assert!(done.stdout.contains("traffic of one run"), "{}", done.stdout);
        let done = scratch.run(&["simulate", &file, "--scale", "0.01", "--repetitions", "1", "--quiet"]);
        assert_eq!(done.code, Some(0), "{name}\n{}\n{}", done.stdout, done.stderr);
    }
}

#[test]
fn the_schema_that_is_shipped_is_of_this_version() {
    let schema = Scratch::new().run(&["check", "--schema"]);
    let shipped = fs::read_to_string(format!("{CONFIGS}/experiment.schema.json")).expect("the schema");
    let shipped: Value = serde_json::from_str(&shipped).expect("JSON");
    assert!(schema.json() == shipped, "write it anew: rehearsal check --schema > configs/experiment.schema.json");
}
