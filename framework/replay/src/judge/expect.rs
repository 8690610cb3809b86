//! What was to arrive: every packet that a path took, with its time, in the order of the schedule.

use std::collections::{BTreeMap, BTreeSet};

use crate::receive::{Heard, key, key_padded};
use crate::timing::Cursor;
use crate::worker::{Material, Sent};

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was due, nanoseconds after the start.
    pub due: u64,
    /// What tells its frame from others.
    pub key: u64,
    /// Its stream, another one in each lap where laps differ.
    pub flow: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// In the order of the schedule.
    pub packets: Vec<Packet>,
    /// Other keys that short frames may have, and the ordinary ones.
    pub padded: Vec<(u64, u64)>,
}

impl Expected {
    /// When a run began whose first packet is the first known one that arrived, nanoseconds of CLOCK_MONOTONIC.
    pub fn start(&self, heard: &Heard) -> u64 {
        let due: BTreeMap<u64, u64> = self.packets.iter().rev().map(|packet| (packet.key, packet.due)).collect();
        let first = heard.frames.iter().find_map(|seen| Some(seen.at.saturating_sub(*due.get(&seen.key)?)));
        first.unwrap_or(0)
    }

    /// Of a run, walked through again.
    pub fn of(material: Material<'_>, sent: &Sent) -> Self {
        let mut copy = Vec::new();
        let mut first = Vec::with_capacity(material.template.len() as usize);
        let mut padded = Vec::new();
        for packet in material.template.packets() {
            let frame = material.frame(&packet, 0, &mut copy);
            first.push((key(frame), sent.fit.refuses(frame).is_none()));
            padded.extend(key_padded(frame).map(|padded| (padded, key(frame))));
        }
        let refused: BTreeSet<u64> =
            sent.tallies.iter().flat_map(|tally| tally.refused_numbers.iter().copied()).collect();
        // each worker gave the first so many packets of its share
        let mut left: Vec<u64> = sent.tallies.iter().map(|tally| tally.submitted + tally.refused).collect();
        let mut all: u64 = left.iter().sum();
        let streams = material.template.streams().len() as u64;
        let mut expected = Expected::default();
        for due in Cursor::new(material.template, &sent.schedule) {
            if all == 0 {
                break;
            }
            let (mut known, fits) = first[due.packet.index as usize];
            let left = left.get_mut(usize::from(sent.spread.worker(due.packet.stream)));
            let Some(left) = left.filter(|left| fits && **left > 0) else { continue };
            (*left, all) = (*left - 1, all - 1);
            if refused.contains(&due.number) {
                continue;
            }
            if due.round > 0 && material.varies() {
                let frame = material.frame(&due.packet, due.round, &mut copy);
                known = key(frame);
                padded.extend(key_padded(frame).map(|padded| (padded, known)));
            }
            let lap = if material.varies() { material.lap(due.round) } else { 0 };
            let flow = lap * streams + u64::from(due.packet.stream);
            expected.packets.push(Packet { due: due.at, key: known, flow });
        }
        padded.sort_unstable();
        padded.dedup();
        expected.padded = padded;
        expected
    }
}
