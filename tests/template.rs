//! Captures become templates and captures again, as a user does it: by name, with a ledger, and over a lab's server.

use std::fs;

use rehearsal_bus::server::Server;
use rehearsal_replay::capture::Writer;
use serde_json::Value;

use crate::support::{Done, Scratch, family};

/// A frame of UDP over IPv4 between two hosts of 10.0.0.0/24, without a checksum of UDP.
pub fn frame(from: u8, to: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((28 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend([port, 53, 8 + payload.len() as u16, 0].into_iter().flat_map(u16::to_be_bytes));
    packet.extend(payload);
    [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0][..], &packet].concat()
}

/// A capture of questions and answers, 1 ms apart, from 2023-11-14 on.
fn capture(scratch: &Scratch, name: &str, questions: u16) -> Vec<Vec<u8>> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let mut all = Vec::new();
    for number in 0..questions {
        let mut answer = frame(2, 1, 53, b"answer");
        answer[36..38].copy_from_slice(&(40_000 + number).to_be_bytes());
        all.extend([frame(1, 2, 40_000 + number, b"question"), answer]);
    }
    for (at, frame) in (0..).zip(&all) {
        writer.packet(1_700_000_000_000_000_000 + at * 1_000_000, frame.len() as u32, frame).expect("memory");
    }
    scratch.write(name, writer.finish().expect("memory"));
    all
}

fn template(scratch: &Scratch, action: &str, more: &[&str]) -> Done {
    scratch.run(&[&["template", action, "--library", "lib"], more].concat())
}

fn told(scratch: &Scratch, action: &str, more: &[&str]) -> Value {
    let done = template(scratch, action, &[more, &["--format", "json"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.json()
}

fn refused(scratch: &Scratch, code: i32, action: &str, more: &[&str]) -> String {
    let done = template(scratch, action, more);
    assert_eq!(done.code, Some(code), "{more:?}: {}{}", done.stdout, done.stderr);
    done.stderr
}

#[test]
fn a_capture_becomes_a_template_and_a_capture_again() {
    let scratch = Scratch::new();
    let frames = capture(&scratch, "Trace One.pcap", 3);
    let imported = told(&scratch, "import", &["Trace One.pcap"]);
    let called = imported["template"].as_str().expect("a name").to_owned();
    assert!(called.starts_with("trace-one@") && called.len() == "trace-one@".len() + 12, "{called}");
    assert_eq!(imported["overview"]["duration_seconds"], 0.005);
    let shown = told(&scratch, "show", &["trace-one", "--streams", "9"]);
    let stream = &shown["streams"].as_array().expect("streams")[0];
    assert_eq!((&stream["client"]["port"], &stream["server"]["port"]), (&40_000.into(), &53.into()));
    assert_eq!(shown["streams"].as_array().map(Vec::len), Some(3));
    assert_eq!(template(&scratch, "export", &["trace-one", "--out", "again.pcap"]).code, Some(0));
    assert_eq!(fs::read(scratch.path("again.pcap")).ok(), fs::read(scratch.path("Trace One.pcap")).ok());
    // the same packets are the same template, whatever the file is called
    let again = told(&scratch, "import", &["again.pcap", "--name", "trace-one"]);
    assert_eq!(again["template"], called.as_str());
    assert_eq!(told(&scratch, "list", &[]).as_array().map(Vec::len), Some(1));
    let exported = fs::read(scratch.path("again.pcap")).expect("a capture");
    assert!(frames.iter().all(|frame| exported.windows(frame.len()).any(|window| window == frame)));
    assert_eq!(scratch.listing(), ["Trace One.pcap", "again.pcap", "lib", &format!("lib/{called}.template")]);
}

#[test]
fn the_ledger_tells_of_every_packet() {
    let scratch = Scratch::new();
    capture(&scratch, "t.pcap", 10);
    let part = ["t.pcap", "--from", "2ms", "--to", "12ms", "--filter", "src host 10.0.0.1 and dst port 53"];
    let ledger = &told(&scratch, "import", &part)["notes"]["ledger"];
    assert_eq!((&ledger["read"], &ledger["loaded"]), (&20.into(), &5.into()));
    assert_eq!(ledger["left"], serde_json::json!({"filter": 5, "range": 10}));
    let text = template(&scratch, "import", &[&part[..], &["--name", "t"]].concat()).stdout;
    assert!(text.contains("20 packets read = 5 loaded + 15 left out"), "{text}");
    assert!(text.contains("5 left out: not wanted by the filter"), "{text}");
}

#[test]
fn edits_leave_the_template_alone() {
    let scratch = Scratch::new();
    capture(&scratch, "t.pcap", 2);
    told(&scratch, "import", &["t.pcap"]);
    let before = told(&scratch, "list", &[]);
    scratch.write("edit.toml", "[edit]\nip = [\"10.0.0.0/24 -> 192.0.2.0/24\"]\nttl = -1\n");
    let edit = ["--edit-file", "edit.toml", "--edit", "port=53 -> 5353", "--edit", "vlan=push 7"];
    let done = template(&scratch, "export", &[&["t", "--out", "lab.pcap"], &edit[..]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let shown = told(&scratch, "import", &["lab.pcap", "--filter", "vlan 7 and src net 192.0.2.0/24"]);
    assert_eq!(shown["notes"]["ledger"]["loaded"], 4);
    let shown = told(&scratch, "show", &["lab"]);
    assert_eq!(shown["streams"][0]["server"], serde_json::json!({"host": "192.0.2.2", "port": 5353}));
    assert_eq!(told(&scratch, "list", &[]).as_array().expect("rows")[1], before.as_array().expect("rows")[0]);
}

#[test]
fn what_cannot_be_done_is_said_with_what_to_write() {
    let scratch = Scratch::new();
    capture(&scratch, "t.pcap", 2);
    told(&scratch, "import", &["t.pcap"]);
    scratch.write("no.pcap", "no capture");
    scratch.write("edit.toml", "[edit]\nttl = -1\ntll = 3\n");
    let damaged = [fs::read(scratch.path("t.pcap")).expect("a capture"), vec![0xff; 30]].concat();
    scratch.write("damaged.pcap", damaged);
    for (code, action, more, part) in [
        (2, "import", &["no.pcap"][..], "no.pcap: it is no capture: it begins with 6e 6f 20 63"),
        (2, "import", &["gone.pcap"], "No such file"),
        (2, "import", &["damaged.pcap"], "--salvage keeps them"),
        (2, "import", &["t.pcap", "--filter", "port http"], "filter, column 6"),
        (2, "import", &["t.pcap", "--filter", "vlan 4096"], "filter, column 6: a number from 0 to 4095"),
        (
            2,
            "import",
            &["t.pcap", "--filter", "portrange 90-80"],
            "filter, column 11: `90-80` ends before it begins; write 80-90",
        ),
        (2, "import", &["t.pcap", "--from", "9"], "--from"),
        (2, "import", &["t.pcap", "--from", "9s", "--to", "1s"], "nothing would be left"),
        (2, "import", &["t.pcap", "--name", "../t"], "no name of a template"),
        (2, "show", &["u"], "there is no template `u`"),
        (2, "export", &["t", "--out", "x.pcap", "--edit", "ttl"], "write KEY=VALUE"),
        (
            2,
            "export",
            &["t", "--out", "x.pcap", "--edit", "ip=10.0.0.1/24 -> 1.1.1.0/24"],
            "10.0.0.0/24 for the network",
        ),
        (2, "export", &["t", "--out", "x.pcap", "--edit-file", "edit.toml"], "edit.toml:3:1: unknown field `tll`"),
        (3, "export", &["t", "--out", "t.pcap"], "never overwritten"),
    ] {
        let said = refused(&scratch, code, action, more);
        assert!(said.contains(part), "{more:?}: {said}");
    }
    assert!(refused(&scratch, 2, "import", &["damaged.pcap"]).contains("; 4 packets come before"));
    assert!(!refused(&scratch, 2, "import", &["gone.pcap"]).contains("come before"), "nothing was read");
    assert_eq!(told(&scratch, "import", &["damaged.pcap", "--salvage"])["notes"]["ledger"]["loaded"], 4);
    assert!(!scratch.path("x.pcap").exists());
    assert!(scratch.listing().iter().all(|name| !name.contains(".draft") && !name.contains(".partial")));
}

#[test]
fn a_template_that_was_changed_is_not_believed() {
    let scratch = Scratch::new();
    capture(&scratch, "t.pcap", 2);
    let called = told(&scratch, "import", &["t.pcap"])["template"].as_str().expect("a name").to_owned();
    let path = scratch.path(&format!("lib/{called}.template"));
    let mut bytes = fs::read(&path).expect("the template");
    bytes[150] ^= 1;
    fs::write(&path, bytes).expect("the template");
    assert!(refused(&scratch, 3, "show", &["t"]).contains("is damaged: its digest is"));
}

#[test]
fn a_lab_shares_templates_over_its_server() {
    if !family::server() {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::start(&[]).expect("a server");
    capture(&scratch, "t.pcap", 2_000);
    let nats = ["--nats", server.url()];
    let mine = told(&scratch, "import", &[&["t.pcap"], &nats[..]].concat());
    let called = mine["template"].as_str().expect("a name");
    // another host has a folder of its own
    let there = |action: &str, more: &[&str]| {
        let done =
            scratch.run(&[&["template", action, "--library", "other", "--format", "json"], &nats[..], more].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.json()
    };
    let row = &there("list", &[])[0];
    assert_eq!((row["template"].as_str(), &row["packets"]), (Some(called), &4_000.into()));
    assert_eq!((&row["here"], &row["shared"]), (&false.into(), &true.into()));
    assert_eq!(there("show", &["t"])["overview"], mine["overview"]);
    let row = &there("list", &[])[0];
    assert_eq!((&row["here"], &row["shared"]), (&true.into(), &true.into()));
    let files = ["lib", "other"].map(|folder| fs::read(scratch.path(&format!("{folder}/{called}.template"))).ok());
    assert!(files[0].is_some() && files[0] == files[1]);
    let done = scratch.run(&[&["template", "show", "--library", "third", "unheard-of"], &nats[..]].concat());
    assert!(
        done.code == Some(2) && done.stderr.contains("no template `unheard-of` in the folder or at"),
        "{}",
        done.stderr
    );
}
