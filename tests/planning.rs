//! Looking ahead: booking sheets, searches and sweeps, as a user meets them.

use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value, json};

use crate::support::{CONFIGS, Scenario, Scratch, beside};

/// The sheet of `plan` with these arguments, files being those of `configs/`.
fn sheet(scratch: &Scratch, files: &[&str], more: &[&str]) -> Value {
    let files: Vec<String> = files.iter().map(|file| format!("{CONFIGS}/{file}")).collect();
    let mut args = vec!["plan", "--format", "json"];
    args.extend(files.iter().map(String::as_str).chain(more.iter().copied()));
    let done = scratch.run(&args);
    assert_eq!(done.code, Some(0), "{args:?}\n{}", done.stderr);
    done.json()
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is no number"))
}

fn codes(sheet: &Value) -> Vec<&str> {
    let warnings = sheet["experiments"][0]["warnings"].as_array().expect("warnings");
    warnings.iter().map(|w| w["code"].as_str().expect("a code")).collect()
}

const CAMPAIGN: [&str; 10] = [
    "pl5g/a1.toml",
    "pl5g/a2.toml",
    "pl5g/a3.toml",
    "pl5g/b1.toml",
    "pl5g/b2.toml",
    "pl5g/b3.toml",
    "pl5g/c1.toml",
    "pl5g/c2.toml",
    "pl5g/c3.toml",
    "pl5g/paper.toml",
];

#[test]
fn the_papers_campaign_comes_out_as_worked_by_hand() {
    let scratch = Scratch::new();
    let sheet = sheet(&scratch, &CAMPAIGN, &[]);
    let booking = &sheet["booking"];
    // requests over the paper's mean rates: 12,765 s a round; ten of them and 90 × 35 s are 36.33 h
    assert!((number(&booking["total_h"]["expected"]) - 36.33).abs() < 0.01, "{booking:#}");
    assert_eq!((number(&booking["window_h"]["expected"]), number(&booking["node_h"]["expected"])), (37.0, 222.0));
    assert_eq!((booking["nodes"].as_u64(), booking["runs"].as_u64()), (Some(6), Some(90)));
    assert_eq!(
        (number(&booking["vcpu_requested"]), number(&booking["memory_requested_bytes"])),
        (17.0, (5_u64 << 30) as f64)
    );
    assert_eq!((number(&booking["requests"]), number(&booking["published_payload_bytes"])), (39_756_000.0, 1.5e12));
    // ten rounds of 1,125,000 frames between 100 and 200 kB, and of 2,850,600 small requests of 1 kB
    assert_eq!(number(&booking["payload_bytes"]["low"]), 10.0 * (1_125_000.0 * 1e5 + 2_850_600.0 * 1e3));
    let [expected, high] = ["expected", "high"].map(|key| number(&booking["payload_bytes"][key]));
    assert!(expected > 1.5e12 && expected < 1.8e12 && high > expected, "{booking:#}");
    // a fifth of 1 Gbit/s, in the allocation with the highest rate
    assert_eq!(booking["busiest"], "receiver of pl5g-a2");
    assert!((number(&booking["busiest_mbps"]) - 212.0).abs() < 10.0, "{booking:#}");
    assert_eq!(booking["cost"], Value::Null);
    let experiments = sheet["experiments"].as_array().expect("experiments");
    assert_eq!(experiments.len(), 9);
    assert!(
        experiments
            .iter()
            .all(|e| e["time"]["basis"] == "published" && e["nodes"].as_array().is_some_and(|n| n.len() > 2))
    );
    assert_eq!(sheet["notes"].as_array().map(Vec::len), Some(1));
    // 145 kB a frame, the published volumes have 122, 153 and 129
    assert_eq!(codes(&sheet), ["volume"]);
    let text = sheet.to_string();
    assert!(text.contains("Table 2, scenario C, experiment 3") && text.contains("paper.toml is no experiment"));
}

#[test]
fn a_sheet_has_the_form_of_its_schema() {
    let scratch = Scratch::new();
    let schema = scratch.run(&["plan", "--schema"]).json();
    let shipped = fs::read_to_string(format!("{CONFIGS}/plan.schema.json")).expect("the schema");
    let shipped: Value = serde_json::from_str(&shipped).expect("JSON");
    assert!(schema == shipped, "write it anew: rehearsal plan --schema > configs/plan.schema.json");
    let mut sheet = sheet(&scratch, &["uav-control.toml", "pl5g/b1.toml"], &["--facility", "cloudlab"]);
    assert_eq!(strange(&schema, &schema, &sheet, "sheet"), Vec::<String>::new());
    // and what has another form is seen
    sheet["booking"]["bonus"] = Value::Bool(true);
    sheet["experiments"][1]["time"].as_object_mut().expect("a table").remove("run_s");
    assert_eq!(
        strange(&schema, &schema, &sheet, "sheet"),
        ["sheet.booking.bonus", "sheet.experiments.time lacks run_s"]
    );
}

/// Keys that a schema does not have, and keys of it that are missing.
fn strange(root: &Value, schema: &Value, of: &Value, at: &str) -> Vec<String> {
    let inner = schema.get("allOf").or_else(|| schema.get("anyOf")).and_then(|all| all.get(0)).unwrap_or(schema);
    let path = inner.get("$ref").and_then(Value::as_str).map(|path| path.trim_start_matches('#'));
    let schema = path.map_or(inner, |path| root.pointer(path).expect("a definition"));
    match of {
        Value::Array(all) => all.iter().flat_map(|one| strange(root, &schema["items"], one, at)).collect(),
        Value::Object(table) => {
            let lacking = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let lacking = lacking.filter(|key| !table.contains_key(*key)).map(|key| format!("{at} lacks {key}"));
            let deeper = table.iter().flat_map(|(key, value)| match schema["properties"].get(key) {
                Some(known) => strange(root, known, value, &format!("{at}.{key}")),
                None => vec![format!("{at}.{key}")],
            });
            deeper.chain(lacking).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn text_and_markdown_tell_the_same() {
    let scratch = Scratch::new();
    let file = format!("{CONFIGS}/uav-control.toml");
    let [text, markdown] = ["text", "markdown"].map(|format| scratch.run(&["plan", &file, "--format", format]).stdout);
    for part in [
        "booking sheet: 1 experiment, 1 run,",
        "book      6 nodes for 1 h = 6 node-hours",
        "of it traffic",
        "bookings are multiples of 1h",
    ] {
        assert!(text.contains(part) && markdown.contains(part), "{part}\n{text}\n{markdown}");
    }
    assert!(text.starts_with("booking sheet") && markdown.starts_with("# booking sheet"));
    let row = markdown.lines().find(|l| l.starts_with("| camera |")).expect("a row");
    assert_eq!(row.matches('|').count(), 8, "{row}");
}

#[test]
fn requests_are_rounded_to_what_a_facility_has() {
    let scratch = Scratch::new();
    let booked = |facility: &str| {
        let sheet = sheet(&scratch, &["uav-control.toml"], &["--facility", facility]);
        let camera = &sheet["experiments"][0]["nodes"][0];
        assert_eq!(
            (camera["name"].as_str(), camera["requested"]["memory_bytes"].as_u64()),
            (Some("camera"), Some(512 << 20))
        );
        camera["booked"].clone()
    };
    assert_eq!(booked("fabric")["memory_bytes"], 2_000_000_000_u64);
    assert_eq!((booked("cloudlab")["machine"].as_str(), number(&booked("cloudlab")["vcpu"])), (Some("m510"), 8.0));
    let mine = fs::read_to_string(format!("{CONFIGS}/facilities/generic-lab.toml")).expect("a facility");
    let tariff = "[tariff]\ncurrency = \"EUR\"\nnode_hour = 0.5\n";
    scratch.write("mine.toml", format!("{mine}\n{tariff}"));
    let cost = &sheet(&scratch, &["uav-control.toml"], &["--facility", "mine.toml"])["booking"]["cost"];
    assert_eq!((cost["currency"].as_str(), number(&cost["amount"]["expected"])), (Some("EUR"), 3.0), "6 nodes, 1 h");
    scratch.write("mine.toml", format!("{mine}\n{tariff}node_hours = 1\n"));
    let file = format!("{CONFIGS}/uav-control.toml");
    let refused = scratch.run(&["plan", &file, "--facility", "mine.toml"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("mine.toml") && refused.stderr.contains("node_hours"), "{}", refused.stderr);
    assert_eq!(scratch.run(&["plan", &file, "--facility", "nowhere"]).code, Some(2));
    // larger than any
    let set = ["--facility", "fabric", "--set", "nodes.camera.vcpu=65", "--set", "hosts.laptop.cores=400"];
    let sheet = sheet(&scratch, &["uav-control.toml"], &set);
    assert_eq!((codes(&sheet), sheet["booking"]["nodes"].as_u64()), (vec!["size"], Some(2)));
}

#[test]
fn a_duration_rests_on_what_is_known() {
    let scratch = Scratch::new();
    let run = |files: &[&str], more: &[&str]| {
        let sheet = sheet(&scratch, files, more);
        let time = &sheet["experiments"][0]["time"];
        (
            time["basis"].as_str().expect("a basis").to_owned(),
            ["low", "expected", "high"].map(|key| number(&time["run_s"][key])),
        )
    };
    assert_eq!(run(&["uav-control.toml"], &[]), ("duration".to_owned(), [20.0, 20.0, 25.0]));
    // 45,000 requests of each camera at 20 ms each; at most 100 ms
    let (basis, [low, expected, high]) = run(&["pl5g/a1.toml"], &[]);
    assert_eq!((basis.as_str(), high), ("dry-run", 4500.0));
    assert!((expected - 900.0).abs() < 5.0 && low <= expected, "{low} {expected}");
    assert_eq!(run(&["pl5g/a1.toml"], &["--rate", "100/s"]).1[1], 1800.0);
    assert_eq!(run(&["pl5g/a1.toml", "pl5g/paper.toml"], &["--rate", "pl5g-a1=100/s"]).0, "given");
    // 36,000 frames at 25/s and 359,400 requests at 250/s
    let (basis, [_, expected, _]) = run(&["pl5g/b1.toml"], &[]);
    assert_eq!(basis, "schedule");
    assert!((expected - 1440.0).abs() < 0.1, "{expected}");
}

#[test]
fn what_cannot_be_planned_is_told() {
    let scratch = Scratch::new();
    let [a1, paper] = ["a1", "paper"].map(|name| format!("{CONFIGS}/pl5g/{name}.toml"));
    let said = |args: &[&str]| {
        let done = scratch.run(&[&["plan"], args].concat());
        assert_eq!(done.code, Some(2), "{args:?}\n{}", done.stdout);
        done.stderr
    };
    assert!(said(&[&paper]).contains("no experiment was named"));
    assert!(said(&[&a1, "--rate", "pl5g-a9=1/s"]).contains("no file's experiment is called `pl5g-a9`"));
    assert!(said(&[&a1, "--rate", "100"]).contains("no unit"));
    // a closed loop that costs nothing has no pace in virtual time
    let free = said(&[&a1, "--set", "nodes.receiver.actors.main.analyzer.pause=0s"]);
    assert!(free.contains("--rate pl5g-a1=100/s"), "{free}");
    // nor does one without a count come to an end
    scratch.write("endless.toml", Scenario::sensor_for("2s", "").toml());
    let endless = said(&["endless.toml"]);
    assert!(endless.contains("virtual time"), "{endless}");
    scratch.write("broken.toml", "[experiment]\nname = \"x\"\nspeed = 3\n");
    assert!(said(&["broken.toml"]).contains("broken.toml:3:1"));
    for args in [&["--find", "nodes.camera.count"][..], &["--while", "response.p99<1s"], &["--from", "3"]] {
        assert_eq!(scratch.run(&[&["plan", a1.as_str()], args].concat()).code, Some(2), "{args:?}");
    }
}

#[test]
fn dangers_are_warned_of() {
    let scratch = Scratch::new();
    let warned = |set: &[&str]| {
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", *set]).collect();
        let sheet = sheet(&scratch, &["uav-control.toml"], &set);
        codes(&sheet).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(warned(&[]), Vec::<String>::new());
    // four cameras at 30/s and 20 ms keep 2.4 workers busy
    assert_eq!(warned(&["nodes.receiver.actors.main.workers=3"]), Vec::<String>::new());
    assert_eq!(warned(&["nodes.receiver.actors.main.workers=2"]), ["workers"]);
    // a pool is judged by itself: these four cameras have two workers, whoever has the rest
    let pool = |from: &str| format!("nodes.receiver.actors.main.pools=[{{ from = [\"{from}\"], workers = 2 }}]");
    assert_eq!(warned(&[&pool("camera/main")]), ["workers"]);
    assert_eq!(warned(&["links.default.rate=40Mbit/s"]), ["link"]);
    assert_eq!(
        warned(&["nodes.camera.actors.main.rate=300/s", "nodes.receiver.actors.main.workers=64"]),
        ["pace", "ports", "interface"]
    );
    assert_eq!(warned(&["nodes.camera.actors.main.in_flight=1025"]), ["descriptors"]);
    assert_eq!(warned(&["hosts.laptop.cores=4"]), ["cores"]);
    // a cell is shared by all its members
    let cell = sheet(&scratch, &["radio-cell.toml"], &[]);
    let links = cell["experiments"][0]["links"].as_array().expect("links");
    let shares: Vec<f64> = links.iter().map(|link| number(&link["utilisation"])).collect();
    let all: f64 = links.iter().map(|link| number(&link["wire_mbps"])).sum();
    assert!(shares.len() == 3 && shares.iter().all(|s| *s == shares[0]), "{shares:?}");
    assert!((shares[0] - all / number(&links[0]["capacity_mbps"])).abs() < 1e-9, "{shares:?}");
}

#[test]
fn a_search_finds_how_many_fit() {
    let scratch = Scratch::new();
    let file = format!("{CONFIGS}/uav-control.toml");
    let find = |more: &[&str]| {
        let args = ["plan", &file, "--find", "nodes.camera.count", "--set", "nodes.receiver.actors.main.workers=8"];
        scratch.run(&[&args[..], &["--duration", "5s", "--format", "json"], more].concat())
    };
    // eight workers of 20 ms serve 400 requests/s: thirteen cameras at 30/s, and no fourteenth
    let found = find(&["--while", "response.p99<100ms"]).json();
    assert_eq!((found["largest"].as_u64(), found["fails_at"].as_u64()), (Some(13), Some(14)));
    assert_eq!((&found["exact"], found["violations"].as_array().map(Vec::len)), (&Value::Bool(true), Some(0)));
    let tries = found["tries"].as_array().expect("tries");
    let values: Vec<u64> = tries.iter().filter_map(|t| t["value"].as_u64()).collect();
    assert_eq!(values[..8], [1, 2, 4, 8, 16, 12, 14, 13]);
    assert!(tries.iter().all(|t| t["holds"].as_bool() == Some(number(&t["measured"]) < 100.0)), "{tries:#?}");
    let none = find(&["--while", "response.p99<1ms"]).json();
    assert_eq!((&none["largest"], none["fails_at"].as_u64()), (&Value::Null, Some(1)));
    let bounded = find(&["--while", "response.p99<100ms", "--up-to", "4"]).json();
    assert_eq!((bounded["largest"].as_u64(), &bounded["fails_at"]), (Some(4), &Value::Null));
    let beyond = find(&["--while", "response.p99<100ms", "--from", "9", "--up-to", "4"]);
    assert_eq!(beyond.code, Some(2), "{}", beyond.stdout);
    assert!(beyond.stderr.contains("--from 9 is above --up-to 4"), "{}", beyond.stderr);
    for (condition, said) in [("respnse.p99<1ms", "did you mean `response`"), ("response.p99", "response.p99<100ms")] {
        let done = find(&["--while", condition]);
        assert_eq!(done.code, Some(2));
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
}

#[test]
fn a_clip_that_was_exchanged_makes_other_runs() {
    let _busy = beside();
    let scratch = Scratch::new();
    let camera = "kind = \"camera\"\nmedia = \"clip.mp4\"\nframe = \"100kB..200kB\"\nrate = \"10/s\"\nrequests = 5";
    scratch.write("trial.toml", Scenario { sender: camera.to_owned(), ..Scenario::default() }.toml());
    scratch.write(
        "sweep.toml",
        "[sweep]\nexperiment = \"trial.toml\"\n[grid]\n\"links.default.delay\" = [\"1ms\", \"2ms\"]\n",
    );
    let known = || {
        let done = scratch.run(&["sweep", "sweep.toml", "--out", "out", "--quiet"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout.lines().find(|line| line.starts_with("run now")).expect("counts").to_owned()
    };
    let mut clip = fs::read(format!("{CONFIGS}/media/reference.mp4")).expect("the reference clip");
    fs::write(scratch.path("clip.mp4"), &clip).expect("a copy");
    assert_eq!([known(), known()], ["run now: 2, known before: 0", "run now: 0, known before: 2"]);
    // the same name and the same pictures, and another file: an empty box at its end
    clip.extend_from_slice(b"\0\0\0\x08free");
    fs::write(scratch.path("clip.mp4"), &clip).expect("another one");
    assert_eq!(known(), "run now: 2, known before: 0");
}

#[test]
fn a_sweep_is_the_same_on_any_number_of_threads_and_goes_on_where_it_was_stopped() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor_for("2s", "rate = \"50/s\"\nin_flight = 50").toml());
    let text = "[sweep]\nexperiment = \"trial.toml\"\nrepetitions = 2\n\
                [grid]\n\"links.default.delay\" = [\"1ms\", \"20ms\"]\n\
                [random]\npoints = 4\n[random.ranges]\n\
                \"nodes.sender.actors.main.rate\" = { from = \"10/s\", to = \"90/s\" }\n\
                \"links.default.jitter\" = { from = \"1us\", to = \"1000us\", scale = \"log\" }\n";
    scratch.write("sweep.toml", text);
    let sweep = |out: &str, more: &[&str]| {
        let done = scratch.run(&[&["sweep", "sweep.toml", "--out", out, "--quiet"], more].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let digest = done.stdout.lines().find_map(|l| l.strip_prefix("digest ")).expect("a digest").to_owned();
        let known = done.stdout.lines().find(|l| l.starts_with("run now")).expect("counts").to_owned();
        (digest, known, fs::read(scratch.path(out).join("sweep.parquet")).expect("a table"))
    };
    let one = sweep("one", &["--threads", "1"]);
    let three = sweep("three", &["--threads", "3"]);
    assert_eq!((&one.0, &one.1), (&three.0, &"run now: 16, known before: 0".to_owned()));
    assert!(one.2 == three.2, "the tables differ");
    // as if the program had been killed while it wrote the tenth line
    let journal = scratch.path("three").join("points.jsonl");
    let lines = fs::read_to_string(&journal).expect("a journal");
    let kept: usize = lines.lines().take(9).map(|l| l.len() + 1).sum();
    fs::write(&journal, &lines[..kept + 40]).expect("torn");
    let again = sweep("three", &[]);
    assert_eq!((again.0, again.1), (one.0.clone(), "run now: 7, known before: 9".to_owned()));
    assert!(again.2 == one.2, "the tables differ");
    // another experiment is not taken for the one that is known
    let other = sweep("three", &["--seed", "7"]);
    assert_eq!(other.1, "run now: 16, known before: 0");
    assert_ne!(other.0, one.0);

    let rows = rows(&scratch.path("one/sweep.parquet"));
    let parameters = [
        "point",
        "repetition",
        "links.default.delay [ms]",
        "links.default.jitter [us]",
        "nodes.sender.actors.main.rate [/s]",
    ];
    assert!(parameters.iter().all(|name| rows[0].contains_key(*name)), "{:?}", rows[0]);
    assert_eq!(rows.len(), 16);
    for row in &rows {
        let [delay, p50] = ["links.default.delay [ms]", "response_p50_ms"].map(|name| number(&row[name]));
        // there and back
        assert!(p50 >= 2.0 * delay, "{row:?}");
        assert_eq!(row["generated"], row["success"], "{row:?}");
    }
}

/// The rows of a table, by column.
fn rows(path: &Path) -> Vec<Map<String, Value>> {
    let reader = SerializedFileReader::new(File::open(path).expect("a table")).expect("Parquet");
    let cell = |field: &Field| match field {
        Field::Long(value) => json!(value),
        Field::Double(value) => json!(value),
        Field::Str(value) => json!(value),
        _ => Value::Null,
    };
    let row =
        |row: parquet::record::Row| row.get_column_iter().map(|(name, field)| (name.clone(), cell(field))).collect();
    reader.get_row_iter(None).expect("rows").map(|each| row(each.expect("a row"))).collect()
}

#[test]
fn a_sweep_that_is_wrong_says_where() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor_for("1s", "rate = \"50/s\"").toml());
    let said = |rest: &str| {
        scratch.write("sweep.toml", format!("[sweep]\nexperiment = \"trial.toml\"\n{rest}"));
        let done = scratch.run(&["sweep", "sweep.toml", "--out", "out", "--quiet"]);
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(!scratch.path("out").exists(), "nothing was begun");
        done.stderr
    };
    let unknown = said("[grid]\n\"links.default.delay\" = [\"1ms\"]\n\"nodes.sendre.count\" = [1, 2]\n");
    assert!(unknown.contains("sweep.toml:5:1") && unknown.contains("did you mean `sender`"), "{unknown}");
    let value = said("[grid]\n\"nodes.sender.count\" = [1, 2, -3]\n");
    assert!(value.contains("sweep.toml:4:1") && value.contains("nodes.sender.count=-3"), "{value}");
    let fixed = said("set = { \"experiment.duration\" = \"5x\" }\n[grid]\n\"nodes.sender.count\" = [1]\n");
    assert!(fixed.contains("sweep.toml:3:9") && fixed.contains("no unit of a duration"), "{fixed}");
    assert!(said("[gird]\n").contains("sweep.toml:3:2"));
    let range = said("[random]\npoints = 2\n[random.ranges]\n\"nodes.sender.count\" = { from = 2, to = 1 }\n");
    assert!(range.contains("sweep.toml:6:24") && range.contains("below `to`"), "{range}");
}

#[test]
fn the_shipped_sweep_shows_what_it_says() {
    let _busy = beside();
    let scratch = Scratch::new();
    let file = format!("{CONFIGS}/sweeps/drones.toml");
    let done = scratch.run(&["sweep", &file, "--out", "drones", "--quiet"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let rows = rows(&scratch.path("drones/sweep.parquet"));
    let late: Vec<(u64, bool)> = rows
        .iter()
        .map(|row| (number(&row["nodes.camera.count"]) as u64, number(&row["response_p99_ms"]) > 200.0))
        .collect();
    assert_eq!(late.len(), 15);
    assert!(late.iter().all(|(count, late)| *late == (*count > 13)), "{late:?}");
}
