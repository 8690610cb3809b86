//! Conversations over HTTP, SMTP, RTSP and FTP as a capture at one of the hosts would hold them, made here.

/// Client and server of all dialogues.
const HOSTS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
/// Microseconds until the other side has an answer, and from one packet of a side to its next.
const ANSWER: u64 = 400;
const NEXT: u64 = 20;
/// Bytes of a full segment.
const SEGMENT: usize = 1_400;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PUSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Packets: nanoseconds and frame of each.
pub type Packets = Vec<(u64, Vec<u8>)>;

/// One that was made.
pub struct Dialogue {
    /// Which protocol.
    pub name: &'static str,
    /// What it is called in results.
    pub kind: &'static str,
    /// What its packets are called where they are told apart by protocol and the lower port.
    pub on_wire: &'static [&'static str],
    /// Its packets.
    pub packets: Packets,
}

/// All four, each between the same two hosts.
pub fn all() -> [Dialogue; 4] {
    [http(), smtp(), rtsp(), ftp()]
}

/// What is on its way into a capture.
#[derive(Default)]
struct Made {
    at: u64,
    last: Option<bool>,
    packets: Packets,
}

/// A connection of TCP.
struct Tcp {
    ports: [u16; 2],
    /// The next byte of each side.
    next: [u32; 2],
}

impl Made {
    fn push(&mut self, client: bool, protocol: u8, transport: &[u8]) {
        self.at += match self.last {
            None => 0,
            Some(last) if last == client => NEXT * 1_000,
            Some(_) => ANSWER * 1_000,
        };
        self.last = Some(client);
        let [from, to] = if client { HOSTS } else { [HOSTS[1], HOSTS[0]] };
        let number = self.packets.len() as u16;
        self.packets.push((self.at, frame(from, to, protocol, number, transport)));
    }
}

impl Tcp {
    fn open(made: &mut Made, ports: [u16; 2]) -> Tcp {
        let mut tcp = Tcp { ports, next: [1_000, 5_000] };
        tcp.send(made, true, SYN, b"");
        tcp.send(made, false, SYN | ACK, b"");
        tcp.send(made, true, ACK, b"");
        tcp
    }

    fn send(&mut self, made: &mut Made, client: bool, flags: u8, payload: &[u8]) {
        let (me, other) = (usize::from(!client), usize::from(client));
        let mut segment: Vec<u8> = [self.ports[me], self.ports[other]].into_iter().flat_map(u16::to_be_bytes).collect();
        segment.extend(self.next[me].to_be_bytes());
        segment.extend(if flags & ACK == 0 { 0 } else { self.next[other] }.to_be_bytes());
        segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(payload);
        self.next[me] += payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        made.push(client, 6, &segment);
    }

    /// Says something, in as many segments as it takes.
    fn say(&mut self, made: &mut Made, client: bool, words: &[u8]) {
        words.chunks(SEGMENT).for_each(|piece| self.send(made, client, PUSH | ACK, piece));
    }

    fn close(&mut self, made: &mut Made, client: bool) {
        self.send(made, client, FIN | ACK, b"");
        self.send(made, !client, FIN | ACK, b"");
        self.send(made, client, ACK, b"");
    }
}

/// Three requests over one connection: 20 packets.
fn http() -> Dialogue {
    let mut made = Made::default();
    let mut tcp = Tcp::open(&mut made, [40_000, 80]);
    for (page, bytes) in [("/", 3_000), ("/style.css", 2_000), ("/picture.png", 4_000)] {
        tcp.say(&mut made, true, format!("GET {page} HTTP/1.1\r\nHost: example.org\r\n\r\n").as_bytes());
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        tcp.say(&mut made, false, &[head.as_bytes(), &vec![b'x'; bytes]].concat());
        tcp.send(&mut made, true, ACK, b"");
    }
    tcp.close(&mut made, true);
    made.packets.truncate(20);
    Dialogue { name: "http", kind: "TCP 80", on_wire: &["TCP 80"], packets: made.packets }
}

/// One message: the server speaks first.
fn smtp() -> Dialogue {
    let mut made = Made::default();
    let mut tcp = Tcp::open(&mut made, [40_001, 25]);
    tcp.say(&mut made, false, b"220 mail.example.org ESMTP\r\n");
    let words = [
        ("EHLO client.example.org", "250 mail.example.org"),
        ("MAIL FROM:<a@example.org>", "250 OK"),
        ("RCPT TO:<b@example.org>", "250 OK"),
        ("DATA", "354 go ahead"),
        ("Subject: words\r\n\r\nwords\r\n.", "250 OK"),
        ("QUIT", "221 bye"),
    ];
    for (question, answer) in words {
        tcp.say(&mut made, true, format!("{question}\r\n").as_bytes());
        tcp.say(&mut made, false, format!("{answer}\r\n").as_bytes());
    }
    tcp.close(&mut made, false);
    Dialogue { name: "smtp", kind: "TCP 25", on_wire: &["TCP 25"], packets: made.packets }
}

/// A short stream: RTP over UDP comes after PLAY, its reports go back.
fn rtsp() -> Dialogue {
    let mut made = Made::default();
    let mut tcp = Tcp::open(&mut made, [40_002, 554]);
    for (number, method) in (1..).zip(["OPTIONS", "DESCRIBE", "SETUP", "PLAY"]) {
        tcp.say(
            &mut made,
            true,
            format!("{method} rtsp://example.org/film RTSP/1.0\r\nCSeq: {number}\r\n\r\n").as_bytes(),
        );
        tcp.say(&mut made, false, format!("RTSP/1.0 200 OK\r\nCSeq: {number}\r\n\r\n").as_bytes());
    }
    for number in 0..20_u16 {
        let head = [&[0x80, 96][..], &number.to_be_bytes(), &[0; 8]].concat();
        made.push(false, 17, &udp(6_970, 5_004, &[&head[..], &[0x47; 1_316]].concat()));
        if number % 10 == 9 {
            made.push(
                true,
                17,
                &udp(5_005, 6_971, &[&[0x81, 201, 0, 7][..], &number.to_be_bytes(), &[0; 26]].concat()),
            );
        }
    }
    tcp.say(&mut made, true, b"TEARDOWN rtsp://example.org/film RTSP/1.0\r\nCSeq: 5\r\n\r\n");
    tcp.say(&mut made, false, b"RTSP/1.0 200 OK\r\nCSeq: 5\r\n\r\n");
    tcp.close(&mut made, true);
    Dialogue { name: "rtsp", kind: "TCP 554", on_wire: &["TCP 554", "UDP 5004", "UDP 5005"], packets: made.packets }
}

/// A file that the server sends over a connection which it opens itself.
fn ftp() -> Dialogue {
    let mut made = Made::default();
    let mut tcp = Tcp::open(&mut made, [40_003, 21]);
    tcp.say(&mut made, false, b"220 files\r\n");
    for (question, answer) in
        [("USER anonymous", "331 password?"), ("PASS guest", "230 welcome"), ("PORT 10,0,0,1,156,74", "200 OK")]
    {
        tcp.say(&mut made, true, format!("{question}\r\n").as_bytes());
        tcp.say(&mut made, false, format!("{answer}\r\n").as_bytes());
    }
    tcp.say(&mut made, true, b"RETR file\r\n");
    tcp.say(&mut made, false, b"150 here it comes\r\n");
    // the server is the one that opens
    let mut data = Tcp { ports: [40_010, 20], next: [9_000, 7_000] };
    data.send(&mut made, false, SYN, b"");
    data.send(&mut made, true, SYN | ACK, b"");
    data.send(&mut made, false, ACK, b"");
    for _ in 0..5 {
        data.say(&mut made, false, &[b'f'; 2 * SEGMENT]);
        data.send(&mut made, true, ACK, b"");
    }
    data.close(&mut made, false);
    tcp.say(&mut made, false, b"226 done\r\n");
    tcp.say(&mut made, true, b"QUIT\r\n");
    tcp.say(&mut made, false, b"221 bye\r\n");
    tcp.close(&mut made, false);
    Dialogue { name: "ftp", kind: "TCP 21", on_wire: &["TCP 20", "TCP 21"], packets: made.packets }
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let head: Vec<u8> = [from, to, 8 + payload.len() as u16, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    [&head[..], payload].concat()
}

/// An Ethernet frame with IPv4, its checksums right.
fn frame(from: [u8; 4], to: [u8; 4], protocol: u8, number: u16, transport: &[u8]) -> Vec<u8> {
    let mut transport = transport.to_vec();
    let length = (transport.len() as u16).to_be_bytes();
    if protocol == 6 {
        let sum = !sum(&[&from, &to, &[0, protocol], &length, &transport]);
        transport[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    let mut header = vec![0x45, 0];
    header.extend((20 + transport.len() as u16).to_be_bytes());
    header.extend(number.to_be_bytes());
    header.extend([0x40, 0, 64, protocol, 0, 0]);
    header.extend([from, to].concat());
    let sum = !sum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let macs =
        if from == HOSTS[0] { [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1] } else { [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2] };
    [&macs[..], &[8, 0], &header, &transport].concat()
}

/// The sum of RFC 1071; all parts but the last have an even length.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0_u32;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// A capture of packets: pcap with nanoseconds.
pub fn pcap(packets: &Packets) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [0xa1b2_3c4d_u32, 2 | 4 << 16, 0, 0, 65_535, 1].into_iter().flat_map(u32::to_le_bytes).collect();
    for (at, frame) in packets {
        let length = frame.len() as u32;
        let head = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, length, length];
        bytes.extend(head.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(frame);
    }
    bytes
}
