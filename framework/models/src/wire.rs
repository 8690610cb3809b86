//! How many bytes a message takes on an Ethernet, by carrier: what links serialise, and what their queues hold.

use rehearsal_core::plan::{Carrier, LinkSpec};

use crate::link::Load;
use crate::path::Direction;

/// Option of each TCP segment: the timestamps that Linux agrees on, padded. Source: RFC 7323 §3.2, appendix A.
const TCP_OPTION_BYTES: u64 = 12;
/// Payload of a full TCP segment over Ethernet: 1500 − 20 (IPv4) − 20 (TCP) − 12. Source: RFC 9293 §3.7.1.
pub(crate) const SEGMENT_BYTES: u64 = 1500 - TCP_IP_BYTES;
/// IPv4 and TCP headers of a segment. Source: RFC 791 §3.1, RFC 9293 §3.1.
const TCP_IP_BYTES: u64 = 20 + 20 + TCP_OPTION_BYTES;
/// Payload of a full IPv4 fragment over Ethernet: 1500 − 20. Source: RFC 791 §3.1.
const FRAGMENT_BYTES: u64 = 1480;
/// IPv4 header of a fragment. Source: RFC 791 §3.1.
const IP_BYTES: u64 = 20;
/// Payload of an echo over `udp`: the header of ours with the mark of its exchange.
pub const ECHO_BYTES: u32 = 40;
/// UDP header, once per datagram. Source: RFC 768.
const UDP_BYTES: u64 = 8;
/// Preamble 8, header 14, check sequence 4 and gap 12 of a frame. Source: IEEE 802.3 §3.1.1, §4.4.2.
const ETHERNET_BYTES: u64 = 8 + 14 + 4 + 12;
/// A full frame with all that stands around it.
pub const FRAME_BYTES: u64 = SEGMENT_BYTES + TCP_IP_BYTES + ETHERNET_BYTES;
/// Header of a frame. Source: IEEE 802.3 §3.1.1.
const ETHERNET_HEADER_BYTES: u64 = 14;
/// A shorter Ethernet payload is padded to this. Source: IEEE 802.3 §3.2.8.
const ETHERNET_LEAST: u64 = 46;
/// Request line and header fields of the emulator's requests: 114 to 126 bytes by the digits of port, counters and length.
/// A test of the emulator holds this against what it writes.
pub const HTTP_REQUEST_HEAD_BYTES: u64 = 120;
/// Status line and header fields of its answers with success; likewise.
pub const HTTP_ANSWER_HEAD_BYTES: u64 = 108;
/// Header of a frame of HTTP/2. Source: RFC 9113 §4.1.
const HTTP2_FRAME_BYTES: u64 = 9;
/// Payload of a full frame of HTTP/2. Source: RFC 9113 §6.5.2, SETTINGS_MAX_FRAME_SIZE.
const HTTP2_FRAME_PAYLOAD: u64 = 16_384;
/// Fields of the emulator's requests over HTTP/2, compressed (RFC 7541): those that stay the same are a byte each after the
/// first request, the `rehearsal` field is new each time. A test of the emulator holds this against what it writes.
pub const HTTP2_REQUEST_FIELDS_BYTES: u64 = 20;
/// Fields of its answers. Assumed: a byte each for status, media type, length and date, as they hardly change.
const HTTP2_ANSWER_FIELDS_BYTES: u64 = 4;
/// Header of a frame of HTTP/3: its type and a length of one to four bytes. Source: RFC 9114 §7.1.
const HTTP3_FRAME_BYTES: u64 = 3;
/// Fields of the emulator's requests over HTTP/3, compressed with the static table alone (RFC 9204). A test of the emulator
/// holds this against what it writes.
pub const HTTP3_REQUEST_FIELDS_BYTES: u64 = 36;
/// Fields of its answers. Assumed: two bytes before them, one each for status and media type, five for the length.
const HTTP3_ANSWER_FIELDS_BYTES: u64 = 9;
/// Header, content type and authentication tag of a record of TLS 1.3. Source: RFC 8446 §5.2, RFC 5116 §5.1.
const RECORD_BYTES: u64 = 5 + 1 + 16;
/// Content of a full record. Source: RFC 8446 §5.1.
const RECORD_PAYLOAD: u64 = 16_384;
/// What a QUIC packet adds to its part of a stream: a short header with a connection ID of eight bytes and a packet number of
/// two (RFC 9000 §17.3.1), a STREAM frame's type, number, offset and length (§19.8), and the tag (RFC 9001 §5.3).
const QUIC_BYTES: u64 = (1 + 8 + 2) + (1 + 2 + 4 + 2) + 16;
/// Payload of a full QUIC packet. Source: RFC 8899; 1452 bytes of UDP are what quinn finds on an Ethernet.
const QUIC_PAYLOAD: u64 = 1452 - QUIC_BYTES;
/// `PUB` or `MSG` line of the NATS client protocol with the receiver's subject and the reply subject. Assumed: about
/// 45 bytes each, and the length.
const NATS_LINE_BYTES: u64 = 110;

/// Head of a request of `tcp`, with its media type: 10 to 16 bytes. A test of the emulator holds this against what it writes.
pub const TCP_REQUEST_HEAD_BYTES: u64 = 48 + 13;
/// Head of an answer of `tcp`.
pub const TCP_ANSWER_HEAD_BYTES: u64 = 48;
/// PUBLISH before its payload: fixed header, topic, packet number. Assumed: a topic of 40 bytes.
const MQTT_PUBLISH_HEAD_BYTES: u64 = 3 + 2 + 40 + 2;
/// PUBACK and PUBCOMP with success: fixed header and packet number. Source: MQTT 5.0 §3.4.2.1, §3.7.2.1.
const MQTT_ACK_BYTES: u64 = 4;

/// What a carrier puts before a payload, bytes.
const fn head_bytes(carrier: Carrier, direction: Direction) -> u64 {
    match (carrier, direction) {
        (Carrier::Http1, Direction::Up) => HTTP_REQUEST_HEAD_BYTES,
        (Carrier::Http1, Direction::Down) => HTTP_ANSWER_HEAD_BYTES,
        (Carrier::Http2, Direction::Up) => HTTP2_FRAME_BYTES + HTTP2_REQUEST_FIELDS_BYTES,
        (Carrier::Http2, Direction::Down) => HTTP2_FRAME_BYTES + HTTP2_ANSWER_FIELDS_BYTES,
        (Carrier::Http3, Direction::Up) => HTTP3_FRAME_BYTES + HTTP3_REQUEST_FIELDS_BYTES,
        (Carrier::Http3, Direction::Down) => HTTP3_FRAME_BYTES + HTTP3_ANSWER_FIELDS_BYTES,
        (Carrier::Tcp, Direction::Up) => TCP_REQUEST_HEAD_BYTES,
        (Carrier::Tcp, Direction::Down) => TCP_ANSWER_HEAD_BYTES,
        (Carrier::Nats, _) => NATS_LINE_BYTES,
        (Carrier::Mqtt, Direction::Up) => MQTT_PUBLISH_HEAD_BYTES,
        (Carrier::Mqtt, Direction::Down) => MQTT_ACK_BYTES,
        (Carrier::Udp, _) => UDP_BYTES,
        // a frame is all there is
        (Carrier::Frames, _) => 0,
    }
}

/// How messages go over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// What moves them.
    pub carrier: Carrier,
    /// Whether they are encrypted.
    pub encrypted: bool,
}

impl Framing {
    /// On a link.
    pub fn of(link: &LinkSpec) -> Self {
        Framing { carrier: link.carrier, encrypted: link.is_encrypted() }
    }

    /// Version of TLS and protocol that both ends agree on; empty in clear.
    pub fn agreed(&self) -> (String, String) {
        let alpn = match self.carrier {
            Carrier::Http2 => "h2",
            Carrier::Http3 => "h3",
            Carrier::Http1 => "http/1.1",
            _ => "",
        };
        if self.encrypted { ("TLS 1.3".to_owned(), alpn.to_owned()) } else { (String::new(), String::new()) }
    }

    /// Bytes that a message of `payload` bytes takes, headers and frame gaps included: what [`Framing::message_bytes`]
    /// counts, and for each frame on an Ethernet 90 bytes over TCP, 58 over UDP, 102 over QUIC. Over `frames` a frame takes 24
    /// bytes more than it has, 84 at least.
    #[inline]
    pub const fn wire_bytes(self, direction: Direction, payload: u32) -> u64 {
        if matches!(self.carrier, Carrier::Frames) {
            return frame_bytes((payload as u64).saturating_sub(ETHERNET_HEADER_BYTES));
        }
        let headers = match self.carrier {
            Carrier::Udp => IP_BYTES,
            Carrier::Http3 => IP_BYTES + UDP_BYTES + QUIC_BYTES,
            _ => TCP_IP_BYTES,
        };
        self.message_bytes(direction, payload) + self.frames(direction, payload) * (headers + ETHERNET_BYTES)
    }

    /// Bytes that a message of `payload` bytes is before it is cut into packets: with the carrier's own head, and 22 for each
    /// started 16,384 of it under TLS. Over `http1` a request is its payload + 120, an answer + 108; over `http2` + 38
    /// and + 22, and 9 for each started 16,384 of the payload; over `http3` + 42 and + 15; over `nats` + 110, over `udp` + 8.
    #[inline]
    pub const fn message_bytes(self, direction: Direction, payload: u32) -> u64 {
        let body = payload as u64
            + match self.carrier {
                Carrier::Http2 => HTTP2_FRAME_BYTES * (payload as u64).div_ceil(HTTP2_FRAME_PAYLOAD),
                Carrier::Http3 if payload > 0 => HTTP3_FRAME_BYTES,
                _ => 0,
            };
        let clear = body + head_bytes(self.carrier, direction);
        let records = if self.encrypted && !matches!(self.carrier, Carrier::Http3) {
            clear.div_ceil(RECORD_PAYLOAD) * RECORD_BYTES
        } else {
            0
        };
        clear + records
    }

    /// Ethernet frames that a message of `payload` bytes takes: the started segments, fragments or packets that
    /// [`Framing::wire_bytes`] counts.
    #[inline]
    pub const fn frames(self, direction: Direction, payload: u32) -> u64 {
        let full = match self.carrier {
            Carrier::Frames => return 1,
            Carrier::Udp => FRAGMENT_BYTES,
            Carrier::Http3 => QUIC_PAYLOAD,
            _ => SEGMENT_BYTES,
        };
        self.message_bytes(direction, payload).div_ceil(full)
    }

    /// What a message of `payload` bytes is to a link: bytes and packets, of which a stream lets `window` wait at it.
    #[inline]
    pub const fn load(self, direction: Direction, payload: u32, window: u64) -> Load {
        let window = if self.carrier.is_reliable() { window } else { u64::MAX };
        Load { bytes: self.wire_bytes(direction, payload), packets: self.frames(direction, payload), window }
    }
}

/// [`Framing::wire_bytes`] of a carrier as it is without `tls`.
#[inline]
pub const fn wire_bytes(carrier: Carrier, direction: Direction, payload: u32) -> u64 {
    plain(carrier).wire_bytes(direction, payload)
}

/// [`Framing::message_bytes`] of a carrier as it is without `tls`.
#[inline]
pub const fn message_bytes(carrier: Carrier, direction: Direction, payload: u32) -> u64 {
    plain(carrier).message_bytes(direction, payload)
}

/// [`Framing::frames`] of a carrier as it is without `tls`.
#[inline]
pub const fn frames(carrier: Carrier, direction: Direction, payload: u32) -> u64 {
    plain(carrier).frames(direction, payload)
}

const fn plain(carrier: Carrier) -> Framing {
    Framing { carrier, encrypted: matches!(carrier, Carrier::Http3) }
}

/// Bytes that `bytes` bytes of a bare TCP stream take: 90 for each started 1448 of them.
pub const fn tcp_bytes(bytes: u64) -> u64 {
    stream(bytes)
}

/// Bytes that an MQTT 3.1.1 PUBLISH takes in a TCP stream: fixed header with a length of one to four bytes, the topic
/// with its own length, a packet number above QoS 0, and the payload. Source: MQTT 3.1.1 §2.2, §3.3.
pub const fn mqtt_bytes(topic: u64, payload: u64, acknowledged: bool) -> u64 {
    let body = 2 + topic + if acknowledged { 2 } else { 0 } + payload;
    let length = match body {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    };
    stream(1 + length + body)
}

/// Bytes that an Ethernet frame with `payload` bytes takes: preamble, header, padding, check sequence and gap.
pub const fn frame_bytes(payload: u64) -> u64 {
    let padded = if payload < ETHERNET_LEAST { ETHERNET_LEAST } else { payload };
    padded + ETHERNET_BYTES
}

const fn stream(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(SEGMENT_BYTES) * (TCP_IP_BYTES + ETHERNET_BYTES)
}

#[cfg(test)]
mod tests {
    use super::Direction::{Down, Up};
    use super::*;

    #[test]
    fn headers_are_counted_per_segment_and_fragment() {
        assert_eq!(wire_bytes(Carrier::Http1, Up, 0), 120 + 90);
        assert_eq!(wire_bytes(Carrier::Http1, Up, 1328), 1448 + 90);
        assert_eq!(wire_bytes(Carrier::Http1, Up, 1329), 1449 + 2 * 90);
        assert_eq!(wire_bytes(Carrier::Http1, Down, 1340), 1448 + 90);
        assert_eq!(wire_bytes(Carrier::Nats, Up, 1338), 1448 + 90);
        assert_eq!(wire_bytes(Carrier::Udp, Up, 1472), 1480 + 58);
        assert_eq!(wire_bytes(Carrier::Udp, Up, 1473), 1481 + 2 * 58);
        assert_eq!(wire_bytes(Carrier::Frames, Up, 42), 84, "padded");
        assert_eq!((wire_bytes(Carrier::Frames, Up, 1514), frames(Carrier::Frames, Up, 1514)), (1538, 1));
    }

    #[test]
    fn streams_and_frames_without_a_carrier_are_counted_too() {
        assert_eq!((FRAME_BYTES, tcp_bytes(1448), tcp_bytes(1449)), (1538, 1538, 1449 + 180));
        // PUBLISH of 100 B to a topic of 10 B: 1 + 1 + 2 + 10 + 100; QoS 1 adds two and needs a second length byte at 126
        assert_eq!(mqtt_bytes(10, 100, false), 114 + 90);
        assert_eq!(mqtt_bytes(10, 115, false), 129 + 90);
        assert_eq!(mqtt_bytes(10, 115, true), 132 + 90);
        assert_eq!(mqtt_bytes(10, 20_000, false), tcp_bytes(1 + 3 + 12 + 20_000));
        assert_eq!((frame_bytes(1), frame_bytes(1500)), (84, 1538));
    }

    #[test]
    fn frames_of_http2_records_of_tls_and_packets_of_quic_are_counted() {
        let of = |carrier, encrypted| Framing { carrier, encrypted };
        // two frames of HTTP/2: fields and payload; a third beyond 16,384 bytes
        assert_eq!(of(Carrier::Http2, false).message_bytes(Up, 1000), 1000 + 9 + 20 + 9);
        assert_eq!(of(Carrier::Http2, false).message_bytes(Up, 16_385), 16_385 + 9 + 20 + 2 * 9);
        assert_eq!(of(Carrier::Http2, false).message_bytes(Down, 0), 9 + 4);
        // one record of TLS holds 16,384 bytes
        assert_eq!(of(Carrier::Http1, true).message_bytes(Up, 1000), 1120 + 22);
        assert_eq!(of(Carrier::Http1, true).message_bytes(Up, 16_265), 16_385 + 2 * 22);
        // 1452 − 11 − 9 − 16 bytes of a stream in each packet of QUIC, and 36 + 28 + 38 around them
        assert_eq!(of(Carrier::Http3, true).message_bytes(Up, 1000), 1000 + 3 + 36 + 3);
        let quic = of(Carrier::Http3, true);
        assert_eq!((quic.frames(Up, 1416 - 42), quic.frames(Up, 1416 - 41)), (1, 2));
        assert_eq!(quic.wire_bytes(Up, 1416 - 42), 1416 + 102);
    }

    #[test]
    fn frames_are_the_started_segments() {
        let table =
            [(Carrier::Http1, 1328, 1), (Carrier::Http1, 1329, 2), (Carrier::Udp, 1472, 1), (Carrier::Udp, 1473, 2)];
        for (carrier, payload, wanted) in table {
            assert_eq!(frames(carrier, Up, payload), wanted);
        }
        assert_eq!((frames(Carrier::Nats, Down, 1338), frames(Carrier::Http1, Up, 150_000)), (1, 104));
    }
}
