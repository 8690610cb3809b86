//! What the command line changes.

use std::path::Path;

use rehearsal_core::plan::Stop;
use rehearsal_core::time::Span;
use rehearsal_scenario::{Experiment, LoadOptions};

use super::support::{GOOD, load, load_with, tells};

fn options(sets: &[&str]) -> LoadOptions {
    LoadOptions { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..LoadOptions::default() }
}

fn set(text: &str, sets: &[&str]) -> Experiment {
    load_with(text, &options(sets)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(options: &LoadOptions) -> String {
    load_with(GOOD, options).expect_err("refused").to_string()
}

#[test]
fn sets_override_the_file() {
    let sets = [
        "nodes.sensor.count=8",
        "experiment.duration=5s",
        "nodes.sensor.actors.main.rate=50/s",
        "links.default.loss=1%",
    ];
    let experiment = set(GOOD, &sets);
    assert_eq!(experiment.nodes[0].count(), 8);
    assert_eq!(experiment.stop, Stop::After(Span::from_secs(5)));
    assert_eq!(experiment.totals().rate, Some(400.0));
    assert_eq!(experiment.links[0].loss.0, 0.01);
    assert_eq!(experiment.links[1].loss.0, 0.01, "a link takes from the default what it leaves out");
    let twice = set(GOOD, &["experiment.seed=7", "experiment.seed=8"]);
    assert_eq!(twice.seed, 8);
}

#[test]
fn duration_and_stop_replace_each_other() {
    let counted = set(GOOD, &["experiment.stop=all-requests-done"]);
    assert_eq!(counted.stop, Stop::AllRequestsDone);
    let text = GOOD.replace("duration = \"10s\"", "stop = \"all-requests-done\"");
    assert_eq!(set(&text, &["experiment.duration=5s"]).stop, Stop::After(Span::from_secs(5)));
}

#[test]
fn errors_name_the_set_and_show_it() {
    assert_eq!(
        refused(&options(&["nodes.sensor.coutn=8"])),
        "--set nodes.sensor.coutn=8: unknown key `coutn` in node `sensor`\n  | nodes.sensor.coutn=8\n  |              ^^^^^\n  help: did you mean `count`?"
    );
    tells(
        &refused(&options(&["experiment.duration=5"])),
        &["--set experiment.duration=5: `duration`: `5` has no unit"],
    );
    tells(&refused(&options(&["nodes.sensor.count=0"])), &["--set nodes.sensor.count=0: `count`: 0 is out of range"]);
    tells(
        &refused(&options(&["nodes.sensor.actors.man.rate=1/s"])),
        &["there is no actor `man`", "did you mean `main`?"],
    );
    tells(&refused(&options(&["hosts.lap.cores=1"])), &["there is no host `lap`", "did you mean `lab`?"]);
}

#[test]
fn scale_shrinks_requests_and_durations_down_to_a_bound() {
    let scaled = |factor| LoadOptions { scale: Some(factor), ..LoadOptions::default() };
    let experiment =
        |factor| load_with(&GOOD.replace("\"10s\"", "\"10s\"\nwarmup = \"2s\""), &scaled(factor)).expect("loads");
    let requests = |e: &Experiment| e.nodes[0].actors[0].sender.as_ref().and_then(|sender| sender.requests);
    let half = experiment(0.5);
    assert_eq!(
        (requests(&half), half.stop, half.warmup),
        (Some(50), Stop::After(Span::from_secs(5)), Span::from_secs(1))
    );
    let least = experiment(0.0001);
    assert_eq!((requests(&least), least.stop), (Some(1), Stop::After(Span::from_secs(1))));
    assert_eq!(least.warmup, Span::ZERO, "a part of a second would leave nothing to measure");
    assert!(least.notes[0].contains("scaled by 0.0001"));
    assert_eq!(least.notes[1], "sensor/main: requests scaled to 1 per stream, the least there is");
    assert_eq!(least.notes[2], "duration scaled to 1 s, the least there is");
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        tells(&refused(&scaled(factor)), &[&format!("--scale: {factor} is out of range"), "above zero"]);
    }
    tells(&refused(&scaled(1e300)), &["--scale: 1e300 is out of range", "more requests than can be counted"]);
    tells(&refused(&scaled(1e7)), &["--scale: 10000000 is out of range", "a run takes at most 8784 h"]);
}

#[test]
fn receivers_alone_wait_for_senders_elsewhere() {
    let stop = |only: &[&str]| {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        load_with(GOOD, &LoadOptions { only, ..LoadOptions::default() }).expect("loads").plan(0).info.stop
    };
    assert_eq!(stop(&[]), Stop::After(Span::from_secs(10)));
    assert_eq!(stop(&["sensor-2"]), Stop::After(Span::from_secs(10)));
    assert_eq!(stop(&["receiver"]), Stop::AllRequestsDone, "they do not know when the senders began");
}

#[test]
fn only_and_without_choose_the_nodes_of_this_process() {
    let choose = |only: &[&str], without: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        LoadOptions { only: owned(only), without: owned(without), ..LoadOptions::default() }
    };
    let local = |only: &[&str], without: &[&str]| {
        let experiment = load_with(GOOD, &choose(only, without)).expect("loads");
        experiment.plan(0).info.nodes.into_iter().map(|node| node.name).collect::<Vec<_>>()
    };
    assert_eq!(local(&[], &[]), ["sensor-1", "sensor-2", "receiver", "control"]);
    assert_eq!(local(&["sensor"], &[]), ["sensor-1", "sensor-2", "control"]);
    assert_eq!(local(&["sensor-2"], &[]), ["sensor-2", "control"]);
    assert_eq!(local(&[], &["receiver", "sensor-1"]), ["sensor-2", "control"]);
    assert_eq!(local(&["sensor"], &["sensor-1"]), ["sensor-2", "control"]);
    tells(&refused(&choose(&["sensr"], &[])), &["--only: there is no node `sensr`", "did you mean `sensor`?"]);
    tells(&refused(&choose(&[], &["sensor", "receiver"])), &["nothing is left to run"]);
}

#[test]
fn a_base_folder_takes_the_place_of_the_file_s() {
    let base = |base: Option<&str>| {
        let options = LoadOptions { base: base.map(Into::into), ..LoadOptions::default() };
        load_with(GOOD, &options).expect("loads").plan(0).base
    };
    assert_eq!(base(None), Path::new(""));
    assert_eq!(base(Some("configs")), Path::new("configs"));
}

#[test]
fn receivers_must_be_found_by_senders_elsewhere() {
    let hidden = |text: &str, only: &[&str]| {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        load_with(text, &LoadOptions { only, ..LoadOptions::default() }).expect("loads").hidden_receivers()
    };
    assert_eq!(hidden(GOOD, &["receiver"]), ["receiver/main"]);
    assert_eq!(hidden(GOOD, &["receiver", "sensor-1"]), ["receiver/main"], "one sender is elsewhere");
    assert_eq!(hidden(GOOD, &[]).len() + hidden(GOOD, &["sensor"]).len(), 0);
    let fixed = |at: &str| GOOD.replace("workers = 8", &format!("listen = \"{at}\""));
    assert_eq!(hidden(&fixed("127.0.0.1:7001"), &["receiver"]), Vec::<String>::new());
    assert_eq!(hidden(&fixed("127.0.0.1:0"), &["receiver"]), ["receiver/main"], "port 0 is nobody's");
}

#[test]
fn a_process_judges_what_it_measures() {
    let limits = "\"response.p99\" = \"<1s\"\n\"served.ratio\" = \">99%\"\n\"received.ratio\" = \">99%\"\n";
    let text = format!("{GOOD}[thresholds]\n{limits}");
    let judged = |only: &[&str]| {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        let experiment = load_with(&text, &LoadOptions { only, ..LoadOptions::default() }).expect("loads");
        let left_out = experiment.notes.iter().filter(|note| note.contains("is left out")).count();
        (experiment.judged().map(|t| t.key()).collect::<Vec<_>>(), left_out)
    };
    assert_eq!(judged(&[]).0.len(), 3);
    assert_eq!(judged(&["receiver"]), (vec!["served.ratio".to_owned()], 2));
    assert_eq!(judged(&["sensor-1"]), (vec!["response.p99".to_owned()], 2));
}

#[test]
fn a_closed_loop_that_costs_nothing_is_told() {
    let free = GOOD
        .replace("rate = \"25/s\"\nrequests = 100\n", "")
        .replace("delay = \"1ms\"", "connection = \"per-request\"");
    let experiment = load(&free).expect("it may be emulated");
    let told = experiment.ends_in_virtual_time().expect_err("it never ends").to_string();
    tells(&told, &["x.toml:16:6: `sensor/main`: a closed loop that costs nothing never ends in virtual time"]);
    tells(&told, &["give the link a delay or rate, the receiver an analyzer pause, or the sender a rate"]);
    assert!(experiment.notes.iter().any(|note| note.contains("`simulate` refuses this")), "{:?}", experiment.notes);
    for (from, to) in [
        ("to = \"receiver/main\"", "to = \"receiver/main\"\nrequests = 5"),
        ("to = \"receiver/main\"", "to = \"receiver/main\"\nrate = \"5/s\""),
        ("workers = 8", "analyzer = { pause = \"1ms\" }"),
        ("connection = \"per-request\"", "rate = \"1Gbit/s\""),
        ("sensor->receiver\"]", "receiver->sensor\"]\ndelay = \"1ms\""),
    ] {
        assert!(free.contains(from));
        let experiment = load(&free.replacen(from, to, 1)).expect("loads");
        assert!(experiment.ends_in_virtual_time().is_ok(), "{to}");
        assert!(!experiment.notes.iter().any(|note| note.contains("`simulate` refuses")), "{to}");
    }
}

#[test]
fn what_datagrams_and_addresses_mean_is_told() {
    let udp = GOOD
        .replace("delay = \"1ms\"", "carrier = \"udp\"")
        .replace("workers = 8", "listen = \"192.0.2.1:7000\"\nanalyzer = { pause = \"1ms\" }");
    let notes = load(&format!("{udp}[thresholds]\n\"response.p99\" = \"<1s\"\n")).expect("loads").notes;
    let notes = notes.join("\n");
    tells(&notes, &["threshold `response.p99 <1s` cannot be measured over `udp`"]);
    assert!(!notes.contains("record_requests"), "{notes}");
    let kept = udp.replace("[experiment]", "[experiment]\nrecord_requests = \"100%\"");
    let notes = load(&kept).expect("loads").notes.join("\n");
    tells(&notes, &["`record_requests` keeps exchanges: none of sensor/main, whose datagrams have no answer"]);
    let notes = load(&udp).expect("loads").notes.join("\n");
    tells(&notes, &["receiver/main: its analyzer does not act on datagrams"]);
    tells(&notes, &["listens on 192.0.2.1:7000, which is not loopback: `emulate` needs `--allow 192.0.2.1/32`"]);
}

#[test]
fn a_threshold_that_could_end_the_run_only_after_its_end_is_told() {
    let notes = |after: &str| {
        let limit = format!("\"lag.p99\" = {{ limit = \"<1s\", abort = true{after} }}");
        let notes = load(&format!("{GOOD}[thresholds]\n{limit}\n")).expect("loads").notes;
        notes.into_iter().filter(|note| note.starts_with("threshold")).collect::<Vec<_>>()
    };
    let told = "threshold `lag.p99 <1s` never ends the run: it may from 10 s on (`after`), and the run takes 10 s";
    assert_eq!(notes(", after = \"10s\""), [told]);
    assert_eq!(notes(""), [told], "ten seconds is what `after` is without a word");
    assert_eq!(notes(", after = \"9s\""), [""; 0]);
}
