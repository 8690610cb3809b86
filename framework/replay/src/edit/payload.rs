//! What transports carry: emptied, cut, and packets that a capture cut made as long again as they were.

use super::checksum::said_end;
use crate::frame::{Fragment, Layers, Network, be16, protocol};

const GTP_U: u16 = 2152;

/// Fills the innermost payload with zeros; false if there is none.
pub(super) fn zero(frame: &mut [u8], layers: &Layers) -> bool {
    let Some(network) = layers.innermost() else { return false };
    let from = start(frame, network);
    frame[from..network.end].fill(0);
    from < network.end
}

/// Cuts the innermost payload to `most` bytes, and makes all lengths around it say so; false if it was no longer. Pieces of
/// packets stay, because the whole could not be put together again.
pub(super) fn cut(frame: &mut Vec<u8>, layers: &Layers, most: usize) -> bool {
    let Some(network) = layers.innermost().filter(|network| network.fragment == Fragment::Whole) else { return false };
    let (from, said) = (start(frame, network), said_end(frame, network));
    let end = from + most.min(network.end - from);
    if said <= end {
        return false;
    }
    let gone = said - end;
    frame.truncate(end);
    for network in layers.networks() {
        let at = network.at + if network.v6 { 4 } else { 2 };
        shorten(frame, at, gone);
        if network.protocol == protocol::UDP {
            shorten(frame, network.payload + 4, gone);
            if be16(frame, network.payload + 2) == Some(GTP_U) && layers.wrappings.gtp {
                shorten(frame, network.payload + 10, gone);
            }
        }
    }
    if layers.wrappings.pppoe {
        shorten(frame, layers.content + 4, gone);
    }
    true
}

/// Where the payload of a transport begins.
fn start(frame: &[u8], network: &Network) -> usize {
    let header = match network.protocol {
        _ if network.fragment == Fragment::Later => 0,
        protocol::TCP => frame.get(network.payload + 12).map_or(20, |byte| usize::from(byte >> 4) * 4),
        protocol::UDP | protocol::ICMP | protocol::ICMPV6 => 8,
        _ => 0,
    };
    (network.payload + header).min(network.end)
}

/// A length of 0 says nothing, and goes on saying nothing.
fn shorten(frame: &mut [u8], at: usize, gone: usize) {
    let Some(said) = be16(frame, at).filter(|said| *said > 0) else { return };
    let less = said.saturating_sub(u16::try_from(gone).unwrap_or(u16::MAX));
    frame[at..at + 2].copy_from_slice(&less.to_be_bytes());
}
