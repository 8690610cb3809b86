//! Frames and captures made for the tests, with every field written down.

use std::net::IpAddr;

use crate::frame::protocol::{ICMP, ICMPV6, TCP, UDP};

/// How often a test of damage tries: `most`, or what `cargo xtask fuzz` says.
pub fn cases(most: u32) -> proptest::prelude::ProptestConfig {
    let said = std::env::var("REHEARSAL_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    proptest::prelude::ProptestConfig::with_cases(said.unwrap_or(most))
}

/// Addresses of the frames below.
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xc];
/// The other side's.
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x5];

/// An Ethernet frame from the client's address to the server's.
pub fn ethernet(kind: u16, content: &[u8]) -> Vec<u8> {
    [&SERVER_MAC[..], &CLIENT_MAC, &kind.to_be_bytes(), content].concat()
}

/// A frame that holds an IP packet.
pub fn framed(packet: &[u8]) -> Vec<u8> {
    ethernet(if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, packet)
}

/// The sum of RFC 1071 over some bytes, folded, not complemented.
pub fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn octets(address: &str) -> Vec<u8> {
    match address.parse().expect("an address") {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An IP packet with right lengths and checksums, IPv4 or IPv6 by its addresses. `content` is a whole transport packet
/// whose checksum is zero; it is filled in.
pub fn ip(protocol: u8, from: &str, to: &str, content: &[u8]) -> Vec<u8> {
    let (from, to) = (octets(from), octets(to));
    let mut content = content.to_vec();
    let length = content.len() as u16;
    let field = match protocol {
        TCP => Some(16),
        UDP => Some(6),
        ICMP | ICMPV6 => Some(2),
        _ => None,
    };
    if let Some(at) = field {
        let pseudo = [&from[..], &to, &[0, protocol], &length.to_be_bytes()].concat();
        let pseudo: &[u8] = if protocol == ICMP { &[] } else { &pseudo };
        let check = !sum(&[pseudo, &content]);
        content[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }
    if from.len() == 4 {
        let mut header = vec![0x45, 0];
        header.extend((20 + length).to_be_bytes());
        header.extend([0, 7, 0, 0, 64, protocol, 0, 0]);
        header.extend([from, to].concat());
        let check = !sum(&[&header]);
        header[10..12].copy_from_slice(&check.to_be_bytes());
        [header, content].concat()
    } else {
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(length.to_be_bytes());
        header.extend([protocol, 64]);
        [header, from, to, content].concat()
    }
}

/// A UDP datagram without a checksum.
pub fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let head: Vec<u8> = [from, to, length, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    [&head[..], payload].concat()
}

/// A TCP segment without a checksum.
pub fn tcp(from: u16, to: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut head: Vec<u8> = [from, to].into_iter().flat_map(u16::to_be_bytes).collect();
    head.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    [&head[..], payload].concat()
}

/// A frame with a datagram of IPv4 or IPv6.
pub fn datagram(from: (&str, u16), to: (&str, u16), payload: &[u8]) -> Vec<u8> {
    framed(&ip(UDP, from.0, to.0, &udp(from.1, to.1, payload)))
}

/// A frame with a segment.
pub fn segment(from: (&str, u16), to: (&str, u16), flags: u8, payload: &[u8]) -> Vec<u8> {
    framed(&ip(TCP, from.0, to.0, &tcp(from.1, to.1, flags, payload)))
}

/// The first `count` frames of a small net: each a stream of its own.
pub fn frames(count: u16) -> Vec<Vec<u8>> {
    (0..count).map(|n| datagram(("10.0.0.1", 1000 + n), ("10.0.0.2", 53), &n.to_be_bytes())).collect()
}

/// Puts frames behind each other as a capture.
pub struct Recorder {
    /// Byte order.
    pub big: bool,
    /// What was written.
    pub bytes: Vec<u8>,
}

impl Recorder {
    /// The number in the capture's byte order.
    pub fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes.extend(if self.big { number.to_be_bytes() } else { number.to_le_bytes() });
        self
    }

    /// The same for two bytes.
    pub fn u16(&mut self, number: u16) -> &mut Self {
        self.bytes.extend(if self.big { number.to_be_bytes() } else { number.to_le_bytes() });
        self
    }

    /// Begins pcap.
    pub fn classic(big: bool, magic: u32, link: u32) -> Recorder {
        let mut made = Recorder { big, bytes: Vec::new() };
        made.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(link);
        made
    }

    /// A record of pcap, with its lengths as they are said to be.
    pub fn record(&mut self, time: (u32, u32), lengths: (u32, u32), bytes: &[u8]) -> &mut Self {
        self.u32(time.0).u32(time.1).u32(lengths.0).u32(lengths.1);
        self.bytes.extend(bytes);
        self
    }

    /// A whole record of pcap.
    pub fn whole(&mut self, time: (u32, u32), bytes: &[u8]) -> &mut Self {
        let length = bytes.len() as u32;
        self.record(time, (length, length), bytes)
    }

    /// Begins pcapng with a section.
    pub fn next_generation(big: bool) -> Recorder {
        let mut made = Recorder { big, bytes: Vec::new() };
        made.section(big);
        made
    }

    /// A section of this byte order.
    pub fn section(&mut self, big: bool) -> &mut Self {
        self.big = big;
        let mut body = Recorder { big, bytes: Vec::new() };
        body.u32(0x1a2b_3c4d).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX);
        self.block(0x0a0d_0d0a, &body.bytes)
    }

    /// A block with any body, which is padded.
    pub fn block(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        let padded = body.len().next_multiple_of(4);
        let length = (padded + 12) as u32;
        self.u32(kind).u32(length);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.u32(length)
    }

    /// An interface with a link type, a snapshot length and options (code and bytes).
    pub fn interface(&mut self, link: u16, snapshot: u32, options: &[(u16, &[u8])]) -> &mut Self {
        let mut body = Recorder { big: self.big, bytes: Vec::new() };
        body.u16(link).u16(0).u32(snapshot);
        for (code, value) in options {
            body.u16(*code).u16(value.len() as u16);
            body.bytes.extend(*value);
            body.bytes.resize(body.bytes.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            body.u32(0);
        }
        self.block(1, &body.bytes)
    }

    /// An enhanced packet block.
    pub fn packet(&mut self, interface: u32, ticks: u64, bytes: &[u8]) -> &mut Self {
        let mut body = Recorder { big: self.big, bytes: Vec::new() };
        let length = bytes.len() as u32;
        body.u32(interface).u32((ticks >> 32) as u32).u32(ticks as u32).u32(length).u32(length);
        body.bytes.extend(bytes);
        self.block(6, &body.bytes)
    }
}
