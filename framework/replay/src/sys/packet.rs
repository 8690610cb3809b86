//! A packet socket that sends: whole frames, many in one call, past the queueing discipline.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::socket;

/// Frames in one call at most.
pub const BATCH: usize = 64;
/// What the socket may hold of frames that are not sent yet, bytes.
const SEND_BUFFER: libc::c_int = 8 << 20;

/// A socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    bypass: bool,
}

impl PacketSocket {
    /// Opens one; it hears nothing.
    ///
    /// # Errors
    /// What the system says: without CAP_NET_RAW it is not permitted.
    pub fn open(index: u32) -> io::Result<Self> {
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        // a qdisc would shape what is to be sent at given times; where it cannot be passed, it is said
        let bypass = socket::set(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32).is_ok();
        // more than the default is a convenience: the caller waits when the buffer is full
        let _ = socket::set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
        socket::bind(&fd, &address(index, 0))?;
        Ok(PacketSocket { fd, bypass })
    }

    /// Whether frames go past the queueing discipline.
    pub fn bypasses(&self) -> bool {
        self.bypass
    }

    /// Sends frames in their order without waiting; returns how many went, at most [`BATCH`].
    ///
    /// # Errors
    /// What the system says of the first frame, when none went.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        if let [frame] = frames {
            // SAFETY: Pointer and length are of one slice, which the kernel only reads.
            let sent = unsafe { libc::send(fd, frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
            return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(1) };
        }
        let count = frames.len().min(BATCH);
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut parts = [empty; BATCH];
        for (part, frame) in parts.iter_mut().zip(frames) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        }
        // SAFETY: All zeros are an `mmsghdr`: no name, no control data, no parts.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { socket::zeroed() };
        for (message, part) in messages.iter_mut().zip(&mut parts).take(count) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: The first `count` messages point to parts, and these to slices; all outlive the call, and the kernel reads
        // the frames only.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT) };
        socket::checked(sent).map(|sent| sent.unsigned_abs() as usize)
    }
}

/// The address of an interface for frames of a protocol.
pub(super) fn address(index: u32, protocol: u16) -> libc::sockaddr_ll {
    // SAFETY: All zeros are a `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { socket::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = libc::c_int::try_from(index).unwrap_or(0);
    address
}
