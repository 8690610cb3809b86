//! A port at an interface, for an engine that sends frames at times of its own and takes them in among other work; and how a
//! frame is known again whose Ethernet addresses were changed on its way.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::frame::Layers;
use crate::receive::hash;
use crate::send::Interface;
use crate::sys::packet::PacketSocket;
use crate::sys::tap::Tap;

/// Bytes of two Ethernet addresses.
const ADDRESSES: usize = 12;
/// What Ethernet pads frames to, without their check sequence. Source: IEEE 802.3.
const SHORTEST: usize = 60;
/// MiB of frames that the kernel keeps for an ear.
const BLOCKS: usize = 16;

/// The sending end.
#[derive(Debug)]
pub struct Mouth(PacketSocket);

impl Mouth {
    /// At an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What the system says; without CAP_NET_RAW it is not permitted.
    pub fn open(interface: &str) -> io::Result<Self> {
        PacketSocket::open(Interface::read(interface)?.index).map(Mouth)
    }

    /// Sends a frame without waiting.
    ///
    /// # Errors
    /// What the system says: there is no room, or the interface does not take it.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(&[frame]).map(drop)
    }
}

/// The taking end; readable when the kernel has handed frames over.
#[derive(Debug)]
pub struct Port(Tap);

impl Port {
    /// At an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What the system says; without CAP_NET_RAW it is not permitted.
    pub fn open(interface: &str) -> io::Result<Self> {
        let index = Interface::read(interface)?.index;
        let tap = Tap::open(index, BLOCKS)?;
        // frames for actors have addresses of their own, which no interface takes by itself
        tap.take_all(index)?;
        Ok(Port(tap))
    }

    /// Hands out what has come, in its order: the frame without its outer VLAN tag, and that tag.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8], Option<u16>)) -> usize {
        self.0.drain(|arrival| each(arrival.bytes, arrival.tag))
    }

    /// Frames that the kernel had no room for since the last call.
    pub fn dropped(&self) -> u64 {
        // what cannot be asked is not known, and the books show it as lost all the same
        self.0.dropped().unwrap_or(0)
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A number from all of a frame but its Ethernet addresses, as it is sent.
pub fn content_key(frame: &[u8]) -> u64 {
    match frame.get(ADDRESSES..ADDRESSES + 4) {
        // the kernel takes the outer tag out of what it shows
        Some([0x81, 0x00, high, low] | [0x88, 0xa8, high, low]) => {
            keyed(&frame[ADDRESSES + 4..], Some(u16::from_be_bytes([*high, *low])))
        }
        _ => keyed(frame.get(ADDRESSES..).unwrap_or_default(), None),
    }
}

/// All numbers that a frame may arrive with: as it is, padded by a driver because it is so short, or without what follows its IP
/// packet, which a bridge may take away.
pub fn content_keys(frame: &[u8]) -> impl Iterator<Item = u64> {
    let padded = (frame.len() < SHORTEST).then(|| {
        let mut padded = [0; SHORTEST];
        padded[..frame.len()].copy_from_slice(frame);
        content_key(&padded)
    });
    let layers = Layers::of(frame);
    let end = layers.networks().first().map_or(frame.len(), |ip| ip.end);
    let trimmed = frame.get(..end).filter(|trimmed| trimmed.len() < frame.len()).map(content_key);
    [Some(content_key(frame)), padded, trimmed].into_iter().flatten()
}

/// The same of one that came in, with the tag that was taken out.
pub fn content_key_of_arrival(frame: &[u8], tag: Option<u16>) -> u64 {
    match tag {
        Some(tag) => keyed(frame.get(ADDRESSES..).unwrap_or_default(), Some(tag)),
        None => content_key(frame),
    }
}

fn keyed(rest: &[u8], tag: Option<u16>) -> u64 {
    hash(rest, tag.map_or(0, |tag| u64::from(tag) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_left_aside_and_nothing_else() {
        let frame: Vec<u8> = (0..80).collect();
        let other = |at: usize| {
            let mut other = frame.clone();
            other[at] ^= 1;
            content_key(&other)
        };
        for at in 0..frame.len() {
            assert_eq!(other(at) == content_key(&frame), at < ADDRESSES, "byte {at}");
        }
        let tagged = [&frame[..12], &[0x81, 0, 0x20, 5], &frame[12..]].concat();
        assert_eq!(content_key(&tagged), content_key_of_arrival(&frame, Some(0x2005)));
        assert_ne!(content_key(&tagged), content_key_of_arrival(&frame, None));
        let short = &frame[..42];
        let padded = content_key(&[short, &[0; 18]].concat());
        assert_eq!(content_keys(short).collect::<Vec<_>>(), [content_key(short), padded]);
        assert_eq!(content_keys(&frame).collect::<Vec<_>>(), [content_key(&frame)]);
    }

    #[test]
    fn what_follows_an_ip_packet_may_be_gone() {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0];
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 8, 0, 8, 0, 0]);
        let packet = content_key(&frame);
        frame.resize(60, 0);
        assert_eq!(content_keys(&frame).collect::<Vec<_>>(), [content_key(&frame), packet]);
    }
}
