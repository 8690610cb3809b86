//! Conversations made for the tests.

use crate::testing::{framed, ip};
use crate::{Builder, Template};

/// One packet of a conversation over TCP port 80, at a time in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// Of the client.
    C(u64),
    /// Of the server.
    S(u64),
    /// The same bytes as the one before, at the same time.
    Same,
}

/// A template with one conversation.
pub fn template(lines: &[Line]) -> Template {
    let mut builder = Builder::in_memory();
    let mut last = (0, Vec::new());
    for (number, line) in (0_u32..).zip(lines) {
        last = match *line {
            Line::C(at) => (at, frame(true, number)),
            Line::S(at) => (at, frame(false, number)),
            Line::Same => last,
        };
        builder.push(last.0, &last.1).expect("a frame");
    }
    builder.finish().expect("a template")
}

/// A segment whose sequence number is its own.
fn frame(client: bool, number: u32) -> Vec<u8> {
    let (from, to, ports) =
        if client { ("10.0.0.1", "10.0.0.2", [4000_u16, 80]) } else { ("10.0.0.2", "10.0.0.1", [80, 4000]) };
    let mut tcp: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    tcp.extend(number.to_be_bytes());
    tcp.extend([0, 0, 0, 2, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    tcp.extend(b"words");
    framed(&ip(6, from, to, &tcp))
}
