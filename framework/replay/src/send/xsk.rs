//! The path through an AF_XDP socket.

use std::io;

use super::{Frame, Push, SendError, bytes_of};
use crate::sys::xsk::{FRAME_MAX, Xsk};

/// Frames of one call: what the kernel copies for one wake-up. Source: kernel, `MAX_PER_SOCKET_BUDGET`.
const BATCH: usize = 32;

/// Frames through AF_XDP.
#[derive(Debug)]
pub struct Shared(Xsk);

impl Shared {
    /// The longest frame.
    pub const LONGEST: usize = FRAME_MAX;

    /// To one queue of an interface.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(index: u32, queue: u32) -> io::Result<Self> {
        Xsk::open(index, queue).map(Shared)
    }

    /// Whether the driver reads frames in place.
    pub fn is_zero_copy(&self) -> bool {
        self.0.is_zero_copy()
    }
}

impl Push for Shared {
    fn batch(&self) -> usize {
        BATCH
    }

    fn submit(&mut self, frames: &[Frame<'_>]) -> Result<usize, SendError> {
        let (bytes, count) = bytes_of::<BATCH>(frames);
        match self.0.submit(&bytes[..count]) {
            Ok(0) => Err(SendError::Full),
            Ok(taken) => Ok(taken),
            // what is on the ring stays there: an error of the wake-up is the interface's, not a frame's
            Err(why) => Err(SendError::Failed(why)),
        }
    }

    fn settle(&mut self) -> Result<usize, SendError> {
        self.0.settle().map_err(SendError::Failed)?;
        Ok(self.0.outstanding())
    }
}
