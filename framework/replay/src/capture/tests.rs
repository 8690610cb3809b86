//! Captures are read as they are: every byte order, resolution and link, and every fault by its name.

use std::io::{Cursor, Read, Write as _};

use proptest::prelude::*;

use super::*;
use crate::template::{Builder, Ledger, Template};
use crate::testing::{Recorder, cases, datagram, ethernet, framed, frames, ip, udp};

fn capture(bytes: &[u8]) -> Result<Capture, Fault> {
    Capture::of(Cursor::new(bytes.to_vec()))
}

fn loaded_with(bytes: &[u8], options: &Options) -> Result<Template, Fault> {
    let template = import_capture(capture(bytes)?, Builder::in_memory(), options, &mut 0)?;
    let Ledger { read, loaded, .. } = template.notes().ledger;
    assert_eq!(read, loaded + template.notes().ledger.left_out());
    assert_eq!(loaded, u64::from(template.len()));
    Ok(template)
}

fn loaded(bytes: &[u8]) -> Template {
    loaded_with(bytes, &Options::default()).expect("a capture")
}

fn said(bytes: &[u8]) -> String {
    loaded_with(bytes, &Options::default()).expect_err("a fault").to_string()
}

fn times(template: &Template) -> Vec<u64> {
    template.packets().map(|packet| packet.at).collect()
}

fn bytes(template: &Template) -> Vec<Vec<u8>> {
    template.packets().map(|packet| packet.bytes.to_vec()).collect()
}

/// Three frames in pcap, 10 µs apart in the given unit.
fn three(big: bool, magic: u32, extra: usize) -> Vec<u8> {
    let mut made = Recorder::classic(big, magic, 1);
    for (number, frame) in (0..).zip(frames(3)) {
        let length = frame.len() as u32;
        made.record((1_700_000_000, number * 10), (length, length), &[&vec![0; extra][..], &frame].concat());
    }
    made.bytes
}

#[test]
fn every_magic_is_read_in_both_byte_orders() {
    for big in [false, true] {
        for (magic, extra, unit) in [(0xa1b2_c3d4, 0, 1_000), (0xa1b2_3c4d, 0, 1), (0xa1b2_cd34, 8, 1_000)] {
            let template = loaded(&three(big, magic, extra));
            assert_eq!(bytes(&template), frames(3), "{magic:08x} {big}");
            assert_eq!(times(&template), [0, 10 * unit, 20 * unit], "{magic:08x} {big}");
            assert_eq!(template.notes().began, 1_700_000_000_000_000_000);
            assert_eq!(template.notes().format.as_deref(), Some("pcap"));
        }
    }
}

#[test]
fn interfaces_have_their_own_links_and_clocks() {
    for big in [false, true] {
        let inner = ip(17, "10.0.0.1", "10.0.0.2", &udp(7, 9, b"x"));
        let offset = if big { 3_i64.to_be_bytes() } else { 3_i64.to_le_bytes() };
        let mut made = Recorder::next_generation(big);
        made.interface(1, 0, &[(9, &[9])]).interface(101, 0, &[]).interface(1, 0, &[(9, &[0x8a]), (14, &offset)]);
        made.packet(0, 5_000_000_000, &framed(&inner)); // 5 s in nanoseconds
        made.packet(1, 5_000_001, &inner); // 5.000001 s in microseconds
        made.packet(2, 2 * 1024 + 512, &framed(&inner)); // 2.5 s in 2^-10 s, and 3 s more
        let template = loaded(&made.bytes);
        assert_eq!(times(&template), [0, 1_000, 500_000_000], "{big}");
        assert_eq!(template.notes().ledger.headed, 1);
        assert_eq!(template.notes().ledger.link_types, [(1, 2), (101, 1)].into());
        assert_eq!(template.streams().len(), 1);
        assert!(template.packets().all(|packet| packet.bytes[14..] == inner));
    }
}

#[test]
fn sections_of_both_byte_orders_follow_each_other() {
    let (first, mut made) = (frames(2), Recorder::next_generation(false));
    made.interface(1, 0, &[]).packet(0, 1, &first[0]).section(true).interface(1, 0, &[]).packet(0, 3, &first[1]);
    let template = loaded(&made.bytes);
    assert_eq!(bytes(&template), first);
    assert_eq!(times(&template), [0, 2_000]);
}

#[test]
fn strange_resolutions_divide_by_nothing() {
    for (resolution, ticks, nanos) in [(0, 1, 1_000_000_000), (12, 5_000, 5), (0xff, u64::MAX, 0), (127, u64::MAX, 0)] {
        let mut made = Recorder::next_generation(false);
        made.interface(1, 0, &[(9, &[resolution])]).packet(0, 0, &frames(1)[0]).packet(0, ticks, &frames(1)[0]);
        assert_eq!(times(&loaded(&made.bytes)), [0, nanos], "{resolution}");
    }
    // centuries in seconds do not fit; the packet is left out and said so
    let mut made = Recorder::next_generation(false);
    made.interface(1, 0, &[(9, &[0])]).packet(0, u64::MAX, &frames(1)[0]);
    assert_eq!(loaded(&made.bytes).notes().ledger.left, [(Left::Time, 1)].into());
}

#[test]
fn blocks_without_times_take_the_snapshot_length() {
    let frame = datagram(("10.0.0.1", 1), ("10.0.0.2", 2), &[7; 100]);
    let mut body = Recorder { big: false, bytes: Vec::new() };
    body.u32(frame.len() as u32).bytes.extend(&frame[..64]);
    let mut made = Recorder::next_generation(false);
    made.interface(1, 64, &[]).block(3, &body.bytes).block(3, &body.bytes);
    let template = loaded(&made.bytes);
    let packet = template.packet(0);
    assert_eq!((packet.bytes, packet.original as usize, packet.is_cut()), (&frame[..64], frame.len(), true));
    assert_eq!((template.notes().ledger.untimed, template.notes().ledger.cut), (2, 2));
    assert!(template.notes().ledger.warnings[0].contains("no packet has a time"));
}

#[test]
fn the_obsolete_packet_block_is_read() {
    let frame = &frames(1)[0];
    let mut body = Recorder { big: true, bytes: Vec::new() };
    let length = frame.len() as u32;
    body.u16(0).u16(0).u32(0).u32(9).u32(length).u32(length).bytes.extend(frame);
    let mut made = Recorder::next_generation(true);
    made.interface(1, 0, &[]).block(2, &body.bytes);
    assert_eq!(bytes(&loaded(&made.bytes)), frames(1));
}

#[test]
fn every_link_becomes_ethernet() {
    let (four, six) =
        (ip(17, "10.0.0.1", "10.0.0.2", &udp(7, 9, b"x")), ip(17, "fd00::1", "fd00::2", &udp(7, 9, b"x")));
    let cooked = |kind: u16, content: &[u8]| {
        [&[0, 0, 0, 1, 0, 6, 2, 9, 9, 9, 9, 9, 0, 0][..], &kind.to_be_bytes(), content].concat()
    };
    let cooked2 = |kind: u16, content: &[u8]| {
        [&kind.to_be_bytes()[..], &[0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 9, 9, 9, 9, 9, 0, 0], content].concat()
    };
    let front = |front: &[u8], content: &[u8]| [front, content].concat();
    let cases: Vec<(u32, Vec<u8>, u16, &[u8])> = vec![
        (101, four.clone(), 0x0800, &four),
        (101, six.clone(), 0x86dd, &six),
        (228, four.clone(), 0x0800, &four),
        (229, six.clone(), 0x86dd, &six),
        (0, front(&[2, 0, 0, 0], &four), 0x0800, &four),
        (0, front(&[0, 0, 0, 30], &six), 0x86dd, &six),
        (108, front(&[0, 0, 0, 2], &four), 0x0800, &four),
        (113, cooked(0x0800, &four), 0x0800, &four),
        (276, cooked2(0x86dd, &six), 0x86dd, &six),
        (9, front(&[0xff, 3, 0, 0x21], &four), 0x0800, &four),
        (9, front(&[0x21], &four), 0x0800, &four),
        (9, front(&[0, 0x57], &six), 0x86dd, &six),
        (50, front(&[0x0f, 0, 8, 0], &four), 0x0800, &four),
        (104, front(&[0x0f, 0, 8, 0], &four), 0x0800, &four),
    ];
    for (link, packet, kind, content) in cases {
        let mut made = Recorder::classic(false, 0xa1b2_c3d4, link);
        let template = loaded(&made.whole((0, 0), &packet).bytes);
        let found = template.packet(0);
        assert_eq!((&found.bytes[12..14], &found.bytes[14..]), (&kind.to_be_bytes()[..], content), "{link}");
        assert_eq!(found.original as usize, found.bytes.len());
        if matches!(link, 113 | 276) {
            assert_eq!(&found.bytes[6..12], [2, 9, 9, 9, 9, 9], "the sender's address is kept");
        }
    }
}

#[test]
fn links_without_an_ethernet_form_are_refused_by_name() {
    let mut made = Recorder::classic(false, 0xa1b2_c3d4, 147);
    let text = said(&made.whole((0, 0), &[0; 60]).bytes);
    assert!(text.contains("147 (USER0)") && text.contains("LINUX_SLL2"), "{text}");
    // beside others they are left out and counted, alone they are refused
    let mut made = Recorder::next_generation(false);
    made.interface(239, 0, &[]).interface(1, 0, &[]).packet(0, 0, &[0; 60]);
    assert!(said(&made.bytes).contains("239 (NFLOG)"));
    let template = loaded(&made.packet(1, 0, &frames(1)[0]).bytes);
    assert_eq!(template.notes().ledger.left, [(Left::LinkType, 1)].into());
    assert!(template.notes().ledger.warnings[0].contains("NFLOG"));
}

#[test]
fn check_sequences_are_taken_off() {
    let frame = &frames(1)[0];
    let behind = [&frame[..], &[1, 2, 3, 4]].concat();
    let mut made = Recorder::classic(false, 0xa1b2_c3d4, 1 | 0x0400_0000 | 2 << 28);
    assert_eq!(bytes(&loaded(&made.whole((0, 0), &behind).bytes)), frames(1));
    let mut made = Recorder::next_generation(false);
    made.interface(1, 0, &[(13, &[4])]).packet(0, 0, &behind);
    assert_eq!(bytes(&loaded(&made.bytes)), frames(1));
}

#[test]
fn lying_lengths_are_named_and_allocate_nothing() {
    let frame = &frames(1)[0];
    let mut made = Recorder::classic(false, 0xa1b2_c3d4, 1);
    made.whole((1, 0), frame).record((2, 0), (u32::MAX, 64), &[0; 64]);
    let text = said(&made.bytes);
    assert!(text.contains("byte 84") && text.contains("4294967295") && text.contains("262144"), "{text}");
    let salvaged = loaded_with(&made.bytes, &Options { salvage: true, ..Options::default() }).expect("one packet");
    assert_eq!((salvaged.len(), salvaged.notes().ledger.warnings.len()), (1, 1));
    for (length, why) in [(13_u32, "12, 16, 20"), (8, "12, 16, 20"), (64 << 20, "at most 16777216")] {
        let mut made = Recorder::next_generation(false);
        made.interface(1, 0, &[]).u32(6).u32(length).bytes.extend([0; 40]);
        let text = said(&made.bytes);
        assert!(text.contains("the block at byte 48") && text.contains(why), "{text}");
    }
}

#[test]
fn what_is_kept_is_never_more_than_what_was_there() {
    let frame = &frames(1)[0];
    let mut made = Recorder::classic(false, 0xa1b2_c3d4, 1);
    let length = frame.len() as u32;
    made.record((0, 0), (length + 4, length), &[&frame[..], &[9; 4]].concat());
    made.record((0, 1), (0, 60), &[]).record((0, 2), (20, 4_000_000_000), &frame[..20]).record(
        (0, 3),
        (9, 60),
        &frame[..9],
    );
    let template = loaded(&made.bytes);
    assert_eq!(bytes(&template), [frame.clone(), frame[..20].to_vec()]);
    let ledger = &template.notes().ledger;
    assert_eq!((ledger.trimmed, ledger.cut), (1, 1));
    assert_eq!(ledger.left, [(Left::Empty, 1), (Left::Short, 1)].into());
    let whole = loaded_with(&made.bytes, &Options { whole_only: true, ..Options::default() }).expect("a capture");
    assert_eq!(whole.notes().ledger.left, [(Left::Empty, 1), (Left::Short, 1), (Left::Cut, 1)].into());
}

#[test]
fn what_is_cut_at_the_end_is_a_warning() {
    let whole = three(false, 0xa1b2_c3d4, 0);
    for cut in [1, 16, 40] {
        let template = loaded(&whole[..whole.len() - cut]);
        assert_eq!((template.len(), template.notes().ledger.warnings.len()), (2, 1), "{cut}");
    }
    let mut made = Recorder::next_generation(true);
    made.interface(1, 0, &[]).packet(0, 0, &frames(1)[0]).packet(0, 1, &frames(1)[0]);
    for cut in [1, 60, 70] {
        let template = loaded(&made.bytes[..made.bytes.len() - cut]);
        assert_eq!((template.len(), template.notes().ledger.warnings.len()), (1, 1), "{cut}");
    }
}

#[test]
fn what_is_no_capture_is_refused_by_what_it_begins_with() {
    assert!(said(b"").contains("empty"));
    assert!(said(b"MZ\x90\0rest").contains("4d 5a 90 00"));
    assert!(said(&three(false, 0xa1b2_c3d4, 0)[..20]).contains("20 bytes"));
    let mut made = Recorder::next_generation(false);
    assert!(said(&made.packet(0, 0, &frames(1)[0]).bytes).contains("before any interface"));
    made = Recorder::next_generation(false);
    made.interface(1, 0, &[]).packet(7, 0, &frames(1)[0]).packet(0, 0, &frames(1)[0]);
    let template = loaded(&made.bytes);
    assert_eq!(template.notes().ledger.left, [(Left::Interface, 1)].into());
}

#[test]
fn times_out_of_order_are_sorted_and_counted() {
    let (all, mut made) = (frames(4), Recorder::classic(false, 0xa1b2_c3d4, 1));
    // the third has a fraction of more than a second
    for (time, frame) in [(10, 0), (5, 0), (5, 1_500_000), (10, 0)].into_iter().zip(&all) {
        made.whole(time, frame);
    }
    let template = loaded(&made.bytes);
    assert_eq!(times(&template), [0, 1_500_000_000, 5_000_000_000, 5_000_000_000]);
    assert_eq!(bytes(&template), [all[1].clone(), all[2].clone(), all[0].clone(), all[3].clone()]);
    assert_eq!(template.notes().ledger.backward, 2);
}

#[test]
fn packed_captures_are_unpacked_by_what_they_begin_with() {
    let plain = three(true, 0xa1b2_3c4d, 0);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain[..50]).expect("memory");
    let mut packed = gzip.finish().expect("memory");
    let mut gzip = flate2::write::GzEncoder::new(packed, flate2::Compression::default());
    gzip.write_all(&plain[50..]).expect("memory");
    packed = gzip.finish().expect("memory");
    assert_eq!(bytes(&loaded(&packed)), frames(3), "two members of gzip");
    let zstd = |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    let skipped = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let packed = [&skipped[..], &zstd(&plain[..50]), &skipped, &zstd(&plain[50..])].concat();
    assert_eq!(bytes(&loaded(&packed)), frames(3), "two frames of zstd among skipped ones");
    let cut = &zstd(&plain)[..40];
    match loaded_with(cut, &Options::default()) {
        Ok(template) => assert!(template.len() < 3 && template.notes().ledger.warnings.len() == 1),
        Err(why) => assert!(matches!(why, Fault::Header(_) | Fault::Foreign(_) | Fault::Read(_)), "{why}"),
    }
}

#[test]
fn parts_are_taken_by_time_number_and_filter() {
    let mut made = Recorder::classic(false, 0xa1b2_c3d4, 1);
    for (second, frame) in (100..).zip(frames(6)) {
        made.whole((second, 0), &frame);
    }
    let of = |options: Options| loaded_with(&made.bytes, &options).expect("a capture");
    let seconds = |n: u64| Some(n * 1_000_000_000);
    let part = of(Options { from: seconds(1), to: seconds(4), ..Options::default() });
    assert_eq!(bytes(&part), frames(6)[1..4]);
    assert_eq!(part.notes().ledger.left, [(Left::Range, 3)].into());
    let part = of(Options { limit: Some(2), ..Options::default() });
    assert_eq!((bytes(&part), part.notes().ledger.read), (frames(2), 2));
    let part = of(Options { filter: "src port 1003".parse().ok(), ..Options::default() });
    assert_eq!(bytes(&part), frames(6)[3..4]);
    assert_eq!(part.notes().ledger.left, [(Left::Filter, 5)].into());
    assert_eq!(part.notes().filter.as_deref(), Some("src port 1003"));
}

#[test]
fn what_is_written_is_read_again() {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for (at, frame) in (0..).zip(frames(3)) {
        writer.packet(1_700_000_000_123_456_789 + at, frame.len() as u32 + 5, &frame).expect("memory");
    }
    let template = loaded(&writer.finish().expect("memory"));
    assert_eq!((bytes(&template), times(&template)), (frames(3), vec![0, 1, 2]));
    assert_eq!((template.notes().began, template.notes().ledger.cut), (1_700_000_000_123_456_789, 3));
    let late = Writer::new(Vec::new()).and_then(|mut writer| writer.packet(u64::MAX, 60, &[0; 60]));
    assert!(late.is_err_and(|why| why.to_string().contains("2106")));
}

/// Gives one byte at a time.
struct Slowly(Cursor<Vec<u8>>);

impl Read for Slowly {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let most = to.len().min(1);
        self.0.read(&mut to[..most])
    }
}

#[test]
fn readers_may_give_one_byte_at_a_time() {
    let slow = Capture::of(Slowly(Cursor::new(three(false, 0xa1b2_c3d4, 0)))).expect("a capture");
    let template = import_capture(slow, Builder::in_memory(), &Options::default(), &mut 0).expect("a capture");
    assert_eq!(bytes(&template), frames(3));
}

/// Small captures of each kind, to be damaged.
fn corpus() -> Vec<Vec<u8>> {
    let (mut made, frame) = (Recorder::next_generation(true), ethernet(0x0806, &[0; 46]));
    made.interface(1, 64, &[(9, &[9])]).packet(0, 5, &frame).block(0xbad, &[1; 9]).packet(0, 9, &frame);
    let cooked = Recorder::classic(true, 0xa1b2_3c4d, 113).whole((1, 1), &[0; 40]).bytes.clone();
    let plain = three(false, 0xa1b2_c3d4, 0);
    let zstd = ruzstd::encoding::compress_to_vec(&plain[..], ruzstd::encoding::CompressionLevel::Fastest);
    vec![plain, three(true, 0xa1b2_cd34, 8), made.bytes, cooked, zstd]
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// Whatever a capture says, it ends: as a template whose books balance, or as a fault.
    #[test]
    fn damaged_captures_end(
        which in 0_usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        salvage: bool,
    ) {
        let mut bytes = corpus().swap_remove(which);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = loaded_with(&bytes, &Options { salvage, ..Options::default() });
        bytes.truncate(cut.index(bytes.len()));
        let _ = loaded_with(&bytes, &Options { salvage, ..Options::default() });
    }

    #[test]
    fn nonsense_ends(bytes in prop::collection::vec(any::<u8>(), 0..400), which in 0_usize..5) {
        let _ = loaded_with(&bytes, &Options::default());
        let start = corpus().swap_remove(which);
        let _ = loaded_with(&[&start[..28.min(start.len())], &bytes].concat(), &Options::default());
    }
}
