//! The path into a capture file: what would be sent, at the times it would be sent. Nothing is sent.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path as FilePath;

use super::{Frame, Push, SendError};

/// A pcap file with nanoseconds: magic number, version 2.4, and Ethernet. Source: draft-ietf-opsawg-pcap.
const HEADER: [u32; 6] = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 262_144, 1];
const NANOS: u64 = 1_000_000_000;
const BATCH: usize = 64;

/// Frames into a file.
#[derive(Debug)]
pub struct Capture(BufWriter<File>);

impl Capture {
    /// Into a new file; one that is there is never overwritten.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &FilePath) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 18, OpenOptions::new().write(true).create_new(true).open(path)?);
        for word in HEADER {
            file.write_all(&word.to_le_bytes())?;
        }
        Ok(Capture(file))
    }
}

impl Push for Capture {
    fn batch(&self) -> usize {
        BATCH
    }

    fn submit(&mut self, frames: &[Frame<'_>]) -> Result<usize, SendError> {
        for frame in frames {
            let len = frame.bytes.len() as u32;
            let head = [(frame.due / NANOS) as u32, (frame.due % NANOS) as u32, len, len];
            let mut bytes = [0; 16];
            for (to, word) in bytes.chunks_exact_mut(4).zip(head) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            self.0.write_all(&bytes).and_then(|()| self.0.write_all(frame.bytes)).map_err(SendError::Failed)?;
        }
        Ok(frames.len())
    }

    fn settle(&mut self) -> Result<usize, SendError> {
        self.0.flush().map_err(SendError::Failed)?;
        Ok(0)
    }

    fn is_live(&self) -> bool {
        false
    }
}
