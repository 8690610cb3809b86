//! Edits change what they say, checksums follow, and nothing else moves.

use proptest::prelude::*;

use super::*;
use crate::frame::protocol::{ICMP, ICMPV6, TCP, UDP};
use crate::template::Builder;
use crate::testing::{CLIENT_MAC, SERVER_MAC, cases, datagram, ethernet, framed, ip, segment, sum, tcp, udp};

const A: (&str, u16) = ("10.0.0.1", 40_000);
const B: (&str, u16) = ("10.0.0.2", 443);
const SIX: (&str, u16) = ("2001:db8::1", 40_000);
const SIX_TOO: (&str, u16) = ("2001:db8::2", 443);

fn template(frames: &[Vec<u8>]) -> Template {
    let mut builder = Builder::in_memory();
    frames.iter().enumerate().for_each(|(at, frame)| builder.push(at as u64, frame).expect("a frame"));
    builder.finish().expect("a template")
}

fn editor(frames: &[Vec<u8>], edit: &Edit) -> Editor {
    Editor::new(edit, &template(frames)).expect("an edit")
}

/// Frames as they are after an edit, in a lap.
fn edited_in(frames: &[Vec<u8>], edit: &Edit, lap: u64) -> Vec<Vec<u8>> {
    let (template, mut to) = (template(frames), Vec::new());
    let editor = Editor::new(edit, &template).expect("an edit");
    let before = template.as_bytes().to_vec();
    let all = template.packets().map(|packet| {
        let original = editor.apply(&packet, lap, &mut to);
        assert_eq!(original as usize, to.len(), "what was whole stays whole");
        to.clone()
    });
    let all = all.collect();
    assert_eq!(template.as_bytes(), before, "a template never changes");
    all
}

fn edited(frame: Vec<u8>, edit: &Edit) -> Vec<u8> {
    edited_in(&[frame], edit, 0).swap_remove(0)
}

fn said(frames: &[Vec<u8>], edit: &Edit) -> String {
    Editor::new(edit, &template(frames)).expect_err("no edit").to_string()
}

fn rules(rules: &[&str]) -> Vec<String> {
    rules.iter().map(|rule| (*rule).to_owned()).collect()
}

fn to_lab() -> Edit {
    let ip = rules(&["10.0.0.0/24 -> 192.0.2.0/24", "2001:db8::/64 -> fd00:1:2:3::/64"]);
    Edit { ip, port: rules(&["443 -> 8443"]), ..Edit::default() }
}

/// Whether every checksum of a frame is right, by sums over all of it.
fn is_right(frame: &[u8]) -> bool {
    let layers = Layers::of(frame);
    layers.networks().iter().all(|network| {
        let (source, destination) = network.addresses(frame);
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let header = network.v6 || sum(&[&frame[network.at..network.at + 20]]) == 0xffff;
        let content = &frame[network.payload..network.end];
        let length = (content.len() as u16).to_be_bytes();
        let pseudo = [octets(source), octets(destination), vec![0, network.protocol], length.to_vec()].concat();
        let none = network.protocol == UDP && content[6..8] == [0, 0];
        let transport = match network.protocol {
            TCP | UDP | ICMPV6 => none || sum(&[&pseudo, content]) == 0xffff,
            ICMP => sum(&[content]) == 0xffff,
            _ => true,
        };
        header && transport
    })
}

#[test]
fn an_edit_of_nothing_changes_nothing() {
    for frame in [segment(A, B, 2, b"x"), datagram(SIX, SIX_TOO, b"xyz"), ethernet(0x0806, &[1; 46]), vec![9; 3]] {
        assert_eq!(edited(frame.clone(), &Edit::default()), frame);
    }
    assert!(Edit::default().is_empty());
}

#[test]
fn addresses_and_ports_move_and_checksums_follow() {
    for (old, new) in [
        (segment(A, B, 2, b"odd"), segment(("192.0.2.1", 40_000), ("192.0.2.2", 8443), 2, b"odd")),
        (datagram(A, B, b"x"), datagram(("192.0.2.1", 40_000), ("192.0.2.2", 8443), b"x")),
        (datagram(SIX, SIX_TOO, b"x"), datagram(("fd00:1:2:3::1", 40_000), ("fd00:1:2:3::2", 8443), b"x")),
        (segment(SIX_TOO, SIX, 18, b""), segment(("fd00:1:2:3::2", 8443), ("fd00:1:2:3::1", 40_000), 18, b"")),
    ] {
        // both are built from nothing, so this holds the update against the whole sum
        assert_eq!(edited(old, &to_lab()), new);
    }
}

#[test]
fn no_checksum_stays_none_and_wrong_ones_stay_wrong() {
    let mut none = datagram(A, B, b"x");
    none[40..42].fill(0);
    assert_eq!(edited(none, &to_lab())[40..42], [0, 0]);
    let mut wrong = segment(A, B, 2, b"x");
    wrong[50] ^= 0x55;
    assert!(!is_right(&edited(wrong.clone(), &to_lab())));
    assert!(is_right(&edited(wrong.clone(), &Edit { checksums: Checksums::Repair, ..to_lab() })));
    let kept = edited(wrong.clone(), &Edit { checksums: Checksums::Keep, ..to_lab() });
    assert_eq!((&kept[24..26], &kept[50..52]), (&wrong[24..26], &wrong[50..52]));
}

#[test]
fn rules_fit_in_order_and_keep_the_bits_of_hosts() {
    let one = |rule: &str, address: &str| {
        let editor = editor(&[], &Edit { ip: rules(&[rule, "0.0.0.0/0 -> 203.0.113.9"]), ..Edit::default() });
        editor.address(address.parse().expect("an address"), 0).to_string()
    };
    assert_eq!(one("10.0.0.7 -> 192.0.2.9", "10.0.0.7"), "192.0.2.9");
    assert_eq!(one("10.213.119.0/24 -> 10.1.0.0/22", "10.213.119.60"), "10.1.3.60", "bits behind /22 are the host's");
    assert_eq!(one("10.0.0.0/8 -> 192.0.2.9", "10.77.1.2"), "192.0.2.9");
    assert_eq!(one("10.0.0.0/8 -> 192.0.2.9", "11.0.0.1"), "203.0.113.9", "the next rule");
    for (rule, part) in [
        ("10.213.119.60/24 -> 10.1.3.0/24", "write 10.213.119.60 for the host or 10.213.119.0/24"),
        ("10.0.0.1 -> 10.1.3.0/24", "is a network"),
        ("10.0.0.0/8 -> 10.1.0.0/16", "fewer hosts"),
        ("10.0.0.1 -> ::1", "different versions"),
        ("10.0.0.1", "FROM -> TO"),
        ("a -> b", "no address"),
    ] {
        let text = said(&[], &Edit { ip: rules(&[rule]), ..Edit::default() });
        assert!(text.starts_with("edit `ip`") && text.contains(part), "{rule}: {text}");
    }
}

#[test]
fn what_icmp_quotes_moves_too() {
    for (number, head, old, new) in [
        (ICMP, [3, 1, 0, 0, 0, 0, 0, 0], (A, B), (("192.0.2.1", 40_000), ("192.0.2.2", 8443))),
        (ICMP, [5, 1, 0, 0, 10, 0, 0, 9], (A, B), (("192.0.2.1", 40_000), ("192.0.2.2", 8443))),
        (ICMPV6, [1, 4, 0, 0, 0, 0, 0, 0], (SIX, SIX_TOO), (("fd00:1:2:3::1", 40_000), ("fd00:1:2:3::2", 8443))),
    ] {
        let error = |from: (&str, u16), to: (&str, u16), head: [u8; 8]| {
            let quoted = ip(UDP, from.0, to.0, &udp(from.1, to.1, b"lost"));
            framed(&ip(number, to.0, from.0, &[&head[..], &quoted].concat()))
        };
        let mut moved = head;
        if head[0] == 5 {
            moved[4..8].copy_from_slice(&[192, 0, 2, 9]);
        }
        assert_eq!(edited(error(old.0, old.1, head), &to_lab()), error(new.0, new.1, moved));
    }
    // quoted by an old router: the header and eight bytes, so no checksum of the segment
    let quoted = &ip(TCP, A.0, B.0, &tcp(A.1, B.1, 2, b""))[..28];
    let error = framed(&ip(ICMP, "10.0.0.254", A.0, &[&[11, 0, 0, 0, 0, 0, 0, 0][..], quoted].concat()));
    let moved = edited(error, &to_lab());
    assert!(is_right(&moved) && moved[14 + 28 + 12..14 + 28 + 16] == [192, 0, 2, 1]);
}

#[test]
fn arp_and_neighbours_move_too() {
    let arp = |hardware: [u8; 6], from: u8| {
        let body = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &hardware, &[from, 0, 2, 1], &[0; 6], &[from, 0, 2, 2]].concat();
        [&[0xff; 6][..], &hardware, &[8, 6], &body].concat()
    };
    let edit = Edit {
        ip: rules(&["10.0.2.0/24 -> 192.0.2.0/24"]),
        client_mac: Some("02:00:00:00:00:aa".to_owned()),
        ..Edit::default()
    };
    assert_eq!(edited(arp(CLIENT_MAC, 10), &edit), arp([2, 0, 0, 0, 0, 0xaa], 192), "a broadcast stays one");
    let target: std::net::Ipv6Addr = "2001:db8::2".parse().expect("an address");
    let asks =
        ip(ICMPV6, "2001:db8::1", "ff02::1:ff00:2", &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets()].concat());
    let moved = edited(framed(&asks), &to_lab());
    assert!(is_right(&moved));
    assert_eq!(moved[62..70], [0xfd, 0, 0, 1, 0, 2, 0, 3]);
    assert_eq!(moved[38], 0xff, "the group stays");
}

#[test]
fn sums_around_tunnels_follow_what_is_inside() {
    let inner = framed(&ip(UDP, A.0, B.0, &udp(A.1, B.1, b"x")));
    let vxlan = datagram(("10.0.0.8", 9), ("10.0.0.9", 4789), &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat());
    let moved = edited(vxlan, &to_lab());
    assert!(is_right(&moved));
    assert_eq!(Layers::of(&moved).networks().len(), 2);
    let nested = ip(4, "10.0.0.5", "10.0.0.6", &ip(UDP, A.0, B.0, &udp(A.1, 2152, b"")));
    let gtp = datagram(("10.0.0.8", 9), ("10.0.0.9", 2152), &[&[0x30, 255, 0, 48, 0, 0, 0, 1][..], &nested].concat());
    assert!(is_right(&edited(gtp, &to_lab())));
}

#[test]
fn only_the_first_piece_has_a_checksum_to_follow() {
    let whole = ip(UDP, A.0, B.0, &udp(A.1, B.1, &[7; 64]));
    let moved_whole = ip(UDP, "192.0.2.1", "192.0.2.2", &udp(A.1, 8443, &[7; 64]));
    let piece = |packet: &[u8], flags: u16, from: usize, to: usize| {
        let mut piece = [&packet[..20], &packet[from..to]].concat();
        let length = piece.len() as u16;
        piece[2..4].copy_from_slice(&length.to_be_bytes());
        piece[6..8].copy_from_slice(&flags.to_be_bytes());
        piece[10..12].fill(0);
        let check = !sum(&[&piece[..20]]);
        piece[10..12].copy_from_slice(&check.to_be_bytes());
        framed(&piece)
    };
    let pieces = |packet: &[u8]| vec![piece(packet, 0x2000, 20, 52), piece(packet, 4, 52, packet.len())];
    // the pieces of the moved packet are the moved pieces
    assert_eq!(edited_in(&pieces(&whole), &to_lab(), 0), pieces(&moved_whole));
}

#[test]
fn ttl_and_dscp_are_the_outermost_header_s() {
    let edit = |ttl, dscp: &str| Edit { ttl, dscp: dscp.parse().ok(), ..Edit::default() };
    for (frame, ttl_at) in [(segment(A, B, 2, b""), 22), (datagram(SIX, SIX_TOO, b"x"), 21)] {
        let lowered = edited(frame.clone(), &edit(Some(-1), "EF"));
        assert!(is_right(&lowered));
        assert_eq!(lowered[ttl_at], 63);
        let class = u16::from_be_bytes([lowered[14], lowered[15]]) >> if ttl_at == 21 { 6 } else { 2 } & 0x3f;
        assert_eq!(class & 0x3f, 46);
        assert_eq!(edited(frame.clone(), &edit(Some(-99), "no"))[ttl_at], 1, "never to nothing");
        assert_eq!(edited(frame, &edit(Some(255), "no"))[ttl_at], 255);
    }
    assert!(said(&[], &edit(Some(0), "no")).contains("1 to 255"));
}

#[test]
fn tags_are_pushed_popped_and_renumbered() {
    let frame = segment(A, B, 2, b"");
    let with =
        |changes: &[&str], frame: &[u8]| edited(frame.to_vec(), &Edit { vlan: rules(changes), ..Edit::default() });
    let tagged = with(&["push 100 priority 5"], &frame);
    assert_eq!(tagged[12..18], [0x81, 0, 0xa0, 100, 8, 0]);
    let twice = with(&["push-service 7"], &tagged);
    assert_eq!(Layers::of(&twice).vlans(), [7, 100]);
    assert_eq!(with(&["pop"], &twice), tagged);
    assert_eq!(with(&["pop all"], &twice), frame);
    assert_eq!(with(&["pop", "pop", "pop"], &twice), frame, "there is nothing more to pop");
    assert_eq!(Layers::of(&with(&["100 -> 200"], &twice)).vlans(), [7, 200]);
    assert_eq!(with(&["any -> 9"], &tagged)[14..16], [0xa0, 9], "the priority stays");
    for bad in ["push", "push 4096", "push 1 priority 8", "drop", "1 > 2"] {
        assert!(said(&[], &Edit { vlan: rules(&[bad]), ..Edit::default() }).contains("write `pop`"), "{bad}");
    }
}

#[test]
fn sides_get_addresses_by_who_opened_the_stream() {
    let mut back = segment(B, A, 18, b"");
    back[..6].copy_from_slice(&CLIENT_MAC);
    back[6..12].copy_from_slice(&SERVER_MAC);
    let edit = Edit {
        client_mac: Some("02:00:00:00:00:01".to_owned()),
        mac: rules(&["02:00:00:00:00:05 -> 02:00:00:00:00:02"]),
        ..Edit::default()
    };
    let both = edited_in(&[segment(A, B, 2, b""), back], &edit, 0);
    assert_eq!(
        (&both[0][..12], &both[1][..12]),
        (&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..])
    );
}

#[test]
fn payloads_are_emptied_and_cut() {
    let zero = Edit { payload: Payload::Zero, ..Edit::default() };
    assert_eq!(edited(segment(A, B, 24, b"secret"), &zero), segment(A, B, 24, &[0; 6]));
    let cut = Edit { payload_bytes_max: Some(4), ..Edit::default() };
    for (long, short) in [
        (segment(A, B, 24, b"123456789"), segment(A, B, 24, b"1234")),
        (datagram(SIX, SIX_TOO, b"123456789"), datagram(SIX, SIX_TOO, b"1234")),
        (datagram(A, B, b"123"), datagram(A, B, b"123")),
    ] {
        assert_eq!(edited(long, &cut), short);
    }
    let tunnel = |payload: &[u8]| {
        let inner = ip(UDP, A.0, B.0, &udp(A.1, B.1, payload));
        let head = [&[0x30, 255][..], &(inner.len() as u16).to_be_bytes(), &[0, 0, 0, 1]].concat();
        datagram(("10.0.0.8", 9), ("10.0.0.9", 2152), &[&head[..], &inner].concat())
    };
    assert_eq!(edited(tunnel(b"123456789"), &cut), tunnel(b"1234"), "all lengths around it say so");
}

#[test]
fn trailers_go_and_padding_stays() {
    let trim = Edit { trim_trailer: true, ..Edit::default() };
    let frame = datagram(A, B, &[7; 60]);
    assert_eq!(edited([&frame[..], &[1; 8]].concat(), &trim), frame);
    let padded = [&datagram(A, B, b"")[..], &[0; 18]].concat();
    assert_eq!(edited(padded.clone(), &trim), padded);
    assert_eq!(edited(ethernet(0x0806, &[5; 80]), &trim), ethernet(0x0806, &[5; 80]));
}

#[test]
fn cut_packets_are_made_as_long_as_they_were() {
    let whole = datagram(A, B, &[0; 900]);
    let mut builder = Builder::in_memory();
    builder.push_cut(0, whole.len() as u32, &whole[..64]).expect("a frame");
    let template = builder.finish().expect("a template");
    let apply = |edit: Edit| {
        let mut to = Vec::new();
        let editor = Editor::new(&edit, &template).expect("an edit");
        let original = editor.apply(&template.packet(0), 0, &mut to);
        (original as usize, to)
    };
    assert_eq!(apply(Edit { pad: Some(Pad::Original), ..Edit::default() }), (whole.len(), whole.clone()));
    assert_eq!(apply(Edit { vlan: rules(&["push 1"]), ..Edit::default() }).0, whole.len() + 4);
    let (original, cut) = apply(Edit { payload_bytes_max: Some(10), ..Edit::default() });
    assert_eq!((original, cut), (42 + 10, datagram(A, B, &[0; 10])), "lengths say what is there");
    assert_eq!(apply(Edit { pad: Some(Pad::Bytes(60)), ..Edit::default() }).1.len(), 64);
    assert_eq!(edited(datagram(A, B, b""), &Edit { pad: Some(Pad::Bytes(60)), ..Edit::default() }).len(), 60);
}

/// Conversations of `count` clients with one server.
fn crowd(count: u8) -> Vec<Vec<u8>> {
    let client = |n: u8| format!("10.0.1.{n}");
    (1..=count).map(|n| datagram((&client(n), 5000), ("10.0.0.2", 53), &[n])).collect()
}

#[test]
fn hosts_go_onto_nodes_in_turn() {
    let edit = Edit { nodes: rules(&["192.0.2.1", "198.51.100.0/30"]), ..Edit::default() };
    let all = edited_in(&crowd(4), &edit, 0);
    let ends: Vec<(String, String)> = all
        .iter()
        .map(|frame| Layers::of(frame).networks()[0].addresses(frame))
        .map(|(from, to)| (from.to_string(), to.to_string()))
        .collect();
    // first seen: the first client, the server, the other clients
    let server = "198.51.100.1";
    for (found, client) in ends.iter().zip(["192.0.2.1", "198.51.100.2", "192.0.2.1", server]) {
        assert_eq!((found.0.as_str(), found.1.as_str()), (client, server));
    }
    assert!(all.iter().all(|frame| is_right(frame)));
    let notes = editor(&crowd(4), &edit).notes().join("; ");
    assert!(
        notes.contains("1 streams have both ends on one host") && notes.contains("1 streams have the addresses"),
        "{notes}"
    );
    assert!(said(&[datagram(SIX, SIX_TOO, b"")], &edit).contains("2 hosts of IPv6"));
    assert!(said(&[], &Edit { nodes: rules(&["10.0.0.0/8"]), ..Edit::default() }).contains("65536"));
}

#[test]
fn drawn_addresses_are_each_host_s_own_and_new_in_each_lap() {
    let seen = |laps: Laps, seed: u64, lap: u64| {
        let edit = Edit { random_hosts: rules(&["198.18.0.0/24"]), laps, seed, ..Edit::default() };
        let all = edited_in(&crowd(9), &edit, lap);
        assert!(all.iter().all(|frame| is_right(frame)));
        let hosts = all.iter().map(|frame| Layers::of(frame).networks()[0].addresses(frame));
        hosts.flat_map(|(from, to)| [from, to]).collect::<BTreeSet<IpAddr>>()
    };
    let first = seen(Laps::Unique, 1, 0);
    assert_eq!(first.len(), 10);
    assert!(first.iter().all(|address| address.to_string().starts_with("198.18.0.")));
    assert_eq!(seen(Laps::Same, 1, 5), first);
    assert_ne!(seen(Laps::Same, 2, 0), first);
    // 254 addresses, 10 hosts: 25 laps without any address twice
    let mut all = BTreeSet::new();
    for lap in 0..25 {
        all.extend(seen(Laps::Unique, 1, lap));
    }
    assert_eq!(all.len(), 250);
    let edit = Edit { random_hosts: rules(&["198.18.0.0/24"]), laps: Laps::Unique, ..Edit::default() };
    assert!(editor(&crowd(9), &edit).notes()[0].contains("25 laps"));
    assert!(
        said(&crowd(9), &Edit { random_hosts: rules(&["198.18.0.0/29"]), ..Edit::default() }).contains("6 addresses")
    );
    assert!(said(&[], &Edit { laps: Laps::Unique, ..Edit::default() }).contains("random_hosts"));
    // a network of the other version of IP would leave them alone, and all laps would be one
    let other = Edit { random_hosts: rules(&["fd00::/8"]), laps: Laps::Unique, ..Edit::default() };
    assert!(said(&crowd(9), &other).contains("10 hosts of the template are of IPv4"), "{}", said(&crowd(9), &other));
}

#[test]
fn anonymous_addresses_keep_their_prefixes_and_nothing_else() {
    let key = Some("a key that nobody guesses".to_owned());
    let edit = Edit { anonymise: key, ..Edit::default() };
    let frames = crowd(9);
    let (one, again) = (edited_in(&frames, &edit, 0), edited_in(&frames, &edit, 3));
    assert_eq!(one, again);
    assert!(one.iter().all(|frame| is_right(frame)));
    let editor = editor(&frames, &edit);
    assert!(one.iter().zip(&frames).all(|(new, old)| new[6] == 2 && new[6..12] != old[6..12]));
    let other = Edit { anonymise: Some("another key of sixteen".to_owned()), ..Edit::default() };
    assert_ne!(edited_in(&frames, &other, 0), one);
    let host = |n: u8| IpAddr::from([10, 0, 1, n]);
    let (a, b) = (editor.address(host(8), 0), editor.address(host(9), 0));
    assert_eq!(shared(a, b), 31);
    assert!(said(&[], &Edit { anonymise: Some("short".to_owned()), ..Edit::default() }).contains("at least 16"));
    let both = Edit { nodes: rules(&["10.0.0.1"]), ..edit };
    assert!(said(&[], &both).contains("one of the three"));
}

/// How many bits two addresses share at their beginning.
fn shared(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Two addresses share as many bits after as before.
    #[test]
    fn prefixes_are_preserved(a: [u8; 4], b: [u8; 4], c: [u8; 16], bit in 0_u32..128, flip: u128) {
        let anonymous = Anonymous::new("a key that nobody guesses").expect("long enough");
        let (a, b) = (IpAddr::from(a), IpAddr::from(b));
        prop_assert_eq!(shared(anonymous.ip(a), anonymous.ip(b)), shared(a, b));
        let (c, other) = (u128::from_be_bytes(c), (flip >> bit) | 1);
        let (c, d) = (IpAddr::from(c.to_be_bytes()), IpAddr::from((c ^ other).to_be_bytes()));
        prop_assert_eq!(shared(anonymous.ip(c), anonymous.ip(d)), shared(c, d));
    }

    /// Any frame, any edit: it ends, and checksums that were right are right.
    #[test]
    fn edits_do_no_harm(
        start in 0_usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        ttl in -3_i16..3,
        most in prop::option::of(0_u32..20),
        repair: bool,
    ) {
        let inner = framed(&ip(UDP, A.0, B.0, &udp(A.1, B.1, b"x")));
        let right = [
            segment(A, B, 2, b"payload"),
            datagram(SIX, SIX_TOO, b"payload"),
            datagram(A, (B.0, 4789), &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat()),
            framed(&ip(ICMP, B.0, A.0, &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &inner[14..]].concat())),
            ethernet(0x0806, &[&[0, 1, 8, 0, 6, 4, 0, 1][..], &[5; 20]].concat()),
        ].swap_remove_at(start);
        let checksums = if repair { Checksums::Repair } else { Checksums::Update };
        let ttl = (ttl != 0).then_some(ttl);
        let edit = Edit { ttl, payload_bytes_max: most, checksums, vlan: rules(&["push 5"]), ..to_lab() };
        prop_assert!(is_right(&edited(right.clone(), &edit)));
        let mut frame = right;
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame.truncate(1 + cut.index(frame.len()));
        let _ = edited(frame, &edit);
    }
}

trait SwapRemoveAt<T> {
    fn swap_remove_at(self, at: usize) -> T;
}

impl<T, const N: usize> SwapRemoveAt<T> for [T; N] {
    fn swap_remove_at(self, at: usize) -> T {
        Vec::from(self).swap_remove(at)
    }
}
