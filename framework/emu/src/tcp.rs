//! The `tcp` carrier: exchanges in frames over TCP (RFC 9293), for both ends.
//!
//! A frame is a header of 48 bytes, big-endian, and what follows it:
//!
//! ```text
//!  0  magic 0x52 0x48     2  version 1         3  kind: 1 request, 2 answer
//!  4  bytes that follow the header (32 bits): media type and payload
//!  8  id (64 bits): the sender's mark of the exchange, which the answer repeats
//! 16  sequence (64 bits)                      24  limit, ns (64 bits); 0: none
//! 32  sending actor (32 bits); all ones: none 36  stream (32 bits)
//! 40  class              41  status: 0 success, 1 invalid, 2 rejected, 3 failed; 0 in a request
//! 42  bytes of the media type at the beginning of what follows (16 bits); 0: none
//! 44  bytes of the answer that is wanted (32 bits); 0: as the receiver likes
//! ```
//!
//! An answer repeats the id and tells the status; its other fields are zero. Several requests may be under way on one
//! connection, and answers come in any order. With `pipeline = 1` a connection is used as one of HTTP/1.1. What is no such
//! frame ends the connection. `TCP_NODELAY` is set at both ends.

use bytes::{BufMut as _, BytesMut};
use rehearsal_core::{ActorId, Head, Span, Status};

pub(crate) mod client;
pub(crate) mod server;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 48;
/// Most bytes that may follow a header. Assumed: far above any frame or document of the experiments.
pub(crate) const FOLLOWING_BYTES_MAX: u32 = 64 << 20;
const MAGIC: [u8; 2] = *b"RH";
const VERSION: u8 = 1;
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;
const NOBODY: u32 = u32::MAX;

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    Request { id: u64, head: Head, media: u16, following: u32 },
    Answer { id: u64, status: Status, following: u32 },
}

/// These bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Foreign;

impl Frame {
    /// Reads a header; `None` if it is not there in full.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Frame>, Foreign> {
        let known = [MAGIC[0], MAGIC[1], VERSION];
        if bytes.iter().zip(known).any(|(byte, known)| *byte != known) {
            return Err(Foreign);
        }
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let word = |at: usize| bytes[at..at + 4].iter().fold(0_u32, |n, b| n << 8 | u32::from(*b));
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let (following, id) = (word(4), long(8));
        if following > FOLLOWING_BYTES_MAX {
            return Err(Foreign);
        }
        match bytes[3] {
            REQUEST => {
                let media = u16::from_be_bytes([bytes[42], bytes[43]]);
                if u32::from(media) > following {
                    return Err(Foreign);
                }
                let from = Some(word(32)).filter(|from| *from != NOBODY).map(ActorId);
                let limit = Span::from_nanos(long(24));
                let head =
                    Head { from, stream: word(36), class: bytes[40], seq: long(16), limit, reply_bytes: word(44) };
                Ok(Some(Frame::Request { id, head, media, following }))
            }
            ANSWER => {
                let status = status(bytes[41]).ok_or(Foreign)?;
                Ok(Some(Frame::Answer { id, status, following }))
            }
            _ => Err(Foreign),
        }
    }
}

/// Appends a request's header and media type; the payload's `bytes` are to follow.
pub(crate) fn write_request(out: &mut BytesMut, id: u64, head: &Head, media: &str, bytes: u32) {
    // media types of recipes are short words of ours
    let length = u16::try_from(media.len()).unwrap_or(0);
    let media = &media.as_bytes()[..usize::from(length)];
    begin(out, REQUEST, bytes + u32::from(length), id);
    out.put_u64(head.seq);
    out.put_u64(head.limit.as_nanos());
    out.put_u32(head.from.map_or(NOBODY, |a| a.0));
    out.put_u32(head.stream);
    out.put_u8(head.class);
    out.put_u8(0);
    out.put_u16(length);
    out.put_u32(head.reply_bytes);
    out.put_slice(media);
}

/// Appends an answer.
pub(crate) fn write_answer(out: &mut BytesMut, id: u64, status: Status, body: &[u8]) {
    begin(out, ANSWER, body.len() as u32, id);
    out.put_bytes(0, 25);
    out.put_u8(code(status));
    out.put_bytes(0, 6);
    out.put_slice(body);
}

fn begin(out: &mut BytesMut, kind: u8, following: u32, id: u64) {
    out.reserve(HEADER_BYTES + following as usize);
    out.put_slice(&MAGIC);
    out.put_u8(VERSION);
    out.put_u8(kind);
    out.put_u32(following);
    out.put_u64(id);
}

fn code(status: Status) -> u8 {
    match status {
        Status::Success => 0,
        Status::Invalid => 1,
        Status::Rejected => 2,
        _ => 3,
    }
}

fn status(code: u8) -> Option<Status> {
    [Status::Success, Status::Invalid, Status::Rejected, Status::Failed].get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use rehearsal_models::wire::{TCP_ANSWER_HEAD_BYTES, TCP_REQUEST_HEAD_BYTES};

    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let limit = Span::from_millis(100);
        let all = Head { from: Some(ActorId(7)), stream: 3, class: 46, seq: u64::MAX, limit, reply_bytes: 77 };
        for head in [all, Head::default()] {
            let mut out = BytesMut::new();
            write_request(&mut out, 1 << 63 | 5, &head, "application/json", 10);
            let wanted = Frame::Request { id: 1 << 63 | 5, head, media: 16, following: 26 };
            assert_eq!(Frame::read(&out), Ok(Some(wanted)));
            assert_eq!(&out[HEADER_BYTES..], b"application/json");
            for short in 0..HEADER_BYTES {
                assert_eq!(Frame::read(&out[..short]), Ok(None), "{short} bytes");
            }
        }
        for status in [Status::Success, Status::Invalid, Status::Rejected, Status::Failed] {
            let mut out = BytesMut::new();
            write_answer(&mut out, 9, status, b"ok");
            assert_eq!(Frame::read(&out), Ok(Some(Frame::Answer { id: 9, status, following: 2 })));
            assert_eq!(out.len(), HEADER_BYTES + 2);
        }
    }

    #[test]
    fn what_is_no_frame_is_told_from_its_first_byte_on() {
        let mut good = BytesMut::new();
        write_request(&mut good, 1, &Head::default(), "image/jpeg", 100);
        for (at, byte) in [(0, b'G'), (1, b'E'), (2, 2), (3, 3), (4, 0xFF), (42, 0xFF)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(Frame::read(&bad), Err(Foreign), "byte {at}");
        }
        assert_eq!(Frame::read(b"HTTP/1.1 400 Bad Request"), Err(Foreign));
        let mut answer = BytesMut::new();
        write_answer(&mut answer, 1, Status::Success, b"");
        answer[41] = 4;
        assert_eq!(Frame::read(&answer), Err(Foreign), "a status that does not exist");
    }

    #[test]
    fn heads_are_as_long_as_links_take_them_to_be() {
        for media in ["image/jpeg", "application/json"] {
            let mut out = BytesMut::new();
            write_request(&mut out, 1, &Head::default(), media, 1000);
            assert!((out.len() as u64).abs_diff(TCP_REQUEST_HEAD_BYTES) <= 3, "{media}");
        }
        let mut out = BytesMut::new();
        write_answer(&mut out, 1, Status::Success, b"");
        assert_eq!(out.len() as u64, TCP_ANSWER_HEAD_BYTES);
    }
}
