//! Captures: pcap and pcapng, packed or not, whatever their names end in, read one packet at a time.
//!
//! No length in a capture is believed before its bytes are there: memory is bounded by one block of at most 16 MiB.

mod classic;
mod error;
pub mod filter;
mod import;
mod input;
mod link;
mod next_generation;
mod write;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::template::Left;
use classic::Classic;
use input::Input;
use next_generation::NextGeneration;

pub use error::{CaptureError, Fault};
pub use filter::{Filter, FilterError};
pub use import::{Options, import, import_capture};
pub use link::LinkType;
pub use write::Writer;

/// A capture, open for reading.
pub struct Capture {
    input: Input,
    format: Format,
    warnings: Vec<String>,
}

enum Format {
    Classic(Classic),
    NextGeneration(NextGeneration),
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A packet.
    Packet(Recorded<'a>),
    /// A packet that cannot be used, and why.
    Left(Left),
}

/// A packet as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// When, nanoseconds since 1970 (UTC); `None` if the capture does not say.
    pub at: Option<u64>,
    /// What its bytes begin with.
    pub link: LinkType,
    /// Bytes that it had on the link.
    pub original: u32,
    /// Bytes that were kept; never more than it had.
    pub bytes: &'a [u8],
    /// Whether the capture kept more bytes than the packet had.
    pub trimmed: bool,
}

impl Capture {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened or does not begin like a capture.
    pub fn open(path: &Path) -> Result<Capture, Fault> {
        Capture::of(File::open(path)?)
    }

    /// Reads a capture from anywhere.
    ///
    /// # Errors
    /// When it does not begin like a capture.
    pub fn of(source: impl Read + Send + 'static) -> Result<Capture, Fault> {
        let mut input = Input::of(Box::new(source))?;
        let format = if next_generation::begins(input.begins()) {
            Format::NextGeneration(NextGeneration::default())
        } else if classic::begins(input.begins()) {
            Format::Classic(Classic::open(&mut input)?)
        } else {
            return Err(Fault::Foreign(input.begins().to_vec()));
        };
        Ok(Capture { input, format, warnings: Vec::new() })
    }

    /// `pcap` or `pcapng`.
    pub fn format(&self) -> &'static str {
        match self.format {
            Format::Classic(_) => "pcap",
            Format::NextGeneration(_) => "pcapng",
        }
    }

    /// What was strange so far, but not wrong.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The link type of all packets, where the capture has but one.
    pub fn link_type(&self) -> Option<LinkType> {
        match &self.format {
            Format::Classic(classic) => Some(classic.link()),
            Format::NextGeneration(_) => None,
        }
    }

    /// The next packet; `None` at the end. Nothing can be read after an error.
    ///
    /// # Errors
    /// When the file cannot be read, or says what cannot be.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from the capture")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Fault> {
        match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.input, &mut self.warnings),
            Format::NextGeneration(blocks) => blocks.next(&mut self.input, &mut self.warnings),
        }
    }
}

/// Kept and original length as they should be: a packet never holds more than it had.
fn recorded(at: Option<u64>, link: LinkType, bytes: &[u8], original: u32) -> Item<'_> {
    let kept = bytes.len().min(original as usize);
    if kept == 0 {
        return Item::Left(Left::Empty);
    }
    Item::Packet(Recorded { at, link, original, bytes: &bytes[..kept], trimmed: kept < bytes.len() })
}

#[cfg(test)]
mod tests;
