//! Link types, and how their packets become Ethernet frames. Source: the registry of LINKTYPE_ values at tcpdump.org.

use std::fmt;

use crate::frame::{ETHERNET, be16, ethertype};
use crate::template::Left;

/// What the bytes of a packet begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkType(pub u32);

const NAMES: [(u32, &str); 28] = [
    (0, "NULL"),
    (1, "ETHERNET"),
    (6, "IEEE802_5"),
    (9, "PPP"),
    (50, "PPP_HDLC"),
    (51, "PPP_ETHER"),
    (100, "ATM_RFC1483"),
    (101, "RAW"),
    (104, "C_HDLC"),
    (105, "IEEE802_11"),
    (107, "FRELAY"),
    (108, "LOOP"),
    (113, "LINUX_SLL"),
    (117, "PFLOG"),
    (127, "IEEE802_11_RADIOTAP"),
    (147, "USER0"),
    (162, "USER15"),
    (187, "BLUETOOTH_HCI_H4"),
    (189, "USB_LINUX"),
    (195, "IEEE802_15_4_WITHFCS"),
    (220, "USB_LINUX_MMAPPED"),
    (227, "CAN_SOCKETCAN"),
    (228, "IPV4"),
    (229, "IPV6"),
    (230, "IEEE802_15_4_NOFCS"),
    (239, "NFLOG"),
    (253, "NETLINK"),
    (276, "LINUX_SLL2"),
];

/// Addresses of Ethernet headers that are made: locally administered (IEEE 802c), the sender's and the receiver's.
const MADE: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// How a packet becomes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Bytes in front that go.
    strip: usize,
    kind: Option<u16>,
    source: [u8; 6],
}

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);

    /// Whether its packets can be made into Ethernet frames.
    pub const fn is_known(self) -> bool {
        matches!(self.0, 0 | 1 | 9 | 12 | 14 | 50 | 51 | 101 | 104 | 108 | 113 | 228 | 229 | 276)
    }

    /// The names of those that can.
    pub fn known() -> String {
        let known = NAMES.into_iter().filter(|(number, _)| LinkType(*number).is_known());
        known.map(|(_, name)| name).collect::<Vec<&str>>().join(", ")
    }

    /// How `bytes` become a frame; `None` if they are one.
    pub(super) fn form(self, bytes: &[u8]) -> Result<Option<Form>, Left> {
        let plain = |strip, kind| Form { strip, kind: Some(kind), source: MADE[0] };
        let form = match self.0 {
            1 => return if bytes.len() < ETHERNET { Err(Left::Short) } else { Ok(None) },
            // BSD's numbers for raw IP stand in some files too
            12 | 14 | 101 | 228 | 229 => plain(0, by_version(bytes, 0)?),
            0 | 108 => loopback(bytes)?,
            9 | 50 => point_to_point(bytes)?,
            51 => Form { strip: 0, kind: Some(ethertype::PPPOE), source: MADE[0] },
            104 => plain(4, be16(bytes, 2).ok_or(Left::Short)?),
            113 => {
                let kind = be16(bytes, 14).ok_or(Left::Short)?;
                cooked(kind, 16, bytes.get(6..12), be16(bytes, 4) == Some(6))?
            }
            276 => {
                let kind = be16(bytes, 0).ok_or(Left::Short)?;
                cooked(kind, 20, bytes.get(12..18), bytes.get(11) == Some(&6))?
            }
            _ => return Err(Left::LinkType),
        };
        if form.kind.is_some_and(|kind| kind < 0x0600) {
            return Err(Left::Protocol);
        }
        if bytes.len() <= form.strip { Err(Left::Short) } else { Ok(Some(form)) }
    }
}

impl Form {
    /// Writes the frame.
    pub(super) fn write(&self, bytes: &[u8], to: &mut Vec<u8>) {
        let content = &bytes[self.strip..];
        to.clear();
        to.extend_from_slice(&MADE[1]);
        to.extend_from_slice(&self.source);
        // without a kind it is a length (IEEE 802.3)
        let kind = self.kind.unwrap_or_else(|| u16::try_from(content.len()).unwrap_or(u16::MAX).min(1500));
        to.extend_from_slice(&kind.to_be_bytes());
        to.extend_from_slice(content);
    }

    /// The original length of the frame, of a packet that had `original` bytes.
    pub(super) fn original(&self, original: u32) -> u32 {
        original.saturating_sub(self.strip as u32).saturating_add(ETHERNET as u32)
    }
}

fn by_version(bytes: &[u8], at: usize) -> Result<u16, Left> {
    match bytes.get(at).map(|byte| byte >> 4) {
        Some(4) => Ok(ethertype::IPV4),
        Some(6) => Ok(ethertype::IPV6),
        Some(_) => Err(Left::Protocol),
        None => Err(Left::Short),
    }
}

/// A family of addresses in the byte order of the host that recorded it; those of IPv6 differ between systems.
fn loopback(bytes: &[u8]) -> Result<Form, Left> {
    let family = crate::frame::be32(bytes, 0).ok_or(Left::Short)?;
    let family = if family > 0xffff { family.swap_bytes() } else { family };
    let kind = match family {
        2 => ethertype::IPV4,
        10 | 24 | 28 | 30 => ethertype::IPV6,
        _ => return Err(Left::Protocol),
    };
    Ok(Form { strip: 4, kind: Some(kind), source: MADE[0] })
}

/// PPP, with or without the address and control bytes of HDLC, or Cisco's HDLC in their place.
fn point_to_point(bytes: &[u8]) -> Result<Form, Left> {
    let of = |strip, kind| Ok(Form { strip, kind: Some(kind), source: MADE[0] });
    let at = match be16(bytes, 0).ok_or(Left::Short)? {
        0x0f00 | 0x8f00 => return of(4, be16(bytes, 2).ok_or(Left::Short)?),
        0xff03 => 2,
        _ => 0,
    };
    // a protocol of one byte is odd (RFC 1661 section 2)
    let first = *bytes.get(at).ok_or(Left::Short)?;
    let (number, next) =
        if first & 1 == 1 { (u16::from(first), at + 1) } else { (be16(bytes, at).ok_or(Left::Short)?, at + 2) };
    match number {
        0x0021 => of(next, ethertype::IPV4),
        0x0057 => of(next, ethertype::IPV6),
        0x0281 => of(next, ethertype::MPLS),
        _ => Err(Left::Protocol),
    }
}

/// Linux's cooked header: the protocol is an EtherType, or one of two kinds of IEEE 802 frames.
fn cooked(kind: u16, strip: usize, address: Option<&[u8]>, six: bool) -> Result<Form, Left> {
    let source = address.filter(|_| six).and_then(|six| six.try_into().ok()).unwrap_or(MADE[0]);
    let kind = match kind {
        // 802.3 without LLC, and with it
        1 | 4 => None,
        kind => Some(kind),
    };
    Ok(Form { strip, kind, source })
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.into_iter().find(|(number, _)| *number == self.0) {
            Some((number, name)) => write!(f, "{number} ({name})"),
            None => write!(f, "{}", self.0),
        }
    }
}
