//! All workers of a replay, and who watches over them.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope, sleep};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use thiserror::Error;

use super::{Material, Share, Spread, Stall, Tally, cores};
use crate::send::wire::Counters;
use crate::send::{ChooseError, Chosen, Fit, Interface, Kind, Skipped, Wish};
use crate::template::Template;
use crate::timing::wait::{Ended, SPIN, Stop, now};
use crate::timing::{Rules, Schedule, TimingError};

/// How long workers have to get ready before the start that is the same for all, nanoseconds.
const LEAD: u64 = 100_000_000;
/// How long a stream may be silent, nanoseconds. Source: the DTRF paper counts a stream as concurrent when it sends at least
/// one packet in 10 s.
const HELD: u64 = 10_000_000_000;
/// How often the interface is looked at.
const WATCH: Duration = Duration::from_millis(20);

/// Why a replay does not begin.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// Its times make no sense.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// Nothing can be sent.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// No thread.
    #[error("a worker's thread cannot be started")]
    Thread(#[source] io::Error),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Crew {
    /// The path.
    pub wish: Wish,
    /// The times.
    pub rules: Rules,
    /// How many workers, from 1.
    pub workers: u16,
    /// Ends after so many nanoseconds, whatever is left.
    pub duration: Option<u64>,
    /// Whether workers that keep times go before ordinary threads, where that is allowed.
    pub real_time: bool,
}

/// What was sent.
#[derive(Debug)]
pub struct Sent {
    /// The path that was got.
    pub path: Kind,
    /// What it is in detail, and what was tried before.
    pub notes: Vec<String>,
    /// Its interface.
    pub interface: Option<Interface>,
    /// What the path takes.
    pub fit: Fit,
    /// The times.
    pub schedule: Schedule,
    /// Who sent what.
    pub spread: Spread,
    /// When it began, nanoseconds of CLOCK_MONOTONIC.
    pub start: u64,
    /// Why it ended before its end.
    pub ended: Option<Ended>,
    /// Streams that were to be held.
    pub to_hold: Option<u64>,
    /// What came of each worker.
    pub tallies: Vec<Tally>,
    /// What the interface counted meanwhile.
    pub wire: Option<Counters>,
}

/// What one worker did, for reports.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerSent {
    /// Streams that it owns.
    pub streams: u64,
    /// Packets that it submitted.
    pub submitted: u64,
    /// Whether it stayed on a core.
    pub pinned: bool,
    /// Whether it went before ordinary threads (`SCHED_FIFO`).
    pub real_time: bool,
}

impl Sent {
    /// A sum over the workers.
    pub fn sum(&self, of: impl Fn(&Tally) -> u64) -> u64 {
        self.tallies.iter().map(of).sum()
    }

    /// What was skipped, by reason.
    pub fn skipped(&self) -> BTreeMap<Skipped, u64> {
        let mut all = BTreeMap::new();
        for (why, count) in self.tallies.iter().flat_map(|tally| &tally.skipped) {
            *all.entry(*why).or_default() += count;
        }
        all
    }

    /// Nanoseconds from the first packet to the last, as the workers saw it.
    pub fn elapsed(&self) -> u64 {
        let first = self.tallies.iter().filter_map(|tally| tally.first_at).min();
        let last = self.tallies.iter().filter_map(|tally| tally.last_at).max();
        first.zip(last).map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// How late packets were given away.
    pub fn lateness(&self) -> Histogram<u64> {
        let mut all = super::lateness();
        for tally in &self.tallies {
            // both have the same bounds
            let _ = all.add(&tally.lateness);
        }
        all
    }

    /// The longest stalls of all workers.
    pub fn stalls(&self) -> Vec<Stall> {
        let mut all: Vec<Stall> = self.tallies.iter().flat_map(|tally| tally.longest.iter().copied()).collect();
        all.sort_by_key(|stall| std::cmp::Reverse(stall.late_ns));
        all.truncate(super::STALLS_KEPT);
        all
    }

    /// Each worker in short.
    pub fn workers(&self) -> Vec<WorkerSent> {
        let pairs = self.tallies.iter().zip(&self.spread.streams);
        pairs
            .map(|(tally, streams)| WorkerSent {
                streams: *streams,
                submitted: tally.submitted,
                pinned: tally.pinned,
                real_time: tally.real_time,
            })
            .collect()
    }
}

/// Replays a template; `begin` is called with what was got when nothing can refuse any more, and nothing was sent.
///
/// # Errors
/// When it does not begin. What happens later is told in what comes back.
pub fn replay(
    material: Material<'_>,
    crew: &Crew,
    stop: &Stop,
    begin: impl FnOnce(&Chosen, &Schedule),
) -> Result<Sent, ReplayError> {
    let schedule = Schedule::new(material.template, crew.rules)?;
    // a file is written by one
    let workers = if crew.wish.path == Some(Kind::Pcap) { 1 } else { crew.workers };
    let spread = Spread::over(material.template, workers);
    let mut chosen = crew.wish.open(material, &schedule, &spread)?;
    chosen.notes.extend(restless(crew, &schedule));
    chosen.notes.extend(slow_to_hold(material, &schedule));
    begin(&chosen, &schedule);
    let Chosen { kind, mut paths, interface, fit, notes } = chosen;
    let before = interface.as_ref().and_then(|interface| Counters::read(&interface.name));
    let allowed = cores();
    let start = now() + LEAD;
    let share = |me: usize| Share {
        material,
        schedule,
        spread: &spread,
        me: me as u16,
        fit,
        start,
        stop,
        duration: crew.duration,
        // from the last core on: the first one has the machine's interrupts
        core: (kind != Kind::Pcap).then(|| allowed.iter().rev().cycle().nth(me).copied()).flatten(),
        real_time: crew.real_time && schedule.is_timed(),
    };
    let done = AtomicUsize::new(0);
    let workers = paths.len();
    let tallies = scope(|scope| {
        let mut threads = Vec::new();
        for (me, path) in paths.iter_mut().enumerate() {
            let (share, done) = (share(me), &done);
            let work = move || {
                let _done = Done(done);
                path.drive(&share)
            };
            threads.push(
                Builder::new()
                    .name(format!("replay-{me}"))
                    .spawn_scoped(scope, work)
                    .inspect_err(|_| stop.set(Ended::Failed)),
            );
        }
        watch(interface.as_ref(), crew.duration.map(|duration| start + duration), stop, || {
            done.load(Ordering::SeqCst) == workers
        });
        let join = |thread: io::Result<std::thread::ScopedJoinHandle<'_, Tally>>| {
            thread.map(|thread| thread.join().expect("a worker that panicked has said why"))
        };
        threads.into_iter().map(join).collect::<io::Result<Vec<Tally>>>()
    });
    let tallies = tallies.map_err(ReplayError::Thread)?;
    let after = interface.as_ref().and_then(|interface| Counters::read(&interface.name));
    let wire = before.zip(after).map(|(before, after)| after.since(&before));
    let (ended, to_hold) = (stop.why(), material.streams_held());
    Ok(Sent { path: kind, notes, interface, fit, schedule, spread, start, ended, to_hold, tallies, wire })
}

/// What there is to know when workers never sleep between two packets.
fn restless(crew: &Crew, schedule: &Schedule) -> Option<String> {
    let busy = schedule.rate().is_some_and(|rate| rate * SPIN as f64 > 1e9);
    let limited = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").is_ok_and(|text| text.trim() != "-1");
    let text = "packets come so fast that a worker never sleeps; the kernel stops real-time threads that do not (sched(7), \
                sched_rt_runtime_us), so it is an ordinary one for a tenth of the time: leave its core to it";
    (crew.real_time && busy && limited).then(|| text.to_owned())
}

/// What there is to know when streams come again too late to be held.
fn slow_to_hold(material: Material<'_>, schedule: &Schedule) -> Option<String> {
    let (streams, others) = (material.streams_held()?, material.laps?.saturating_sub(1));
    // from the last packet of a stream in one lap to its first one in the same lap of the next turn, at least
    let silent = others.saturating_mul(schedule.period);
    let text = format!(
        "{streams} streams are not held at this pace: each is silent for {:.1} s, and one is there while it sends a packet in 10 s",
        silent as f64 / 1e9
    );
    (silent > HELD).then_some(text)
}

/// What another program was to send: the whole schedule, by one worker.
///
/// # Errors
/// When its times make no sense.
pub fn others(template: &Template, rules: Rules) -> Result<Sent, ReplayError> {
    let loops = rules.loops.unwrap_or(1);
    let schedule = Schedule::new(template, Rules { loops: Some(loops), ..rules })?;
    let tally = Tally {
        submitted: schedule.packets.saturating_mul(loops),
        bytes: schedule.bytes.saturating_mul(loops),
        ..Tally::default()
    };
    Ok(Sent {
        path: Kind::Others,
        notes: vec!["another program sends; times count from its first packet that arrives".to_owned()],
        interface: None,
        fit: Fit { longest: crate::template::FRAME_MAX, udp: false },
        schedule,
        spread: Spread::over(template, 1),
        start: 0,
        ended: None,
        to_hold: None,
        tallies: vec![tally],
        wire: None,
    })
}

/// Counts a worker that has ended, however it did.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Looks after the interface and the clock until the workers have ended.
fn watch(interface: Option<&Interface>, end: Option<u64>, stop: &Stop, done: impl Fn() -> bool) {
    while !done() {
        if end.is_some_and(|end| now() >= end) {
            stop.set(Ended::Duration);
        }
        if let Some(interface) = interface {
            match Interface::read(&interface.name) {
                Ok(now) if now.index != interface.index => stop.set(Ended::InterfaceGone),
                Ok(now) if !(now.up && now.running) => stop.set(Ended::InterfaceDown),
                Err(why) if why.kind() == io::ErrorKind::NotFound => stop.set(Ended::InterfaceGone),
                _ => {}
            }
        }
        sleep(WATCH);
    }
}
