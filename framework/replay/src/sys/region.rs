//! Memory that is shared with the kernel: frames, rings and maps.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A mapping that ends with this value. What others write at the same time is reached through atomics alone.
#[derive(Debug)]
pub struct Region {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: The mapping belongs to this value and to no thread.
unsafe impl Send for Region {}
// SAFETY: Through a shared reference there are atomics and copies of bytes that nobody writes in between; plain writes need
// an exclusive one.
unsafe impl Sync for Region {}

impl Region {
    /// Fresh memory of `len` bytes, all zero and present.
    ///
    /// # Errors
    /// What the system says, such as that there is not so much.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// `len` bytes of what `fd` offers at `offset`, shared with the kernel.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(fd: impl AsFd, len: usize, offset: u64) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_fd().as_raw_fd(), offset)
    }

    fn map(len: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: The kernel chooses the address, so no memory of ours is touched.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Region { at, len })
    }

    /// How large it is, bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Where it begins, as a number for the kernel.
    pub fn address(&self) -> u64 {
        self.at.as_ptr() as u64
    }

    /// The 32-bit word at this offset.
    pub fn word(&self, at: usize) -> &AtomicU32 {
        self.check(at, 4, 4);
        // SAFETY: In bounds and aligned, as just checked; every bit pattern is a number; it lives as long as `self`.
        unsafe { &*self.at.as_ptr().add(at).cast::<AtomicU32>() }
    }

    /// The 64-bit word at this offset.
    pub fn long(&self, at: usize) -> &AtomicU64 {
        self.check(at, 8, 8);
        // SAFETY: In bounds and aligned, as just checked; every bit pattern is a number; it lives as long as `self`.
        unsafe { &*self.at.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Copies bytes to this offset.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len(), 1);
        // SAFETY: In bounds, as just checked; the exclusive reference keeps every other writer of this process away, and
        // `bytes` is a borrow of something else.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.as_ptr().add(at), bytes.len()) };
    }

    /// Bytes at this offset.
    ///
    /// # Safety
    /// Nobody, the kernel included, may write them while they are borrowed.
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.check(at, len, 1);
        // SAFETY: In bounds, as just checked, initialised by the kernel, and the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().add(at), len) }
    }

    fn check(&self, at: usize, len: usize, align: usize) {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside && at.is_multiple_of(align), "{len} bytes at {at} of a region of {}", self.len);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: It is ours, and every borrow of it has ended.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_is_written_is_read_as_words() {
        let mut region = Region::anonymous(4096).expect("a page");
        region.write(8, &7u64.to_ne_bytes());
        assert_eq!(region.long(8).load(Ordering::Relaxed), 7);
        region.word(0).store(5, Ordering::Relaxed);
        // SAFETY: Nobody writes.
        assert_eq!(unsafe { region.bytes(0, 4) }, 5u32.to_ne_bytes());
    }

    #[test]
    #[should_panic(expected = "4 bytes at 4094 of a region of 4096")]
    fn nothing_is_read_beyond_its_end() {
        let region = Region::anonymous(4096).expect("a page");
        region.word(4094);
    }
}
