//! What a run would need and does not have, known before its start: cores by a calibration, and room for datagrams on the way.
//! Each is refused with the way out, and `--force` starts all the same and is told.

use std::thread;

use serde_json::Value;

use crate::errors::must_fail;
use crate::support::{Bundle, PROGRAM, Running, Scenario, Scratch, beside};

/// A host on which a message costs so much core time to send and to receive.
fn calibration(scratch: &Scratch, name: &str, measured: bool, fixed_ms: u32) {
    let text = format!(
        "[host]\nid = \"lab\"\nmeasured = {measured}\n[valid]\n[cpu]\n[pacing]\n[memory]\n[carriers.http1]\n\
         send = {{ fixed_ns = {fixed_ms}000000 }}\nreceive = {{ fixed_ns = {fixed_ms}000000 }}\n[work]\n[messages]\n\
         control = \"100us\"\n"
    );
    scratch.write(name, text);
}

fn forced(bundle: &Bundle) -> Vec<&str> {
    let all = bundle.manifest["forced"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(Value::as_str).collect()
}

#[test]
fn a_load_that_clearly_needs_more_cores_than_a_node_has_is_refused() {
    let _busy = beside();
    let scratch = Scratch::new();
    // 100/s of 10 ms to send and 10 ms to take the answer are two cores at either end
    scratch.write("trial.toml", Scenario::sensor_for("1s", "rate = \"100/s\"\nin_flight = 50").toml());
    calibration(&scratch, "measured.toml", true, 10);
    calibration(&scratch, "assumed.toml", false, 10);
    calibration(&scratch, "cheap.toml", true, 5);
    let before = scratch.listing();
    let emulate = |calibration: &str, more: &[&str]| {
        scratch.run(&[&["emulate", "trial.toml", "--quiet", "--calibration", calibration], more].concat())
    };
    let done = emulate("measured.toml", &[]);
    let said = "`sender` needs 2.0 cores for its 100 messages of traffic in a second (by the calibration `lab`)";
    let way_out = "lower its load to 50 % or less, or share it among 2 nodes or more";
    must_fail(&done, 3, &[said, way_out, "`receiver` needs 2.0 cores", "to start all the same: --force"]);
    assert_eq!(scratch.listing(), before);
    // twice a core is not clearly more than what nobody measured, and once a core is not clearly too much
    for calibration in ["assumed.toml", "cheap.toml"] {
        let name = calibration.trim_end_matches(".toml");
        let done = emulate(calibration, &["--out", name]);
        assert!(matches!(done.code, Some(0 | 20)), "{calibration}: {}", done.stderr);
        assert_eq!(forced(&Bundle::read(&scratch.path(name))), [""; 0]);
    }
    let done = emulate("measured.toml", &["--force", "--out", "forced"]);
    assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
    let bundle = Bundle::read(&scratch.path("forced"));
    assert!(forced(&bundle).iter().any(|why| why.starts_with(said)), "{:#}", bundle.manifest);
    assert!(bundle.verdict.to_string().contains("started with --force although"), "{:#}", bundle.verdict);
    // the experiment may name it itself
    let file = std::fs::read_to_string(scratch.path("trial.toml")).expect("the trial");
    scratch.write("named.toml", file.replacen("duration", "calibration = \"measured.toml\"\nduration", 1));
    must_fail(&scratch.run(&["emulate", "named.toml", "--quiet"]), 3, &[said]);
}

#[test]
fn closed_loops_count_by_their_pauses_and_flows_by_their_trains() {
    let _busy = beside();
    let scratch = Scratch::new();
    calibration(&scratch, "lab.toml", true, 10);
    let text = std::fs::read_to_string(scratch.path("lab.toml")).expect("the calibration");
    scratch.write(
        "lab.toml",
        format!("{text}[carriers.udp]\nsend = {{ fixed_ns = 6.4e6 }}\nreceive = {{ fixed_ns = 3.2e6 }}\n"),
    );
    let refused = |scenario: &Scenario, words: &[&str]| {
        scratch.write("trial.toml", scenario.toml());
        let done = scratch.run(&["emulate", "trial.toml", "--quiet", "--calibration", "lab.toml"]);
        must_fail(&done, 3, &[&["(by the calibration `lab`)"], words].concat());
    };
    // 30 under way, of which each takes 100 ms at the receiver: 300/s, were it not for its 16 workers; 20 ms at either end
    let pause = |each: &str| Scenario {
        receiver: format!("analyzer = {{ pause = \"{each}\" }}"),
        ..Scenario::sensor_for("1s", "in_flight = 30\nretries = 0")
    };
    refused(&pause("100ms"), &["`sender` needs 3.2 cores for its 160 messages"]);
    // and 100 ms there and as much back, without any pause: 30 in a fifth of a second
    let far = Scenario { link: "delay = \"100ms\"\nimpose = \"userspace\"".to_owned(), ..pause("0ms") };
    refused(&far, &["`sender` needs 3.0 cores for its 150 messages"]);
    // 64 in a train: 20,000/s of 100 µs to send and 50 µs to receive
    let flow = Scenario {
        sender: "kind = \"flow\"\nrate = \"20000/s\"".to_owned(),
        link: "carrier = \"udp\"".to_owned(),
        ..Scenario::sensor_for("1s", "")
    };
    refused(&flow, &["`sender` needs 2.0 cores for its 20000 messages"]);
    // a pause of a second leaves 16/s, and what has no pause takes what it gets
    for (name, each) in [("slow", "1s"), ("free", "0ms")] {
        scratch.write("trial.toml", pause(each).toml());
        let done = scratch.run(&["emulate", "trial.toml", "--quiet", "--calibration", "lab.toml", "--out", name]);
        assert!(matches!(done.code, Some(0 | 20)), "{name}: {}", done.stderr);
        assert_eq!(forced(&Bundle::read(&scratch.path(name))), [""; 0]);
    }
}

#[test]
fn nodes_that_need_more_cores_together_than_the_machine_has_are_refused() {
    let scratch = Scratch::new();
    let cores = thread::available_parallelism().map_or(1, |n| n.get() as u32);
    // 0.8 of a core each, at either end
    let senders = 2 * cores;
    let scenario = Scenario { senders, ..Scenario::sensor_for("1s", "rate = \"40/s\"\nin_flight = 50") };
    let text = scenario.toml().replace("[nodes.receiver.actors", "[nodes.receiver]\ncount = 4\n[nodes.receiver.actors");
    scratch.write("trial.toml", text);
    calibration(&scratch, "lab.toml", true, 10);
    let done = scratch.run(&["emulate", "trial.toml", "--quiet", "--calibration", "lab.toml"]);
    let together = format!("the nodes that run here need {:.1} cores together", 1.6 * f64::from(senders));
    let has = format!("this machine has {cores}: lower the load to ");
    must_fail(&done, 3, &[&together, &has, "--placement agents"]);
}

/// The program in a network namespace of its own, whose loopback takes `mtu` bytes in one piece.
fn in_network(scratch: &Scratch, mtu: u32, args: &[&str]) -> Running {
    let script = format!("set -e; ip link set lo up mtu {mtu}; exec \"$0\" \"$@\"");
    let all = [&["-n", "sh", "-c", &script, PROGRAM][..], args].concat();
    Running::spawn(scratch.command("unshare", &all))
}

#[test]
fn datagrams_that_would_be_fragmented_are_refused() {
    let _busy = beside();
    let scratch = Scratch::new();
    if in_network(&scratch, 1500, &["--version"]).wait().code != Some(0) {
        eprintln!("skipped: network namespaces need root, `unshare` and `ip`");
        return;
    }
    let link = "carrier = \"udp\"".to_owned();
    let scenario = |kind: &str, bytes: &str| Scenario {
        sender: format!("kind = \"{kind}\"\nrate = \"20/s\"\nbytes = \"{bytes}\""),
        ..Scenario { link: link.clone(), ..Scenario::sensor_for("1s", "") }
    };
    let args = ["emulate", "trial.toml", "--quiet"];
    for kind in ["sensor", "flow"] {
        scratch.write("trial.toml", scenario(kind, "9000B").toml());
        let done = in_network(&scratch, 1500, &args).wait();
        let said = "`sender/main` sends datagrams of up to 9000 B, 9028 B with their headers, and the way to 127.0.0.1 takes \
                    1500 B in one piece (MTU): they would travel in 7 fragments";
        must_fail(&done, 3, &[said, "send at most 1472 B", "raise the MTU", "--force"]);
        assert_eq!(scratch.listing(), ["trial.toml"]);
    }
    // jumbo frames take it, and so does whoever insists
    for (name, mtu, more) in [("jumbo", 9028, &[][..]), ("forced", 1500, &["--force"])] {
        let done = in_network(&scratch, mtu, &[&args[..], more, &["--out", name]].concat()).wait();
        assert!(matches!(done.code, Some(0 | 20)), "{name}: {}", done.stderr);
        let bundle = Bundle::read(&scratch.path(name));
        assert_eq!(forced(&bundle).len(), usize::from(name == "forced"), "{:#}", bundle.manifest);
        assert_eq!(bundle.total("success"), bundle.total("datagrams_sent"), "{name}");
    }
    scratch.write("trial.toml", scenario("sensor", "1472B").toml());
    let done = in_network(&scratch, 1500, &[&args[..], &["--out", "fits"]].concat()).wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
    // streams fit themselves to the way
    scratch.write("trial.toml", Scenario { link: String::new(), ..scenario("sensor", "9000B") }.toml());
    let done = in_network(&scratch, 1500, &[&args[..], &["--out", "stream"]].concat()).wait();
    assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
    // QUIC begins with datagrams that may not be fragmented
    scratch.write(
        "trial.toml",
        Scenario { link: "carrier = \"http3\"".to_owned(), ..Scenario::sensor_for("1s", "rate = \"5/s\"") }.toml(),
    );
    must_fail(&in_network(&scratch, 1000, &args).wait(), 3, &["speaks HTTP/3", "1228 B", "carrier = \"http2\""]);
}
