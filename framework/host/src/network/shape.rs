//! What the kernel imposes on the way from one node to others: rate and queue by `htb`, delay, jitter and loss by `netem`.

use std::net::Ipv4Addr;

use rehearsal_core::Span;
use rehearsal_core::units::{BitRate, ByteSize, Fraction};

use super::command::{batch, control, run};
use super::{NODE_END, NetworkError, Space};

/// Where no rate is asked for, bit/s: what a class must be given all the same.
const UNLIMITED: u64 = 100_000_000_000;
/// Bytes that may leave back to back beyond the rate: two Ethernet frames, so that every frame is held to it.
const BURST_BYTES: u64 = 2 * 1514;
/// Kernels are compiled for at most so many timer ticks a second; within one tick the rate must fit into a burst.
const TICKS_PER_SECOND: u64 = 1000;
/// The number of the first path's class; numbers are hexadecimal, and 0 and 1 are the root's.
pub(super) const CLASS_FIRST: usize = 0x10;
/// Packets that netem may hold; what does not fit is lost.
const NETEM_PACKETS: u32 = 100_000;

/// A path that is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Capacity; `None`: as much as there is.
    pub rate: Option<BitRate>,
    /// Bytes that may wait for it.
    pub queue: ByteSize,
    /// Propagation, one way.
    pub delay: Span,
    /// Largest extra delay, uniform from zero.
    pub jitter: Span,
    /// Share of packets that are lost.
    pub loss: Fraction,
}

impl Shape {
    /// Whether it takes more than a rate.
    pub fn needs_netem(&self) -> bool {
        !self.delay.is_zero() || !self.jitter.is_zero() || self.loss.0 > 0.0
    }
}

impl Space {
    /// Imposes a shape on the way from this node to each address; what goes elsewhere is not held up. Each address has a
    /// path of its own. What was imposed before is replaced.
    ///
    /// # Errors
    /// [`NetworkError::NoNetem`] where the kernel cannot do it.
    pub fn shape(&self, paths: &[(Ipv4Addr, Shape)]) -> Result<(), NetworkError> {
        // none to begin with is as well
        let _ = run("tc", &["-n", self.name(), "qdisc", "del", "dev", NODE_END, "root"]);
        if paths.is_empty() {
            return Ok(());
        }
        // a packet is a frame: else the kernel hands on 64 kB at once, and a queue of bytes holds only whole ones
        batch(Some(self.name()), &[format!("link set dev {NODE_END} gso_max_segs 1")])?;
        let lines = lines(paths);
        let needs_netem = paths.iter().any(|(_, shape)| shape.needs_netem());
        control(self.name(), &lines).map_err(|why| match why {
            NetworkError::Failed { ref said, .. } if needs_netem && said.contains("qdisc kind is unknown") => {
                NetworkError::NoNetem
            }
            why => why,
        })
    }
}

/// The commands: a class for each address, what waits for it, and a filter that leads there.
fn lines(paths: &[(Ipv4Addr, Shape)]) -> Vec<String> {
    let mut lines = vec![format!("qdisc add dev {NODE_END} root handle 1: htb default 0")];
    for (row, (address, shape)) in paths.iter().enumerate() {
        let class = format!("{:x}", row + CLASS_FIRST);
        let rate = shape.rate.map_or(UNLIMITED, |rate| rate.0);
        let burst = (rate / 8 / TICKS_PER_SECOND).max(BURST_BYTES);
        lines.push(format!(
            "class add dev {NODE_END} parent 1: classid 1:{class} htb rate {rate}bit ceil {rate}bit burst {burst}b \
             cburst {burst}b quantum {BURST_BYTES}"
        ));
        lines.push(format!("qdisc add dev {NODE_END} parent 1:{class} {}", leaf(shape)));
        lines.push(format!(
            "filter add dev {NODE_END} parent 1: protocol ip prio 1 u32 match ip dst {address}/32 flowid 1:{class}"
        ));
    }
    lines
}

/// What waits for a class. netem spreads jitter around the delay, ours is added to it.
fn leaf(shape: &Shape) -> String {
    if !shape.needs_netem() {
        return format!("bfifo limit {}", shape.queue.0);
    }
    let us = |ns: u64| ns / 1000;
    let (delay, jitter) = (shape.delay.as_nanos(), shape.jitter.as_nanos());
    let mut text = format!("netem limit {NETEM_PACKETS} delay {}us", us(delay + jitter / 2));
    if jitter > 0 {
        text += &format!(" {}us", us(jitter / 2));
    }
    if shape.loss.0 > 0.0 {
        text += &format!(" loss random {}%", shape.loss.0 * 100.0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Shape = Shape {
        rate: Some(BitRate(10_000_000)),
        queue: ByteSize(1_000_000),
        delay: Span::ZERO,
        jitter: Span::ZERO,
        loss: Fraction(0.0),
    };

    #[test]
    fn each_address_has_a_class_of_its_own() {
        let slow = Shape { rate: None, delay: Span::from_millis(20), jitter: Span::from_millis(4), ..PLAIN };
        let text = lines(&[([198, 18, 0, 2].into(), PLAIN), ([198, 18, 0, 3].into(), slow)]).join("\n");
        let expected = "\
qdisc add dev eth0 root handle 1: htb default 0
class add dev eth0 parent 1: classid 1:10 htb rate 10000000bit ceil 10000000bit burst 3028b cburst 3028b quantum 3028
qdisc add dev eth0 parent 1:10 bfifo limit 1000000
filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 198.18.0.2/32 flowid 1:10
class add dev eth0 parent 1: classid 1:11 htb rate 100000000000bit ceil 100000000000bit burst 12500000b cburst 12500000b \
quantum 3028
qdisc add dev eth0 parent 1:11 netem limit 100000 delay 22000us 2000us
filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 198.18.0.3/32 flowid 1:11";
        assert_eq!(text, expected);
    }
}
