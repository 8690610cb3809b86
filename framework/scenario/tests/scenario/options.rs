//! What the command line changes.

use rehearsal_core::plan::Stop;
use rehearsal_core::time::Span;
use rehearsal_scenario::{Experiment, LoadOptions};

use super::support::{GOOD, load_with, tells};

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
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        tells(&refused(&scaled(factor)), &["--scale", "above zero"]);
    }
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
