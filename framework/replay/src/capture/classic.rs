//! pcap: one header, then records. Source: draft-ietf-opsawg-pcap; the "modified" records of patched Linux kernels have
//! eight more bytes each.

use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use super::input::Input;
use super::link::LinkType;
use super::{Fault, Item, recorded};
use crate::frame::array;
use crate::template::FRAME_MAX;

const HEADER: usize = 24;
const RECORD: usize = 16;
/// Bytes behind the usual ones in a record's header: interface, protocol, packet type and padding.
const MODIFIED: usize = 8;
const NANOS: u64 = 1_000_000_000;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const PATCHED: u32 = 0xa1b2_cd34;

/// What the header says.
pub(super) struct Classic {
    big: bool,
    unit: u64,
    extra: usize,
    link: LinkType,
    /// Bytes of the frame check sequence behind each packet.
    check: usize,
}

/// Whether a file begins like this, in either byte order.
pub(super) fn begins(start: &[u8]) -> bool {
    array(start, 0).is_some_and(|four| known(u32::from_le_bytes(four)) || known(u32::from_be_bytes(four)))
}

const fn known(magic: u32) -> bool {
    matches!(magic, MICROSECONDS | NANOSECONDS | PATCHED)
}

impl Classic {
    pub(super) fn open(input: &mut Input) -> Result<Classic, Fault> {
        let header = input.take(HEADER)?;
        if header.len() < HEADER {
            return Err(Fault::Header(header.len() as u64));
        }
        let (magic, big) = match array(header, 0).map(u32::from_le_bytes) {
            Some(magic) if known(magic) => (magic, false),
            Some(magic) => (magic.swap_bytes(), true),
            None => (0, false),
        };
        let network = match parse_pcap_header(header) {
            Ok((_, header)) => header.network.0 as u32,
            // the one that the parser below does not know: patched and big-endian
            Err(_) => array(header, 20).map_or(0, u32::from_be_bytes),
        };
        // Source: the draft, section 4: a length of check sequences in units of 16 bits, valid with bit 26
        let check = if network & 0x0400_0000 == 0 { 0 } else { (network >> 28) as usize * 2 };
        Ok(Classic {
            big,
            unit: if magic == NANOSECONDS { 1 } else { 1_000 },
            extra: if magic == PATCHED { MODIFIED } else { 0 },
            link: LinkType(network & 0xffff),
            check,
        })
    }

    pub(super) const fn link(&self) -> LinkType {
        self.link
    }

    pub(super) fn next<'a>(&self, input: &'a mut Input, warnings: &mut Vec<String>) -> Result<Option<Item<'a>>, Fault> {
        let at = input.at();
        let header = RECORD + self.extra;
        let start = input.take(header)?;
        if start.len() < header {
            if !start.is_empty() {
                warnings.push(format!("{} bytes at the end are no whole record", start.len()));
            }
            return Ok(None);
        }
        let number = |at| array(start, at).map_or(0, if self.big { u32::from_be_bytes } else { u32::from_le_bytes });
        let length = number(8);
        if length as usize > FRAME_MAX {
            return Err(Fault::Record { at, length });
        }
        let whole = input.more(length as usize)?;
        if whole.len() < header + length as usize {
            warnings.push(format!("the last record, at byte {at}, is cut"));
            return Ok(None);
        }
        // the parser knows the header without what patched kernels put behind it
        let parsed = if self.big { parse_pcap_frame_be(whole) } else { parse_pcap_frame(whole) };
        let Ok((_, record)) = parsed else { return Err(Fault::Record { at, length }) };
        let bytes = &whole[header..];
        // a fraction of more than a second is carried over
        let time = u64::from(record.ts_sec) * NANOS + u64::from(record.ts_usec) * self.unit;
        let original = record.origlen.saturating_sub(self.check as u32);
        Ok(Some(recorded(Some(time), self.link, bytes, original)))
    }
}
