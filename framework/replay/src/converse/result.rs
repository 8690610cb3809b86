//! What came of conversations: of each, of each kind, and of each half.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hdrhistogram::Histogram;
use rehearsal_core::dialogue::{Half, Outcome};
use serde::Serialize;

use super::cast::Cast;
use crate::packet::Direction;
use crate::send::wire::Counters;
use crate::sys::interface::Interface;
use crate::timing::wait::Ended;

/// The longest time that a histogram tells apart, nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// All that came of it.
#[derive(Debug)]
pub struct Conversed<'c> {
    /// Who played.
    pub cast: &'c Cast<'c>,
    /// The halves that were here.
    pub halves: Vec<Half>,
    /// What each of them counted.
    pub seats: Vec<SeatFacts>,
    /// Packets that were sent before one that stands before them. With both halves here this is told over both.
    pub order_broken: u64,
    /// When it began, nanoseconds of CLOCK_MONOTONIC.
    pub start: u64,
    /// From the first packet that was sent or heard to the last, nanoseconds.
    pub elapsed: u64,
    /// Times in which nobody looked for more than 20 ms, and how long they were in all, nanoseconds.
    pub stalls: (u64, u64),
    /// Why it ended before its end.
    pub ended: Option<Ended>,
}

/// One half's figures.
#[derive(Clone, Debug, Serialize)]
pub struct SeatFacts {
    /// Client or server.
    pub half: &'static str,
    /// Its interface.
    pub interface: String,
    /// That one's MTU, bytes.
    pub mtu: usize,
    /// Packets that the path took, repeated ones too.
    pub sent: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Those of them that were sent again.
    pub repeated: u64,
    /// Packets that the path refused.
    pub refused: u64,
    /// How often the path was full.
    pub full: u64,
    /// Packets heard for the first time.
    pub arrived: u64,
    /// Those of them that came before one that stands before them.
    pub reordered: u64,
    /// Packets heard once more.
    pub again: u64,
    /// Packets with the addresses of a conversation that cannot come now, or are none of its.
    pub strange: u64,
    /// Frames of others.
    pub foreign: u64,
    /// Frames that the kernel had no room for.
    pub missed: u64,
    /// Conversations that were under way at the end.
    pub open_at_end: u64,
    /// How long answers took beyond the time to think, to and fro and in both programs.
    pub round_trip: Option<Times>,
    /// How late packets went.
    pub late: Option<Times>,
    /// What the interface counted meanwhile; traffic of others too.
    pub wire: Option<Counters>,
}

/// Times in short, ns; to three digits.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Half are at most so long.
    pub p50_ns: u64,
    /// 99 % are at most so long.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Figures of all conversations of one kind, such as `TCP 80`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Conversations by how they ended.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Packets that all of them have, of clients and of servers.
    pub packets: [u64; 2],
    /// Those that were sent here, each counted once.
    pub sent: [u64; 2],
    /// Those that were heard here, each counted once.
    pub heard: [u64; 2],
    /// Packets that were sent again.
    pub repeated: [u64; 2],
}

/// One conversation.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its number, from 0.
    pub conversation: u32,
    /// Which copy of the template it belongs to.
    pub copy: u32,
    /// What kind it is.
    pub kind: String,
    /// Who opened it.
    pub client: IpAddr,
    /// The other side.
    pub server: IpAddr,
    /// How it stands.
    pub outcome: Outcome,
    /// When it began, nanoseconds since the start.
    pub began_ns: Option<u64>,
    /// From there to the last new packet, nanoseconds.
    pub took_ns: Option<u64>,
    /// Packets that it has.
    pub packets: usize,
    /// Those that were sent here, of client and server.
    pub sent: [u32; 2],
    /// Those that were heard here without a gap, of client and server.
    pub heard: [u32; 2],
    /// Packets that were sent again.
    pub repeated: u32,
}

/// Where a conversation stopped.
#[derive(Clone, Debug, Serialize)]
pub struct Stop {
    /// Which one.
    #[serde(flatten)]
    pub row: Row,
    /// The first packet, by its place in the conversation, from 0, that was not heard, or not sent if none was waited
    /// for.
    pub at: u32,
    /// Its number in the template.
    pub packet: u32,
    /// Whose it is.
    pub from: &'static str,
    /// Whether it was sent, as far as that is known here.
    pub was_sent: Option<bool>,
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("these bounds are right")
}

/// What a side is called.
pub fn name(side: Direction) -> &'static str {
    match side {
        Direction::Forward => "client",
        Direction::Backward => "server",
    }
}

impl Times {
    pub(super) fn of(times: &Histogram<u64>) -> Option<Times> {
        (!times.is_empty()).then(|| Times {
            count: times.len(),
            mean_ns: times.mean(),
            p50_ns: times.value_at_quantile(0.5),
            p99_ns: times.value_at_quantile(0.99),
            max_ns: times.max(),
        })
    }
}

impl SeatFacts {
    pub(super) fn of(side: Direction, interface: &Interface) -> SeatFacts {
        SeatFacts {
            half: name(side),
            interface: interface.name.clone(),
            mtu: interface.mtu,
            sent: 0,
            bytes: 0,
            repeated: 0,
            refused: 0,
            full: 0,
            arrived: 0,
            reordered: 0,
            again: 0,
            strange: 0,
            foreign: 0,
            missed: 0,
            open_at_end: 0,
            round_trip: None,
            late: None,
            wire: None,
        }
    }
}

impl Conversed<'_> {
    /// How a conversation stands, in both halves if they are here.
    pub fn outcome(&self, conversation: u32) -> Outcome {
        self.halves.iter().map(|half| half.talk(conversation).outcome).max().unwrap_or_default()
    }

    /// One conversation.
    pub fn row(&self, conversation: u32) -> Row {
        let [client, server] = self.cast.hosts(conversation);
        let script = self.cast.script(conversation);
        let [mut sent, mut heard] = [[0; 2]; 2];
        let (mut repeated, mut began, mut last) = (0, None, 0);
        for half in &self.halves {
            let talk = half.talk(conversation);
            sent[half.side().index()] = talk.sent;
            heard[half.side().other().index()] = talk.heard;
            repeated += talk.repeated;
            if talk.outcome != Outcome::NotBegun {
                began = Some(began.map_or(talk.began, |began: u64| began.min(talk.began)));
                last = last.max(talk.progress);
            }
        }
        Row {
            conversation,
            copy: self.cast.copy(conversation),
            kind: script.kind(),
            client,
            server,
            outcome: self.outcome(conversation),
            began_ns: began.map(|began| began.saturating_sub(self.start)),
            took_ns: began.map(|began| last.saturating_sub(began)),
            packets: script.steps.len(),
            sent,
            heard,
            repeated,
        }
    }

    /// All of them, by number.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.cast.conversations()).map(|conversation| self.row(conversation))
    }

    /// Those that did not complete, each with where it stopped.
    pub fn stops(&self) -> impl Iterator<Item = Stop> + '_ {
        let numbers = 0..self.cast.conversations();
        numbers.filter(|number| self.outcome(*number) != Outcome::Completed).map(|number| self.stop(number))
    }

    fn stop(&self, conversation: u32) -> Stop {
        let row = self.row(conversation);
        let script = self.cast.script(conversation);
        // of each half the first packet that it misses, or has not sent
        let places = self.halves.iter().flat_map(|half| {
            let (talk, side) = (half.talk(conversation), half.side());
            let missing = script.audible(side.other()).get(talk.heard as usize);
            [missing, script.own(side).get(talk.sent as usize)].into_iter().flatten().copied()
        });
        let at = places.min().unwrap_or(0);
        let step = script.step(at);
        let sender = self.halves.iter().find(|half| half.side() == step.side);
        let was_sent = sender.map(|half| {
            let sent = half.talk(conversation).sent as usize;
            script.own(step.side)[..sent].binary_search(&at).is_ok()
        });
        Stop { row, at, packet: step.packet, from: name(step.side), was_sent }
    }

    /// Figures by kind.
    pub fn kinds(&self) -> BTreeMap<String, Counts> {
        let mut kinds: BTreeMap<String, Counts> = BTreeMap::new();
        for conversation in 0..self.cast.conversations() {
            let script = self.cast.script(conversation);
            let counts = kinds.entry(script.kind()).or_default();
            *counts.outcomes.entry(self.outcome(conversation)).or_default() += 1;
            for side in [Direction::Forward, Direction::Backward] {
                counts.packets[side.index()] += script.own(side).len() as u64;
            }
            for half in &self.halves {
                let (talk, side) = (half.talk(conversation), half.side());
                counts.sent[side.index()] += u64::from(talk.sent);
                counts.heard[side.other().index()] += u64::from(talk.heard);
                counts.repeated[side.index()] += u64::from(talk.repeated);
            }
        }
        kinds
    }

    /// Conversations by how they ended.
    pub fn outcomes(&self) -> BTreeMap<Outcome, u64> {
        let mut all = BTreeMap::new();
        (0..self.cast.conversations()).for_each(|number| *all.entry(self.outcome(number)).or_default() += 1);
        all
    }
}
