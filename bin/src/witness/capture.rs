//! Captures of a dry run: one pcap file for each direction of each link, for tcpdump, Wireshark and what reads the same.
//!
//! A packet is there when its sender offers it to the link, before anything is lost, dropped or delayed. Headers are made
//! up, and only they are there: Ethernet, IPv4 with `10.x.y.z` for the node in row x·65536 + y·256 + z of the experiment,
//! counted from 1, and UDP, or TCP with a connection for each sender. The server's port says what carries it: 80 for HTTP,
//! 4222 for NATS, 5004 for datagrams. A message is cut into full segments, as the links count it; handshakes and bare
//! acknowledgements are not there. Payloads are zeros that are left out, and so are the checksums over them.
//!
//! Format: pcap 2.4 with nanoseconds, link type 1 (draft-ietf-opsawg-pcap).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rehearsal_core::plan::Carrier;
use rehearsal_models::path::Direction;
use rehearsal_models::wire::message_bytes;
use rehearsal_sim::Crossing;

use super::Names;
use crate::exit::Refused;

/// Files of one run; what goes over further links is counted. Assumed: far below the usual 1,024 descriptors.
const FILES_MAX: usize = 256;
/// Packets of one file; what comes later is counted. Assumed: 70 MB.
const PACKETS_MAX: u64 = 1_000_000;
/// Connections whose numbers are known at once. Further ones begin at zero with every message.
const CONNECTIONS_MAX: usize = 1 << 20;
/// Payload of a full segment (RFC 9293 §3.7.1) and of a full fragment (RFC 791 §3.1) over Ethernet.
const SEGMENT_BYTES: u32 = 1500 - IP as u32 - TCP;
const FRAGMENT_BYTES: u32 = 1480;
/// TCP header with the timestamps option, padded. Source: RFC 9293 §3.1, RFC 7323 §3.2.
const TCP: u32 = 32;
const ETHERNET: usize = 14;
const IP: usize = 20;
/// Stands for the EtherType of a replayed frame, whose own bytes a dry run does not read. Source: IEEE 802, local experimental.
const EXPERIMENT: u16 = 0x88b5;

/// All captures of a run.
pub struct Captures {
    folder: PathBuf,
    names: Arc<Names>,
    files: BTreeMap<(u32, u32), Capture>,
    /// Bytes sent so far, by sender, receiver and whether they went back.
    sent: BTreeMap<(u32, u32, bool), u32>,
    packets: u64,
    left_out: u64,
    failed: Option<io::Error>,
}

struct Capture {
    out: BufWriter<File>,
    packets: u64,
}

impl Captures {
    /// Makes the folder.
    ///
    /// # Errors
    /// When it cannot be made, or holds something.
    pub fn create(folder: &Path, names: Arc<Names>) -> Result<Self, Refused> {
        let refused = |why: &dyn std::fmt::Display| Refused(format!("--pcap {}: {why}", folder.display()));
        fs::create_dir_all(folder).map_err(|why| refused(&why))?;
        if fs::read_dir(folder).map_err(|why| refused(&why))?.next().is_some() {
            return Err(refused(&"the folder is not empty; choose another name"));
        }
        Ok(Captures {
            folder: folder.to_owned(),
            names,
            files: BTreeMap::new(),
            sent: BTreeMap::new(),
            packets: 0,
            left_out: 0,
            failed: None,
        })
    }

    /// Something is offered to a link.
    pub fn crossing(&mut self, crossing: &Crossing) {
        if self.failed.is_some() {
            return;
        }
        if let Err(why) = self.write(crossing) {
            self.failed = Some(why);
        }
    }

    fn write(&mut self, crossing: &Crossing) -> io::Result<()> {
        let Crossing { at, from, to, .. } = *crossing;
        if !self.files.contains_key(&(from, to)) {
            if self.files.len() == FILES_MAX {
                self.left_out += 1;
                return Ok(());
            }
            self.files.insert((from, to), self.begin(from, to)?);
        }
        let packets = self.cut(crossing);
        let Some(file) = self.files.get_mut(&(from, to)) else { return Ok(()) };
        for (head, length) in packets {
            if file.packets == PACKETS_MAX {
                self.left_out += 1;
                continue;
            }
            file.packets += 1;
            self.packets += 1;
            let nanos = at.as_nanos();
            let words = [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, head.len() as u32, length];
            for word in words {
                file.out.write_all(&word.to_le_bytes())?;
            }
            file.out.write_all(&head)?;
        }
        Ok(())
    }

    fn begin(&self, from: u32, to: u32) -> io::Result<Capture> {
        let name = |row: u32| self.names.nodes.get(row as usize).map_or("node", String::as_str);
        let path = self.folder.join(format!("{}-{}.pcap", name(from), name(to)));
        let mut out = BufWriter::new(File::create_new(path)?);
        // magic for nanoseconds, version 2.4, no zone, no accuracy, longest packet, Ethernet
        out.write_all(&0xA1B2_3C4D_u32.to_le_bytes())?;
        out.write_all(&[2, 0, 4, 0])?;
        for word in [0_u32, 0, 65_535, 1] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Capture { out, packets: 0 })
    }

    /// The packets of a message: their headers, and their length on the wire without preamble and check sequence.
    fn cut(&mut self, crossing: &Crossing) -> Vec<(Vec<u8>, u32)> {
        if crossing.carrier == Carrier::Frames {
            return vec![(link(crossing, EXPERIMENT).to_vec(), crossing.payload)];
        }
        let direction = if crossing.reply { Direction::Down } else { Direction::Up };
        let bytes = message_bytes(crossing.carrier, direction, crossing.payload) as u32;
        let datagram = crossing.carrier == Carrier::Udp;
        let most = if datagram { FRAGMENT_BYTES } else { SEGMENT_BYTES };
        let (mut past, mut packets) = (0, Vec::new());
        while past < bytes {
            let part = most.min(bytes - past);
            let last = past + part == bytes;
            let head =
                if datagram { fragment(crossing, bytes, past, part, last) } else { self.segment(crossing, part, last) };
            let ip = if datagram { part } else { part + TCP };
            packets.push((head, (ETHERNET + IP) as u32 + ip));
            past += part;
        }
        packets
    }

    fn segment(&mut self, crossing: &Crossing, part: u32, last: bool) -> Vec<u8> {
        let (sender, receiver) = (crossing.sender.0, crossing.receiver.0);
        let acknowledged = self.sent.get(&(sender, receiver, !crossing.reply)).copied().unwrap_or(0);
        let full = self.sent.len() >= CONNECTIONS_MAX;
        let mut none = 0;
        let sent = if full { &mut none } else { self.sent.entry((sender, receiver, crossing.reply)).or_default() };
        let first = *sent;
        *sent = sent.wrapping_add(part);
        let [source, target] = ports(crossing);
        let mut head = link_and_ip(crossing, TCP + part, 6, 0, 0x4000);
        head.extend(source.to_be_bytes());
        head.extend(target.to_be_bytes());
        head.extend(first.to_be_bytes());
        head.extend(acknowledged.to_be_bytes());
        // eight words of header; the last segment of a message is pushed
        head.extend([0x80, if last { 0x18 } else { 0x10 }, 0xFF, 0xFF, 0, 0, 0, 0]);
        // two paddings, then the timestamps: its own in milliseconds, no echo
        head.extend([1, 1, 8, 10]);
        head.extend(((crossing.at.as_nanos() / 1_000_000) as u32).to_be_bytes());
        head.extend([0; 4]);
        head
    }

    /// Closes them, and what to say of them.
    pub fn end(mut self) -> String {
        let flushed = self.files.values_mut().try_for_each(|file| file.out.flush());
        let (folder, packets, files) = (self.folder.display(), self.packets, self.files.len());
        if let Some(why) = self.failed.take().or(flushed.err()) {
            return format!("the captures in {folder} are not whole: {why}");
        }
        let more = if self.left_out > 0 { format!("; {} more are left out", self.left_out) } else { String::new() };
        format!("captures of {packets} packets on {files} links in {folder}, headers made up, payloads left out{more}")
    }
}

fn fragment(crossing: &Crossing, whole: u32, past: u32, part: u32, last: bool) -> Vec<u8> {
    // offset in units of eight bytes, and whether more follows
    let place = (past / 8) as u16 | if last { 0 } else { 0x2000 };
    let mut head = link_and_ip(crossing, part, 17, crossing.seq as u16, place);
    if past == 0 {
        let [source, target] = ports(crossing);
        head.extend(source.to_be_bytes());
        head.extend(target.to_be_bytes());
        head.extend(u16::try_from(whole).unwrap_or(u16::MAX).to_be_bytes());
        // no checksum: allowed over IPv4 (RFC 768)
        head.extend([0, 0]);
    }
    head
}

/// Ports from where it leaves to where it goes.
fn ports(crossing: &Crossing) -> [u16; 2] {
    let server = match crossing.carrier {
        Carrier::Http1 => 80,
        Carrier::Http2 | Carrier::Http3 => 443,
        Carrier::Tcp => 7000,
        Carrier::Nats => 4222,
        Carrier::Mqtt => 1883,
        Carrier::Udp => 5004,
        Carrier::Frames => 0,
    };
    // dynamic ports (RFC 6335): senders 16,384 apart share one
    let client = 49_152 + (crossing.sender.0 % 16_384) as u16;
    if crossing.reply { [server, client] } else { [client, server] }
}

/// The address of a node.
fn address(row: u32) -> [u8; 4] {
    let [_, high, middle, low] = (row + 1).to_be_bytes();
    [10, high, middle, low]
}

/// An Ethernet header with locally administered addresses.
fn link(crossing: &Crossing, ethertype: u16) -> [u8; ETHERNET] {
    let mut head = [0; ETHERNET];
    for (at, row) in [(0, crossing.to), (6, crossing.from)] {
        head[at] = 2;
        head[at + 2..at + 6].copy_from_slice(&address(row));
    }
    head[12..].copy_from_slice(&ethertype.to_be_bytes());
    head
}

fn link_and_ip(crossing: &Crossing, bytes: u32, protocol: u8, id: u16, fragment: u16) -> Vec<u8> {
    let (source, target) = (address(crossing.from), address(crossing.to));
    let mut head = Vec::with_capacity(ETHERNET + IP + TCP as usize);
    head.extend(link(crossing, 0x0800));
    let length = u16::try_from(IP as u32 + bytes).unwrap_or(u16::MAX);
    head.extend([0x45, 0]);
    head.extend(length.to_be_bytes());
    head.extend(id.to_be_bytes());
    head.extend(fragment.to_be_bytes());
    head.extend([64, protocol, 0, 0]);
    head.extend(source);
    head.extend(target);
    let sum = checksum(&head[ETHERNET..]);
    head[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
    head
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehearsal_core::{ActorId, Time};

    fn crossing(carrier: Carrier, payload: u32) -> Crossing {
        let (sender, receiver) = (ActorId(3), ActorId(9));
        Crossing { at: Time::ZERO, from: 0, to: 1, sender, receiver, carrier, reply: false, payload, seq: 7 }
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // RFC 1071 §3: the sum of these is ddf2
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let head = link_and_ip(&crossing(Carrier::Http1, 1), 21, 6, 0, 0x4000);
        assert_eq!(checksum(&head[ETHERNET..]), 0, "a header with its checksum sums to zero");
        assert_eq!(&head[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    }

    #[test]
    fn a_datagram_is_cut_where_fragments_end() {
        let whole = fragment(&crossing(Carrier::Udp, 100), 108, 0, 108, true);
        assert_eq!((whole.len(), &whole[20..22]), (42, &[0, 0][..]));
        assert_eq!(&whole[34..42], [0xC0, 3, 0x13, 0x8C, 0, 108, 0, 0]);
        let second = fragment(&crossing(Carrier::Udp, 2000), 2008, 1480, 528, true);
        assert_eq!((second.len(), &second[20..22]), (34, &[0, 185][..]), "no second header; 1480 / 8 = 185");
    }
}
