//! Filters want what they say, and say what they do not understand.

use proptest::prelude::*;

use super::*;
use crate::testing::{cases, datagram, ethernet, framed, ip, segment, udp};

/// The letters of the frames that a filter wants.
fn wanted(filter: &str) -> String {
    let filter: Filter = filter.parse().unwrap_or_else(|why| panic!("{filter}: {why}"));
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[2; 6], &[10, 0, 0, 9], &[0; 6], &[10, 0, 0, 8]].concat();
    let inner = framed(&ip(17, "10.9.0.1", "10.9.0.2", &udp(7, 9, b"")));
    let frames = [
        ('a', segment(("10.0.0.1", 40_000), ("10.0.0.2", 80), 2, b"")),
        ('b', segment(("10.0.0.2", 80), ("10.0.0.1", 40_000), 18, b"")),
        ('c', datagram(("10.0.1.1", 5353), ("10.0.0.2", 53), &[0; 400])),
        ('d', datagram(("2001:db8::1", 5000), ("2001:db8::2", 53), b"")),
        ('e', framed(&ip(1, "10.0.0.1", "10.0.0.2", &[8, 0, 0, 0, 0, 1, 0, 1]))),
        ('f', ethernet(0x0806, &arp)),
        ('g', ethernet(0x8100, &[&[0, 7, 8, 0][..], &ip(17, "10.8.0.1", "10.8.0.2", &udp(1, 2, b""))].concat())),
        ('h', datagram(("192.0.2.1", 1), ("192.0.2.2", 4789), &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat())),
    ];
    let wants = |frame: &[u8]| filter.wants(frame, &Layers::of(frame), frame.len() as u32);
    frames.iter().filter(|(_, frame)| wants(frame)).map(|(letter, _)| letter).collect()
}

#[test]
fn filters_want_what_they_say() {
    for (filter, letters) in [
        ("host 10.0.0.1", "abe"),
        ("src host 10.0.0.1", "ae"),
        ("src 10.0.0.1", "ae"),
        ("dst host 10.0.0.1", "b"),
        ("src or dst host 10.0.0.1", "abe"),
        ("src and dst net 10.0.0.0/24", "abef"),
        ("net 10.0.0.0/16", "abcef"),
        ("host 10.0.0.9", "f"),
        ("dst host 10.0.0.8", "f"),
        ("ip6 and net 2001:db8::/32", "d"),
        ("host 10.9.0.2", "h"),
        ("port 53", "cd"),
        ("tcp port 80", "ab"),
        ("tcp dst port 80", "a"),
        ("udp port 80", ""),
        ("port 80 or 53", "abcd"),
        ("portrange 5000-5999", "cd"),
        ("portrange 5000-5999 or 80", "abcd"),
        ("tcp portrange 20-25 or 80", "ab"),
        ("tcp dst portrange 20-25 or 80 or 5000-5999", "a"),
        ("udp portrange 53", "cd"),
        ("tcp", "ab"),
        ("udp", "cdgh"),
        ("ip", "abcegh"),
        ("ip6", "d"),
        ("icmp", "e"),
        ("ip proto 1", "e"),
        ("proto 17", "cdgh"),
        ("arp", "f"),
        ("ether proto 0x0806", "f"),
        ("vlan", "g"),
        ("vlan 7", "g"),
        ("vlan 8", ""),
        ("vlan 4095", ""),
        ("vlan and port 2", "g"),
        ("mpls", ""),
        ("greater 400", "c"),
        ("less 46", "efg"),
        ("not tcp", "cdefgh"),
        ("!tcp&&!udp", "ef"),
        ("ether host 02:00:00:00:00:0c", "abcdefgh"),
        ("ether dst 2:0:0:0:0:c", ""),
        // left to right, as in pcap-filter(7)
        ("arp or tcp and port 80", "ab"),
        ("arp or (tcp and port 80)", "abf"),
        ("tcp and not (src port 80)", "a"),
    ] {
        assert_eq!(wanted(filter), letters, "{filter}");
    }
}

#[test]
fn what_is_not_understood_is_named_with_its_column() {
    for (filter, column, part) in [
        ("", 1, "missing"),
        ("tcp port http", 10, "`http` is no port"),
        ("host example.org", 6, "never a name"),
        ("host 10.0.0.0/8", 6, "write `net 10.0.0.0/8`"),
        ("net 10.0.0.0/33", 5, "no address"),
        ("(tcp", 5, "`)`"),
        ("tcp udp", 5, "no address"),
        ("tcp and", 8, "missing"),
        ("tcp and or", 9, "missing"),
        ("tcp[13] & 2 != 0", 1, "not understood"),
        ("src", 4, "missing"),
        ("greater x", 9, "a number"),
        ("portrange 9-", 11, "no range"),
        ("portrange 90-80", 11, "write 80-90"),
        ("portrange 20-25 or 90-80", 20, "write 80-90"),
        ("portrange 1-65536", 11, "no range"),
        ("port 80-90", 6, "no port"),
        ("vlan 4096", 6, "a number from 0 to 4095"),
        ("vlan 7x", 6, "a number from 0 to 4095"),
        ("ether host 1", 12, "no Ethernet address"),
        ("arp arp", 5, "`arp` stands where"),
    ] {
        let why = filter.parse::<Filter>().expect_err(filter);
        assert_eq!(why.column, column, "{filter}: {why}");
        assert!(why.what.contains(part), "{filter}: {why}");
    }
    assert!("not ".repeat(100).parse::<Filter>().is_err());
    assert!(format!("tcp{}", " or tcp".repeat(2_000)).parse::<Filter>().is_err());
    assert!(format!("tcp{}", " or tcp".repeat(400)).parse::<Filter>().is_ok());
}

proptest! {
    #![proptest_config(cases(500))]

    /// No text does harm.
    #[test]
    fn any_text_is_a_filter_or_is_not(words in prop::collection::vec("(src|dst|or|and|not|host|port|net|tcp|\\(|\\)|!|&&|10\\.0\\.0\\.1|80|vlan|ether|é)", 0..12)) {
        let text = words.join(" ");
        match text.parse::<Filter>() {
            Ok(filter) => prop_assert_eq!(filter.text(), text.as_str()),
            Err(why) => prop_assert!(why.column >= 1 && why.column <= text.chars().count() + 1),
        }
    }
}
