//! What all sockets here need: opening, options, errors.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

/// Opens a socket that is closed on exec.
pub(super) fn open(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: Plain numbers go in, a descriptor or -1 comes back.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    // SAFETY: A descriptor that socket(2) has just made is nobody else's.
    checked(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option whose value is plain data.
pub(super) fn set<T: Copy>(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: Pointer and length are of one value, which the kernel only reads.
    checked(unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), len) }).map(drop)
}

/// Reads an option.
///
/// # Safety
/// `T` must be a C struct of the kernel's, valid for every bit pattern.
pub(super) unsafe fn get<T: Copy>(fd: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: The kernel writes at most `len` bytes into a value of that length.
    checked(unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) })?;
    // SAFETY: It began as zeros, and by the caller's promise any bits are a value.
    Ok(unsafe { value.assume_init() })
}

/// Binds to an address of one of the kernel's C structs.
pub(super) fn bind<T: Copy>(fd: impl AsFd, address: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: Pointer and length are of one value, which the kernel only reads.
    checked(unsafe { libc::bind(fd.as_fd().as_raw_fd(), (&raw const *address).cast(), len) }).map(drop)
}

/// A result of the C kind: -1 is an error.
pub(super) fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A zeroed C struct.
///
/// # Safety
/// `T` must be a C struct for which all zeros are a value.
pub(super) unsafe fn zeroed<T: Copy>() -> T {
    // SAFETY: By the caller's promise.
    unsafe { MaybeUninit::zeroed().assume_init() }
}
