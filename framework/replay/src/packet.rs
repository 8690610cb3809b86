//! One packet of a template, borrowed from it.

pub use rehearsal_core::dialogue::Direction;

/// One packet: always an Ethernet frame without its check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Which packet of the template, from 0, in order of time.
    pub index: u32,
    /// When it was captured, nanoseconds since the template's first packet. Never below that of the packet before.
    pub at: u64,
    /// Which of the template's streams.
    pub stream: u32,
    /// Which way.
    pub direction: Direction,
    /// The last packet of the other direction of this stream that came before; `None` if there was none, or if the
    /// packet opens its stream. Who replays one side waits for it to arrive, and then for [`Packet::think`].
    pub after: Option<u32>,
    /// Nanoseconds between that packet and this one; 0 without one.
    pub think: u64,
    /// Length when it was captured, bytes. More than `bytes` holds if the capture cut it.
    pub original: u32,
    /// The frame.
    pub bytes: &'a [u8],
}

impl Packet<'_> {
    /// Whether the capture cut the packet.
    pub const fn is_cut(&self) -> bool {
        self.original as usize > self.bytes.len()
    }
}
