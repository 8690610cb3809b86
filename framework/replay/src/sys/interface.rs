//! Facts of a network interface, as the calling thread's network namespace knows it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::socket;

/// The longest name of an interface (`IFNAMSIZ` without the closing zero).
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number in this network namespace.
    pub index: u32,
    /// The largest packet without the Ethernet header, bytes.
    pub mtu: usize,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it has a carrier.
    pub running: bool,
    /// Its hardware address.
    pub mac: [u8; 6],
}

impl Interface {
    /// Asks for the interface of this name.
    ///
    /// # Errors
    /// What the system says; `NotFound` when there is none.
    pub fn read(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() > NAME_MAX || name.bytes().any(|byte| byte == 0 || byte == b'/') {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no interface can have this name"));
        }
        let fd = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // SAFETY: Each call below fills the member of the union that its request is documented to fill (netdevice(7)).
        let (index, mtu, flags, mac) = unsafe {
            (
                ask(&fd, name, libc::SIOCGIFINDEX)?.ifr_ifru.ifru_ifindex,
                ask(&fd, name, libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu,
                ask(&fd, name, libc::SIOCGIFFLAGS)?.ifr_ifru.ifru_flags,
                ask(&fd, name, libc::SIOCGIFHWADDR)?.ifr_ifru.ifru_hwaddr.sa_data,
            )
        };
        let set = |flag: libc::c_int| libc::c_int::from(flags) & flag != 0;
        Ok(Interface {
            name: name.to_owned(),
            index: u32::try_from(index).unwrap_or(0),
            mtu: usize::try_from(mtu).unwrap_or(0),
            up: set(libc::IFF_UP),
            running: set(libc::IFF_RUNNING),
            mac: std::array::from_fn(|at| mac[at].to_ne_bytes()[0]),
        })
    }

    /// The longest frame that it takes: MTU and Ethernet header, and a VLAN tag when the frame has one.
    pub fn frame_max(&self, tagged: bool) -> usize {
        self.mtu + if tagged { 18 } else { 14 }
    }
}

fn ask(fd: &OwnedFd, name: &str, request: libc::Ioctl) -> io::Result<libc::ifreq> {
    // SAFETY: All zeros are an `ifreq`: a name and a union of plain numbers.
    let mut wish: libc::ifreq = unsafe { socket::zeroed() };
    for (to, from) in wish.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: These requests read the name and write into the same `ifreq` (netdevice(7)).
    let done = socket::checked(unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut wish) });
    match done {
        Err(why) if why.raw_os_error() == Some(libc::ENODEV) => Err(io::Error::new(io::ErrorKind::NotFound, why)),
        Err(why) => Err(why),
        Ok(_) => Ok(wish),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there_and_others_are_not() {
        let lo = Interface::read("lo").expect("every Linux has it");
        assert!(lo.index > 0 && lo.mtu > 0 && lo.mac == [0; 6], "{lo:?}");
        for name in ["", "no-such-if0", "a/b", "a-name-that-is-too-long"] {
            assert_eq!(Interface::read(name).expect_err("none").kind(), io::ErrorKind::NotFound, "{name}");
        }
    }
}
