//! What can be wrong with a capture.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::LinkType;
use crate::template::{FRAME_MAX, TemplateError};

/// What is wrong.
#[derive(Debug, Error)]
pub enum Fault {
    /// The file cannot be read, or cannot be unpacked.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It begins like no capture.
    #[error("{}", foreign(.0))]
    Foreign(Vec<u8>),
    /// It ends where its header should be.
    #[error("it has {0} bytes; a capture begins with a header of 24")]
    Header(u64),
    /// A record longer than any packet.
    #[error("the record at byte {at} says that it holds {length} bytes; at most {FRAME_MAX} are a packet")]
    Record {
        /// Offset, in what is unpacked.
        at: u64,
        /// What it says.
        length: u32,
    },
    /// A block that cannot be.
    #[error("the block at byte {at} {what}")]
    Block {
        /// Offset, in what is unpacked.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// Packets of a link that has no Ethernet form, and no others.
    #[error("its packets are of link type {0}, which cannot be made into Ethernet frames; {list} can", list = LinkType::known())]
    Link(LinkType),
    /// Making the template.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// Something wrong with a capture, and which.
#[derive(Debug, Error)]
#[error("{}", path.display())]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub source: Fault,
    /// Packets that were read before.
    pub read: u64,
}

impl Fault {
    /// Whether packets that came before are worth keeping.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Fault::Read(_) | Fault::Record { .. } | Fault::Block { .. })
    }
}

fn foreign(magic: &[u8]) -> impl fmt::Display {
    if magic.is_empty() {
        return "it is empty, and no capture".to_owned();
    }
    let digits: Vec<String> = magic.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "it is no capture: it begins with {}, not like pcap, pcapng, or one of these in gzip or zstd",
        digits.join(" ")
    )
}
