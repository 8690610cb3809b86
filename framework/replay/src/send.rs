//! Ways to put frames on the wire, behind one trait; which one it is was tried, not guessed.
//!
//! ```text
//!   Wish ──choose──> packet     AF_PACKET, sendmmsg past the qdisc      any interface
//!                    af-xdp     frames in shared memory                 any interface, faster
//!                    xdp-live   an XDP program that the kernel repeats  top speed alone, far faster
//!                    udp        payloads through an ordinary socket     without privileges
//!                    pcap       a file                                  nothing is sent
//! ```

use std::io;

use serde::Serialize;
use thiserror::Error;

pub mod choose;
mod features;
mod file;
mod live;
mod packet;
mod udp;
pub mod wire;
mod xsk;

pub use crate::sys::interface::Interface;
pub use choose::{ChooseError, Chosen, Wish};

use crate::worker::{self, Share, Tally};

/// A way of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A packet socket.
    Packet,
    /// An AF_XDP socket.
    AfXdp,
    /// An XDP program run over live frames.
    XdpLive,
    /// A UDP socket.
    Udp,
    /// A capture file.
    Pcap,
    /// None of ours: another program sends.
    Others,
}

impl Kind {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Packet => "packet",
            Kind::AfXdp => "af-xdp",
            Kind::XdpLive => "xdp-live",
            Kind::Udp => "udp",
            Kind::Pcap => "pcap",
            Kind::Others => "others",
        }
    }
}

/// A frame and when it is due, nanoseconds since the start.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// When it is due.
    pub due: u64,
}

/// Bytes of the first frames, up to `N`, for a call of the system; and how many those are.
fn bytes_of<'a, const N: usize>(frames: &[Frame<'a>]) -> ([&'a [u8]; N], usize) {
    let mut bytes: [&[u8]; N] = [&[]; N];
    for (bytes, frame) in bytes.iter_mut().zip(frames) {
        *bytes = frame.bytes;
    }
    (bytes, frames.len().min(N))
}

/// Why a path took nothing.
#[derive(Debug, Error)]
pub enum SendError {
    /// It is full; the same frames may go in a moment.
    #[error("the path is full")]
    Full,
    /// It does not take the first frame, now or later.
    #[error("a frame is refused")]
    Refused(#[source] io::Error),
    /// It takes nothing any more.
    #[error("the path failed")]
    Failed(#[source] io::Error),
}

impl SendError {
    /// What an error of a socket means for who sends.
    pub fn of(why: io::Error) -> Self {
        match why.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR | libc::EBUSY) => SendError::Full,
            Some(libc::EMSGSIZE | libc::EINVAL | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ECONNREFUSED) => {
                SendError::Refused(why)
            }
            _ => SendError::Failed(why),
        }
    }
}

/// Why a frame of a template is not given to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skipped {
    /// It is longer than the interface's MTU allows.
    OverMtu,
    /// It is shorter than an Ethernet header.
    TooShort,
    /// The UDP path sends payloads of UDP alone.
    NotUdp,
}

/// A way of sending a share of a template, owned by one worker.
pub trait Path: Send {
    /// Sends it all, and tells what came of it.
    fn drive(&mut self, share: &Share<'_>) -> Tally;
}

/// A path that is given its frames, at times that one loop keeps for all of them.
pub trait Push: Send {
    /// Frames that one call takes at most.
    fn batch(&self) -> usize;

    /// Gives frames in their order; returns how many were taken, at least one.
    ///
    /// # Errors
    /// When none was taken.
    fn submit(&mut self, frames: &[Frame<'_>]) -> Result<usize, SendError>;

    /// Pushes on what was taken; returns how many frames have not left.
    ///
    /// # Errors
    /// When the path failed.
    fn settle(&mut self) -> Result<usize, SendError> {
        Ok(0)
    }

    /// Whether frames leave when they are submitted; a file only notes when they are due.
    fn is_live(&self) -> bool {
        true
    }
}

impl<P: Push> Path for P {
    fn drive(&mut self, share: &Share<'_>) -> Tally {
        worker::push(self, share)
    }
}

/// What an interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The longest frame without a VLAN tag, bytes; with one it may have 4 more.
    pub longest: usize,
    /// Whether only UDP goes.
    pub udp: bool,
}

impl Fit {
    /// Why this frame is not given to the path.
    #[inline]
    pub fn refuses(&self, frame: &[u8]) -> Option<Skipped> {
        if frame.len() < crate::frame::ETHERNET {
            return Some(Skipped::TooShort);
        }
        if self.udp {
            return udp::payload(frame).is_none().then_some(Skipped::NotUdp);
        }
        // the kernel allows for one 802.1Q tag, not for an outer 802.1ad one
        let tag = if frame[12..14] == [0x81, 0x00] { 4 } else { 0 };
        (frame.len() > self.longest + tag).then_some(Skipped::OverMtu)
    }
}
