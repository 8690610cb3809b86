//! Carriers beside HTTP and NATS, as a user meets them: both engines agree in counts and schedule, over real sockets and a
//! real broker.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Scenario, Scratch, beside};

/// Runs it with both engines; these counters must be equal, and the schedules.
fn agree(scratch: &Scratch, name: &str, scenario: &Scenario, counters: &[(&str, u64)]) {
    let file = format!("{name}.toml");
    scratch.write(&file, scenario.toml());
    let pair = scratch.both(&file, name, &[]);
    assert_eq!(pair[0].schedule(), pair[1].schedule(), "{name}");
    for (counter, wanted) in counters {
        for bundle in &pair {
            assert_eq!(bundle.total(counter), *wanted, "{name}: {counter}");
        }
    }
}

fn sensors(link: &str) -> Scenario {
    Scenario {
        senders: 2,
        link: link.to_owned(),
        ..Scenario::sensor("requests = 100\nrate = \"200/s\"\nstreams = 2\nin_flight = 8\nbytes = \"500B\"")
    }
}

#[test]
fn frames_over_tcp_agree() {
    let _busy = beside();
    let scratch = Scratch::new();
    let counters = [("generated", 400), ("success", 400), ("attempts", 400), ("received", 400), ("served", 400)];
    for (name, link) in [
        ("kept", "carrier = \"tcp\""),
        ("pipelined", "carrier = \"tcp\"\npipeline = 8"),
        ("once", "carrier = \"tcp\"\nconnection = \"per-request\""),
    ] {
        agree(&scratch, name, &sensors(link), &counters);
    }
}

#[test]
fn echoes_agree() {
    let _busy = beside();
    let scratch = Scratch::new();
    let counters = [
        ("generated", 400),
        ("success", 400),
        ("attempts", 400),
        ("datagrams_received", 400),
        ("bytes_replied", 400 * 40),
        ("datagrams_sent", 0),
    ];
    agree(&scratch, "echo", &sensors("carrier = \"udp\"\nmode = \"echo\""), &counters);
}

#[test]
fn flows_agree() {
    let _busy = beside();
    let scratch = Scratch::new();
    let scenario = Scenario {
        sender: "kind = \"flow\"\nrequests = 5000\nrate = \"10000/s\"\nstreams = 2\nbytes = \"300B\"".to_owned(),
        link: "carrier = \"udp\"".to_owned(),
        ..Scenario::default()
    };
    let counters =
        [("generated", 10_000), ("success", 10_000), ("datagrams_received", 10_000), ("datagrams_duplicate", 0)];
    agree(&scratch, "flow", &scenario, &counters);
}

/// A broker that ends with its test.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mosquitto of the test's own and its port; without one the tests say so and pass.
fn mosquitto(scratch: &Scratch) -> Option<(Broker, u16)> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr()).expect("a free port").port();
    scratch.write("mosquitto.conf", format!("listener {port} 127.0.0.1\nallow_anonymous true\n"));
    let config = scratch.path("mosquitto.conf");
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    };
    let Some(child) = ["mosquitto", "/usr/sbin/mosquitto"].into_iter().find_map(start) else {
        eprintln!("skipped: no mosquitto was found");
        return None;
    };
    let broker = Broker(child);
    for _ in 0..1000 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Some((broker, port));
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("mosquitto does not listen");
}

#[test]
fn publications_agree() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some((_broker, port)) = mosquitto(&scratch) else { return };
    for qos in [1, 2] {
        let link = format!(
            "carrier = \"mqtt\"\nmqtt = {{ broker = \"mqtt://127.0.0.1:{port}\", qos = {qos}, version = \"5\" }}"
        );
        let counters = [("generated", 400), ("success", 400), ("datagrams_received", 400), ("datagrams_duplicate", 0)];
        agree(&scratch, &format!("qos-{qos}"), &sensors(&link), &counters);
    }
    let link = format!("carrier = \"mqtt\"\nmqtt = {{ broker = \"mqtt://127.0.0.1:{port}\", qos = 0 }}");
    let counters = [("generated", 400), ("datagrams_sent", 400), ("success", 400), ("datagrams_received", 400)];
    agree(&scratch, "qos-0", &sensors(&link), &counters);
}

#[test]
fn a_broker_that_is_not_there_is_refused() {
    let scratch = Scratch::new();
    let link = "carrier = \"mqtt\"\nmqtt = { broker = \"mqtt://127.0.0.1:9\" }";
    scratch.write("trial.toml", sensors(link).toml());
    let done = scratch.run(&["emulate", "trial.toml", "--out", "none", "--quiet"]);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("the MQTT broker 127.0.0.1:9: "), "{}", done.stderr);
}
