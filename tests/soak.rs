//! Long runs at 5,000 exchanges a second: what they need in memory at their end, and what they leave on the disk.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Bundle, Running, Scenario, Scratch, beside};

/// Exchanges per second: 50 devices of 100 each.
const RATE: u64 = 5_000;
/// What a bundle may take, bytes for each node and hour. Here one node sends all and another answers all.
const NODE_HOUR_BYTES_MAX: u64 = 10_000_000;
/// What a run may grow by from its first quarter to its end, kB. A byte kept of each exchange would be 13 MB in the last
/// three quarters of an hour. Assumed: the rows of a table that wait take 3 MB, the rest is what the allocator holds back.
const GROWTH_KB: u64 = 8 * 1024;
/// No run of these takes so long.
const PATIENCE: Duration = Duration::from_secs(600);

/// Devices that send on time, and may have so many exchanges under way each: with many a busy machine opens as many
/// connections, and memory shows how busy it was.
fn scenario(duration: &str, in_flight: u32, link: &str) -> Scenario {
    Scenario {
        experiment: format!("duration = \"{duration}\""),
        receiver: "workers = 256\nbacklog = 1024\nanalyzer = { pause = \"1ms\" }".to_owned(),
        link: link.to_owned(),
        ..Scenario::sensor(&format!("count = 50\nrate = \"100/s\"\nin_flight = {in_flight}\nbytes = \"200B\""))
    }
}

/// Resident memory of a process that runs, kB, without pages of files, such as code that is used for the first time
/// (proc(5)).
fn resident_kb(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Looks at a run until it ends: how far it is, by any measure that grows, and its memory, kB.
fn look(running: &mut Running, pause: Duration, far: impl Fn() -> u64) -> Vec<(u64, u64)> {
    let (begun, mut looks) = (Instant::now(), Vec::new());
    while running.runs() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        looks.extend(resident_kb(running.id()).map(|kb| (far(), kb)));
        thread::sleep(pause);
    }
    looks
}

/// The most memory in the second eighth of a run, and after its first quarter.
fn assert_flat(looks: &[(u64, u64)]) {
    let whole = looks.iter().map(|(far, _)| *far).max().expect("it was looked at");
    let most =
        |from: u64, until: u64| looks.iter().filter(|(far, _)| (from..=until).contains(far)).map(|(_, kb)| *kb).max();
    let (early, late) = most(whole / 8, whole / 4).zip(most(whole / 4, whole)).expect("it was looked at all along");
    println!("{} looks: at most {early} kB until a quarter, {late} kB after it", looks.len());
    assert!(late <= early + GROWTH_KB, "it grew from {early} kB to {late} kB");
}

/// Bytes of all files of a bundle, or of some.
fn bytes(bundle: &Bundle, wanted: impl Fn(&str) -> bool) -> u64 {
    let files = fs::read_dir(&bundle.folder).expect("a bundle").map(|entry| entry.expect("a file"));
    let wanted = files.filter(|file| file.file_name().to_str().is_some_and(&wanted));
    wanted.map(|file| file.metadata().expect("its length").len()).sum()
}

#[test]
fn soak_a_virtual_hour_needs_no_more_memory_at_its_end_and_ten_megabytes_a_node() {
    let _busy = beside();
    let scratch = Scratch::new();
    // answers take a while by chance, so that histograms are as wide as those of real runs
    let link = "delay = \"1ms\"\njitter = \"10ms\"\nloss = \"0.1%\"";
    scratch.write("trial.toml", scenario("1h", 64, link).toml());
    let mut running = scratch.start(&["simulate", "trial.toml", "--out", "b", "--quiet"]);
    // how far the run is shows in what it has written
    let written = || fs::metadata(scratch.path("b.partial/latency.hlog")).map_or(0, |file| file.len());
    let looks = look(&mut running, Duration::from_millis(20), written);
    let done = running.wait();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    assert!(bundle.total("generated") >= RATE * 3600, "{}", bundle.total("generated"));
    assert_flat(&looks);
    let sender = &bundle.summary["groups"][0]["metrics"];
    for metric in ["response", "service", "lag", "blocked", "inter-departure", "jitter"] {
        assert!(sender[metric]["count"].as_u64() > Some(17_000_000), "{metric}: {sender}");
    }
    let all = bytes(&bundle, |_| true);
    println!("{all} bytes for two nodes and an hour");
    // even if all of it were of the sender
    assert!(all <= NODE_HOUR_BYTES_MAX, "{all} bytes");
}

#[test]
fn soak_every_second_has_an_interval_of_its_own_where_that_is_asked_for() {
    const SECONDS: usize = 30;
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario(&format!("{SECONDS}s"), 64, "delay = \"1ms\"").toml());
    for (interval, lines) in [("auto", SECONDS / 10), ("1s", SECONDS)] {
        let set = format!("experiment.latency_interval={interval}");
        let bundle = scratch.simulate("trial.toml", interval, &["--set", &set]);
        let log = fs::read_to_string(bundle.folder.join("latency.hlog")).expect("the log");
        let own = log.lines().filter(|line| line.starts_with("Tag=sender/main/lag,")).count();
        assert_eq!(own, lines, "{interval}");
        let manifest = fs::read_to_string(bundle.folder.join("manifest.json")).expect("the manifest");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["latency_interval"], interval);
    }
}

#[test]
fn soak_a_real_run_needs_no_more_memory_at_its_end() {
    const SECONDS: u64 = 20;
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario(&format!("{SECONDS}s"), 2, "connection = \"keep-alive\"").toml());
    let mut running = scratch.start(&["emulate", "trial.toml", "--out", "b", "--quiet"]);
    let begun = Instant::now();
    let looks = look(&mut running, Duration::from_millis(50), || begun.elapsed().as_millis() as u64);
    let done = running.wait();
    // a busy machine may make its times doubtful
    assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
    let bundle = Bundle::read(&scratch.path("b"));
    assert!(bundle.total("success") > RATE * SECONDS / 2, "{}", bundle.total("success"));
    assert_flat(&looks);
    // the log is what grows with the run
    let hour = bytes(&bundle, |name| name == "latency.hlog") * 3600 / SECONDS;
    println!("{hour} bytes of histograms for two nodes and an hour");
    assert!(hour <= 2 * NODE_HOUR_BYTES_MAX, "{hour} bytes");
}
