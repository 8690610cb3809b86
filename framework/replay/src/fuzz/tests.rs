//! The corpus does no harm, and begins with what the tests make: `UPDATE_SNAPSHOTS=1` writes that.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::testing::{Recorder, datagram, ethernet, framed, frames, ip, segment, udp};

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

/// What each target begins with, by names.
fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut plain = Recorder::classic(false, 0xa1b2_c3d4, 1);
    for (at, frame) in (0..).zip(frames(3)) {
        plain.whole((1_700_000_000, at), &frame);
    }
    let mut raw = Recorder::classic(true, 0xa1b2_3c4d, 101);
    raw.whole((1, 1), &ip(17, "10.0.0.1", "10.0.0.2", &udp(7, 53, b"raw")));
    let mut blocks = Recorder::next_generation(true);
    blocks.interface(1, 64, &[(9, &[9])]).packet(0, 5, &frames(1)[0]).block(0xbad, &[1; 9]).packet(0, 9, &frames(2)[1]);
    let squeezed = ruzstd::encoding::compress_to_vec(&plain.bytes[..], ruzstd::encoding::CompressionLevel::Fastest);
    let small = segment(("10.0.0.1", 40_000), ("10.0.0.2", 80), 2, b"small");
    let six = datagram(("2001:db8::1", 5_000), ("2001:db8::2", 53), b"six");
    let inner = framed(&ip(17, "10.9.0.1", "10.9.0.2", &udp(7, 9, b"inner")));
    let tunnel = datagram(("192.0.2.1", 1), ("192.0.2.2", 4789), &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat());
    let tagged = ethernet(0x8100, &[&[0, 7, 8, 0][..], &ip(17, "10.8.0.1", "10.8.0.2", &udp(1, 2, b""))].concat());
    let quoting = framed(&ip(1, "10.0.0.2", "10.0.0.1", &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &small[14..]].concat()));
    let resolving = ethernet(0x0806, &[&[0, 1, 8, 0, 6, 4, 0, 1][..], &[5; 20]].concat());
    let made = imported(&plain.bytes, false).expect("a capture").as_bytes().to_vec();
    let with = |text: &str, frame: &[u8]| [text.as_bytes(), &[0], frame].concat();
    vec![
        ("capture", "pcap", plain.bytes),
        ("capture", "raw", raw.bytes),
        ("capture", "pcapng", blocks.bytes),
        ("capture", "zstd", squeezed),
        ("edit", "hosts", with("ip=10.0.0.0/24 -> 192.0.2.0/24\nport=80 -> 8080\nttl=-1", &small)),
        (
            "edit",
            "tags",
            with("vlan=pop\nvlan=push 100 priority 5\nmac=02:00:00:00:00:0c -> 02:00:00:00:00:0d", &tagged),
        ),
        ("edit", "drawn", with("random_hosts=198.18.0.0/15\nrandom_hosts=fd00::/64\npad=128", &six)),
        ("edit", "quoted", with("nodes=192.0.2.1\nnodes=192.0.2.2\npayload=zero\nchecksums=repair", &quoting)),
        ("edit", "anonymous", with("anonymise=a key that nobody guesses\ntrim_trailer=true", &tunnel)),
        ("filter", "ports", with("tcp portrange 20-25 or 80 and not src host 10.0.0.2", &small)),
        ("filter", "tags", with("vlan 7 and (net 10.8.0.0/16 || ether proto 0x0806)", &tagged)),
        ("filter", "lengths", with("greater 40 && ip6 proto 17 or mpls", &six)),
        ("frame", "small", small),
        ("frame", "six", six),
        ("frame", "tunnel", tunnel),
        ("frame", "tagged", tagged),
        ("frame", "quoting", quoting),
        ("frame", "resolving", resolving),
        ("template", "made", made),
    ]
}

#[test]
fn the_corpus_begins_with_what_the_tests_make() {
    for (target, name, bytes) in seeds() {
        let path = corpus(target).join(name);
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::create_dir_all(corpus(target)).expect("a folder");
            fs::write(&path, &bytes).expect("a file");
        }
        assert!(fs::read(&path).ok() == Some(bytes), "{} differs; UPDATE_SNAPSHOTS=1 writes it", path.display());
    }
}

#[test]
fn nothing_in_the_corpus_does_harm() {
    for (name, target) in TARGETS {
        let files: Vec<PathBuf> =
            fs::read_dir(corpus(name)).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
        assert!(!files.is_empty(), "{name}");
        for path in files {
            println!("{}", path.display());
            target(&fs::read(&path).expect("a file"));
        }
    }
}

#[test]
fn whole_seeds_come_to_something() {
    let of = |wanted: &'static str| seeds().into_iter().filter(move |(target, ..)| *target == wanted);
    assert!(of("capture").all(|(_, _, bytes)| imported(&bytes, false).is_ok()));
    assert!(of("template").all(|(_, _, bytes)| Template::from_bytes(bytes).is_ok()));
    assert!(of("filter").all(|(_, _, bytes)| String::from_utf8_lossy(parts(&bytes).0).parse::<Filter>().is_ok()));
    for (_, name, bytes) in of("edit") {
        let (text, frame) = parts(&bytes);
        let table = table(std::str::from_utf8(text).expect("text"));
        let mut builder = Builder::in_memory();
        builder.push(0, frame).expect("a frame");
        let template = builder.finish().expect("memory");
        let mut copy = Vec::new();
        Editor::new(&table, &template).expect(name).apply(&template.packet(0), 0, &mut copy);
        assert_ne!(copy, frame, "{name}");
    }
}
