//! What a run leaves that is ended at once, by a second signal, and that the next one takes away. Needs a NATS server, and
//! root with iproute2 for control groups and namespaces; without them this test says so and passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rehearsal_host::owner::Owner;
use rustix::process::Signal;

use crate::support::{PROGRAM, Running, Scenario, Scratch, beside, until};

/// Folders between a hierarchy of control groups and those of a run.
const DEPTH: u32 = 4;

/// Entries below a folder whose name holds `tag`.
fn tagged(folder: &Path, tag: &str, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().contains(tag) {
            found.push(entry.path());
        } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            tagged(&entry.path(), tag, depth - 1, found);
        }
    }
}

/// Control groups, namespaces, links, folders of servers and sockets of a process, by how its things are named.
fn things(scratch: &Scratch, owner: &str, id: u32) -> [Vec<PathBuf>; 5] {
    let servers = format!("rehearsal-nats-{id}-");
    [
        ("/sys/fs/cgroup".into(), owner, DEPTH),
        ("/run/netns".into(), owner, 0),
        ("/sys/class/net".into(), owner, 0),
        (scratch.path("tmp"), servers.as_str(), 0),
        (scratch.path("rehearsal"), ".sock", 0),
    ]
    .map(|(folder, tag, depth): (PathBuf, &str, u32)| {
        let mut found = Vec::new();
        tagged(&folder, tag, depth, &mut found);
        found
    })
}

#[test]
fn what_a_run_leaves_that_ends_at_once_goes_with_the_next_one() {
    let able = rustix::process::geteuid().is_root() && Path::new("/run/netns").is_dir();
    if !able || rehearsal_bus::server::find().is_none() {
        eprintln!("skipped: root, iproute2 and a nats-server are needed");
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("tmp")).expect("a folder");
    // answers take so long that the first signal has to wait for them
    let scenario = Scenario::sensor_for("60s", "rate = \"20/s\"\nin_flight = 50\ntimeout = \"2s\"");
    let receiver = "workers = 50\nanalyzer = { pause = \"1500ms\" }".to_owned();
    scratch.write("trial.toml", Scenario { receiver, ..scenario }.toml());
    let start = |out: &str, more: &[&str]| {
        let args = ["emulate", "trial.toml", "--placement", "processes", "--network", "namespaces", "--out", out];
        let mut command = scratch.command(PROGRAM, &[&args[..], more].concat());
        command.env("TMPDIR", scratch.path("tmp"));
        Running::spawn(command)
    };
    let run = start("a", &[]);
    let (id, owner) = (run.id(), Owner::of(run.id()).expect("it runs").to_string());
    until("the run has begun", || scratch.path("a.partial/latency.hlog").exists());
    thread::sleep(Duration::from_millis(2500));
    run.signal(Signal::INT);
    // signals of one kind that come together are one
    thread::sleep(Duration::from_millis(200));
    run.signal(Signal::INT);
    let done = run.wait();
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    assert!(done.stderr.contains("what was recorded is kept in a.partial"), "{}", done.stderr);
    let left = things(&scratch, &owner, id);
    eprintln!("left: {left:#?}");
    assert!(left[1..].iter().all(|things| !things.is_empty()), "the test looks where there is something: {left:#?}");
    let next = start("b", &["--duration", "1s"]).wait();
    assert!(matches!(next.code, Some(0 | 20)), "{}", next.stderr);
    let left = things(&scratch, &owner, id);
    assert!(left.iter().all(Vec::is_empty), "{left:#?}");
    assert!(scratch.path("a.partial/latency.hlog").exists(), "what was recorded is kept");
}
