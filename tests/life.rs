//! What happens to a run on the way: somebody steers it, a node dies, falls silent, or comes back. Tests of nodes in
//! processes need a NATS server; without one they say so and pass.

use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use rustix::process::Signal;

use crate::support::family::{children, nodes, server, signal};
use crate::support::{Bundle, Done, Running, Scenario, Scratch, at_once, beside, until};

fn start(scratch: &Scratch, more: &[&str]) -> Running {
    let args = [&["emulate", "trial.toml", "--out", "b", "--quiet"], more].concat();
    scratch.start(&args)
}

fn control(scratch: &Scratch, args: &[&str]) -> Done {
    scratch.run(&[&["control"], args].concat())
}

/// The one run that answers, once traffic goes on.
fn running(scratch: &Scratch) -> String {
    let mut name = String::new();
    until("the run answers", || {
        let listed = control(scratch, &["list"]).stdout;
        name = listed.split_whitespace().next().unwrap_or_default().to_owned();
        listed.contains(" runs for ")
    });
    name
}

/// Kinds and nodes of the bundle's events.
fn events(bundle: &Bundle) -> Vec<(String, String)> {
    let file = File::open(bundle.folder.join("events.parquet")).expect("events.parquet");
    let reader = SerializedFileReader::new(file).expect("a table");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").into_columns());
    let text = |row: &[(String, Field)], name: &str| match row.iter().find(|(column, _)| column == name) {
        Some((_, Field::Str(text))) => text.clone(),
        other => panic!("{name}: {other:?}"),
    };
    rows.map(|row| (text(&row, "kind"), text(&row, "node"))).collect()
}

fn happened(bundle: &Bundle, kind: &str) -> usize {
    events(bundle).iter().filter(|(known, _)| known == kind).count()
}

/// Two senders and a receiver as processes; the run has begun when this returns.
fn three(scratch: &Scratch, experiment: &str, sender: &str) -> Running {
    let lines = format!("in_flight = 50\ntimeout = \"500ms\"\nretries = 1\n{sender}");
    let scenario = Scenario { senders: 2, experiment: experiment.to_owned(), ..Scenario::sensor(&lines) };
    scratch.write("trial.toml", scenario.toml());
    let run = start(scratch, &["--placement", "processes"]);
    running(scratch);
    until("every node has a process", || nodes(run.id()).len() == 3);
    run
}

/// The bundle of a run that went on to its end; on a busy machine its times may be doubted.
fn bundle(scratch: &Scratch, done: &Done) -> Bundle {
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    Bundle::read(&scratch.path("b"))
}

/// The bundle of such a run in which a process is killed after a while: the first sender's is 0, the receiver's 2.
fn killed(scratch: &Scratch, experiment: &str, sender: &str, node: usize) -> Bundle {
    let run = three(scratch, experiment, sender);
    thread::sleep(Duration::from_millis(2200));
    signal(nodes(run.id())[node], Signal::KILL);
    bundle(scratch, &run.wait())
}

/// What was due was generated, given up in a pause, or due while the node was lost.
fn due(bundle: &Bundle) -> u64 {
    ["generated", "paused", "away", "skipped"].iter().map(|counter| bundle.total(counter)).sum()
}

/// The reason that names the lost node: how grave it is, and its text.
fn loss(bundle: &Bundle) -> (String, String) {
    let reasons = bundle.verdict["reasons"].as_array().expect("reasons");
    let lost = reasons.iter().find(|reason| reason["code"] == "node_lost").expect("a lost node");
    let text = |key: &str| lost[key].as_str().expect("a text").to_owned();
    (text("severity"), text("text"))
}

/// The run outlived the loss, and says when it was.
fn outlived(bundle: &Bundle, more: &[&str], window: &str) {
    bundle.doubted(&[&["node_lost"], more].concat());
    let (severity, text) = loss(bundle);
    assert_eq!(severity, "degraded", "{text}");
    assert!(text.contains(window), "{text}");
}

/// The steps of a pause, a change of rate and an early end, as the experiment file has them.
const STEPS: &str = "duration = \"60s\"\n\
    control = [\n\
    { at = \"1s\", do = \"pause\" }, { at = \"2s\", do = \"resume\" },\n\
    { at = \"3s\", do = \"rate\", factor = 0.5 }, { at = \"4s\", do = \"rate\", rate = \"100/s\", node = \"sender-1\" },\n\
    { at = \"5s\", do = \"stop\" }]\n";

#[test]
fn an_experiment_steers_its_own_load_alike_in_both_engines() {
    let _busy = beside();
    let scratch = Scratch::new();
    let scenario =
        Scenario { senders: 2, experiment: STEPS.to_owned(), ..Scenario::sensor("rate = \"50/s\"\nin_flight = 50") };
    scratch.write("trial.toml", scenario.toml());
    let simulated = scratch.simulate("trial.toml", "s", &[]);
    let mut all = vec![scratch.emulate("trial.toml", "e", &[])];
    if server() {
        all.push(scratch.emulate("trial.toml", "p", &["--placement", "processes"]));
    }
    for bundle in all.iter().chain([&simulated]) {
        assert_eq!(bundle.schedule(), simulated.schedule(), "one schedule in both engines, after every change");
        assert_eq!(bundle.total("generated"), simulated.total("generated"));
        assert_eq!(bundle.total("paused"), 100, "a second of 50 slots, twice");
        let counts = ["paused", "resumed", "rate-changed", "stopped"].map(|kind| happened(bundle, kind));
        assert_eq!(counts, [1, 1, 2, 1]);
    }
    // 50, nothing, 50, then 25, and 100 or 25 in the fifth second
    let generated = simulated.total("generated");
    assert!((373..=377).contains(&generated), "{generated}");
}

#[test]
fn a_run_is_paused_slowed_down_and_stopped_by_hand() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write(
        "trial.toml",
        Scenario { senders: 2, ..Scenario::sensor_for("60s", "rate = \"50/s\"\nin_flight = 50") }.toml(),
    );
    let run = start(&scratch, &[]);
    let name = running(&scratch);
    assert!(name.starts_with("trial-"), "{name}");
    let paused = control(&scratch, &[&name, "pause"]);
    assert_eq!(paused.code, Some(0), "{}", paused.stderr);
    thread::sleep(Duration::from_millis(1500));
    assert!(control(&scratch, &["trial"]).stdout.contains("paused"), "the beginning of a name is enough");
    for args in
        [&["resume"][..], &["rate", "0.5"], &["rate", "80/s", "--node", "sender-2"], &["pause", "--node", "sender"]]
    {
        let done = control(&scratch, &[&[name.as_str()], args].concat());
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
    }
    let refusals = [
        (&["rate", "0"][..], 2, "no factor above zero"),
        (&["rate"], 2, "needs a value"),
        (&["pause", "--node", "camera"], 3, "there is no node `camera`"),
    ];
    for (args, code, text) in refusals {
        let done = control(&scratch, &[&[name.as_str()], args].concat());
        assert_eq!(done.code, Some(code), "{args:?}");
        assert!(done.stderr.contains(text), "{}", done.stderr);
    }
    let done = control(&scratch, &["nobody", "pause"]);
    assert_eq!((done.code, done.stderr.contains("no run `nobody` goes on here")), (Some(3), true));
    // what was asked for last takes effect
    thread::sleep(Duration::from_millis(300));
    assert_eq!(control(&scratch, &[&name, "stop"]).code, Some(0));
    let bundle = bundle(&scratch, &run.wait());
    bundle.doubted(&["interrupted"]);
    let counts = ["paused", "resumed", "rate-changed", "stopped"].map(|kind| happened(&bundle, kind));
    assert_eq!(counts, [2, 1, 2, 1], "{:?}", events(&bundle));
    assert!(bundle.total("paused") >= 100, "1.5 s of 100 slots a second: {}", bundle.total("paused"));
    assert_eq!(bundle.total("skipped"), 0);
    assert_eq!(control(&scratch, &["list"]).stdout, "", "the desk is closed");
}

#[test]
fn a_run_in_processes_is_steered_over_its_server_too() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let run = three(&scratch, "duration = \"60s\"", "rate = \"50/s\"");
    let listed = control(&scratch, &["list"]).stdout;
    let url = listed.split_whitespace().find(|word| word.starts_with("nats://")).expect("a server");
    let (name, url) = (running(&scratch), url.trim_end_matches(':').to_owned());
    let elsewhere = Scratch::new();
    let far = |args: &[&str]| {
        let args = [&["control", name.as_str()], args, &["--nats", url.as_str()]].concat();
        elsewhere.run(&args)
    };
    let paused = far(&["pause"]);
    assert_eq!(paused.code, Some(0), "{}", paused.stderr);
    assert!(far(&["status"]).stdout.contains("runs for"));
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(far(&["stop"]).code, Some(0));
    let bundle = bundle(&scratch, &run.wait());
    bundle.doubted(&["interrupted"]);
    assert!(bundle.total("paused") > 50, "{}", bundle.total("paused"));
    assert_eq!((happened(&bundle, "paused"), happened(&bundle, "stopped")), (1, 1));
}

#[test]
fn a_run_goes_on_without_a_node_that_was_killed() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let bundle = killed(&scratch, "duration = \"9s\"\non_loss = \"continue\"", "rate = \"50/s\"", 0);
    outlived(&bundle, &[], "to the end; what it did after its last report is unknown");
    let generated = bundle.total("generated");
    assert!((500..900).contains(&generated), "the other sender had 450: {generated}");
    assert_eq!(happened(&bundle, "node-lost"), 1);
}

#[test]
fn a_node_that_was_killed_is_started_again_and_its_counters_add_up() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let bundle = killed(&scratch, "duration = \"12s\"\non_loss = \"restart-node\"", "rate = \"50/s\"", 0);
    outlived(&bundle, &["snapshots_missing"], "a new process of it took part");
    assert_eq!(due(&bundle), 1200, "{:#}", bundle.summary["total"]["totals"]);
    assert!(bundle.total("away") > 0);
    assert_eq!((happened(&bundle, "node-lost"), happened(&bundle, "node-restarted")), (1, 1));
}

#[test]
fn a_receiver_that_is_started_again_is_found_again() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let bundle = killed(&scratch, "duration = \"12s\"\non_loss = \"restart-node\"", "rate = \"50/s\"", 2);
    outlived(&bundle, &["snapshots_missing"], "a new process of it took part");
    assert_eq!(due(&bundle), 1200);
    let [success, lost] = ["success", "lost"].map(|counter| bundle.total(counter));
    assert!(success >= 800, "most are served, before and after: {success}, {lost} lost");
    assert!(bundle.total_of("receiver", "served") + 150 >= success, "at most a second's snapshot is missing");
}

#[test]
fn a_count_driven_run_ends_although_a_sender_was_killed() {
    if !server() {
        return;
    }
    let _busy = beside();
    at_once(["continue", "restart-node"], |policy| {
        let experiment = format!("stop = \"all-requests-done\"\non_loss = \"{policy}\"");
        let scratch = Scratch::new();
        let bundle = killed(&scratch, &experiment, "rate = \"50/s\"\nrequests = 400", 0);
        assert_eq!(loss(&bundle).0, "degraded");
        let expected = if policy == "continue" { 480..700 } else { 800..801 };
        assert!(expected.contains(&due(&bundle)), "{policy}: {:#}", bundle.summary["total"]["totals"]);
    });
}

#[test]
fn a_node_that_stood_still_takes_part_again_and_all_it_did_is_known() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let run = three(&scratch, "duration = \"15s\"\non_loss = \"continue\"", "rate = \"50/s\"");
    thread::sleep(Duration::from_millis(1500));
    let node = nodes(run.id())[0];
    signal(node, Signal::STOP);
    thread::sleep(Duration::from_secs(8));
    signal(node, Signal::CONT);
    let bundle = bundle(&scratch, &run.wait());
    outlived(&bundle, &[], "then it took part again");
    assert_eq!(due(&bundle), 1500, "its telemetry is complete");
    assert_eq!(bundle.summary["telemetry"]["missing_seconds"], 0);
    assert_eq!((happened(&bundle, "node-lost"), happened(&bundle, "node-returned")), (1, 1));
}

#[test]
fn a_node_that_stands_still_is_replaced_or_ends_the_run() {
    if !server() {
        return;
    }
    let _busy = beside();
    at_once([("restart-node", "degraded"), ("abort", "invalid")], |(policy, severity)| {
        let scratch = Scratch::new();
        let experiment = format!("duration = \"14s\"\non_loss = \"{policy}\"");
        let run = three(&scratch, &experiment, "rate = \"50/s\"");
        thread::sleep(Duration::from_millis(1500));
        signal(nodes(run.id())[0], Signal::STOP);
        let bundle = bundle(&scratch, &run.wait());
        assert_eq!(loss(&bundle).0, severity, "{:#}", bundle.verdict);
        if policy == "restart-node" {
            assert_eq!(due(&bundle), 1400);
            assert!(bundle.total("away") >= 250, "five seconds of silence: {}", bundle.total("away"));
        }
    });
}

#[test]
fn a_node_that_dies_again_and_again_ends_the_run() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let run = three(&scratch, "duration = \"50s\"\non_loss = \"restart-node\"", "rate = \"50/s\"");
    let mut killed = Vec::new();
    for _ in 0..4 {
        let mut last = 0;
        until("its process is started again", || {
            let now = nodes(run.id());
            // the first one that was started is the first sender; its successors come last
            last = if killed.is_empty() { now[0] } else { now.last().copied().unwrap_or(0) };
            // one that is killed may be seen for a moment yet
            now.len() == 3 && now.iter().all(|id| !killed.contains(id))
        });
        thread::sleep(Duration::from_millis(300));
        signal(last, Signal::KILL);
        killed.push(last);
    }
    let bundle = bundle(&scratch, &run.wait());
    assert_eq!(bundle.status(), "INVALID");
    assert!(bundle.doubts().contains(&"node_lost") && bundle.doubts().contains(&"fault"), "{:#}", bundle.verdict);
    assert!(bundle.verdict.to_string().contains("it was started again 3 times already"));
}

#[test]
fn nodes_whose_controller_is_silent_end_by_themselves() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let run = three(&scratch, "duration = \"50s\"\ngrace = \"1s\"", "rate = \"50/s\"");
    let all = nodes(run.id());
    run.signal(Signal::STOP);
    let state = |id: &i32| fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // whoever should take notice of their end stands still
    let ended = |id: &i32| state(id).rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'));
    until("every node has ended", || all.iter().all(ended));
    run.signal(Signal::CONT);
    let bundle = bundle(&scratch, &run.wait());
    assert_eq!(bundle.status(), "INVALID");
    // whichever is read first: the last words of the nodes, or that they are silent
    let told =
        bundle.doubts().contains(&"node_lost") || bundle.verdict.to_string().contains("the controller was not heard");
    assert!(told, "{:#}", bundle.verdict);
}

#[test]
fn a_server_that_stands_still_is_blamed_on_no_node() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let run = three(&scratch, "duration = \"13s\"", "rate = \"50/s\"");
    let server =
        children(run.id()).into_iter().find(|(_, line)| line.contains("nats-server")).expect("a private server").0;
    signal(server, Signal::STOP);
    thread::sleep(Duration::from_secs(8));
    signal(server, Signal::CONT);
    let bundle = bundle(&scratch, &run.wait());
    bundle.doubted(&[]);
    assert_eq!((due(&bundle), bundle.total("lost")), (1300, 0));
    assert_eq!(bundle.summary["telemetry"]["missing_seconds"], 0);
}

#[test]
fn runs_that_were_killed_do_not_count_and_who_forgets_the_run_is_told_its_name() {
    let _busy = beside();
    let scratch = Scratch::new();
    let nobody = control(&scratch, &["pause"]);
    assert_eq!(nobody.code, Some(2), "{}", nobody.stderr);
    assert!(nobody.stderr.contains("which run?") && nobody.stderr.contains("none of this user"), "{}", nobody.stderr);
    // all sockets of a scratch folder are its own
    let folder = scratch.path("rehearsal");
    let dead = folder.join("trial-0dead000.sock");
    let leave = || drop(std::os::unix::net::UnixListener::bind(&dead).expect("a socket that nobody listens at"));
    leave();
    scratch.write("trial.toml", Scenario::sensor_for("60s", "rate = \"50/s\"\nin_flight = 50").toml());
    let run = start(&scratch, &[]);
    let name = running(&scratch);
    assert!(!dead.exists(), "the next run takes it away");
    leave();
    let done = control(&scratch, &["trial", "status"]);
    assert_eq!(done.code, Some(0), "one run begins so, not two: {}", done.stderr);
    assert!(done.stdout.starts_with(&name) && !dead.exists(), "{}", done.stdout);
    let forgotten = control(&scratch, &["pause"]);
    let wanted = format!("such as: rehearsal control {name} pause");
    assert_eq!((forgotten.code, forgotten.stderr.contains(&wanted)), (Some(2), true), "{}", forgotten.stderr);
    let banana = control(&scratch, &[&name, "rate", "banana"]);
    assert_eq!(banana.code, Some(2));
    assert!(banana.stderr.contains("`banana` is neither a factor nor a rate; write a factor"), "{}", banana.stderr);
    assert_eq!(control(&scratch, &[&name, "stop"]).code, Some(0));
    bundle(&scratch, &run.wait()).doubted(&["interrupted"]);
}
