//! An independent reading of a capture: exchanges over HTTP/1.1 as they were on the wire, from the packets alone.
//!
//! It shares no code with the program under test and knows nothing of its messages. A connection carries one exchange
//! at a time, so an exchange begins with the first bytes from the client and ends with the last bytes from the server
//! before the client speaks again. A segment that was seen before is a retransmission: it is counted and moves nothing.
//! Formats: the pcap file of libpcap (pcap-savefile(5)), Ethernet, IPv4 (RFC 791), TCP (RFC 9293).

use std::collections::BTreeMap;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;
/// Length of a capture file's header, bytes.
const FILE_HEADER: usize = 24;
/// Length of a packet's header, bytes.
const PACKET_HEADER: usize = 16;
/// Length of an Ethernet header, bytes.
const ETHERNET: usize = 14;
/// `LINKTYPE_ETHERNET`, which Linux's loopback has too.
const LINK_ETHERNET: u32 = 1;
/// IPv4 in an Ethernet header.
const ETHERTYPE_IPV4: u16 = 0x0800;
/// TCP in an IPv4 header.
const PROTOCOL_TCP: u8 = 6;

/// One exchange on the wire, ns since the epoch of the capture's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The first packet with bytes of the request.
    pub request_ns: u64,
    /// The last packet with bytes of the response.
    pub response_ns: u64,
}

impl Exchange {
    /// From the one to the other, ns.
    pub const fn took_ns(self) -> u64 {
        self.response_ns.saturating_sub(self.request_ns)
    }
}

/// What a capture holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Exchanges with request and response, in the order of their requests.
    pub exchanges: Vec<Exchange>,
    /// Requests without a response.
    pub unanswered: u64,
    /// Segments with bytes that were seen before.
    pub retransmitted: u64,
    /// Packets of TCP to or from the port.
    pub packets: u64,
}

impl Seen {
    /// The duration at this quantile, ns: the smallest that at least this share does not exceed. 0 without exchanges.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let mut took: Vec<u64> = self.exchanges.iter().map(|exchange| exchange.took_ns()).collect();
        took.sort_unstable();
        let rank = (share * took.len() as f64).ceil() as usize;
        took.get(rank.clamp(1, took.len().max(1)) - 1).copied().unwrap_or(0)
    }

    /// The most requests that begin within any `span_ns`: from one included to its end not included.
    pub fn most_within(&self, span_ns: u64) -> usize {
        let begun: Vec<u64> = self.exchanges.iter().map(|exchange| exchange.request_ns).collect();
        let mut first = 0;
        let count = |at: usize| {
            while begun[at] - begun[first] >= span_ns {
                first += 1;
            }
            at + 1 - first
        };
        (0..begun.len()).map(count).max().unwrap_or(0)
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Half {
    next: Option<u32>,
}

impl Half {
    /// Whether `len` bytes from `seq` on are new; numbers wrap around (RFC 9293, 3.4).
    fn is_new(&mut self, seq: u32, len: u32) -> bool {
        let end = seq.wrapping_add(len);
        let new = self.next.is_none_or(|next| end.wrapping_sub(next).cast_signed() > 0);
        if new {
            self.next = Some(end);
        }
        new
    }
}

/// One connection to the port.
#[derive(Debug, Default)]
struct Talk {
    client: Half,
    server: Half,
    request_ns: Option<u64>,
    response_ns: Option<u64>,
}

impl Talk {
    fn settle(&mut self, seen: &mut Seen) {
        match (self.request_ns.take(), self.response_ns.take()) {
            (Some(request_ns), Some(response_ns)) => seen.exchanges.push(Exchange { request_ns, response_ns }),
            (Some(_), None) => seen.unanswered += 1,
            _ => {}
        }
    }
}

/// A TCP segment.
#[derive(Debug)]
struct Segment {
    from: (u32, u16),
    to: (u32, u16),
    seq: u32,
    /// Bytes it carries, captured or not.
    len: u32,
    begins: bool,
}

/// Reads a capture of traffic with a server at `port`.
///
/// # Errors
/// When `bytes` are no capture of Ethernet in the byte order of this machine's kind (little-endian), or end within a
/// packet.
pub fn read(bytes: &[u8], port: u16) -> Result<Seen, String> {
    let word = |at: usize| number(bytes, at).ok_or_else(|| "the capture is shorter than its header".to_owned());
    let unit_ns = match word(0)? {
        0xa1b2_3c4d => 1,
        0xa1b2_c3d4 => 1000,
        magic => return Err(format!("{magic:08x} begins no little-endian capture")),
    };
    match word(20)? & 0xffff {
        LINK_ETHERNET => {}
        link => return Err(format!("link type {link} is not Ethernet")),
    }
    let (mut seen, mut talks) = (Seen::default(), BTreeMap::<(u32, u16), Talk>::new());
    let mut at = FILE_HEADER;
    while at < bytes.len() {
        let cut = || format!("the capture ends within the packet at byte {at}");
        let field = |offset: usize| number(bytes, at + offset).ok_or_else(cut);
        let time_ns = u64::from(field(0)?) * SECOND_NS + u64::from(field(4)?) * unit_ns;
        let end = at + PACKET_HEADER + field(8)? as usize;
        let packet = bytes.get(at + PACKET_HEADER..end).ok_or_else(cut)?;
        if let Some(segment) = segment(packet) {
            take(&segment, time_ns, port, &mut talks, &mut seen);
        }
        at = end;
    }
    for talk in talks.values_mut() {
        talk.settle(&mut seen);
    }
    seen.exchanges.sort_by_key(|exchange| exchange.request_ns);
    Ok(seen)
}

fn take(segment: &Segment, time_ns: u64, port: u16, talks: &mut BTreeMap<(u32, u16), Talk>, seen: &mut Seen) {
    let from_client = segment.to.1 == port;
    if !from_client && segment.from.1 != port {
        return;
    }
    seen.packets += 1;
    let talk = talks.entry(if from_client { segment.from } else { segment.to }).or_default();
    if segment.begins && from_client {
        // a port that was used before belongs to another connection now
        talk.settle(seen);
        *talk = Talk::default();
    }
    if segment.len == 0 {
        return;
    }
    let half = if from_client { &mut talk.client } else { &mut talk.server };
    if !half.is_new(segment.seq, segment.len) {
        seen.retransmitted += 1;
    } else if !from_client {
        talk.response_ns = talk.request_ns.and(Some(time_ns));
    } else if talk.request_ns.is_none() || talk.response_ns.is_some() {
        talk.settle(seen);
        talk.request_ns = Some(time_ns);
    }
}

/// The TCP segment in an Ethernet frame; `None` if there is none.
fn segment(frame: &[u8]) -> Option<Segment> {
    if big16(frame, 12)? != ETHERTYPE_IPV4 {
        return None;
    }
    let ip = &frame[ETHERNET..];
    let (header, total) = (usize::from(ip.first()? & 15) * 4, u32::from(big16(ip, 2)?));
    if *ip.get(9)? != PROTOCOL_TCP {
        return None;
    }
    let tcp = ip.get(header..)?;
    let offset = u32::from(*tcp.get(12)? >> 4) * 4;
    Some(Segment {
        from: (big32(ip, 12)?, big16(tcp, 0)?),
        to: (big32(ip, 16)?, big16(tcp, 2)?),
        seq: big32(tcp, 4)?,
        len: total.checked_sub(header as u32)?.checked_sub(offset)?,
        begins: tcp.get(13)? & 2 != 0,
    })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn big16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn big32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 8080;
    const CLIENT: u16 = 40_000;

    fn capture() -> Vec<u8> {
        let words = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, LINK_ETHERNET];
        words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
    }

    /// Adds a segment of which only the headers are captured.
    fn add(into: &mut Vec<u8>, time_ns: u32, ports: (u16, u16), seq: u32, len: u16, flags: u8) {
        let mut frame = vec![0; ETHERNET + 40];
        frame[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&(40 + len).to_be_bytes());
        frame[23] = PROTOCOL_TCP;
        frame[26..34].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
        frame[34..36].copy_from_slice(&ports.0.to_be_bytes());
        frame[36..38].copy_from_slice(&ports.1.to_be_bytes());
        frame[38..42].copy_from_slice(&seq.to_be_bytes());
        frame[46..48].copy_from_slice(&[0x50, flags]);
        let sizes = [frame.len() as u32, frame.len() as u32 + u32::from(len)];
        for word in [7, time_ns, sizes[0], sizes[1]] {
            into.extend(word.to_le_bytes());
        }
        into.extend(frame);
    }

    #[test]
    fn exchanges_are_from_the_first_byte_out_to_the_last_byte_in() {
        let mut bytes = capture();
        let (up, down) = ((CLIENT, PORT), (PORT, CLIENT));
        add(&mut bytes, 10, up, 99, 0, 2);
        add(&mut bytes, 20, down, 499, 0, 18);
        // a request in two segments, of which the first is sent again, and its response in two
        add(&mut bytes, 100, up, 100, 50, 24);
        add(&mut bytes, 150, up, 100, 50, 24);
        add(&mut bytes, 160, up, 150, 50, 24);
        add(&mut bytes, 300, down, 500, 10, 24);
        add(&mut bytes, 400, down, 510, 10, 24);
        // the next one on the same connection, and one that nobody answers
        add(&mut bytes, 1000, up, 200, 50, 24);
        add(&mut bytes, 1700, down, 520, 10, 24);
        add(&mut bytes, 2000, up, 250, 50, 24);
        // somebody else's
        add(&mut bytes, 2100, (1, 2), 0, 50, 24);
        let seen = read(&bytes, PORT).expect("a capture");
        let base = 7 * SECOND_NS;
        let exchange = |from: u64, to: u64| Exchange { request_ns: base + from, response_ns: base + to };
        assert_eq!(seen.exchanges, [exchange(100, 400), exchange(1000, 1700)]);
        assert_eq!((seen.unanswered, seen.retransmitted, seen.packets), (1, 1, 10));
        assert_eq!((seen.quantile_ns(0.5), seen.quantile_ns(0.51), seen.quantile_ns(1.0)), (300, 700, 700));
        assert_eq!((seen.most_within(900), seen.most_within(901)), (1, 2));
    }

    #[test]
    fn a_port_that_is_used_again_is_another_connection() {
        let mut bytes = capture();
        for round in [0, 1000] {
            add(&mut bytes, round, (CLIENT, PORT), if round == 0 { 900 } else { 49 }, 0, 2);
            add(&mut bytes, round + 100, (CLIENT, PORT), if round == 0 { 901 } else { 50 }, 50, 24);
            add(&mut bytes, round + 200, (PORT, CLIENT), if round == 0 { 901 } else { 50 }, 50, 24);
        }
        let seen = read(&bytes, PORT).expect("a capture");
        assert_eq!((seen.exchanges.len(), seen.retransmitted), (2, 0));
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        let mut half = Half::default();
        assert!(half.is_new(u32::MAX - 9, 20));
        assert!(!half.is_new(u32::MAX - 9, 20), "the same again");
        assert!(half.is_new(10, 5));
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        assert!(read(&[], PORT).is_err());
        assert!(read(&[0; 24], PORT).expect_err("no capture").contains("00000000"));
        let mut bytes = capture();
        assert_eq!(read(&bytes, PORT), Ok(Seen::default()));
        assert_eq!(Seen::default().quantile_ns(0.5), 0);
        bytes[20] = 113;
        assert!(read(&bytes, PORT).expect_err("another link").contains("113"));
        let mut bytes = capture();
        add(&mut bytes, 1, (CLIENT, PORT), 1, 1, 24);
        bytes.pop();
        assert!(read(&bytes, PORT).expect_err("cut").contains("ends within"));
    }
}
