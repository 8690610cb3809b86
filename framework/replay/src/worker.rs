//! Workers: each owns some streams of a template, a path with its memory and rings, and a core. Nothing is shared on the way
//! but the template, which nobody changes; the order inside of a stream is kept because one worker has it all.

use std::collections::BTreeMap;
use std::io;

use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use crate::send::{Fit, Skipped};
use crate::timing::precedence::Precedence;
use crate::timing::wait::{self, Stop};
use crate::timing::{Cursor, Due, Schedule};

mod crew;
mod material;
mod push;
mod spread;

pub use crew::{Crew, ReplayError, Sent, WorkerSent, others, replay};
pub use material::Material;
pub(crate) use push::push;
pub use spread::Spread;

/// How late a packet must be for a stall, nanoseconds.
pub const STALL: u64 = 1_000_000;
/// Packets that are looked at before the start, so that none of them waits for a disk.
const WARMED: usize = 4_096;
/// How long before the start a worker is awake, nanoseconds.
const EARLY: u64 = 1_000_000;
/// Stalls that are kept one by one; all are counted.
const STALLS_KEPT: usize = 16;
/// Numbers of refused packets that are kept, so that they are not taken for lost ones.
const REFUSED_KEPT: usize = 65_536;

/// What one worker sends, and how.
#[derive(Debug)]
pub struct Share<'t> {
    /// What is replayed.
    pub material: Material<'t>,
    /// Its times.
    pub schedule: Schedule,
    /// Who sends which stream.
    pub spread: &'t Spread,
    /// Which worker this is, from 0.
    pub me: u16,
    /// What the path takes.
    pub fit: Fit,
    /// When it begins, nanoseconds of CLOCK_MONOTONIC.
    pub start: u64,
    /// Whether it is to end.
    pub stop: &'t Stop,
    /// What is due later than this is left out, nanoseconds from the start.
    pub duration: Option<u64>,
    /// The core that it is to stay on.
    pub core: Option<usize>,
    /// Whether it is to go before all ordinary threads.
    pub real_time: bool,
}

/// The packets of a share, one after the other; what the path would not take is counted and left out.
#[derive(Debug)]
pub struct Packets<'a, 't> {
    share: &'a Share<'t>,
    cursor: Cursor<'t>,
    /// Memory of edited copies that were sent.
    spare: Vec<Vec<u8>>,
}

/// A packet on its way out.
#[derive(Debug)]
pub struct Outgoing<'t> {
    /// When it is due.
    pub due: Due<'t>,
    copy: Option<Vec<u8>>,
}

impl Outgoing<'_> {
    /// Its frame.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.copy.as_deref().unwrap_or(self.due.packet.bytes)
    }
}

impl<'t> Packets<'_, 't> {
    /// The next one.
    #[inline]
    pub fn next(&mut self, tally: &mut Tally) -> Option<Outgoing<'t>> {
        for due in self.cursor.by_ref() {
            if self.share.spread.worker(due.packet.stream) != self.share.me {
                continue;
            }
            let copy = self.share.material.editor.map(|editor| {
                let mut copy = self.spare.pop().unwrap_or_default();
                editor.apply(&due.packet, self.share.material.lap(due.round), &mut copy);
                copy
            });
            let packet = Outgoing { due, copy };
            match self.share.fit.refuses(packet.bytes()) {
                Some(why) => *tally.skipped.entry(why).or_default() += 1,
                None => return Some(packet),
            }
        }
        None
    }

    /// Takes back a packet that was sent.
    #[inline]
    pub fn recycle(&mut self, packet: Outgoing<'t>) {
        self.spare.extend(packet.copy);
    }
}

impl<'t> Share<'t> {
    /// All of it.
    pub fn packets(&self) -> Packets<'_, 't> {
        Packets { share: self, cursor: Cursor::new(self.material.template, &self.schedule), spare: Vec::new() }
    }

    /// One loop of it.
    pub fn one_loop(&self) -> Packets<'_, 't> {
        let mut schedule = self.schedule;
        schedule.rules.loops = Some(1);
        Packets { share: self, cursor: Cursor::new(self.material.template, &schedule), spare: Vec::new() }
    }

    /// Keeps the calling thread on the worker's core.
    ///
    /// # Errors
    /// What the system says.
    pub fn pin(&self) -> io::Result<()> {
        let Some(core) = self.core else { return Ok(()) };
        let mut only = CpuSet::new();
        only.set(core);
        Ok(sched_setaffinity(None, &only)?)
    }

    /// Makes the calling thread the one that keeps times: on its core, before others if it may.
    pub fn settle_in(&self, tally: &mut Tally) -> Option<Precedence> {
        tally.pinned = self.core.is_some() && self.pin().is_ok();
        let precedence = self.real_time.then(Precedence::take).flatten();
        tally.real_time = precedence.is_some();
        wait::sharpen();
        precedence
    }

    /// Brings the first packets into memory, and waits until shortly before the start.
    pub fn begin(&self) {
        let mut packets = self.packets();
        let mut unread = Tally::default();
        for _ in 0..WARMED {
            let Some(packet) = packets.next(&mut unread) else { break };
            std::hint::black_box(packet.bytes().iter().step_by(64).fold(0u8, |sum, byte| sum ^ byte));
            packets.recycle(packet);
        }
        wait::sleep_until(self.start.saturating_sub(EARLY), self.stop);
    }
}

/// The cores that this process may use.
pub fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// A time during which packets left late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// When the first of them was due, nanoseconds after the start.
    pub at_ns: u64,
    /// How late the latest was, nanoseconds.
    pub late_ns: u64,
    /// How many packets.
    pub packets: u64,
}

/// What came of a share.
#[derive(Debug)]
pub struct Tally {
    /// Packets that the path took.
    pub submitted: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the path was not given, by reason.
    pub skipped: BTreeMap<Skipped, u64>,
    /// Packets that the path refused.
    pub refused: u64,
    /// Their numbers, as many as are kept.
    pub refused_numbers: Vec<u64>,
    /// Why the first of them was, or why the path failed.
    pub why: Option<String>,
    /// How often the path was full.
    pub full: u64,
    /// Packets taken that had not left at the end.
    pub outstanding: u64,
    /// Whether the share was gone through to its end.
    pub complete: bool,
    /// The first number that was not gone through, if it was not.
    pub ended_before: Option<u64>,
    /// When the first packet was given away, nanoseconds of CLOCK_MONOTONIC.
    pub first_at: Option<u64>,
    /// And the last.
    pub last_at: Option<u64>,
    /// How late packets were given away, nanoseconds; empty at top speed.
    pub lateness: Histogram<u64>,
    /// Times during which packets were late.
    pub stalls: u64,
    /// The longest of them.
    pub longest: Vec<Stall>,
    /// Whether the worker stayed on a core.
    pub pinned: bool,
    /// Whether it went before ordinary threads.
    pub real_time: bool,
}

/// An empty histogram of lateness: up to an hour, to three digits. It has all of its memory at once.
pub(crate) fn lateness() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("these bounds are allowed")
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            submitted: 0,
            bytes: 0,
            skipped: BTreeMap::new(),
            refused: 0,
            refused_numbers: Vec::new(),
            why: None,
            full: 0,
            outstanding: 0,
            complete: true,
            ended_before: None,
            first_at: None,
            last_at: None,
            lateness: lateness(),
            stalls: 0,
            longest: Vec::new(),
            pinned: false,
            real_time: false,
        }
    }
}

impl Tally {
    /// Everything skipped so far counts `loops` times.
    pub fn times(&mut self, loops: u64) {
        self.skipped.values_mut().for_each(|count| *count *= loops);
        self.skipped.retain(|_, count| *count > 0);
    }

    /// Notes why the path failed or refused something; the first reason stays.
    pub fn fail(&mut self, why: &dyn std::fmt::Display) {
        self.why.get_or_insert_with(|| why.to_string());
    }

    /// Notes a packet that the path refused.
    pub fn refuse(&mut self, number: u64, why: &io::Error) {
        self.refused += 1;
        if self.refused_numbers.len() < REFUSED_KEPT {
            self.refused_numbers.push(number);
        }
        self.fail(why);
    }

    /// Notes a stall that is over.
    fn stall(&mut self, stall: Stall) {
        self.stalls += 1;
        let place = self.longest.partition_point(|other| other.late_ns >= stall.late_ns);
        self.longest.insert(place, stall);
        self.longest.truncate(STALLS_KEPT);
    }
}

#[cfg(test)]
mod tests;
