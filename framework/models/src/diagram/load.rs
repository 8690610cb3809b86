//! What the users of a model are to a link: their bytes on the wire in the long run, by the way they go.

use rehearsal_core::plan::Carrier;

use super::chain::Chain;
use super::module::Direction as Way;
use super::stationary::Stationary;
use crate::path::Direction;
use crate::wire::wire_bytes;

/// Bytes of one user per second, headers and frame gaps included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests over HTTP/1.1.
    pub requests: f64,
    /// Their answers.
    pub answers: f64,
    /// Packets over UDP.
    pub packets: f64,
}

impl Load {
    /// All of them.
    pub fn total(self) -> f64 {
        self.requests + self.answers + self.packets
    }
}

impl Chain {
    /// What one user is to links in the long run: what waits for answers, or is loaded down, by HTTP/1.1, other packets by UDP.
    /// A size is taken to be the mean.
    pub fn load(&self, long: &Stationary) -> Load {
        let mut load = Load::default();
        for (works, offered) in self.modules.iter().zip(&long.offered).filter(|(_, offered)| offered.packets > 0.0) {
            let mean = (offered.bytes / offered.packets).round() as u32;
            let module = &works.module;
            if module.kind.waits() || module.way() == Way::Down {
                let request = wire_bytes(Carrier::Http1, Direction::Up, module.request_bytes());
                load.requests += offered.packets * request as f64;
                load.answers += offered.packets * wire_bytes(Carrier::Http1, Direction::Down, mean) as f64;
            } else {
                load.packets += offered.packets * wire_bytes(Carrier::Udp, Direction::Up, mean) as f64;
            }
        }
        load
    }
}
