//! A packet socket that hears every frame of an interface at once: for who answers what arrives. It keeps no times.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use super::packet::address;
use super::socket;

/// Frames in one call at most.
const BATCH: usize = 64;
/// What the kernel may hold for us, bytes.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;

/// An ear without a ring.
#[derive(Debug)]
pub struct Hearing {
    fd: OwnedFd,
    buffer: Vec<u8>,
    each: usize,
}

impl Hearing {
    /// Hears an interface, also what is for other Ethernet addresses; of longer frames than `longest` bytes the first
    /// are kept.
    ///
    /// # Errors
    /// What the system says: without CAP_NET_RAW it is not permitted.
    pub fn open(index: u32, longest: usize) -> io::Result<Self> {
        // bound before it hears anything: a protocol of 0 hears nothing
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        // an older kernel hears its own frames too; nobody waits for these
        let _ = socket::set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32);
        // more than the default is a convenience: what is dropped is counted
        let _ = socket::set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER);
        let wish = libc::packet_mreq {
            mr_ifindex: libc::c_int::try_from(index).unwrap_or(0),
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket::set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wish)?;
        socket::bind(&fd, &address(index, libc::ETH_P_ALL as u16))?;
        Ok(Hearing { fd, buffer: vec![0; longest * BATCH], each: longest })
    }

    /// Hands out what has come, at most 64 frames, without waiting; returns how many.
    ///
    /// # Errors
    /// What the system says, such as that the interface is down.
    pub fn take(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<usize> {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut parts = [empty; BATCH];
        for (part, room) in parts.iter_mut().zip(self.buffer.chunks_exact_mut(self.each)) {
            *part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        }
        // SAFETY: All zeros are an `mmsghdr`: no name, no control data, no parts.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { socket::zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (fd, count, now) = (self.fd.as_raw_fd(), BATCH as libc::c_uint, std::ptr::null_mut());
        // SAFETY: Messages point to parts, and these to pieces of the buffer that do not overlap; all outlive the call.
        let taken = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT, now) };
        let taken = match socket::checked(taken) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => 0,
            taken => taken?.unsigned_abs() as usize,
        };
        for (message, room) in messages[..taken].iter().zip(self.buffer.chunks_exact(self.each)) {
            each(&room[..(message.msg_len as usize).min(room.len())]);
        }
        Ok(taken)
    }

    /// Frames that the kernel had no room for since the last call.
    ///
    /// # Errors
    /// What the system says.
    pub fn dropped(&self) -> io::Result<u64> {
        // SAFETY: `tpacket_stats` is a C struct of numbers.
        let said: libc::tpacket_stats = unsafe { socket::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)? };
        Ok(u64::from(said.tp_drops))
    }
}

impl AsFd for Hearing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
