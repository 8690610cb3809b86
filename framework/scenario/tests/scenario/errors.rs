//! What a mistake in a table is answered with.

use rehearsal_core::Span;
use rehearsal_scenario::{ERRORS_MAX, LoadOptions, Problem, load as load_file};

use super::kinds::registry;
use super::support::{GOOD, bad, good, load, spoilt, tells};

#[test]
fn an_error_shows_place_line_caret_and_help() {
    assert_eq!(
        spoilt("rate = \"25/s\"", "rtae = \"25/s\""),
        "x.toml:17:1: unknown key `rtae` in actor `sensor/main`\n 17 | rtae = \"25/s\"\n    | ^^^^\n    help: did you mean `rate`?"
    );
}

#[test]
fn unknown_keys_are_found_at_every_level() {
    tells(&spoilt("[hosts.lab]", "[host.lab]"), &["unknown key `host` in an experiment", "did you mean `hosts`?"]);
    tells(&spoilt("duration", "durration"), &["unknown key `durration` in `[experiment]`", "did you mean `duration`?"]);
    tells(
        &spoilt("cores", "cors"),
        &["unknown key `cors` in host `lab`", "did you mean `cores`?", "lacks the key `cores`"],
    );
    tells(&spoilt("vcpu = 1", "vcpus = 1"), &["unknown key `vcpus` in node `sensor`", "did you mean `vcpu`?"]);
    tells(
        &spoilt("workers", "workres"),
        &["unknown key `workres` in actor `receiver/main`", "did you mean `workers`?"],
    );
    tells(&spoilt("delay", "dleay"), &["unknown key `dleay` in link `sensor->receiver`", "did you mean `delay`?"]);
    let nested = spoilt("workers = 8", "analyzer = { pauze = \"1ms\" }");
    tells(&nested, &["x.toml:22:14: unknown key `pauze` in `analyzer`", "did you mean `pause`?"]);
    tells(
        &spoilt("workers = 8", "rate = \"1/s\""),
        &["only senders have the key `rate`", "a `receiver` sends nothing"],
    );
}

#[test]
fn several_errors_are_told_at_once_in_the_order_of_the_file() {
    let text = GOOD
        .replace("cores = 4", "cores = 0")
        .replace("\"25/s\"", "25")
        .replace("workers", "wokers")
        .replace("1ms", "1");
    let errors = load(&text).expect_err("four mistakes").errors;
    let lines: Vec<usize> = errors.iter().filter_map(|e| e.place.as_ref()).map(|place| place.line).collect();
    assert_eq!(lines, [7, 17, 22, 25]);
    let many: String = (0..30).map(|n| format!("x{n} = 1\n")).collect();
    let errors = load(&GOOD.replace("cores = 4\n", &format!("cores = 4\n{many}"))).expect_err("thirty mistakes");
    assert_eq!((errors.errors.len(), errors.more), (ERRORS_MAX, 10));
    assert!(errors.to_string().ends_with("and 10 more"));
}

#[test]
fn two_bad_values_of_one_table_are_both_told() {
    let text = spoilt("rate = \"25/s\"", "rate = 25\ntimeout = 3\nbytes = 7");
    tells(
        &text,
        &["x.toml:17:8:", "`25` has no unit; write for instance `25/s`", "x.toml:18:11:", "write for instance `3s`"],
    );
    tells(&text, &["x.toml:19:9: `bytes`: `7` has no unit"]);
}

#[test]
fn values_without_unit_zero_and_negative_are_refused() {
    tells(&spoilt("\"10s\"", "10"), &["x.toml:4:12: `duration`: `10` has no unit; write for instance `10s`"]);
    tells(&spoilt("\"10s\"", "\"10 parsec\""), &["`parsec` is no unit of a duration"]);
    tells(&spoilt("\"10s\"", "\"0s\""), &["`duration` must be above zero"]);
    tells(&spoilt("\"10s\"", "\"-10s\""), &["it cannot be negative"]);
    tells(&spoilt("count = 2", "count = 0"), &["`count`: 0 is out of range: it must be at least 1"]);
    tells(&spoilt("count = 2", "count = -2"), &["`count`: -2 is out of range: it must be at least 1"]);
    tells(&spoilt("count = 2", "count = 2.5"), &["`count`: this is the number `2.5`, a whole number is needed"]);
    tells(&spoilt("count = 2", "count = \"2\""), &["a whole number is needed"]);
    tells(&spoilt("vcpu = 1", "vcpu = 0"), &["`vcpu`: 0 is out of range: it must be above 0"]);
    tells(&spoilt("vcpu = 1", "vcpu = nan"), &["`vcpu`: nan is out of range"]);
    tells(&spoilt("workers = 8", "workers = 0"), &["`workers`: 0 is out of range: it must be at least 1"]);
    tells(&spoilt("\"25/s\"", "\"0/s\""), &["`0/s` is out of range"]);
    tells(&spoilt("requests = 100", "requests = 0"), &["`requests`: 0 is out of range"]);
    tells(&spoilt("requests = 100", "timeout = \"0s\""), &["`timeout` must be above zero"]);
    tells(&spoilt("requests = 100", "limit = { deadline = \"0s\" }"), &["`deadline` must be above zero"]);
    tells(
        &spoilt("requests = 100", "limit = 5"),
        &["`limit`: a table is needed, not a whole number", "`as`, `deadline`"],
    );
    tells(
        &spoilt("requests = 100", "on_late = \"skipp\""),
        &["`skipp` is not one of its values", "did you mean `skip`?"],
    );
    tells(&spoilt("cores = 4", "cores = 4\nmemory = \"0B\""), &["`memory` must be above zero"]);
    tells(
        &spoilt("workers = 8", "listen = \"here\""),
        &["`listen`: this is no address; write for instance `127.0.0.1:7001`"],
    );
    tells(
        &spoilt("\"10s\"", "\"10s\"\nseed = 9223372036854775808"),
        &["`seed`: 9223372036854775808 is out of range", "(2^53 − 1)"],
    );
    tells(&spoilt("\"10s\"", "\"10s\"\nseed = 9007199254740992"), &["it must be at most 9007199254740991 (2^53 − 1)"]);
    assert_eq!(spoilt("count = 2", "count = 99999999999999999999").matches("x.toml:").count(), 1);
}

#[test]
fn durations_beyond_reason_are_refused() {
    tells(&spoilt("\"10s\"", "\"9000h\""), &["`duration` is 9000 h, at most 8784 h are possible"]);
    tells(&spoilt("requests = 100", "timeout = \"25h\""), &["`timeout` is 25 h, at most 24 h are possible"]);
    tells(&spoilt("\"1ms\"", "\"25h\""), &["`delay` is 25 h"]);
    tells(&spoilt("requests = 100", "requests = 1000000000"), &["so many requests at this rate take"]);
    tells(&spoilt("\"25/s\"", "\"1/9000h\""), &["so many requests at this rate take"]);
    let default = format!("{GOOD}[links.default]\njitter = \"25h\"\n");
    tells(&bad(&default), &["x.toml:26:8: `jitter` is 25 h"]);
}

#[test]
fn names_keep_the_grammar_of_subjects() {
    tells(&spoilt("\"small\"", "\"Small\""), &["x.toml:3:8: experiment name: `Small` holds `S`"]);
    tells(&spoilt("\"small\"", "\"fleet\""), &["`fleet` cannot be the name of an experiment"]);
    tells(&spoilt("\"small\"", "\"\""), &["experiment name: an empty token"]);
    let long = "n".repeat(31);
    let text = GOOD.replace("nodes.sensor", &format!("nodes.{long}")).replace("sensor->", &format!("{long}->"));
    tells(&bad(&text), &["node name: ", "has 33 characters, at most 32"]);
    tells(&spoilt("receiver.actors.main", "receiver.actors.host"), &["`host` cannot be the name of an actor"]);
    tells(&spoilt("receiver.actors.main", "receiver.actors.logger"), &["`logger` cannot be the name of an actor"]);
    tells(&spoilt("receiver.actors.main", "receiver.actors.\"a.b\""), &["actor name: `a.b` holds `.`"]);
    let twin = format!("{GOOD}[nodes.sensor-2.actors.main]\nkind = \"receiver\"\n");
    tells(&bad(&twin), &["node `sensor` and node `sensor-2` would both be called `sensor-2`"]);
    let control = format!("{GOOD}[nodes.control.actors.main]\nkind = \"receiver\"\n");
    tells(&bad(&control), &["`control` cannot be the name of a node"]);
}

#[test]
fn text_that_is_no_toml_is_told_with_its_place() {
    tells(&spoilt("cores = 4", "cores = "), &["x.toml:7:"]);
    tells(&spoilt("cores = 4", "cores = 4\ncores = 5"), &["x.toml:8:1: duplicate key"]);
    tells(&spoilt("[nodes.receiver.actors.main]", "[nodes.sensor]"), &["x.toml:20:", "duplicate key"]);
    tells(&bad(""), &["the file lacks the key `experiment`", "the file lacks the key `nodes`", "[nodes.X]"]);
    tells(&bad("experiment = 5\n[nodes]\n"), &["`experiment`: a table is needed, not a whole number"]);
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let folder = std::env::temp_dir().join(format!("rehearsal-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let options = LoadOptions::default();
    let missing = load_file(&folder.join("none.toml"), &registry(), &options).expect_err("no file");
    assert!(matches!(missing.errors[0].problem, Problem::Unreadable { .. }), "{missing}");
    tells(&missing.to_string(), &["none.toml"]);
    let latin = folder.join("latin.toml");
    std::fs::write(&latin, b"# a\nname = \"caf\xe9\"\n").expect("written");
    let error = load_file(&latin, &registry(), &options).expect_err("no UTF-8");
    assert_eq!(error.errors[0].problem, Problem::NotUtf8 { offset: 15, value: 0xe9 });
    tells(&error.to_string(), &["latin.toml:2:12: byte 15 (value 0xe9) is not UTF-8"]);
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn thresholds_are_answered_where_they_stand() {
    let with = |line: &str| bad(&format!("{GOOD}\n[thresholds]\n{line}\n"));
    tells(&with("\"latency.p99\" = \"<1ms\""), &["x.toml:28:1:", "`response.p99`", "`service.p99`", "`lag.p99`"]);
    tells(&with("\"response.p99\" = \"<100\""), &["x.toml:28:18:", "`100` has no unit"]);
    tells(&with("\"response.p99\" = \"100ms\""), &["a limit begins with", "`<100ms`"]);
    tells(&with("response.p99 = \"<1ms\""), &["put the whole name in quotes"]);
    tells(&with("\"lost.ratio\" = 0"), &["this is a whole number, not text"]);
    let fine = good(&format!("{GOOD}\n[thresholds]\n\"success.rate\" = \">20/s\"\n\"lag.max\" = \"<=1s\"\n"));
    let texts: Vec<String> = fine.thresholds.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["success.rate >20/s", "lag.max <=1s"]);
}

#[test]
fn a_threshold_that_ends_a_run_is_a_table() {
    let with = |line: &str| format!("{GOOD}\n[thresholds]\n{line}\n");
    let after = |line: &str| good(&with(line)).thresholds[0].abort_after;
    assert_eq!(after("\"lost.ratio\" = { limit = \"<1%\" }"), None);
    assert_eq!(after("\"lost.ratio\" = { limit = \"<1%\", abort = true }"), Some(Span::from_secs(10)));
    let short = "\"lost.ratio\" = { limit = \"<1%\", abort = true, after = \"2s\" }";
    assert_eq!(after(short), Some(Span::from_secs(2)));
    let again = good(&good(&with(short)).resolved_toml());
    assert_eq!(again.thresholds, good(&with(short)).thresholds);
    tells(&bad(&with("\"lost.ratio\" = { abort = true }")), &["`limit`", "threshold `lost.ratio`"]);
    tells(&bad(&with("\"lost.ratio\" = { limit = \"<1%\", abrot = true }")), &["`abrot`", "did you mean `abort`?"]);
    tells(&bad(&with("\"lost.ratio\" = { limit = \"1%\", abort = true }")), &["x.toml:28:26:", "a limit begins with"]);
    tells(
        &bad(&with("\"lost.ratio\" = { limit = \"<1%\", after = \"2s\" }")),
        &["`after` means nothing without `abort`"],
    );
    let grows = bad(&with("\"success.count\" = { limit = \">10\", abort = true }"));
    tells(&grows, &["grows until the end", "success.rate"]);
    let udp = with(short).replace("delay = \"1ms\"", "carrier = \"udp\"");
    tells(&bad(&udp), &["`lost.ratio` is known when the run has ended"]);
}

#[test]
fn no_damage_to_a_file_is_a_panic_and_every_place_exists() {
    let mut refused = 0;
    for (at, c) in GOOD.char_indices() {
        let after = at + c.len_utf8();
        let (cut, gone) = (&GOOD[..at], format!("{}{}", &GOOD[..at], &GOOD[after..]));
        for text in [cut.to_owned(), gone, format!("{cut}\u{fffd}{}", &GOOD[at..]), format!("{cut}\n\"{}", &GOOD[at..])]
        {
            let Err(errors) = load(&text) else { continue };
            refused += 1;
            for place in errors.errors.iter().filter_map(|error| error.place.as_ref()) {
                assert!(place.line <= text.lines().count() + 1, "{errors}");
                assert!(place.column <= place.text.chars().count() + 1, "{errors}");
            }
        }
    }
    assert!(refused > 1000, "{refused} of {} files were refused", 4 * GOOD.len());
}

#[test]
fn services_are_no_targets() {
    for service in ["receiver/logger", "control/controller"] {
        tells(
            &spoilt("to = \"receiver/main\"", &format!("to = \"{service}\"")),
            &[&format!("`{service}` cannot receive: it is a service and takes no traffic"), "write `receiver/main`"],
        );
    }
}

#[test]
fn ranges_and_exponents_are_answered() {
    tells(
        &spoilt("requests = 100", "bytes = \"5kB..1kB\""),
        &["`5kB..1kB` is a range, one size is wanted", "write for instance `5kB`"],
    );
    for text in ["1e30s", "1.5E-3s"] {
        tells(&spoilt("\"10s\"", &format!("\"{text}\"")), &[&format!("`{text}` has an exponent"), "plain digits"]);
    }
}

#[test]
fn what_a_file_says_cannot_steer_a_terminal() {
    let told = spoilt("\"small\"", "\"a\\u001B[2J\\nb\"");
    assert!(told.contains("\\u{1b}[2J\\nb"), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");
    let long = spoilt("\"1ms\"", &format!("\"1parsec\" # {}", "x".repeat(100_000)));
    assert!(long.len() < 600 && long.contains("no unit of a duration"), "{long}");
}
