//! The path through a packet socket.

use std::io;

use super::{Frame, Push, SendError, bytes_of};
use crate::sys::packet::{BATCH, PacketSocket};

/// Frames through AF_PACKET.
#[derive(Debug)]
pub struct Packets(PacketSocket);

impl Packets {
    /// To an interface.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(index: u32) -> io::Result<Self> {
        PacketSocket::open(index).map(Packets)
    }

    /// Whether the queueing discipline is passed by.
    pub fn bypasses(&self) -> bool {
        self.0.bypasses()
    }
}

impl Push for Packets {
    fn batch(&self) -> usize {
        BATCH
    }

    fn submit(&mut self, frames: &[Frame<'_>]) -> Result<usize, SendError> {
        let (bytes, count) = bytes_of::<BATCH>(frames);
        self.0.send(&bytes[..count]).map_err(SendError::of)
    }
}
