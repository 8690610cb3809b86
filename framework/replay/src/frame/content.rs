//! What a frame carries: the payload of its transport, or what comes closest to it.

use super::{Fragment, Layers, be16, protocol};

/// Length of a UDP header. Source: RFC 768.
const UDP: usize = 8;

/// The payload of a frame: where the part of it begins that the frame holds, and how long it was on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its first byte.
    pub at: usize,
    /// Its bytes, those included that a capture cut off.
    pub bytes: usize,
}

impl Content {
    /// Of UDP and TCP it is what follows their header, of other IP packets and pieces what follows that of IP, of other frames
    /// what follows that of Ethernet. `original` is the frame's length on the link.
    pub fn of(frame: &[u8], original: usize) -> Content {
        let layers = Layers::of(frame);
        let Some(ip) = layers.innermost() else {
            let at = layers.content.min(frame.len());
            return Content { at, bytes: original.saturating_sub(at) };
        };
        let said = be16(frame, ip.at + if ip.v6 { 4 } else { 2 }).map_or(0, usize::from);
        let said = ip.at + said + if ip.v6 { 40 } else { 0 };
        // a length of its own that is beyond the frame tells what was cut off, not more
        let end = if said > ip.end { said.min(original) } else { ip.end };
        let header = match ip.protocol {
            _ if ip.fragment == Fragment::Later => 0,
            protocol::UDP => UDP,
            protocol::TCP => frame.get(ip.payload + 12).map_or(0, |byte| usize::from(byte >> 4) * 4),
            _ => 0,
        };
        let at = ip.payload + header;
        Content { at: at.min(frame.len()), bytes: end.saturating_sub(at) }
    }

    /// The part that the frame holds.
    pub fn held<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = (self.at + self.bytes).min(frame.len());
        frame.get(self.at..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let length = (20 + transport.len()) as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(length.to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(transport);
        frame
    }

    #[test]
    fn headers_and_padding_are_left_out_and_what_was_cut_is_not() {
        let udp = ipv4(17, &[&[0, 7, 0, 8, 0, 12, 0, 0][..], b"abcd"].concat());
        let padded = [&udp[..], &[0; 14]].concat();
        let content = Content::of(&padded, padded.len());
        assert_eq!((content, content.held(&padded)), (Content { at: 42, bytes: 4 }, &b"abcd"[..]));
        let cut = Content::of(&udp[..44], udp.len());
        assert_eq!((cut, cut.held(&udp[..44])), (Content { at: 42, bytes: 4 }, &b"ab"[..]));
        let mut tcp = [0; 25];
        tcp[12] = 0x60;
        assert_eq!(Content::of(&ipv4(6, &tcp), 59), Content { at: 58, bytes: 1 });
        let other = [&udp[..12], &[0x88, 0xb5][..], b"hello"].concat();
        assert_eq!(Content::of(&other, 19), Content { at: 14, bytes: 5 });
        for length in 0..padded.len() {
            let content = Content::of(&padded[..length], padded.len());
            assert!(content.held(&padded[..length]).len() <= content.bytes);
        }
    }
}
