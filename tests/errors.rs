//! What a user can do wrong in a file: each mistake is named with its place and a way out, ends with its own exit code,
//! and leaves nothing behind.

use std::fs;

use crate::support::{CONFIGS, Done, PROGRAM, Running, Scratch};

/// An experiment without mistakes; the cases below put one in.
pub const GOOD: &str = r#"[experiment]
name = "trial"
duration = "2s"

[hosts.laptop]
cores = 4

[nodes.sensor]
count = 2
host = "laptop"
vcpu = 1

[nodes.sensor.actors.main]
kind = "sensor"
to = "receiver/main"
rate = "20/s"
in_flight = 4
timeout = "1s"
bytes = "1kB"

[nodes.receiver.actors.main]
kind = "receiver"
workers = 16
analyzer = { pause = "1ms" }

[links.default]
carrier = "http1"
loss = "1%"

[thresholds]
"response.p99" = "<100ms"
"#;

/// What the good file says, what the bad one says instead, where the error is, and what it says.
type Case = (&'static str, &'static str, &'static str, &'static [&'static str]);

const KEYS: &[Case] = &[
    (
        "in_flight",
        "in_fligth",
        "17:1",
        &["unknown key `in_fligth` in actor `sensor/main`", "did you mean `in_flight`?"],
    ),
    ("duration", "duratoin", "3:1", &["unknown key `duratoin` in `[experiment]`", "did you mean `duration`?"]),
    ("[links.", "[link.", "26:2", &["unknown key `link`", "did you mean `links`?"]),
    ("cores = 4", "", "5:1", &["lacks the key `cores`"]),
    ("kind = \"sensor\"\n", "", "13:1", &["`sensor/main` lacks the key `kind`", "`camera`", "`sensor`"]),
    ("to = \"receiver/main\"\n", "", "13:1", &["`sensor/main` lacks the key `to`"]),
    ("duration = \"2s\"\n", "", "1:1", &["nothing says when a run ends", "write `duration = \"60s\"`"]),
    ("duration = \"2s\"", "stop = \"all-requests-done\"", "13:22", &["would never end", "give it `requests`"]),
    ("[hosts.laptop]", "[hosts.laptop", "5:14", &["unclosed table"]),
    ("cores = 4", "cores = 4\ncores = 5", "7:1", &["duplicate key"]),
];

const UNITS: &[Case] = &[
    ("\"20/s\"", "20", "16:8", &["`rate`: `20` has no unit; write for instance `20/s`"]),
    ("\"20/s\"", "\"20\"", "16:8", &["`20` has no unit"]),
    ("\"20/s\"", "\"20ms\"", "16:8", &["`20ms` is not a rate", "`25/s`"]),
    ("\"20/s\"", "\"0/s\"", "16:8", &["`0/s` is out of range", "above zero"]),
    ("\"20/s\"", "\"-20/s\"", "16:8", &["`-20/s` is out of range"]),
    ("\"1s\"", "1", "18:11", &["`timeout`: `1` has no unit; write for instance `1s`"]),
    ("\"1s\"", "\"0s\"", "18:11", &["`timeout` must be above zero"]),
    ("\"1s\"", "\"-1s\"", "18:11", &["`-1s` is out of range: it cannot be negative"]),
    ("\"2s\"", "\"0s\"", "3:12", &["`duration` must be above zero"]),
    ("\"2s\"", "\"-2s\"", "3:12", &["it cannot be negative"]),
    ("\"1kB\"", "1000", "19:9", &["`bytes`: `1000` has no unit"]),
    ("\"1kB\"", "\"1kb\"", "19:9", &["`kb` is no unit of a size", "kB"]),
    ("\"1kB\"", "\"1B\"", "19:9", &["a reading of this device has 77B to 16MiB"]),
    ("\"1%\"", "0.01", "28:8", &["`loss`: `0.01` has no unit"]),
    ("\"1%\"", "\"101%\"", "28:8", &["a share lies between 0% and 100%"]),
    ("vcpu = 1", "vcpu = 0", "11:8", &["`vcpu`: 0 is out of range: it must be above 0"]),
    ("count = 2", "count = 0", "9:9", &["`count`: 0 is out of range: it must be at least 1"]),
    ("count = 2", "count = -2", "9:9", &["it must be at least 1"]),
    ("in_flight = 4", "in_flight = 0", "17:13", &["it must be at least 1"]),
    ("in_flight = 4", "streams = 0", "17:11", &["it must be at least 1"]),
    ("in_flight = 4", "requests = 0", "17:12", &["it must be at least 1"]),
    ("workers = 16", "workers = 0", "23:11", &["it must be at least 1"]),
    ("workers = 16", "workers = \"many\"", "23:11", &["the text \"many\", a whole number is needed"]),
    ("\"2s\"", "\"2s\"\nwarmup = \"3s\"", "4:10", &["leave nothing of the 2s to measure"]),
];

const NAMES: &[Case] = &[
    ("\"sensor\"", "\"senser\"", "14:8", &["there is no kind `senser`", "did you mean `sensor`?"]),
    ("\"receiver/main\"", "\"reciever/main\"", "15:6", &["there is no node `reciever`", "did you mean `receiver`?"]),
    ("\"receiver/main\"", "\"receiver/mian\"", "15:6", &["there is no actor `receiver/mian`", "did you mean `main`?"]),
    ("\"receiver/main\"", "\"receiver\"", "15:6", &["not of the form `node/actor`", "write `receiver/main`"]),
    ("\"receiver/main\"", "\"sensor/main\"", "15:6", &["it would send to itself", "write `receiver/main`"]),
    ("\"laptop\"", "\"labtop\"", "10:8", &["there is no host `labtop`", "did you mean `laptop`?"]),
    ("[links.default]", "[links.\"sensor->reciever\"]", "26:8", &["there is no node `reciever`", "`receiver`?"]),
    ("\"http1\"", "\"htpp1\"", "27:11", &["`htpp1` is not one of its values", "did you mean `http1`?"]),
    ("actors.main]\nkind = \"rec", "actors.host]\nkind = \"rec", "21:24", &["`host` cannot be the name of an actor"]),
    ("\"trial\"", "\"Trial 1\"", "2:8", &["`Trial 1` holds `T`", "lower-case letters"]),
    ("workers = 16", "listen = \"localhost\"", "23:10", &["`localhost` is no address", "`127.0.0.1:8080`"]),
    ("response.p99", "latency.p99", "31:1", &["does not say from when it counts", "`response.p99`", "`lag.p99`"]),
    ("\"<100ms\"", "\"100ms\"", "31:18", &["begins with `<`, `<=`, `>` or `>=`", "`<100ms`"]),
    ("\"<100ms\"", "\"<100\"", "31:18", &["`100` has no unit"]),
];

#[test]
fn each_mistake_in_a_file_is_named_with_its_place() {
    let scratch = Scratch::new();
    for (good, bad, place, says) in [KEYS, UNITS, NAMES].concat() {
        assert!(GOOD.contains(good), "the file does not hold {good}");
        scratch.write("trial.toml", GOOD.replacen(good, bad, 1));
        for verb in ["check", "simulate", "emulate"] {
            let done = scratch.run(&[verb, "trial.toml"]);
            must_fail(&done, 2, &[&[&*format!("trial.toml:{place}: ")], says].concat());
            assert_eq!(scratch.listing(), ["trial.toml"], "{verb} left something: {bad}");
        }
    }
}

#[test]
fn several_mistakes_are_told_at_once() {
    let scratch = Scratch::new();
    let bad = GOOD.replace("\"20/s\"", "20").replace("in_flight", "in_fligth").replace("\"laptop\"", "\"labtop\"");
    scratch.write("trial.toml", bad);
    let done = scratch.run(&["check", "trial.toml"]);
    must_fail(&done, 2, &["trial.toml:10:8: ", "trial.toml:16:8: ", "trial.toml:17:1: "]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let scratch = Scratch::new();
    scratch.write("latin1.toml", [GOOD.as_bytes(), b"# caf\xe9\n"].concat());
    scratch.write("empty.toml", "");
    fs::create_dir(scratch.path("folder.toml")).expect("a folder");
    let before = scratch.listing();
    let offset = format!("byte {} (value 0xe9) is not UTF-8", GOOD.len() + "# caf".len());
    let cases: [(&str, &[&str]); 4] = [
        ("nowhere.toml", &["nowhere.toml", "cannot read the experiment", "No such file"]),
        ("folder.toml", &["folder.toml", "cannot read the experiment"]),
        ("latin1.toml", &["latin1.toml", &offset]),
        ("empty.toml", &["empty.toml", "lacks"]),
    ];
    for (file, says) in cases {
        for verb in ["check", "simulate", "emulate"] {
            must_fail(&scratch.run(&[verb, file]), 2, says);
        }
    }
    assert_eq!(scratch.listing(), before);
}

#[test]
fn a_clip_that_cannot_be_used_is_named_with_the_line_that_asks_for_it() {
    let camera = "kind = \"camera\"\nmedia = \"clip.mp4\"\nframe = \"100kB..200kB\"";
    let file = GOOD.replacen("kind = \"sensor\"", camera, 1).replace("bytes = \"1kB\"\n", "");
    let scratch = Scratch::new();
    scratch.write("trial.toml", file);
    let whole = fs::read(format!("{CONFIGS}/media/reference.mp4")).expect("the reference clip");
    let clips: [(Option<&[u8]>, &[&str]); 4] = [
        (None, &["No such file", "`--base DIR` names another folder"]),
        (Some(b"this is no clip"), &[]),
        (Some(&whole[..whole.len() / 2]), &[]),
        (Some(&whole[..200]), &[]),
    ];
    for (clip, says) in clips {
        if let Some(bytes) = clip {
            scratch.write("clip.mp4", bytes);
        }
        let before = scratch.listing();
        for verb in ["check", "simulate", "emulate"] {
            let done = scratch.run(&[verb, "trial.toml"]);
            must_fail(&done, 2, &[&["trial.toml:15:9: ", "clip.mp4"], says].concat());
            assert_eq!(scratch.listing(), before);
        }
    }
}

#[test]
fn each_mistake_on_the_command_line_is_named() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--set", "x"], &["--set x", "needs a key, `=` and a value", "--set nodes.camera.count=8"]),
        (&["--set", "nodes.senor.count=1"], &["there is no node `senor`", "did you mean `sensor`?"]),
        (&["--set", "nodes.sensor.actors.main.rat=5"], &["unknown key `rat`", "did you mean `rate`?"]),
        (&["--set", "nodes.sensor.actors.main.rate=5"], &["--set", "`5` has no unit", "`5/s`"]),
        (&["--duration", "5"], &["`duration`: `5` has no unit"]),
        (&["--repetitions", "0"], &["`repetitions`: 0 is out of range"]),
        (&["--scale", "0"], &["--scale: 0 is out of range"]),
        (&["--scale=-1"], &["--scale: -1 is out of range"]),
        (&["--seed", "abc"], &["'abc'", "--seed"]),
        (&["--seed", "9007199254740992"], &["`seed`: 9007199254740992 is out of range", "(2^53 − 1)"]),
        (&["--scale", "nan"], &["--scale: NaN is out of range: a factor is a number above zero"]),
        (&["--scale", "1e300"], &["--scale: 1e300 is out of range"]),
        (&["--format", "yaml"], &["'yaml'", "text, json"]),
        (&["--nonsense"], &["unexpected argument '--nonsense'"]),
    ];
    let engine: &[(&[&str], &[&str])] = &[
        (&["--only", "nobody"], &["--only: there is no node `nobody`", "`receiver`", "`sensor-1`"]),
        (&["--without", "recever"], &["--without: there is no node `recever`", "did you mean `receiver`?"]),
        (&["--only", "sensor", "--without", "receiver"], &["cannot be used with"]),
        (&["--quantum", "5"], &["--quantum: `5` has no unit; write for instance `5us`"]),
        (&["--quantum=-1us"], &["--quantum: `-1us` is out of range"]),
        (&["--shards", "0"], &["--shards: at least one is needed"]),
        (&["--allow", "everyone"], &["--allow: `everyone` is no address range", "192.0.2.0/24"]),
    ];
    let scratch = Scratch::new();
    scratch.write("trial.toml", GOOD);
    for (verb, cases) in [("simulate", cases), ("emulate", cases), ("emulate", engine)] {
        for (flags, says) in cases {
            let done = scratch.run(&[&[verb, "trial.toml"], *flags].concat());
            must_fail(&done, 2, says);
            assert_eq!(scratch.listing(), ["trial.toml"], "{verb} {flags:?}");
        }
    }
    must_fail(&scratch.run(&["rehearse", "trial.toml"]), 2, &["unrecognized subcommand 'rehearse'"]);
    must_fail(&scratch.run(&["simulate"]), 2, &["<FILE>"]);
    must_fail(&scratch.run(&["check"]), 2, &["check [OPTIONS] <FILE>"]);
    must_fail(&scratch.run(&["simulate", "trial.toml", "--only", "sensor"]), 2, &["unexpected argument '--only'"]);
    let mut variable = scratch.command(PROGRAM, &["simulate", "trial.toml"]);
    variable.env("REHEARSAL_SEED", "abc");
    must_fail(&Running::spawn(variable).wait(), 2, &["'abc'", "comes from the variable REHEARSAL_SEED"]);
}

/// In real time each round takes a while, so that `check` tells it and `emulate` would run it.
#[test]
fn a_closed_loop_that_costs_nothing_is_not_simulated() {
    let scratch = Scratch::new();
    let free = GOOD.replace("rate = \"20/s\"\n", "").replace("loss = \"1%\"\n", "").replace("1ms", "0s");
    scratch.write("trial.toml", &free);
    let done = scratch.run(&["simulate", "trial.toml"]);
    must_fail(
        &done,
        2,
        &["trial.toml:15:6: `sensor/main`: a closed loop that costs nothing never ends in virtual time"],
    );
    assert_eq!(scratch.listing(), ["trial.toml"]);
    let done = scratch.run(&["check", "trial.toml"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("`simulate` refuses this"), "{}", done.stdout);
    scratch.write("trial.toml", free.replace("bytes = ", "requests = 100\nbytes = "));
    scratch.simulate("trial.toml", "counted", &[]);
}

/// The bundle's copy of an experiment runs again, wherever it lies.
#[test]
fn the_copy_in_a_bundle_runs_again_from_the_folder_of_the_original() {
    let camera = "kind = \"camera\"\nmedia = \"clip.mp4\"\nframe = \"100kB..200kB\"";
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("of")).expect("a folder");
    fs::copy(format!("{CONFIGS}/media/reference.mp4"), scratch.path("of/clip.mp4")).expect("the reference clip");
    scratch.write("of/trial.toml", GOOD.replacen("kind = \"sensor\"", camera, 1).replace("bytes = \"1kB\"\n", ""));
    scratch.run(&["simulate", "of/trial.toml", "--out", "one", "--quiet"]);
    must_fail(&scratch.run(&["check", "one/experiment.toml"]), 2, &["clip.mp4", "looked for in `one`", "--base DIR"]);
    let again = ["simulate", "one/experiment.toml", "--base", "of", "--out", "two", "--quiet"];
    let done = scratch.run(&again);
    assert_eq!(done.stderr, "");
    let read = |name: &str| fs::read_to_string(scratch.path(name)).expect("a whole bundle");
    assert_eq!(read("one/summary.json"), read("two/summary.json"));
    assert!(read("two/experiment.toml").contains("`--base DIR`"));
}

/// A pipe whose reader went away is no error; a full disk is one.
#[test]
fn output_that_cannot_be_written_is_told() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", GOOD);
    for args in ["check trial.toml", "simulate trial.toml --quiet --out full", "--help"] {
        let full = scratch.command("sh", &["-c", &format!("{PROGRAM} {args} > /dev/full")]);
        assert_eq!(Running::spawn(full).wait().code, Some(1), "{args}");
    }
    assert!(scratch.path("full/summary.json").exists(), "the bundle is whole all the same");
    let closed = format!("{PROGRAM} check trial.toml | true; exec {PROGRAM} check trial.toml > /dev/full");
    must_fail(&Running::spawn(scratch.command("sh", &["-c", &closed])).wait(), 1, &["cannot write to standard output"]);
}

#[test]
fn init_never_overwrites() {
    let scratch = Scratch::new();
    assert_eq!(scratch.run(&["init", "mine.toml"]).code, Some(0));
    assert_eq!(scratch.run(&["check", "mine.toml"]).code, Some(0), "the first experiment is a good one");
    scratch.write("mine.toml", "# mine\n");
    must_fail(&scratch.run(&["init", "mine.toml"]), 3, &["mine.toml exists"]);
    assert_eq!(fs::read_to_string(scratch.path("mine.toml")).expect("it is there"), "# mine\n");
}

/// The program ended with `code`, and said so on standard error alone.
pub fn must_fail(done: &Done, code: i32, says: &[&str]) {
    assert_eq!(done.code, Some(code), "expected {says:?} in\n{}", done.stderr);
    assert!(done.stderr.contains("error: "), "{}", done.stderr);
    assert_eq!(done.stdout, "", "an error belongs on standard error");
    for part in says {
        assert!(done.stderr.contains(part), "`{part}` is not in\n{}", done.stderr);
    }
}
