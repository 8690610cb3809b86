//! The template file, byte by byte. All numbers are little-endian.
//!
//! ```text
//!   header    128 bytes: magic "rhsltmpl", version, counts, where the parts begin, duration, length of the file
//!   bytes     the frames, one after the other, in the order of the capture
//!   index     40 bytes per packet, in order of time
//!   streams   96 bytes per stream
//!   notes     JSON: where the packets came from, and what was left out
//! ```
//!
//! The file holds no name and no time of its own making: the same packets give the same bytes, so a template is called by
//! its SHA-256.

use super::stream::Host;
use super::stream::{Carried, Endpoint, Stream};
use crate::frame::Wrappings;
use crate::frame::array;
use crate::packet::Direction;

/// How each template begins.
pub const MAGIC: [u8; 8] = *b"rhsltmpl";
/// The version that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;
/// Length of the header, bytes.
pub const HEADER: usize = 128;
/// Length of a packet's entry in the index, bytes.
pub const ENTRY: usize = 40;
/// Length of a stream's record, bytes.
pub const RECORD: usize = 96;
/// No packet, where one could be named.
pub const NONE: u32 = u32::MAX;

/// Where the parts of a template are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Packets.
    pub packets: u64,
    /// Streams.
    pub streams: u64,
    /// Bytes of all frames, which follow the header.
    pub bytes: u64,
    /// Bytes of the notes.
    pub notes: u64,
    /// Nanoseconds from the first packet to the last.
    pub duration: u64,
}

impl Header {
    /// Offset of the index.
    pub fn index_at(&self) -> Option<u64> {
        (HEADER as u64).checked_add(self.bytes)
    }

    /// Offset of the streams.
    pub fn streams_at(&self) -> Option<u64> {
        self.index_at()?.checked_add(self.packets.checked_mul(ENTRY as u64)?)
    }

    /// Offset of the notes.
    pub fn notes_at(&self) -> Option<u64> {
        self.streams_at()?.checked_add(self.streams.checked_mul(RECORD as u64)?)
    }

    /// Length of the file; `None` if no file can be as long.
    pub fn length(&self) -> Option<u64> {
        self.notes_at()?.checked_add(self.notes)
    }

    /// As it stands in the file.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut to = [0; HEADER];
        to[..8].copy_from_slice(&MAGIC);
        to[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let length = self.length().unwrap_or(u64::MAX);
        for (at, number) in
            [self.packets, self.streams, self.bytes, self.notes, self.duration, length].into_iter().enumerate()
        {
            to[16 + at * 8..24 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        to
    }

    /// Back from that; magic and version are the caller's to look at.
    pub fn decode(from: &[u8; HEADER]) -> (Header, u64) {
        let number = |at: usize| u64_at(from, 16 + at * 8);
        let header =
            Header { packets: number(0), streams: number(1), bytes: number(2), notes: number(3), duration: number(4) };
        (header, number(5))
    }
}

/// A packet in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the first packet; in the spool of a builder, as the capture says.
    pub at: u64,
    /// Offset of its frame behind the header.
    pub offset: u64,
    /// Bytes that are kept.
    pub length: u32,
    /// Bytes that it had.
    pub original: u32,
    /// Its stream.
    pub stream: u32,
    /// The packet that it waits for, or [`NONE`].
    pub after: u32,
    /// Its way.
    pub direction: Direction,
    /// Whether it opens a connection; only in the spool.
    pub opens: bool,
}

impl Entry {
    /// As it stands in the file.
    pub fn encode(&self) -> [u8; ENTRY] {
        let mut to = [0; ENTRY];
        to[..8].copy_from_slice(&self.at.to_le_bytes());
        to[8..16].copy_from_slice(&self.offset.to_le_bytes());
        for (at, number) in [self.length, self.original, self.stream, self.after].into_iter().enumerate() {
            to[16 + at * 4..20 + at * 4].copy_from_slice(&number.to_le_bytes());
        }
        to[32] = self.direction as u8;
        to[33] = u8::from(self.opens);
        to
    }

    /// The entry with that number.
    #[inline]
    pub fn of(table: &[u8], index: usize) -> Entry {
        let from: &[u8] = &table[index * ENTRY..(index + 1) * ENTRY];
        let short = |at| u32::from_le_bytes(array(from, at).unwrap_or_default());
        Entry {
            at: u64_at(from, 0),
            offset: u64_at(from, 8),
            length: short(16),
            original: short(20),
            stream: short(24),
            after: short(28),
            direction: if from[32] == 0 { Direction::Forward } else { Direction::Backward },
            opens: from[33] != 0,
        }
    }
}

/// A stream as it stands in the file.
pub fn encode_stream(stream: &Stream) -> [u8; RECORD] {
    let mut to = [0; RECORD];
    let (family, carried) = match stream.carried {
        Carried::Ip(number) => (1, u16::from(number)),
        Carried::Frame(kind) => (2, kind),
    };
    let ((tag, client), (_, server)) = (stream.client.host.encode(), stream.server.host.encode());
    to[0] = family;
    to[1] = tag;
    to[2..4].copy_from_slice(&carried.to_le_bytes());
    to[4..6].copy_from_slice(&stream.client.port.to_le_bytes());
    to[6..8].copy_from_slice(&stream.server.port.to_le_bytes());
    to[8] = stream.wrappings.bits();
    to[16..32].copy_from_slice(&client);
    to[32..48].copy_from_slice(&server);
    let ([p, q], [b, c]) = (stream.packets, stream.bytes);
    for (at, number) in [p, q, b, c, stream.first, stream.last].into_iter().enumerate() {
        to[48 + at * 8..56 + at * 8].copy_from_slice(&number.to_le_bytes());
    }
    to
}

/// Back from that; `None` if it says what no program of this version writes.
pub fn decode_stream(from: &[u8]) -> Option<Stream> {
    let short = |at| array(from, at).map(u16::from_le_bytes);
    let carried = match (from.first()?, short(2)?) {
        (1, number) => Carried::Ip(u8::try_from(number).ok()?),
        (2, kind) => Carried::Frame(kind),
        _ => return None,
    };
    let end = |at, port| Some(Endpoint { host: Host::decode(*from.get(1)?, array(from, at)?)?, port: short(port)? });
    let number = |at: usize| array(from, 48 + at * 8).map(u64::from_le_bytes);
    Some(Stream {
        carried,
        client: end(16, 4)?,
        server: end(32, 6)?,
        packets: [number(0)?, number(1)?],
        bytes: [number(2)?, number(3)?],
        first: number(4)?,
        last: number(5)?,
        wrappings: Wrappings::of_bits(*from.get(8)?),
    })
}

#[inline]
fn u64_at(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(from, at).unwrap_or_default())
}
