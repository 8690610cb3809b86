//! Templates are kept as they were made, whoever opens them.

use proptest::prelude::*;

use super::library::{check_name, name_of};
use super::*;
use crate::Direction::{Backward, Forward};
use crate::testing::{cases, datagram, ethernet, framed, frames, ip, segment, udp};

const SYN: u8 = 2;
const ACK: u8 = 16;
const A: (&str, u16) = ("10.0.0.1", 40_000);
const B: (&str, u16) = ("10.0.0.2", 443);

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rehearsal-replay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn made(packets: &[(u64, Vec<u8>)]) -> Template {
    let mut builder = Builder::in_memory();
    for (at, frame) in packets {
        builder.push(*at, frame).expect("a frame");
    }
    builder.finish().expect("a template")
}

fn after(template: &Template) -> Vec<Option<u32>> {
    template.packets().map(|packet| packet.after).collect()
}

#[test]
fn each_packet_waits_for_the_last_one_of_the_other_side() {
    let packets = [
        (1_000, segment(A, B, SYN, b"")),
        (1_400, segment(B, A, SYN | ACK, b"")),
        (1_500, segment(A, B, ACK, b"")),
        (1_700, segment(A, B, ACK, b"GET /")),
        (1_800, datagram(("10.9.9.9", 5), ("10.0.0.2", 53), b"?")),
        (2_000, segment(B, A, ACK, b"200")),
        (2_100, segment(B, A, ACK, b"body")),
        (2_500, segment(A, B, ACK, b"")),
    ];
    let template = made(&packets);
    assert_eq!(after(&template), [None, Some(0), Some(1), Some(1), None, Some(3), Some(3), Some(6)]);
    let thinks: Vec<u64> = template.packets().map(|packet| packet.think).collect();
    assert_eq!(thinks, [0, 400, 100, 300, 0, 300, 400, 400]);
    let ways: Vec<_> = template.packets().map(|packet| packet.direction).collect();
    assert_eq!(ways, [Forward, Backward, Forward, Forward, Forward, Backward, Backward, Forward]);
    let stream = &template.streams()[0];
    assert_eq!(
        (stream.client.to_string(), stream.server.to_string()),
        ("10.0.0.1:40000".into(), "10.0.0.2:443".into())
    );
    assert_eq!((stream.packets, stream.first, stream.last), ([4, 3], 0, 1_500));
}

#[test]
fn an_opening_packet_waits_for_nothing_even_behind_its_answer() {
    // recorded in the wrong order: the client is known all the same, and nobody waits for ever
    let template =
        made(&[(0, segment(B, A, SYN | ACK, b"")), (3, segment(A, B, SYN, b"")), (9, segment(A, B, ACK, b""))]);
    assert_eq!(after(&template), [None, None, Some(0)]);
    assert_eq!(template.streams()[0].client.port, 40_000);
}

#[test]
fn without_a_handshake_the_system_port_is_the_server() {
    let template = made(&[(0, segment(B, A, ACK, b"late")), (1, segment(A, B, ACK, b""))]);
    assert_eq!(template.streams()[0].server.port, 443);
    assert_eq!(template.packet(0).direction, Backward);
    let template = made(&[(0, datagram(("10.0.0.2", 5060), ("10.0.0.1", 5061), b""))]);
    assert_eq!(template.streams()[0].client.port, 5060, "who speaks first is the client");
}

#[test]
fn pieces_of_a_packet_follow_the_first() {
    let whole = ip(17, "10.0.0.1", "10.0.0.2", &udp(1, 2, &[7; 64]));
    let piece = |flags: u16, identification: u8, payload: &[u8]| {
        let mut packet = [&whole[..20], payload].concat();
        (packet[2], packet[3]) = (0, packet.len() as u8);
        (packet[4], packet[5]) = (0, identification);
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        framed(&packet)
    };
    let packets =
        [(0, piece(0x2000, 1, &whole[20..52])), (1, piece(4, 1, &whole[52..])), (2, piece(4, 2, &whole[52..]))];
    let template = made(&packets);
    let streams: Vec<u32> = template.packets().map(|packet| packet.stream).collect();
    assert_eq!(streams, [0, 0, 1], "the third belongs to a packet whose first piece was never seen");
}

#[test]
fn frames_without_ip_are_streams_of_their_addresses() {
    let mut swapped = ethernet(0x0806, &[1; 46]);
    let (to, from) = (swapped[..6].to_vec(), swapped[6..12].to_vec());
    swapped[..6].copy_from_slice(&from);
    swapped[6..12].copy_from_slice(&to);
    let template = made(&[(0, ethernet(0x0806, &[1; 46])), (1, swapped), (2, ethernet(100, &[0; 46]))]);
    let kinds: Vec<String> = template.streams().iter().map(|stream| stream.carried.to_string()).collect();
    assert_eq!(kinds, ["ARP", "IEEE 802.3"]);
    assert_eq!(after(&template), [None, Some(0), None]);
}

#[test]
fn a_file_and_memory_hold_the_same() {
    let scratch = Scratch::new("same");
    let path = scratch.0.join("t");
    let mut builder = Builder::in_file(&path).expect("a file");
    let packets: Vec<(u64, Vec<u8>)> = [9, 3, 7, 3].into_iter().zip(frames(4)).collect();
    for (at, frame) in &packets {
        builder.push_cut(*at, frame.len() as u32 + 1, frame).expect("a frame");
    }
    assert_eq!(builder.backward(), 3);
    let filed = builder.finish().expect("a template");
    let times: Vec<u64> = filed.packets().map(|packet| packet.at).collect();
    assert_eq!(times, [0, 0, 4, 6]);
    assert!(filed.packets().all(|packet| packet.is_cut()));
    let kept = Template::from_bytes(std::fs::read(&path).expect("the file")).expect("a template");
    assert_eq!(kept.as_bytes(), filed.as_bytes());
    let left: Vec<_> = std::fs::read_dir(&scratch.0).expect("the folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["t"], "neither draft nor spool is left");
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let scratch = Scratch::new("dropped");
    let mut builder = Builder::in_file(&scratch.0.join("t")).expect("a file");
    builder.push(0, &frames(1)[0]).expect("a frame");
    drop(builder);
    assert_eq!(std::fs::read_dir(&scratch.0).expect("the folder").count(), 0);
}

#[test]
fn empty_templates_and_bounds() {
    let empty = made(&[]);
    assert_eq!((empty.len(), empty.is_empty(), empty.duration(), empty.packets().len()), (0, true, 0, 0));
    assert_eq!(empty.overview().gap_seconds_max, 0.0);
    let scratch = Scratch::new("empty");
    let filed = Builder::in_file(&scratch.0.join("t")).and_then(Builder::finish).expect("a template");
    assert_eq!(filed.as_bytes(), empty.as_bytes());
    let mut builder = Builder::in_memory().with_streams_max(2);
    let pushed: Vec<bool> = frames(3).iter().map(|frame| builder.push(0, frame).is_ok()).collect();
    assert_eq!(pushed, [true, true, false]);
    assert!(matches!(Builder::in_memory().push(0, &[]), Err(TemplateError::Length(0))));
    assert!(matches!(Builder::in_memory().push(0, &[0; FRAME_MAX + 1]), Err(TemplateError::Length(_))));
}

#[test]
fn a_library_finds_by_name_and_digest() {
    let scratch = Scratch::new("library");
    let library = Library::at(&scratch.0.join("deep").join("templates"));
    assert!(library.list().expect("no folder is no template").is_empty());
    let keep = |name: &str, count: u16| {
        let draft = library.draft().expect("a folder");
        let mut builder = Builder::in_file(&draft).expect("a file");
        for frame in frames(count) {
            builder.push(0, &frame).expect("a frame");
        }
        drop(builder.finish().expect("a template"));
        library.keep(&draft, name).expect("a name")
    };
    let (one, other, two) = (keep("web", 1), keep("dns", 1), keep("web", 2));
    assert_eq!(one.digits, other.digits, "a name is no part of what is digested");
    assert_eq!(keep("web", 1), one, "the same is kept once");
    assert_eq!(library.list().expect("a folder").len(), 3);
    assert_eq!(library.find("dns").expect("one"), other);
    assert_eq!(library.find(&format!("web@{}", &two.digits[..4])).expect("one"), two);
    assert!(library.find("web").expect_err("two").to_string().contains(&two.called()));
    assert!(library.find("ftp").expect_err("none").to_string().contains("dns@"));
    assert_eq!(library.open(&two.called()).expect("whole").1.len(), 2);
    let mut bytes = std::fs::read(&two.path).expect("the file");
    bytes[HEADER] ^= 1;
    std::fs::write(&two.path, bytes).expect("the file");
    assert!(library.open(&two.called()).expect_err("damaged").to_string().contains("its digest is"));
}

#[test]
fn streams_that_do_not_add_up_are_refused() {
    let template = made(&[(0, frames(2)[0].clone()), (5, frames(2)[1].clone())]);
    let streams = template.header.streams_at().expect("a place") as usize;
    // packets, bytes, first and last of the first stream
    for (field, part) in [(48, "add up"), (64, "add up"), (80, "outside"), (88, "outside")] {
        let mut bytes = template.as_bytes().to_vec();
        bytes[streams + field + 7] = 0xff;
        let why = Template::from_bytes(bytes).expect_err("damaged").to_string();
        assert!(why.contains(part), "{field}: {why}");
    }
}

#[test]
fn names_are_plain() {
    for (file, name) in [
        ("a/Web Trace.pcap.gz", "web-trace"),
        ("x.PCAPNG", "x"),
        ("noon.cap.zst", "noon"),
        (".pcap", "capture"),
        ("ü.pcap", "capture"),
        ("v1.2.pcap", "v1.2"),
    ] {
        assert_eq!(name_of(Path::new(file)), name);
        assert!(check_name(name).is_ok());
    }
    for bad in ["", "A", "../x", "-x", "a b", &"a".repeat(64)] {
        assert!(check_name(bad).is_err(), "{bad}");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Everything that goes in comes out, in order of time, in streams whose sums are right.
    #[test]
    fn packets_are_conserved(packets in prop::collection::vec((0_u64..50, 0_u16..5, any::<bool>()), 0..60)) {
        let frame = |number: usize, host: u16, back: bool| {
            let (a, b) = (("10.0.0.1", 1000 + host), ("10.0.0.2", 2000));
            let payload = (number as u16).to_be_bytes();
            if back { datagram(b, a, &payload) } else { datagram(a, b, &payload) }
        };
        let all: Vec<(u64, Vec<u8>)> =
            packets.iter().enumerate().map(|(number, (at, host, back))| (*at, frame(number, *host, *back))).collect();
        let template = made(&all);
        let mut sorted = all.clone();
        sorted.sort_by_key(|(at, _)| *at);
        let base = sorted.first().map_or(0, |(at, _)| *at);
        let found: Vec<(u64, Vec<u8>)> = template.packets().map(|p| (p.at + base, p.bytes.to_vec())).collect();
        prop_assert_eq!(found, sorted);
        prop_assert_eq!(template.streams().iter().flat_map(|s| s.packets).sum::<u64>(), all.len() as u64);
        prop_assert_eq!(template.streams().iter().flat_map(|s| s.bytes).sum::<u64>(), template.bytes());
        for packet in template.packets() {
            let last = (0..packet.index).rev().map(|index| template.packet(index));
            let expected = last.clone().find(|p| p.stream == packet.stream && p.direction != packet.direction);
            prop_assert_eq!(packet.after, expected.map(|p| p.index));
        }
    }

    /// A damaged file is refused, or read without harm.
    #[test]
    fn damaged_templates_do_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = made(&[(0, frames(2)[0].clone()), (5, frames(2)[1].clone())]).as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(template) = Template::from_bytes(bytes) {
            let total: usize = template.packets().map(|packet| packet.bytes.len()).sum();
            prop_assert!(total <= 2 * template.as_bytes().len());
            let _ = template.overview();
        }
    }
}
