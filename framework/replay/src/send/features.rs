//! What a driver says of itself: can frames be redirected out of the interface? Asked over generic netlink, family `netdev`
//! (Linux 6.3).

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// Source: linux/genetlink.h, `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_NAME`, `CTRL_ATTR_FAMILY_ID`.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const FAMILY_ID: u16 = 1;
/// Source: linux/netdev.h, `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX`, `NETDEV_A_DEV_XDP_FEATURES`.
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_FEATURES: u16 = 3;
/// Source: linux/netdev.h, `NETDEV_XDP_ACT_NDO_XMIT`.
const TRANSMITS: u64 = 4;
/// Source: linux/netlink.h, `NLM_F_REQUEST`, `NLMSG_ERROR`; a header has 16 bytes, that of generic netlink 4.
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const HEADER: usize = 20;

/// Whether the driver sends frames that are redirected to this interface; `None` when the kernel does not tell.
pub fn transmits(index: u32) -> Option<bool> {
    let asked = || -> io::Result<Option<bool>> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::GENERIC))?;
        let family = ask(&fd, CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0", FAMILY_ID)?;
        let Some(family) = family.as_deref().and_then(|value| value.first_chunk()).map(|id| u16::from_ne_bytes(*id))
        else {
            return Ok(None);
        };
        let features = ask(&fd, family, GET_DEVICE, DEVICE_INDEX, &index.to_ne_bytes(), DEVICE_FEATURES)?;
        let features = features.as_deref().and_then(|value| value.first_chunk()).map(|bits| u64::from_ne_bytes(*bits));
        Ok(features.map(|features| features & TRANSMITS != 0))
    };
    asked().ok().flatten()
}

/// Sends a request with one attribute; returns the value of one attribute of the answer.
fn ask(fd: &OwnedFd, kind: u16, command: u8, attribute: u16, value: &[u8], wanted: u16) -> io::Result<Option<Vec<u8>>> {
    send(fd, &request(kind, command, attribute, value), SendFlags::empty())?;
    let mut answer = vec![0u8; 16 << 10];
    // the kernel answers within the call above
    let (len, _) = recv(fd, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(attribute_of(&answer[..len], wanted).map(<[u8]>::to_vec))
}

fn request(kind: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let len = HEADER + 4 + value.len().next_multiple_of(4);
    let mut bytes = Vec::with_capacity(len);
    bytes.extend((len as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(len, 0);
    bytes
}

/// The value of an attribute of the first message.
fn attribute_of(answer: &[u8], wanted: u16) -> Option<&[u8]> {
    let number = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    if number(4)? == ERROR {
        return None;
    }
    let end = (u32::from_ne_bytes(*answer.first_chunk()?) as usize).min(answer.len());
    let mut at = HEADER;
    while at + 4 <= end {
        let (len, kind) = (usize::from(number(at)?), number(at + 2)?);
        if kind == wanted {
            return answer.get(at + 4..at + len);
        }
        // a length below that of its own header would never end
        at += len.max(4).next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_lying_lengths_end() {
        let message = request(7, 1, 3, &[1, 2, 3, 4, 5]);
        assert_eq!(attribute_of(&message, 3), Some(&[1, 2, 3, 4, 5][..]));
        assert_eq!(attribute_of(&message, 4), None);
        let mut lying = message.clone();
        lying[HEADER] = 0;
        assert_eq!(attribute_of(&lying, 4), None);
        lying[HEADER] = 255;
        assert_eq!(attribute_of(&lying, 3), None);
        assert_eq!(attribute_of(&request(ERROR, 1, 3, &[0; 8]), 3), None);
        assert_eq!(attribute_of(&message[..7], 3), None);
    }
}
