//! pcapng: blocks, with an interface and a resolution for each packet. Source: draft-ietf-opsawg-pcapng.

use pcap_parser::InterfaceDescriptionBlock;
use pcap_parser::pcapng::{Block, parse_block_be, parse_block_le};

use super::input::Input;
use super::link::LinkType;
use super::{Fault, Item, recorded};
use crate::frame::array;
use crate::template::{FRAME_MAX, Left};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// The packet block that the enhanced one replaced.
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
/// Longest block that is read, bytes. Source: Wireshark's limit for blocks.
const BLOCK_MAX: u32 = 16 << 20;
/// Interfaces of a section at most. Assumed.
const INTERFACES_MAX: usize = 65_536;
const NANOS: u128 = 1_000_000_000;

/// Where the reader stands.
#[derive(Default)]
pub(super) struct NextGeneration {
    big: bool,
    interfaces: Vec<Interface>,
}

/// What an interface says of its packets.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snapshot: u32,
    resolution: u8,
    /// Seconds that are added.
    offset: i64,
    /// Bytes of the frame check sequence behind each packet.
    check: u8,
}

/// A block whose bytes are in the input's buffer.
enum Kind {
    Packet,
    Other,
}

/// Whether a file begins like this.
pub(super) fn begins(start: &[u8]) -> bool {
    array(start, 0).map(u32::from_le_bytes) == Some(SECTION)
}

impl NextGeneration {
    pub(super) fn next<'a>(
        &mut self,
        input: &'a mut Input,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Item<'a>>, Fault> {
        loop {
            let at = input.at();
            let Some(kind) = self.block(input, warnings)? else { return Ok(None) };
            if let Kind::Packet = kind {
                // `more` of nothing is what was taken last
                return self.packet(at, input.more(0)?, warnings).map(Some);
            }
        }
    }

    /// Takes the next block; what it means for those behind it is noted.
    fn block(&mut self, input: &mut Input, warnings: &mut Vec<String>) -> Result<Option<Kind>, Fault> {
        let at = input.at();
        let bad = |what: String| Fault::Block { at, what };
        let head = input.take(8)?;
        let (Some(kind), Some(length)) = (array::<4>(head, 0), array::<4>(head, 4)) else {
            if !head.is_empty() {
                warnings.push(format!("{} bytes at the end are no whole block", head.len()));
            }
            return Ok(None);
        };
        let section = u32::from_le_bytes(kind) == SECTION;
        if section {
            match input.more(4)?.get(8..12) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => self.big = true,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => self.big = false,
                Some(_) => return Err(bad("begins a section without saying its byte order".to_owned())),
                None => {
                    warnings.push(format!("the last block, at byte {at}, is cut"));
                    return Ok(None);
                }
            }
            self.interfaces.clear();
        }
        let (kind, length) = (self.number(kind), self.number(length));
        if length < 12 || length % 4 != 0 {
            return Err(bad(format!("says that it has {length} bytes; blocks have 12, 16, 20 …")));
        }
        let taken = if section { 12 } else { 8 };
        if length < taken {
            return Err(bad(format!("is too short for a section: {length} bytes")));
        }
        let wanted = matches!(kind, INTERFACE | PACKET | SIMPLE | ENHANCED);
        let rest = u64::from(length - taken);
        if !wanted {
            if input.skip(rest)? < rest {
                warnings.push(format!("the last block, at byte {at}, is cut"));
                return Ok(None);
            }
            return Ok(Some(Kind::Other));
        }
        if length > BLOCK_MAX {
            return Err(bad(format!("says that it has {length} bytes; at most {BLOCK_MAX} are read")));
        }
        let whole = input.more(rest as usize)?;
        if whole.len() < length as usize {
            warnings.push(format!("the last block, at byte {at}, is cut"));
            return Ok(None);
        }
        if array(whole, whole.len() - 4).map(|tail| self.number(tail)) != Some(length) {
            return Err(bad("does not end with the length it begins with".to_owned()));
        }
        if kind != INTERFACE {
            return Ok(Some(Kind::Packet));
        }
        let Some(Block::InterfaceDescription(described)) = self.parse(whole) else {
            return Err(bad("describes an interface, but cannot be read".to_owned()));
        };
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(bad(format!("describes one interface more than {INTERFACES_MAX}")));
        }
        let interface = self.interface(&described);
        self.interfaces.push(interface);
        Ok(Some(Kind::Other))
    }

    fn parse<'a>(&self, whole: &'a [u8]) -> Option<Block<'a>> {
        let parsed = if self.big { parse_block_be(whole) } else { parse_block_le(whole) };
        parsed.ok().map(|(_, block)| block)
    }

    fn number(&self, four: [u8; 4]) -> u32 {
        if self.big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }

    fn interface(&self, described: &InterfaceDescriptionBlock<'_>) -> Interface {
        let option = |code| described.options.iter().find(|option| option.code.0 == code).map(|option| option.value());
        let byte = |code, default| option(code).and_then(|value| value.first().copied()).unwrap_or(default);
        // the parser reads this one in one byte order only
        let offset = option(14).and_then(|value| array(value, 0));
        let offset = offset.map_or(0, if self.big { i64::from_be_bytes } else { i64::from_le_bytes });
        Interface {
            link: LinkType(described.linktype.0 as u32),
            snapshot: described.snaplen,
            resolution: byte(9, 6),
            offset,
            check: byte(13, 0),
        }
    }

    fn packet<'a>(&self, at: u64, whole: &'a [u8], warnings: &mut Vec<String>) -> Result<Item<'a>, Fault> {
        let bad = |what: &str| Fault::Block { at, what: what.to_owned() };
        if self.interfaces.is_empty() {
            return Err(bad("holds a packet before any interface is described"));
        }
        let (number, ticks, kept, original) = match self.parse(whole) {
            Some(Block::EnhancedPacket(block)) => {
                let ticks = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                (block.if_id, Some(ticks), block.caplen, block.origlen)
            }
            Some(Block::SimplePacket(block)) => {
                // it is cut at the snapshot length without saying so; 0 is no limit
                let snapshot = self.interfaces.first().map_or(0, |interface| interface.snapshot);
                let limit = if snapshot == 0 { u32::MAX } else { snapshot };
                let there = u32::try_from(block.data.len()).unwrap_or(u32::MAX);
                (0, None, block.origlen.min(limit).min(there), block.origlen)
            }
            Some(Block::Unknown(_)) => self.old(whole).ok_or_else(|| bad("holds a packet, but cannot be read"))?,
            _ => return Err(bad("holds a packet, but cannot be read")),
        };
        if kept as usize > FRAME_MAX {
            return Err(Fault::Record { at, length: kept });
        }
        let Some(interface) = self.interfaces.get(number as usize) else {
            let count = self.interfaces.len();
            let what = format!("packets name interface {number}, but only {count} are described; they are left out");
            if !warnings.contains(&what) && warnings.len() < 20 {
                warnings.push(what);
            }
            return Ok(Item::Left(Left::Interface));
        };
        let from = match array(whole, 0).map(|kind| self.number(kind)) {
            Some(SIMPLE) => 12,
            _ => 28,
        };
        let bytes = whole.get(from..from + kept as usize).ok_or_else(|| bad("holds less than it says"))?;
        let time = match ticks.map(|ticks| interface.time(ticks)) {
            Some(None) => return Ok(Item::Left(Left::Time)),
            Some(time) => time,
            None => None,
        };
        Ok(recorded(time, interface.link, bytes, original.saturating_sub(u32::from(interface.check))))
    }

    /// The obsolete packet block: interface, count of drops, time, lengths.
    fn old(&self, whole: &[u8]) -> Option<(u32, Option<u64>, u32, u32)> {
        let interface = array(whole, 8).map(if self.big { u16::from_be_bytes } else { u16::from_le_bytes })?;
        let number = |at| array(whole, at).map(|four| self.number(four));
        let ticks = u64::from(number(12)?) << 32 | u64::from(number(16)?);
        Some((u32::from(interface), Some(ticks), number(20)?, number(24)?))
    }
}

impl Interface {
    /// Nanoseconds since 1970; `None` if they do not fit 64 bits.
    fn time(&self, ticks: u64) -> Option<u64> {
        let (ticks, power) = (u128::from(ticks), u32::from(self.resolution & 0x7f));
        let nanos = if self.resolution & 0x80 != 0 {
            (ticks * NANOS) >> power
        } else if power <= 9 {
            ticks * 10_u128.pow(9 - power)
        } else {
            10_u128.checked_pow(power - 9).map_or(0, |unit| ticks / unit)
        };
        let shifted = i128::try_from(nanos).ok()?.checked_add(i128::from(self.offset) * NANOS as i128)?;
        u64::try_from(shifted).ok()
    }
}
