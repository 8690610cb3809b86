//! An independent recorder: what tcpdump(8) captured of a run on loopback, read by code that shares nothing with the program,
//! holds as many exchanges as the bundle. How their times compare is a row of `cargo xtask bench truth --recorder`.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::wire;
use crate::support::{Running, Scenario, Scratch, beside, free_port, until};

#[test]
fn a_recorder_of_packets_counts_the_exchanges_of_the_bundle() {
    let _busy = beside();
    let known = Command::new("tcpdump").arg("--version").output().is_ok_and(|done| done.status.success());
    if !known || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a capture needs root and tcpdump");
        return;
    }
    for (connection, requests) in [("keep-alive", 120), ("per-request", 60)] {
        let (scratch, port) = (Scratch::new(), free_port());
        let scenario = Scenario {
            senders: 2,
            receiver: format!("listen = \"127.0.0.1:{port}\""),
            link: format!("connection = \"{connection}\""),
            ..Scenario::sensor(&format!("rate = \"100/s\"\nrequests = {requests}\nin_flight = 4\nbytes = \"3kB\""))
        };
        scratch.write("trial.toml", scenario.toml());
        let filter = format!("tcp port {port}");
        let args = ["-i", "lo", "-n", "-s", "128", "--immediate-mode", "--time-stamp-precision=nano", "-Z", "root"];
        let words = [&args[..], &["-w", "lo.pcap", &filter]].concat();
        let recorder = Running::spawn(scratch.command("tcpdump", &words));
        // the file's header is written when the capture has begun
        until("it records", || fs::metadata(scratch.path("lo.pcap")).is_ok());
        thread::sleep(Duration::from_millis(300));
        let bundle = scratch.emulate("trial.toml", "b", &[]);
        thread::sleep(Duration::from_millis(300));
        recorder.signal(Signal::INT);
        let told = recorder.wait().stderr;
        assert!(told.contains("\n0 packets dropped by kernel"), "{told}");
        let seen = wire::read(&fs::read(scratch.path("lo.pcap")).expect("a capture"), port).expect("a capture");
        assert_eq!(bundle.total("success"), 2 * requests, "{connection}");
        assert_eq!(seen.exchanges.len() as u64, bundle.total("attempts"), "{connection}: {told}");
        assert_eq!(seen.unanswered, 0, "{connection}");
    }
}
