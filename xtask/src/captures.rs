//! Makes the capture that the project ships: packets that nobody ever sent, with every field written down here.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Where it goes, from the top of the repository.
const CELL: &str = "configs/captures/cell.pcap";
/// What is said of it.
const PAGE: &str = "configs/captures/README.md";
/// It stays small.
const BYTES_MAX: usize = 20_000;

/// Who is in the cell: a controller, two drives, a panel. Source: RFC 5737, addresses for documentation.
const CONTROLLER: u8 = 10;
const DRIVES: [u8; 2] = [21, 22];
const PANEL: u8 = 40;

/// Cycles of 40 ms in the second that it lasts.
const CYCLES: u64 = 25;
const CYCLE_US: u64 = 40_000;
/// Flags of TCP.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PUSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Writes the capture and its page.
///
/// # Errors
/// When a file cannot be written.
pub fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the top of the repository")?;
    let mut packets = cell();
    packets.sort_by_key(|(at, _)| *at);
    let bytes = pcap(&packets);
    ensure!(bytes.len() <= BYTES_MAX, "{CELL} would have {} bytes, more than {BYTES_MAX}", bytes.len());
    fs::create_dir_all(root.join("configs/captures"))?;
    fs::write(root.join(CELL), &bytes).with_context(|| format!("{CELL} cannot be written"))?;
    fs::write(root.join(PAGE), page(packets.len(), bytes.len()))
        .with_context(|| format!("{PAGE} cannot be written"))?;
    eprintln!("{CELL} made: {} packets, {} bytes", packets.len(), bytes.len());
    Ok(())
}

fn page(packets: usize, bytes: usize) -> String {
    format!(
        "# Captures\n\n\
         Packets for the experiments that replay. Nobody recorded them: `cargo xtask captures` writes every byte, with addresses\n\
         for documentation (RFC 5737). They are released under [CC0 1.0](https://creativecommons.org/publicdomain/zero/1.0/).\n\n\
         ## cell.pcap\n\n\
         A second of a small manufacturing cell: {packets} packets, {bytes} bytes. A controller (192.0.2.10) asks two drives\n\
         (192.0.2.21 and .22) over UDP every 40 ms, and each answers after some 300 µs; in between a panel (192.0.2.40) fetches a\n\
         page of 2.4 kB from the controller over TCP, each drive says something of itself in 600 bytes, and ARP begins it all.\n"
    )
}

type Packets = Vec<(u64, Vec<u8>)>;

fn cell() -> Packets {
    let mut all = arp();
    for cycle in 0..CYCLES {
        for (row, drive) in DRIVES.into_iter().enumerate() {
            let row = row as u64;
            let at = 2_000 + cycle * CYCLE_US + row * 1_000;
            // an answer takes 280 to 340 µs, by a rule without chance
            let think = 280 + (cycle * 17 + row * 7) % 61;
            let (ask, answer) = (filling(cycle, 40), filling(cycle + 100, 64));
            all.push((at, udp((CONTROLLER, 49_152 + u16::from(drive)), (drive, 2222), cycle, &ask)));
            all.push((at + think, udp((drive, 2222), (CONTROLLER, 49_152 + u16::from(drive)), cycle, &answer)));
        }
    }
    for (row, drive) in DRIVES.into_iter().enumerate() {
        let at = 500_500 + row as u64 * 250;
        all.push((at, udp((drive, 5000), (CONTROLLER, 5000), 900, &filling(7, 600))));
    }
    all.extend(fetched());
    all
}

/// The controller looks for the first drive.
fn arp() -> Packets {
    let body = |operation: u8, from: u8, to_mac: [u8; 6], to: u8| {
        [&[0, 1, 8, 0, 6, 4, 0, operation], &mac(from)[..], &ip(from), &to_mac, &ip(to)].concat()
    };
    let frame = |to: [u8; 6], from: u8, body: Vec<u8>| [&to[..], &mac(from), &[8, 6], &body, &[0; 18]].concat();
    let drive = DRIVES[0];
    vec![
        (0, frame([0xff; 6], CONTROLLER, body(1, CONTROLLER, [0; 6], drive))),
        (150, frame(mac(CONTROLLER), drive, body(2, drive, mac(CONTROLLER), CONTROLLER))),
    ]
}

/// The panel fetches a page.
fn fetched() -> Packets {
    let (panel, controller) = ((PANEL, 50_000), (CONTROLLER, 80));
    let (request, page) = (filling(1, 120), filling(2, 2400));
    let mut all = vec![
        (200_000, tcp(panel, controller, [1000, 0], SYN, &[])),
        (200_180, tcp(controller, panel, [5000, 1001], SYN | ACK, &[])),
        (200_320, tcp(panel, controller, [1001, 5001], ACK, &[])),
        (200_400, tcp(panel, controller, [1001, 5001], PUSH | ACK, &request)),
        (200_600, tcp(controller, panel, [5001, 1121], ACK, &[])),
    ];
    for (row, part) in page.chunks(1200).enumerate() {
        let sequence = 5001 + row as u32 * 1200;
        all.push((203_000 + row as u64 * 120, tcp(controller, panel, [sequence, 1121], PUSH | ACK, part)));
    }
    all.push((203_400, tcp(panel, controller, [1121, 7401], ACK, &[])));
    all.push((205_000, tcp(panel, controller, [1121, 7401], FIN | ACK, &[])));
    all.push((205_200, tcp(controller, panel, [7401, 1122], FIN | ACK, &[])));
    all.push((205_350, tcp(panel, controller, [1122, 7402], ACK, &[])));
    all
}

/// Bytes without a pattern that a link could shorten, always the same for a number.
fn filling(number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, host]
}

fn ip(host: u8) -> [u8; 4] {
    [192, 0, 2, host]
}

fn udp(from: (u8, u16), to: (u8, u16), id: u64, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let head: Vec<u8> = [from.1, to.1, length, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    framed(17, (from.0, to.0), id as u16, 6, [&head[..], payload].concat())
}

fn tcp(from: (u8, u16), to: (u8, u16), [sequence, acknowledged]: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut head: Vec<u8> = [from.1, to.1].into_iter().flat_map(u16::to_be_bytes).collect();
    head.extend(sequence.to_be_bytes());
    head.extend(acknowledged.to_be_bytes());
    head.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    framed(6, (from.0, to.0), sequence as u16, 16, [&head[..], payload].concat())
}

/// Ethernet and IPv4 around a transport, whose checksum goes to `at`. A short frame is padded to 60 bytes.
fn framed(protocol: u8, (from, to): (u8, u8), id: u16, at: usize, mut transport: Vec<u8>) -> Vec<u8> {
    let length = transport.len() as u16;
    let pseudo = [&ip(from)[..], &ip(to), &[0, protocol], &length.to_be_bytes()].concat();
    let sum = checksum(&[&pseudo, &transport]);
    transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut header = vec![0x45, 0];
    header.extend((20 + length).to_be_bytes());
    header.extend(id.to_be_bytes());
    header.extend([0x40, 0, 64, protocol, 0, 0]);
    header.extend([ip(from), ip(to)].concat());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [&mac(to)[..], &mac(from), &[8, 0], &header, &transport].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The Internet checksum (RFC 1071) over parts of even length, and a last one of any.
fn checksum(parts: &[&[u8]]) -> u16 {
    let pairs = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 = pairs.map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A classic capture of Ethernet with microseconds; it begins at noon of the first day of 2024 (UTC).
fn pcap(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    const NOON: u32 = 1_704_110_400;
    let mut out: Vec<u8> = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    out.extend([2, 0, 4, 0]);
    for word in [0_u32, 0, 65_535, 1] {
        out.extend(word.to_le_bytes());
    }
    for (at, frame) in packets {
        let length = frame.len() as u32;
        for word in [NOON + (at / 1_000_000) as u32, (at % 1_000_000) as u32, length, length] {
            out.extend(word.to_le_bytes());
        }
        out.extend(frame);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_capture_is_what_is_made() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the top");
        let mut packets = cell();
        packets.sort_by_key(|(at, _)| *at);
        let shipped = fs::read(root.join(CELL)).expect("it is shipped");
        assert!(shipped == pcap(&packets), "make it anew: cargo xtask captures");
        assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2, "RFC 1071 §3");
    }
}
