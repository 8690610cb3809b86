//! A template in a few figures: by protocol, its longest gap, its largest frame.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Carried, Template};

/// What a template holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overview {
    /// Packets.
    pub packets: u64,
    /// Streams.
    pub streams: u64,
    /// Bytes of all frames.
    pub bytes: u64,
    /// Seconds from the first packet to the last.
    pub duration_seconds: f64,
    /// Longest time without a packet, seconds.
    pub gap_seconds_max: f64,
    /// Bytes of the largest frame.
    pub frame_bytes_max: u64,
    /// Streams with packets of one direction only.
    pub one_sided: u64,
    /// By protocol, most bytes first.
    pub protocols: Vec<Share>,
}

/// The part of one protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Its name.
    pub protocol: String,
    /// What was around it, for example `VXLAN`.
    pub within: String,
    /// Streams.
    pub streams: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

impl Template {
    /// Looks through the index once.
    pub fn overview(&self) -> Overview {
        let mut shares: BTreeMap<(Carried, String), Share> = BTreeMap::new();
        for stream in self.streams() {
            let within = stream.wrappings.to_string();
            let empty = Share {
                protocol: stream.carried.to_string(),
                within: within.clone(),
                streams: 0,
                packets: 0,
                bytes: 0,
            };
            let share = shares.entry((stream.carried, within)).or_insert(empty);
            share.streams += 1;
            share.packets += stream.packets.iter().sum::<u64>();
            share.bytes += stream.bytes.iter().sum::<u64>();
        }
        let mut protocols: Vec<Share> = shares.into_values().collect();
        protocols.sort_by_key(|share| std::cmp::Reverse(share.bytes));
        let (mut gap, mut largest, mut last) = (0, 0, 0);
        for packet in self.packets() {
            gap = gap.max(packet.at - last);
            largest = largest.max(packet.bytes.len() as u64);
            last = packet.at;
        }
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        Overview {
            packets: u64::from(self.len()),
            streams: self.streams().len() as u64,
            bytes: self.bytes(),
            duration_seconds: seconds(self.duration()),
            gap_seconds_max: seconds(gap),
            frame_bytes_max: largest,
            one_sided: self.streams().iter().filter(|stream| stream.packets.contains(&0)).count() as u64,
            protocols,
        }
    }
}
