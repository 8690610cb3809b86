//! Walks through a schedule: the packets of some streams, in the order of their times, with these times.

use super::{NANOS, Pace, Schedule};
use crate::packet::Packet;
use crate::template::Template;

/// A packet and when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<'t> {
    /// Nanoseconds after the start; 0 at top speed.
    pub at: u64,
    /// Which packet of all loops, from 0.
    pub number: u64,
    /// Which loop, from 0.
    pub round: u64,
    /// The packet.
    pub packet: Packet<'t>,
}

/// A place in a schedule. It needs no memory that grows with the template.
#[derive(Clone, Debug)]
pub struct Cursor<'t> {
    template: &'t Template,
    schedule: Schedule,
    pub(super) round: u64,
    index: u32,
    /// Nanoseconds of the template so far in this loop, gaps cut.
    clock: u64,
    last: u64,
    /// Bytes so far in this loop.
    bytes: u64,
}

impl<'t> Cursor<'t> {
    /// At the first packet.
    pub fn new(template: &'t Template, schedule: &Schedule) -> Self {
        Cursor { template, schedule: *schedule, round: 0, index: 0, clock: 0, last: 0, bytes: 0 }
    }

    /// The next packet of all streams.
    #[inline]
    fn step(&mut self) -> Option<Due<'t>> {
        if self.schedule.rules.loops.is_some_and(|loops| self.round >= loops) {
            return None;
        }
        let packet = self.template.packet(self.index);
        let gap = packet.at - self.last;
        self.last = packet.at;
        self.clock += self.schedule.rules.gap_max.map_or(gap, |most| gap.min(most));
        let within = match self.schedule.rules.pace {
            Pace::Original { factor: 1.0 } => self.clock,
            Pace::Original { factor } => (self.clock as f64 / factor).round() as u64,
            Pace::Packets { per_second } => (f64::from(self.index) * NANOS / per_second).round() as u64,
            Pace::Bits { per_second } => (self.bytes as f64 * 8.0 * NANOS / per_second).round() as u64,
            Pace::TopSpeed => 0,
        };
        let at = self.round.saturating_mul(self.schedule.period).saturating_add(within);
        let number = self.round * self.schedule.packets + u64::from(self.index);
        let due = Due { at, number, round: self.round, packet };
        self.bytes += packet.bytes.len() as u64;
        self.index += 1;
        if u64::from(self.index) == self.schedule.packets {
            (self.index, self.clock, self.last, self.bytes) = (0, 0, 0, 0);
            self.round += 1;
        }
        Some(due)
    }
}

impl<'t> Iterator for Cursor<'t> {
    type Item = Due<'t>;

    #[inline]
    fn next(&mut self) -> Option<Due<'t>> {
        self.step()
    }
}
