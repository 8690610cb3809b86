//! What a machine can refuse: ports, addresses, folders, disks and descriptors. A run is refused before it starts, with
//! a way out, and leaves nothing behind.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::errors::must_fail;
use crate::support::{Bundle, Scenario, Scratch, files, free_port, until};

fn scenario() -> Scenario {
    Scenario::sensor_for("1s", "rate = \"20/s\"")
}

#[test]
fn a_port_in_use_is_refused() {
    let scratch = Scratch::new();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = tcp.local_addr().expect("its address").to_string();
    let scenario = Scenario { receiver: format!("listen = \"{address}\""), ..scenario() };
    scratch.write("trial.toml", scenario.toml());
    let done = scratch.run(&["emulate", "trial.toml"]);
    must_fail(&done, 3, &["`receiver/main` cannot listen on", &address, "in use"]);
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = udp.local_addr().expect("its address").to_string();
    let receiver = format!("listen = \"{address}\"");
    scratch.write("trial.toml", Scenario { receiver, link: "carrier = \"udp\"".to_owned(), ..scenario }.toml());
    must_fail(&scratch.run(&["emulate", "trial.toml"]), 3, &["cannot listen on", &address, "in use"]);
    assert_eq!(scratch.listing(), ["trial.toml"]);
}

#[test]
fn traffic_goes_only_where_it_is_allowed() {
    let scratch = Scratch::new();
    let far = Scenario { receiver: "listen = \"192.0.2.1:7000\"".to_owned(), ..scenario() };
    scratch.write("far.toml", far.toml());
    scratch.write("nowhere.toml", scenario().toml());
    let before = scratch.listing();
    let done = scratch.run(&["emulate", "far.toml", "--without", "receiver"]);
    must_fail(&done, 3, &["`sender/main` would send to 192.0.2.1:7000, which is not allowed", "--allow 192.0.2.1/32"]);
    let done = scratch.run(&["emulate", "far.toml"]);
    must_fail(&done, 3, &["`receiver/main` would listen on 192.0.2.1:7000, which is not allowed", "--allow"]);
    let done = scratch.run(&["emulate", "nowhere.toml", "--without", "receiver"]);
    must_fail(&done, 3, &["no fixed address; give `receiver/main` the key `listen`"]);
    let done = scratch.run(&["emulate", "nowhere.toml", "--only", "receiver"]);
    must_fail(&done, 3, &["senders to `receiver/main` run elsewhere", "give `receiver/main` the key `listen`"]);
    assert_eq!(scratch.listing(), before);
}

#[test]
fn an_allowed_address_that_is_not_ours_is_refused_all_the_same() {
    let scratch = Scratch::new();
    let far = Scenario { receiver: "listen = \"192.0.2.1:7000\"".to_owned(), ..scenario() };
    scratch.write("far.toml", far.toml());
    let done = scratch.run(&["emulate", "far.toml", "--allow", "192.0.2.0/24"]);
    must_fail(&done, 3, &["cannot listen on 192.0.2.1:7000"]);
    assert_eq!(scratch.listing(), ["far.toml"]);
}

#[test]
fn a_port_above_the_last_is_refused() {
    let scratch = Scratch::new();
    let receiver = "listen = \"127.0.0.1:65535\"".to_owned();
    let text = Scenario { receiver, ..scenario() }.toml();
    scratch.write(
        "trial.toml",
        text.replace("[nodes.receiver.actors", "[nodes.receiver]\ncount = 2\n[nodes.receiver.actors"),
    );
    must_fail(&scratch.run(&["emulate", "trial.toml"]), 3, &["port 65536", "lower `listen`"]);
    assert_eq!(scratch.listing(), ["trial.toml"]);
}

#[test]
fn a_folder_of_results_is_never_overwritten() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario().toml());
    let folder = scratch.path("mine");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("notes.txt"), "do not lose me").expect("a file");
    let before = files(&scratch.path(""));
    for verb in ["simulate", "emulate"] {
        for more in [&[][..], &["--repetitions", "2"]] {
            let done = scratch.run(&[&[verb, "trial.toml", "--out", "mine"], more].concat());
            must_fail(&done, 3, &["mine", "never overwritten"]);
            assert_eq!(files(&scratch.path("")), before);
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_refused() {
    let scratch = Scratch::new();
    scratch.write("trial.toml", scenario().toml());
    for out in ["trial.toml/results", "/proc/results"] {
        for verb in ["simulate", "emulate"] {
            for more in [&[][..], &["--repetitions", "2"]] {
                let done = scratch.run(&[&[verb, "trial.toml", "--out", out], more].concat());
                must_fail(&done, 3, &[out, "cannot be written"]);
                assert_eq!(scratch.listing(), ["trial.toml"]);
            }
        }
    }
}

#[test]
fn a_receiver_on_a_fixed_port_leaves_it_free_again() {
    let scratch = Scratch::new();
    let receiver = format!("listen = \"127.0.0.1:{}\"", free_port());
    scratch.write("trial.toml", Scenario { receiver, ..scenario() }.toml());
    for name in ["one", "two"] {
        scratch.emulate("trial.toml", name, &[]);
    }
}

#[test]
fn a_full_disk_is_refused() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(&scratch, "16k") else { return };
    scratch.write("trial.toml", scenario().toml());
    for verb in ["simulate", "emulate"] {
        let done = scratch.run(&[verb, "trial.toml", "--out", "disk/bundle"]);
        must_fail(&done, 3, &["results cannot be written to disk/bundle", "No space left"]);
        assert_eq!(files(&disk.0).len(), 0, "{verb}");
    }
}

/// A disk that fills up on the way ends the run, and says so: what was set aside is room for the bundle's end, so that what
/// was recorded can be read.
#[test]
fn a_disk_that_fills_up_ends_the_run_by_name() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(&scratch, "12m") else { return };
    scratch.write("trial.toml", scenario().toml());
    let running = scratch.start(&["emulate", "trial.toml", "--duration", "40s", "--out", "disk/bundle", "--quiet"]);
    until("the run has begun", || disk.0.join("bundle.partial/latency.hlog").exists());
    thread::sleep(Duration::from_millis(2500));
    let mut rest = fs::File::create(disk.0.join("rest")).expect("a file");
    while rest.write_all(&[0; 4096]).is_ok() {}
    let done = running.wait();
    assert_eq!(done.code, Some(20), "{}\n{}", done.stdout, done.stderr);
    let bundle = Bundle::read(&disk.0.join("bundle"));
    assert_eq!((bundle.status(), bundle.doubts().contains(&"fault")), ("INVALID", true), "{:#}", bundle.verdict);
    assert!(bundle.verdict.to_string().contains("is full: from here on nothing is stored"), "{:#}", bundle.verdict);
    let generated = bundle.total("generated");
    assert!((20..20 * 40).contains(&generated), "it ends early, with what was recorded: {generated}");
    assert!(!disk.0.join("bundle.partial").exists());
}

/// A disk without the room that is set aside is refused before traffic begins.
#[test]
fn a_disk_that_is_too_small_is_refused() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(&scratch, "1200k") else { return };
    scratch.write("trial.toml", scenario().toml());
    let done = scratch.run(&["emulate", "trial.toml", "--out", "disk/bundle"]);
    must_fail(&done, 3, &["results cannot be written to disk/bundle", "No space left"]);
    assert_eq!(files(&disk.0).len(), 0);
}

/// A file system of a chosen size that goes with its test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// The folder `disk`; nothing, with a word about it, for a user who may not mount.
    fn mount(scratch: &Scratch, size: &str) -> Option<Self> {
        let at = scratch.path("disk");
        fs::create_dir(&at).expect("a folder");
        let size = format!("size={size}");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).output();
        if !done.is_ok_and(|d| d.status.success()) {
            eprintln!("skipped: this user cannot mount a small disk");
            return None;
        }
        Some(SmallDisk(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}
