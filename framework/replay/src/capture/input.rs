//! Bytes of a capture: unpacked by what they begin with, and handed out in blocks that are there.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

/// Bytes that are read at once.
const PIECE: usize = 1 << 18;
/// Largest window of zstd that is kept, bytes. Source: the largest that `zstd` unpacks without `--long`.
const WINDOW_MAX: u64 = 1 << 27;

/// The bytes of a capture, in order.
pub(super) struct Input {
    from: Box<dyn BufRead + Send>,
    begins: Vec<u8>,
    at: u64,
    block: Vec<u8>,
}

impl Input {
    /// Unpacks what is packed.
    pub(super) fn of(source: Box<dyn Read + Send>) -> io::Result<Input> {
        let (begins, packed) = start(BufReader::with_capacity(PIECE, source))?;
        let from: Box<dyn BufRead + Send> = match begins.as_slice() {
            [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(PIECE, MultiGzDecoder::new(packed))),
            // a frame, or one of the sixteen kinds of frames to skip
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Box::new(BufReader::with_capacity(PIECE, Frames::new(packed)))
            }
            _ => Box::new(packed),
        };
        let (begins, from) = start(from)?;
        Ok(Input { from: Box::new(from), begins, at: 0, block: Vec::new() })
    }

    /// The first bytes, at most four.
    pub(super) fn begins(&self) -> &[u8] {
        &self.begins
    }

    /// Offset of what comes next, in what is unpacked.
    pub(super) const fn at(&self) -> u64 {
        self.at
    }

    /// The next `length` bytes; fewer at the end.
    pub(super) fn take(&mut self, length: usize) -> io::Result<&[u8]> {
        self.block.clear();
        self.more(length)
    }

    /// What was taken last, with the next `length` bytes behind it; fewer at the end.
    pub(super) fn more(&mut self, length: usize) -> io::Result<&[u8]> {
        // grows with what is there, not with what is asked for
        let got = self.from.by_ref().take(length as u64).read_to_end(&mut self.block);
        self.at += match got {
            Ok(got) => got as u64,
            // what is packed was cut: it ends here
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => 0,
            Err(why) => return Err(why),
        };
        Ok(&self.block)
    }

    /// Passes over `length` bytes; how many there were.
    pub(super) fn skip(&mut self, length: u64) -> io::Result<u64> {
        let passed = match io::copy(&mut self.from.by_ref().take(length), &mut io::sink()) {
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => 0,
            passed => passed?,
        };
        self.at += passed;
        Ok(passed)
    }
}

/// A reader whose first bytes were read already.
type Again<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// The first bytes, at most four, and a reader that gives them again.
fn start<R: BufRead>(mut from: R) -> io::Result<(Vec<u8>, Again<R>)> {
    let mut begins = Vec::new();
    from.by_ref().take(4).read_to_end(&mut begins)?;
    let again = Cursor::new(begins.clone()).chain(from);
    Ok((begins, again))
}

/// zstd, frame after frame.
struct Frames<R> {
    from: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(from: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_MAX);
        Frames { from, decoder, inside: false }
    }

    /// Begins the next frame; false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.from.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.from) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.from.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(why) => return Err(io::Error::new(ErrorKind::InvalidData, why)),
            }
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(to);
            }
            if self.inside && !self.decoder.is_finished() {
                if self.from.fill_buf()?.is_empty() {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the last zstd frame is cut"));
                }
                let decoded = self.decoder.decode_blocks(&mut self.from, UptoBlocks(1));
                decoded.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
                continue;
            }
            self.inside = self.begin()?;
            if !self.inside {
                return Ok(0);
            }
        }
    }
}
