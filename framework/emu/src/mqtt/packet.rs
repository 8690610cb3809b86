//! Packets of MQTT 3.1.1 and 5.0 as far as this carrier speaks them. Source: OASIS MQTT 3.1.1 and 5.0, §2 and §3.

use bytes::{BufMut as _, BytesMut};
use rehearsal_core::plan::{MqttVersion, Qos};

/// Longest packet that is taken in. Assumed: far above any frame or document of the experiments.
const PACKET_BYTES_MAX: usize = 64 << 20;
/// Reason codes from here on are errors. Source: MQTT 5.0 §2.4.
const ERRORS: u8 = 0x80;
/// Properties of a CONNACK that matter to a publisher, and how long every property is. Source: MQTT 5.0 §2.2.2.2.
const RECEIVE_MAXIMUM: u8 = 0x21;
const MAXIMUM_QOS: u8 = 0x24;
const MAXIMUM_PACKET: u8 = 0x27;

/// What came from a broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Packet<'a> {
    ConnAck(Welcome),
    Publish { qos: Qos, id: u16, payload: &'a [u8] },
    PubAck { id: u16, reason: u8 },
    PubRec { id: u16, reason: u8 },
    PubRel { id: u16 },
    PubComp { id: u16, reason: u8 },
    SubAck { refused: bool },
    PingResp,
    Disconnect { reason: u8 },
}

/// How a broker takes a client in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Welcome {
    /// 0 if it does.
    pub code: u8,
    /// Messages above QoS 0 that may be unacknowledged at once.
    pub receive_max: u16,
    pub qos_max: u8,
    pub packet_max: u32,
}

/// These bytes are no packet of a broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Foreign;

/// Reads one packet and how many bytes it takes; `None` if it is not there in full.
pub(crate) fn read(bytes: &[u8], version: MqttVersion) -> Result<Option<(Packet<'_>, usize)>, Foreign> {
    let Some(first) = bytes.first().copied() else { return Ok(None) };
    // the lower bits mean something in a PUBLISH alone. Source: MQTT 5.0 §2.1.3
    match (first >> 4, first & 0x0F) {
        (3, _) | (2 | 4 | 5 | 7 | 9 | 13 | 14, 0) | (6, 2) => {}
        _ => return Err(Foreign),
    }
    let Some((length, head)) = length(&bytes[1..])? else { return Ok(None) };
    if length > PACKET_BYTES_MAX {
        return Err(Foreign);
    }
    let whole = 1 + head + length;
    let Some(body) = bytes.get(1 + head..whole) else { return Ok(None) };
    let five = version == MqttVersion::V5;
    let acknowledged = || {
        let reason = if five { body.get(2).copied().unwrap_or(0) } else { 0 };
        word(body).map(|id| (id, reason)).ok_or(Foreign)
    };
    let packet = match first >> 4 {
        2 => Packet::ConnAck(welcome(body, five)?),
        3 => publish(first, body, five)?,
        4 => acknowledged().map(|(id, reason)| Packet::PubAck { id, reason })?,
        5 => acknowledged().map(|(id, reason)| Packet::PubRec { id, reason })?,
        6 => acknowledged().map(|(id, _)| Packet::PubRel { id })?,
        7 => acknowledged().map(|(id, reason)| Packet::PubComp { id, reason })?,
        9 => Packet::SubAck { refused: body.last().is_none_or(|code| *code >= ERRORS) },
        13 => Packet::PingResp,
        14 => Packet::Disconnect { reason: body.first().copied().unwrap_or(0) },
        _ => return Err(Foreign),
    };
    Ok(Some((packet, whole)))
}

/// A number of one to four bytes, and how many it has.
fn length(bytes: &[u8]) -> Result<Option<(usize, usize)>, Foreign> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    if bytes.len() < 4 { Ok(None) } else { Err(Foreign) }
}

fn word(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|two| u16::from_be_bytes(*two))
}

fn publish(first: u8, body: &[u8], five: bool) -> Result<Packet<'_>, Foreign> {
    let qos = Qos::try_from(first >> 1 & 3).map_err(|_| Foreign)?;
    let topic = usize::from(word(body).ok_or(Foreign)?);
    let mut rest = body.get(2 + topic..).ok_or(Foreign)?;
    let mut id = 0;
    if qos != Qos::AtMostOnce {
        id = word(rest).ok_or(Foreign)?;
        rest = &rest[2..];
    }
    if five {
        let (properties, head) = length(rest)?.ok_or(Foreign)?;
        rest = rest.get(head + properties..).ok_or(Foreign)?;
    }
    Ok(Packet::Publish { qos, id, payload: rest })
}

fn welcome(body: &[u8], five: bool) -> Result<Welcome, Foreign> {
    let code = *body.get(1).ok_or(Foreign)?;
    let mut welcome = Welcome { code, receive_max: u16::MAX, qos_max: 2, packet_max: u32::MAX };
    if !five || body.len() == 2 {
        return Ok(welcome);
    }
    let (properties, head) = length(&body[2..])?.ok_or(Foreign)?;
    let mut rest = body.get(2 + head..2 + head + properties).ok_or(Foreign)?;
    while let Some((name, value)) = rest.split_first() {
        let bytes = property_bytes(*name, value).ok_or(Foreign)?;
        let (value, after) = value.split_at_checked(bytes).ok_or(Foreign)?;
        let number = value.iter().take(4).fold(0_u32, |n, b| n << 8 | u32::from(*b));
        match *name {
            RECEIVE_MAXIMUM => welcome.receive_max = (number as u16).max(1),
            MAXIMUM_QOS => welcome.qos_max = number as u8,
            MAXIMUM_PACKET => welcome.packet_max = number,
            _ => {}
        }
        rest = after;
    }
    Ok(welcome)
}

/// Bytes of a property's value in a CONNACK. Source: MQTT 5.0 §2.2.2.2.
fn property_bytes(name: u8, value: &[u8]) -> Option<usize> {
    let text = |value: &[u8]| word(value).map(|length| 2 + usize::from(length));
    match name {
        0x24 | 0x25 | 0x28 | 0x29 | 0x2A => Some(1),
        0x13 | 0x21 | 0x22 => Some(2),
        0x11 | 0x27 => Some(4),
        0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => text(value),
        0x26 => {
            let key = text(value)?;
            Some(key + text(value.get(key..)?)?)
        }
        _ => None,
    }
}

/// Appends a CONNECT with a clean session, and with a user and a password if there are any.
pub(crate) fn write_connect(
    out: &mut BytesMut,
    version: MqttVersion,
    client: &str,
    keep_alive_s: u16,
    (user, password): (Option<&str>, Option<&[u8]>),
) {
    let five = version == MqttVersion::V5;
    let field = |bytes: Option<usize>| bytes.map_or(0, |bytes| 2 + bytes);
    let login = field(user.map(str::len)) + field(password.map(<[u8]>::len));
    begin(out, 0x10, 10 + usize::from(five) + 2 + client.len() + login);
    put_text(out, b"MQTT");
    out.put_u8(if five { 5 } else { 4 });
    out.put_u8(0x02 | u8::from(user.is_some()) << 7 | u8::from(password.is_some()) << 6);
    out.put_u16(keep_alive_s);
    if five {
        out.put_u8(0);
    }
    put_text(out, client.as_bytes());
    user.into_iter().for_each(|user| put_text(out, user.as_bytes()));
    password.into_iter().for_each(|password| put_text(out, password));
}

/// Appends a SUBSCRIBE to one topic.
pub(crate) fn write_subscribe(out: &mut BytesMut, version: MqttVersion, id: u16, topic: &str, qos: Qos) {
    let five = version == MqttVersion::V5;
    begin(out, 0x82, 2 + usize::from(five) + 2 + topic.len() + 1);
    out.put_u16(id);
    if five {
        out.put_u8(0);
    }
    put_text(out, topic.as_bytes());
    out.put_u8(u8::from(qos));
}

/// Appends a PUBLISH up to its payload, of which `payload` bytes are to follow.
pub(crate) fn write_publish(
    out: &mut BytesMut,
    version: MqttVersion,
    qos: Qos,
    id: u16,
    topic: impl AsRef<[u8]>,
    payload: usize,
) {
    let topic = topic.as_ref();
    let five = version == MqttVersion::V5;
    let numbered = qos != Qos::AtMostOnce;
    begin(out, 0x30 | u8::from(qos) << 1, 2 + topic.len() + 2 * usize::from(numbered) + usize::from(five) + payload);
    put_text(out, topic);
    if numbered {
        out.put_u16(id);
    }
    if five {
        out.put_u8(0);
    }
}

/// An acknowledgement with success: PUBACK, PUBREC, PUBREL and PUBCOMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ack {
    Received = 0x40,
    Held = 0x50,
    Release = 0x62,
    Complete = 0x70,
}

/// Appends an acknowledgement.
pub(crate) fn write_ack(out: &mut BytesMut, ack: Ack, id: u16) {
    begin(out, ack as u8, 2);
    out.put_u16(id);
}

/// Appends a PINGREQ.
pub(crate) fn write_ping(out: &mut BytesMut) {
    begin(out, 0xC0, 0);
}

fn begin(out: &mut BytesMut, first: u8, length: usize) {
    out.reserve(5 + length);
    out.put_u8(first);
    let mut left = length;
    loop {
        let byte = (left & 0x7F) as u8;
        left >>= 7;
        out.put_u8(if left > 0 { byte | 0x80 } else { byte });
        if left == 0 {
            return;
        }
    }
}

fn put_text(out: &mut BytesMut, text: &[u8]) {
    // names of subjects and clients are short words of ours
    out.put_u16(text.len() as u16);
    out.put_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [MqttVersion; 2] = [MqttVersion::V311, MqttVersion::V5];

    #[test]
    fn a_publication_is_read_as_it_was_written() {
        for version in BOTH {
            for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
                for bytes in [0, 1, 100, 200, 20_000, 3_000_000] {
                    let mut out = BytesMut::new();
                    write_publish(&mut out, version, qos, 77, "lab/v1/a", bytes);
                    out.put_bytes(b'x', bytes);
                    let (packet, whole) = read(&out, version).expect("a packet").expect("all of it");
                    let id = if qos == Qos::AtMostOnce { 0 } else { 77 };
                    assert_eq!(packet, Packet::Publish { qos, id, payload: &vec![b'x'; bytes] });
                    assert_eq!(whole, out.len());
                    for short in [0, 1, 2, out.len() - 1] {
                        assert_eq!(read(&out[..short], version), Ok(None), "{short} bytes");
                    }
                }
            }
        }
    }

    /// Bytes as the standard's examples and figures have them.
    #[test]
    fn packets_are_those_of_the_standard() {
        let mut out = BytesMut::new();
        write_connect(&mut out, MqttVersion::V311, "rh", 60, (None, None));
        assert_eq!(out[..], [0x10, 14, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60, 0, 2, b'r', b'h']);
        out.clear();
        write_connect(&mut out, MqttVersion::V5, "rh", 60, (None, None));
        assert_eq!(out[..], [0x10, 15, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 60, 0, 0, 2, b'r', b'h']);
        out.clear();
        write_connect(&mut out, MqttVersion::V311, "r", 60, (Some("me"), Some(b"s")));
        let login = [0x10, 20, 0, 4, b'M', b'Q', b'T', b'T', 4, 0xC2, 0, 60, 0, 1, b'r', 0, 2, b'm', b'e', 0, 1, b's'];
        assert_eq!(out[..], login);
        out.clear();
        write_subscribe(&mut out, MqttVersion::V5, 10, "a/b", Qos::AtLeastOnce);
        assert_eq!(out[..], [0x82, 9, 0, 10, 0, 0, 3, b'a', b'/', b'b', 1]);
        out.clear();
        write_ack(&mut out, Ack::Release, 258);
        write_ping(&mut out);
        assert_eq!(out[..], [0x62, 2, 1, 2, 0xC0, 0]);
    }

    #[test]
    fn a_welcome_tells_its_bounds() {
        let plain = Welcome { code: 0, receive_max: u16::MAX, qos_max: 2, packet_max: u32::MAX };
        assert_eq!(read(&[0x20, 2, 0, 0], MqttVersion::V311), Ok(Some((Packet::ConnAck(plain), 4))));
        let refused = Packet::ConnAck(Welcome { code: 5, ..plain });
        assert_eq!(read(&[0x20, 2, 0, 5], MqttVersion::V311), Ok(Some((refused, 4))));
        // topic aliases 10, at most 20 under way, a user property, packets of 1 kB, QoS 1
        let properties = [0x22, 0, 10, 0x21, 0, 20, 0x26, 0, 1, b'k', 0, 1, b'v', 0x27, 0, 0, 4, 0, 0x24, 1];
        let mut bytes = vec![0x20, 3 + properties.len() as u8, 0, 0, properties.len() as u8];
        bytes.extend(properties);
        let told = Welcome { receive_max: 20, qos_max: 1, packet_max: 1024, ..plain };
        assert_eq!(read(&bytes, MqttVersion::V5), Ok(Some((Packet::ConnAck(told), bytes.len()))));
        bytes[5] = 0x7E;
        assert_eq!(read(&bytes, MqttVersion::V5), Err(Foreign), "a property that does not exist");
    }

    #[test]
    fn acknowledgements_tell_their_reason_in_version_5() {
        assert_eq!(read(&[0x40, 2, 0, 9], MqttVersion::V5), Ok(Some((Packet::PubAck { id: 9, reason: 0 }, 4))));
        let full = [0x40, 4, 0, 9, 0x97, 0];
        assert_eq!(read(&full, MqttVersion::V5), Ok(Some((Packet::PubAck { id: 9, reason: 0x97 }, 6))));
        assert_eq!(read(&[0x90, 3, 0, 1, 1], MqttVersion::V311), Ok(Some((Packet::SubAck { refused: false }, 5))));
        assert_eq!(read(&[0x90, 3, 0, 1, 0x80], MqttVersion::V311), Ok(Some((Packet::SubAck { refused: true }, 5))));
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for bad in [
            &b"HTTP/1.1 400"[..],
            &[0xF0, 0],
            &[0x48],
            &[0x40, 1, 0],
            &[0x36, 2, 0, 0],
            &[0x30, 0xFF, 0xFF, 0xFF, 0xFF],
        ] {
            assert_eq!(read(bad, MqttVersion::V5), Err(Foreign), "{bad:?}");
        }
    }
}
