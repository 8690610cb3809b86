//! Captures that others read: pcap with nanoseconds, Ethernet, little-endian.

use std::io::{self, Write};

/// Source: draft-ietf-opsawg-pcap section 4; nanoseconds, version 2.4.
const MAGIC: u32 = 0xa1b2_3c4d;
const NANOS: u64 = 1_000_000_000;

/// Writes packets one after the other.
#[derive(Debug)]
pub struct Writer<W: Write>(W);

impl<W: Write> Writer<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// What `to` says.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&MAGIC.to_le_bytes())?;
        to.write_all(&[2, 0, 4, 0])?;
        to.write_all(&[0; 8])?;
        to.write_all(&(crate::template::FRAME_MAX as u32).to_le_bytes())?;
        to.write_all(&super::LinkType::ETHERNET.0.to_le_bytes())?;
        Ok(Writer(to))
    }

    /// Writes what is kept of a frame of `original` bytes; `at` is in nanoseconds since 1970.
    ///
    /// # Errors
    /// When the time is behind the year 2106, where the format ends, and what the writer below says.
    pub fn packet(&mut self, at: u64, original: u32, frame: &[u8]) -> io::Result<()> {
        let late =
            |_| io::Error::new(io::ErrorKind::InvalidInput, "a packet is later than the year 2106, where pcap ends");
        let seconds = u32::try_from(at / NANOS).map_err(late)?;
        for number in [seconds, (at % NANOS) as u32, frame.len() as u32, original.max(frame.len() as u32)] {
            self.0.write_all(&number.to_le_bytes())?;
        }
        self.0.write_all(frame)
    }

    /// Hands back what was written to.
    ///
    /// # Errors
    /// When what is left cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.0.flush()?;
        Ok(self.0)
    }
}
