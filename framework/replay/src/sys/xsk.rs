//! An AF_XDP socket that sends: frames in shared memory, handed over by a ring; no program is attached.
//!
//! The driver may copy the frames (veth, loopback) or read them in place (`zero-copy`); the kernel chooses.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::region::Region;
use super::socket;

/// Frames in flight at most; a power of two.
pub const FRAMES: u32 = 4096;
/// Bytes that one frame may have. Source: kernel, a chunk of user memory is no larger than a page.
pub const FRAME_MAX: usize = 4096;
/// How long a queue is tried that a socket has just left: the kernel frees it some milliseconds later.
const REBIND_MAX: Duration = Duration::from_millis(200);

/// A queue of an interface, for sending.
#[derive(Debug)]
pub struct Xsk {
    // the rings end before their socket does
    send: Ring,
    done: Ring,
    _fill: Ring,
    memory: Region,
    free: Vec<u32>,
    zero_copy: bool,
    fd: OwnedFd,
}

impl Xsk {
    /// Takes one queue of an interface.
    ///
    /// # Errors
    /// What the system says: `EINVAL` when there is no such queue, `EBUSY` when another socket has it, `EPERM` without
    /// CAP_NET_RAW.
    pub fn open(index: u32, queue: u32) -> io::Result<Self> {
        let end = Instant::now() + REBIND_MAX;
        loop {
            match Self::once(index, queue) {
                Err(why) if why.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                    sleep(Duration::from_millis(2));
                }
                done => return done,
            }
        }
    }

    fn once(index: u32, queue: u32) -> io::Result<Self> {
        let memory = Region::anonymous(FRAMES as usize * FRAME_MAX)?;
        let fd = socket::open(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        // SAFETY: All zeros are an `xdp_umem_reg`.
        let mut wish: libc::xdp_umem_reg = unsafe { socket::zeroed() };
        wish.addr = memory.address();
        wish.len = memory.size() as u64;
        wish.chunk_size = FRAME_MAX as u32;
        socket::set(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &wish)?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_TX_RING] {
            socket::set(&fd, libc::SOL_XDP, ring, &FRAMES)?;
        }
        // SAFETY: `xdp_mmap_offsets` is a C struct of numbers.
        let at: libc::xdp_mmap_offsets = unsafe { socket::get(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)? };
        let send = Ring::map(&fd, &at.tx, 16, libc::XDP_PGOFF_TX_RING as u64)?;
        let done = Ring::map(&fd, &at.cr, 8, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let fill = Ring::map(&fd, &at.fr, 8, libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        socket::bind(&fd, &address)?;
        // SAFETY: `xdp_options` is a C struct of one number.
        let options: libc::xdp_options = unsafe { socket::get(&fd, libc::SOL_XDP, libc::XDP_OPTIONS)? };
        let zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(Xsk { send, done, _fill: fill, memory, free: (0..FRAMES).collect(), zero_copy, fd })
    }

    /// Whether the driver reads the frames where they are.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Frames that the kernel has not given back.
    pub fn outstanding(&self) -> usize {
        FRAMES as usize - self.free.len()
    }

    /// Puts frames on the ring, as many as there is room for, and wakes the kernel. A frame of more than [`FRAME_MAX`]
    /// bytes must not come here.
    ///
    /// # Errors
    /// What the system says of the wake-up, other than that it is to be tried later. Frames may be on the ring all the same.
    pub fn submit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        self.reap();
        let mut taken = 0;
        for frame in frames {
            let Some(chunk) = self.free.pop() else { break };
            let address = chunk as usize * FRAME_MAX;
            self.memory.write(address, frame);
            // as many frames as places, so a free frame means a free place
            self.send.put(address as u64, frame.len() as u32);
            taken += 1;
        }
        if taken > 0 {
            self.send.publish();
        }
        self.kick()?;
        Ok(taken)
    }

    /// Wakes the kernel when it wants to be, and takes back what it has sent.
    ///
    /// # Errors
    /// What the system says, other than that it is to be tried later.
    pub fn settle(&mut self) -> io::Result<()> {
        self.kick()?;
        self.reap();
        Ok(())
    }

    fn reap(&mut self) {
        while let Some(address) = self.done.take() {
            self.free.push((address / FRAME_MAX as u64) as u32);
        }
        self.done.release();
    }

    fn kick(&self) -> io::Result<()> {
        if self.outstanding() == 0 || !self.send.wants_wakeup() {
            return Ok(());
        }
        let fd = self.fd.as_raw_fd();
        // SAFETY: No buffer and no address: the call only says that the ring holds something.
        let done = unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if done >= 0 {
            return Ok(());
        }
        let why = io::Error::last_os_error();
        // copy mode sends 32 frames a call and says EAGAIN while more are there
        match why.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
            _ => Err(why),
        }
    }
}

/// A ring with one producer and one consumer; one of the two is the kernel.
#[derive(Debug)]
struct Ring {
    region: Region,
    producer: usize,
    consumer: usize,
    flags: usize,
    first: usize,
    /// Bytes of one entry.
    entry: usize,
    /// Our own side's position, not yet shown to the kernel.
    own: u32,
}

impl Ring {
    fn map(fd: impl AsFd, at: &libc::xdp_ring_offset, entry: usize, offset: u64) -> io::Result<Self> {
        let [producer, consumer, flags, first] = [at.producer, at.consumer, at.flags, at.desc].map(|n| n as usize);
        let region = Region::of(fd, first + entry * FRAMES as usize, offset)?;
        Ok(Ring { region, producer, consumer, flags, first, entry, own: 0 })
    }

    fn place(&self) -> usize {
        self.first + (self.own & (FRAMES - 1)) as usize * self.entry
    }

    /// Fills the next entry with a `xdp_desc`.
    fn put(&mut self, address: u64, len: u32) {
        let at = self.place();
        self.region.long(at).store(address, Ordering::Relaxed);
        self.region.long(at + 8).store(u64::from_ne_bytes(desc_tail(len)), Ordering::Relaxed);
        self.own = self.own.wrapping_add(1);
    }

    /// Shows the kernel what was put.
    fn publish(&self) {
        self.region.word(self.producer).store(self.own, Ordering::Release);
    }

    /// The next entry that the kernel has filled with an address.
    fn take(&mut self) -> Option<u64> {
        if self.region.word(self.producer).load(Ordering::Acquire) == self.own {
            return None;
        }
        let address = self.region.long(self.place()).load(Ordering::Relaxed);
        self.own = self.own.wrapping_add(1);
        Some(address)
    }

    /// Gives the kernel the places of what was taken.
    fn release(&self) {
        self.region.word(self.consumer).store(self.own, Ordering::Release);
    }

    fn wants_wakeup(&self) -> bool {
        self.region.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The second half of a `xdp_desc`: length, and no options.
fn desc_tail(len: u32) -> [u8; 8] {
    let mut tail = [0; 8];
    tail[..4].copy_from_slice(&len.to_ne_bytes());
    tail
}
