//! Reads the bytes of an answer of HTTP/1.1 (RFC 9112): a head, then a body whose end the head tells.

use std::mem::MaybeUninit;

use hyper::StatusCode;

use super::super::super::form::{Judge, Wanted};
use crate::losses::Loss;

/// Largest head, bytes. Assumed: eight times what servers usually allow.
pub(in crate::http::client) const HEAD_MAX: usize = 64 << 10;
/// Most headers of an answer.
const HEADERS_MAX: usize = 128;
/// Most answers before the answer (RFC 9110 §15.2). Assumed: nobody sends more than one.
pub(in crate::http::client) const INTERIM_MAX: u32 = 8;

/// An answer that comes in.
#[derive(Debug)]
pub(super) struct Answer {
    wanted: Wanted,
    /// Whether its request was a HEAD, so that no body follows.
    bare: bool,
    stage: Stage,
    interim: u32,
    judge: Option<Judge>,
    /// Whether the connection may be used again after it.
    pub(super) keep: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Head,
    /// So many bytes of body are to come.
    Length(u64),
    Chunk(Chunk),
    UntilClose,
    Done,
}

/// Where a chunked body is (RFC 9112 §7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Chunk {
    /// In the digits of a length.
    Size { length: u64, digits: u32 },
    /// Behind them, up to the end of the line.
    Extension { length: u64, bytes: u32 },
    /// In its bytes.
    Data(u64),
    /// At the end of its line.
    End,
    /// In the trailers: whether the line is empty so far, and what they come to.
    Trailer { empty: bool, bytes: u32 },
}

impl Answer {
    /// Of which this is `wanted`; `bare` if it was a HEAD that was sent.
    pub(super) fn new(wanted: Wanted, bare: bool) -> Answer {
        Answer { wanted, bare, stage: Stage::Head, interim: 0, judge: None, keep: false }
    }

    /// Takes what it can of `bytes`; how much that was. A head that is not whole yet stays.
    ///
    /// # Errors
    /// When it is no answer.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize, Loss> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let more = match self.stage {
                Stage::Done => return Ok(taken),
                _ if rest.is_empty() => return Ok(taken),
                Stage::Head => match self.head(rest)? {
                    0 => return Ok(taken),
                    more => more,
                },
                Stage::Length(left) => {
                    let more = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.piece(&rest[..more]);
                    let left = left - more as u64;
                    self.stage = if left == 0 { Stage::Done } else { Stage::Length(left) };
                    more
                }
                Stage::Chunk(chunk) => self.chunk(chunk, rest)?,
                Stage::UntilClose => {
                    self.piece(rest);
                    rest.len()
                }
            };
            taken += more;
        }
    }

    /// Whether all of it is there.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The connection was closed: whether that is its end.
    pub(super) fn closed(&mut self) -> bool {
        if self.stage == Stage::UntilClose {
            self.stage = Stage::Done;
        }
        self.is_done()
    }

    /// What it came to.
    pub(super) fn end(&self) -> Option<crate::shard::Answer> {
        let (status, bytes) = self.judge.as_ref().filter(|_| self.is_done())?.end();
        Some(crate::shard::Answer { status, bytes })
    }

    fn piece(&mut self, piece: &[u8]) {
        if let Some(judge) = &mut self.judge {
            judge.piece(piece);
        }
    }

    /// Reads a head; its length, 0 if it is not whole.
    fn head(&mut self, bytes: &[u8]) -> Result<usize, Loss> {
        let mut room = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut []);
        let read = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut head, bytes, &mut room);
        let length = match read {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(0),
            _ => return Err(Loss::Foreign),
        };
        let code = head.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(Loss::Foreign)?;
        if code.is_informational() {
            self.interim += 1;
            // nobody asked for another protocol
            let good = code != StatusCode::SWITCHING_PROTOCOLS && self.interim <= INTERIM_MAX;
            return if good { Ok(length) } else { Err(Loss::Foreign) };
        }
        let said = Said::of(head.headers)?;
        self.keep = if head.version == Some(1) { !said.close } else { said.keep_alive };
        let mut judge = Judge::new(std::mem::take(&mut self.wanted), code);
        head.headers.iter().for_each(|header| judge.header(header.name.as_bytes(), header.value));
        self.judge = Some(judge);
        self.stage = match said {
            _ if self.bare || matches!(code.as_u16(), 204 | 304) => Stage::Done,
            Said { chunked: true, length, .. } => {
                // RFC 9112 §6.3: with both the connection is not to be trusted any further
                self.keep &= length.is_none();
                Stage::Chunk(Chunk::Size { length: 0, digits: 0 })
            }
            Said { coded: false, length: Some(0), .. } => Stage::Done,
            Said { coded: false, length: Some(length), .. } => Stage::Length(length),
            _ => {
                self.keep = false;
                Stage::UntilClose
            }
        };
        Ok(length)
    }

    /// Takes at least a byte of a chunked body.
    fn chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<usize, Loss> {
        if let Chunk::Data(left) = chunk {
            let more = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.piece(&bytes[..more]);
            let left = left - more as u64;
            self.stage = Stage::Chunk(if left == 0 { Chunk::End } else { Chunk::Data(left) });
            return Ok(more);
        }
        self.stage = match chunk.next(bytes[0])? {
            Some(next) => Stage::Chunk(next),
            None => Stage::Done,
        };
        Ok(1)
    }
}

impl Chunk {
    /// What follows a byte that is no data; `None` at the end of all.
    fn next(self, byte: u8) -> Result<Option<Chunk>, Loss> {
        let within = |bytes: u32| if (bytes as usize) < HEAD_MAX { Ok(bytes + 1) } else { Err(Loss::Foreign) };
        Ok(Some(match (self, byte) {
            (Chunk::Size { length, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < 15 => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                Chunk::Size { length: length << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Chunk::Size { length, digits: 1.. }, b';' | b' ' | b'\t' | b'\r') => Chunk::Extension { length, bytes: 0 },
            (Chunk::Size { length, digits: 1.. } | Chunk::Extension { length, .. }, b'\n') => match length {
                0 => Chunk::Trailer { empty: true, bytes: 0 },
                length => Chunk::Data(length),
            },
            (Chunk::Extension { length, bytes }, _) => Chunk::Extension { length, bytes: within(bytes)? },
            (Chunk::End, b'\r') => Chunk::End,
            (Chunk::End, b'\n') => Chunk::Size { length: 0, digits: 0 },
            (Chunk::Trailer { empty: true, .. }, b'\n') => return Ok(None),
            (Chunk::Trailer { bytes, .. }, b'\n') => Chunk::Trailer { empty: true, bytes: within(bytes)? },
            (Chunk::Trailer { empty, bytes }, b'\r') => Chunk::Trailer { empty, bytes: within(bytes)? },
            (Chunk::Trailer { bytes, .. }, _) => Chunk::Trailer { empty: false, bytes: within(bytes)? },
            _ => return Err(Loss::Foreign),
        }))
    }
}

/// What a head says of the body and of the connection.
#[derive(Clone, Copy, Default, Debug)]
struct Said {
    length: Option<u64>,
    /// The last coding is `chunked`.
    chunked: bool,
    /// There is any coding.
    coded: bool,
    close: bool,
    keep_alive: bool,
}

impl Said {
    fn of(headers: &[httparse::Header<'_>]) -> Result<Said, Loss> {
        let mut said = Said::default();
        for header in headers {
            let name = header.name;
            if name.eq_ignore_ascii_case("content-length") {
                let length = length(header.value).ok_or(Loss::Foreign)?;
                if said.length.is_some_and(|known| known != length) {
                    return Err(Loss::Foreign);
                }
                said.length = Some(length);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                said.coded = true;
                said.chunked = words(header.value).last().is_some_and(|word| word.eq_ignore_ascii_case(b"chunked"));
            } else if name.eq_ignore_ascii_case("connection") {
                said.close |= words(header.value).any(|word| word.eq_ignore_ascii_case(b"close"));
                said.keep_alive |= words(header.value).any(|word| word.eq_ignore_ascii_case(b"keep-alive"));
            }
        }
        Ok(said)
    }
}

/// The elements of a list (RFC 9110 §5.6.1).
fn words(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
}

/// A length in plain digits; several that are equal are one (RFC 9110 §8.6).
fn length(value: &[u8]) -> Option<u64> {
    let one = |word: &[u8]| {
        let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(word).ok().filter(|_| digits)?.parse::<u64>().ok()
    };
    let mut all = value.split(|byte| *byte == b',').map(|word| one(word.trim_ascii()));
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests;
