//! A packet socket that listens: frames with the kernel's timestamps, through a ring of blocks (`TPACKET_V3`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::packet::address;
use super::region::Region;
use super::socket;

/// Bytes of one block; a frame fits into one.
const BLOCK: usize = 1 << 20;
/// Milliseconds after which the kernel hands over a block that is not full.
const RETIRE_MS: libc::c_uint = 5;

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// When the kernel took it up, nanoseconds of CLOCK_REALTIME.
    pub at: u64,
    /// Its bytes, without its outer VLAN tag: the kernel takes that out.
    pub bytes: &'a [u8],
    /// Its length when it arrived, bytes.
    pub len: u32,
    /// The outer VLAN tag, if there was one.
    pub tag: Option<u16>,
}

/// An ear at an interface.
#[derive(Debug)]
pub struct Tap {
    region: Region,
    blocks: usize,
    next: usize,
    fd: OwnedFd,
}

impl Tap {
    /// Listens to what arrives at an interface, with room for `blocks` MiB of frames.
    ///
    /// # Errors
    /// What the system says: without CAP_NET_RAW it is not permitted.
    pub fn open(index: u32, blocks: usize) -> io::Result<Self> {
        Tap::patient(index, blocks, RETIRE_MS)
    }

    /// The same for who may hear of frames so many milliseconds later: in the meantime more of them share a block.
    ///
    /// # Errors
    /// As for [`Tap::open`].
    pub fn patient(index: u32, blocks: usize, retire_ms: u32) -> io::Result<Self> {
        // bound before it hears anything: a protocol of 0 hears nothing
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        socket::set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as libc::c_int))?;
        // an older kernel hears its own frames too; nobody sends where one listens
        let _ = socket::set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32);
        let wish = libc::tpacket_req3 {
            tp_block_size: BLOCK as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: 2048,
            tp_frame_nr: (BLOCK / 2048 * blocks) as libc::c_uint,
            tp_retire_blk_tov: retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket::set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &wish)?;
        let region = Region::of(&fd, BLOCK * blocks, 0)?;
        socket::bind(&fd, &address(index, libc::ETH_P_ALL as u16))?;
        Ok(Tap { region, blocks, next: 0, fd })
    }

    /// Takes frames for any address, as long as it is there.
    ///
    /// # Errors
    /// What the system says.
    pub fn take_all(&self, index: u32) -> io::Result<()> {
        let wish = libc::packet_mreq {
            mr_ifindex: index.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket::set(&self.fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wish)
    }

    /// Hands out everything in the blocks that the kernel has handed over, in its order, and gives them back.
    pub fn drain(&mut self, mut each: impl FnMut(Arrival<'_>)) -> usize {
        let mut seen = 0;
        for _ in 0..self.blocks {
            let base = self.next * BLOCK;
            let word = |at: usize| self.region.word(base + at).load(Ordering::Relaxed);
            // tpacket_block_desc: version, offset, then tpacket_hdr_v1: status, packets, offset of the first
            if self.region.word(base + 8).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            let (packets, mut at) = (word(12), word(16) as usize);
            for _ in 0..packets {
                if at + size_of::<libc::tpacket3_hdr>() > BLOCK {
                    break;
                }
                each(self.frame(base, at));
                seen += 1;
                at += word(at) as usize;
            }
            self.region.word(base + 8).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.blocks;
        }
        seen
    }

    /// The frame whose `tpacket3_hdr` stands at this offset of a block that is ours.
    fn frame(&self, base: usize, at: usize) -> Arrival<'_> {
        let word = |offset: usize| self.region.word(base + at + offset).load(Ordering::Relaxed);
        let [seconds, nanos, caught, len, status] = [4, 8, 12, 16, 20].map(word);
        // tp_mac is the low half of the word at 24 on little-endian machines, the first half everywhere
        let mac = u16::from_ne_bytes([word(24).to_ne_bytes()[0], word(24).to_ne_bytes()[1]]);
        let start = at + usize::from(mac);
        let caught = (caught as usize).min(BLOCK.saturating_sub(start));
        // SAFETY: The kernel does not touch a block between handing it over and getting it back, which `drain` does after the
        // borrow that this makes has ended.
        let bytes = unsafe { self.region.bytes(base + start, caught) };
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| (word(32) & 0xffff) as u16);
        Arrival { at: u64::from(seconds) * 1_000_000_000 + u64::from(nanos), bytes, len, tag }
    }

    /// Frames that the kernel had no room for since the last call.
    ///
    /// # Errors
    /// What the system says.
    pub fn dropped(&self) -> io::Result<u64> {
        // SAFETY: `tpacket_stats_v3` is a C struct of numbers.
        let said: libc::tpacket_stats_v3 = unsafe { socket::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)? };
        Ok(u64::from(said.tp_drops))
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
