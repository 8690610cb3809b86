//! What is found in frames: the same addresses and ports, whatever is wrapped around them.

use proptest::prelude::*;

use super::*;
use crate::testing::{cases, datagram, ethernet, framed, ip, udp};

fn inner() -> Vec<u8> {
    ip(17, "10.0.0.1", "10.0.0.2", &udp(7, 9, b"payload"))
}

/// Source, destination and ports of the innermost header.
fn found(frame: &[u8]) -> (String, String, Option<(u16, u16)>) {
    let layers = Layers::of(frame);
    let network = layers.innermost().expect("an IP header");
    let (from, to) = network.addresses(frame);
    (from.to_string(), to.to_string(), network.ports(frame).map(|ports| (ports.source, ports.destination)))
}

fn gre(flags: u16, kind: u16, options: &[u8], content: &[u8]) -> Vec<u8> {
    framed(&ip(
        47,
        "192.0.2.1",
        "192.0.2.2",
        &[&flags.to_be_bytes()[..], &kind.to_be_bytes(), options, content].concat(),
    ))
}

fn in_datagram(port: u16, head: &[u8], content: &[u8]) -> Vec<u8> {
    datagram(("192.0.2.1", 5000), ("192.0.2.2", port), &[head, content].concat())
}

#[test]
fn tags_labels_and_tunnels_are_looked_through() {
    let (inner, six) = (inner(), ip(17, "10.0.0.1", "10.0.0.2", &udp(7, 9, b"x")));
    let bridged = framed(&inner);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("", framed(&inner)),
        ("", ethernet(0x8100, &[&[0x20, 100, 8, 0][..], &inner].concat())),
        ("", ethernet(0x88a8, &[&[0, 5, 0x81, 0, 0, 6, 8, 0][..], &inner].concat())),
        ("MPLS", ethernet(0x8847, &[&[0, 1, 0, 9, 0, 2, 1, 9][..], &inner].concat())),
        ("MPLS", ethernet(0x8847, &[&[0, 1, 1, 9, 0, 0, 0, 0][..], &bridged].concat())),
        ("PPPoE", ethernet(0x8864, &[&[0x11, 0, 0, 1, 0, 9, 0, 0x21][..], &inner].concat())),
        ("IP", framed(&ip(4, "192.0.2.1", "192.0.2.2", &inner))),
        ("IP", framed(&ip(4, "2001:db8::1", "2001:db8::2", &inner))),
        ("GRE", gre(0, 0x0800, &[], &inner)),
        ("GRE", gre(0xb000, 0x6558, &[9; 12], &bridged)),
        ("GRE", gre(0x3081, 0x880b, &[9; 12], &[&[0xff, 3, 0, 0x21][..], &inner].concat())),
        ("VXLAN", in_datagram(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &bridged)),
        ("Geneve", in_datagram(6081, &[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4], &bridged)),
        ("GTP-U", in_datagram(2152, &[0x30, 255, 0, 40, 0, 0, 0, 1], &six)),
        ("GTP-U", in_datagram(2152, &[0x34, 255, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0], &six)),
        ("GTP-U", in_datagram(2152, &[0x32, 255, 0, 40, 0, 0, 0, 1, 0, 5, 0, 0], &six)),
        ("IP GRE", framed(&ip(4, "1.1.1.1", "2.2.2.2", &gre(0, 0x0800, &[], &inner)[14..]))),
    ];
    for (words, frame) in cases {
        assert_eq!(found(&frame), ("10.0.0.1".into(), "10.0.0.2".into(), Some((7, 9))), "{words}: {frame:02x?}");
        assert_eq!(Layers::of(&frame).wrappings.to_string(), words);
        let bits = Layers::of(&frame).wrappings.bits();
        assert_eq!(Wrappings::of_bits(bits), Layers::of(&frame).wrappings);
    }
}

#[test]
fn vlans_are_those_of_the_outer_frame() {
    let tagged = ethernet(0x8100, &[&[0x20, 100, 8, 0][..], &inner()].concat());
    assert_eq!(Layers::of(&tagged).vlans(), [100]);
    let outer = in_datagram(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &tagged);
    assert!(Layers::of(&outer).vlans().is_empty());
    assert_eq!(Layers::of(&outer).networks().len(), 2);
}

#[test]
fn extension_headers_lead_to_the_transport() {
    // hop-by-hop of 8 bytes, destination options of 16, authentication of 12, then UDP
    let chain = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[51, 1], &[0; 14], &[17, 1], &[0; 10], &udp(7, 9, b"")].concat();
    let frame = framed(&ip(0, "2001:db8::1", "2001:db8::2", &chain));
    assert_eq!(found(&frame).2, Some((7, 9)));
    let piece = |field: u16| {
        framed(&ip(
            44,
            "2001:db8::1",
            "2001:db8::2",
            &[&[17, 0][..], &field.to_be_bytes(), &[0, 0, 0, 5], &udp(7, 9, b"")].concat(),
        ))
    };
    for (field, fragment, ports) in
        [(0, Fragment::Whole, true), (1, Fragment::First, true), (8, Fragment::Later, false)]
    {
        let frame = piece(field);
        let network = *Layers::of(&frame).innermost().expect("IPv6");
        assert_eq!((network.fragment, network.identification, network.ports(&frame).is_some()), (fragment, 5, ports));
    }
}

#[test]
fn lengths_end_packets_before_their_padding() {
    let mut frame = datagram(("10.0.0.1", 1), ("10.0.0.2", 2), b"");
    let end = frame.len();
    frame.resize(60, 0);
    assert_eq!(Layers::of(&frame).innermost().expect("IPv4").end, end);
    // an interface that segments by itself leaves 0
    frame[16..18].fill(0);
    assert_eq!(Layers::of(&frame).innermost().expect("IPv4").end, 60);
    // a length of more than there is
    frame[16] = 0xff;
    assert_eq!(Layers::of(&frame).innermost().expect("IPv4").end, 60);
}

#[test]
fn nests_without_end_are_left() {
    let mut labels = ethernet(0x8847, &[]);
    for _ in 0..400 {
        // a label at the bottom, the control word of a pseudowire, and the same again
        labels.extend([0, 0, 1, 64, 0, 0, 0, 0]);
        labels.extend(ethernet(0x8847, &[]));
    }
    assert!(Layers::of(&labels).networks().is_empty());
    let tags = ethernet(0x8100, &[0x81, 0].repeat(4000));
    assert_eq!(Layers::of(&tags).vlans().len(), TAGS_MAX);
    let mut packet = inner();
    for _ in 0..6 {
        packet = ip(4, "192.0.2.1", "192.0.2.2", &packet);
    }
    assert_eq!(Layers::of(&framed(&packet)).networks().len(), NETWORKS_MAX);
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// No frame makes it look behind its end.
    #[test]
    fn offsets_stay_inside(
        start in 0_usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..10),
        cut in any::<prop::sample::Index>(),
    ) {
        let bridged = framed(&inner());
        let mut frame = match start {
            0 => in_datagram(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &bridged),
            1 => in_datagram(2152, &[0x34, 255, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0], &inner()),
            2 => gre(0xb000, 0x6558, &[9; 12], &bridged),
            3 => framed(&ip(0, "2001:db8::1", "2001:db8::2", &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp(7, 9, b"")].concat())),
            _ => ethernet(0x8847, &[&[0, 1, 0, 9, 0, 2, 1, 9][..], &inner()].concat()),
        };
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame.truncate(cut.index(frame.len() + 1));
        for network in Layers::of(&frame).networks() {
            prop_assert!(network.at < network.payload && network.payload <= network.end && network.end <= frame.len());
            let _ = (network.addresses(&frame), network.ports(&frame), network.tcp_flags(&frame));
        }
    }
}
