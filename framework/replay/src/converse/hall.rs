//! The loop: hears at each interface, begins conversations, sends what is due, sleeps until something is.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread::Builder;

use rehearsal_core::dialogue::{Manners, Send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use thiserror::Error;

use super::cast::Cast;
use super::result::Conversed;
use super::seat::Seat;
use crate::packet::Direction;
use crate::receive::ReceiveError;
use crate::send::Interface;
use crate::sys::thread::real_time;
use crate::timing::wait::{Ended, Stop, now, sharpen};

/// The longest sleep, nanoseconds; whoever sleeps much longer was not let run.
const NAP: u64 = 10_000_000;
const STALL: u64 = 2 * NAP;
/// How long is waited when a path is full, nanoseconds.
const FULL: u64 = 50_000;
const SECOND: f64 = 1e9;

/// Why nobody converses.
#[derive(Debug, Error)]
pub enum ConverseError {
    /// No such namespace.
    #[error(transparent)]
    Space(#[from] ReceiveError),
    /// No such interface.
    #[error("there is no interface `{name}` ({there})")]
    Missing {
        /// Its name.
        name: String,
        /// Which there are.
        there: String,
    },
    /// It is switched off.
    #[error("the interface `{0}` is down; `ip link set {0} up` switches it on")]
    Down(String),
    /// We may not.
    #[error(
        "sending and hearing frames needs the capability CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` the program"
    )]
    NotPermitted,
    /// It cannot be had.
    #[error("`{name}` cannot be used: {source}")]
    Open {
        /// The interface.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// Frames do not fit.
    #[error(
        "a frame of {longest} bytes does not fit `{name}` (MTU {mtu}), so its conversation could never complete; write --edit payload_bytes_max=…, or leave it out with `rehearsal template import --filter`"
    )]
    TooLong {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: usize,
        /// The longest frame.
        longest: usize,
    },
    /// The kernel would answer too.
    #[error(
        "{address} is an address of this host where `{name}` is: its kernel would reset the conversation; give conversations other addresses with --clients and --servers, or use a network namespace without that address"
    )]
    Local {
        /// The address.
        address: IpAddr,
        /// The interface.
        name: String,
    },
    /// No thread.
    #[error("a thread cannot be started")]
    Thread(#[source] io::Error),
}

/// Where a half is.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its interface.
    pub interface: String,
    /// A network namespace: its name for iproute2, or a path.
    pub space: Option<PathBuf>,
    /// The Ethernet address that its frames go to, from that of its interface; `None`: both as the template or its edit
    /// says.
    pub next_hop: Option<[u8; 6]>,
}

/// When packets go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Pace {
    /// When what they answer has arrived and their side has thought.
    Thinking,
    /// One after the other at a rate over all conversations and both halves, each conversation in its order. A
    /// conversation begins when no packet of another one can go.
    Rate {
        /// Packets per second, above 0.
        per_second: f64,
    },
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Hours {
    /// When packets go.
    pub pace: Pace,
    /// The rules of both halves.
    pub manners: Manners,
    /// Conversations that begin in a second; `None`: each copy as in the template, all copies at once.
    pub start_rate: Option<f64>,
    /// Conversations that go on at once, at most.
    pub concurrent: Option<u32>,
    /// Ends after so many nanoseconds, whatever goes on.
    pub duration: Option<u64>,
    /// Whether it goes before ordinary threads, where that is allowed.
    pub real_time: bool,
}

/// Everything that the loop needs.
struct Hall<'c> {
    cast: &'c Cast<'c>,
    hours: Hours,
    stop: &'c Stop,
    seats: Vec<Seat>,
    /// When each conversation begins that a half here opens, since the epoch; in their order.
    starts: Vec<(u64, u32)>,
    next_start: usize,
    /// From when starts count: a half that opens nothing of its own begins to count when it hears something.
    epoch: Option<u64>,
    /// When the next packet may go, of a rate.
    slot: u64,
    /// Nanoseconds from one packet to the next, of a rate.
    period: f64,
    /// Packets that went since the rate was last caught up with, and from when.
    base: (u64, u64),
    /// The first step of each conversation that was not sent, as far as that is seen here.
    order: Vec<u32>,
    order_broken: u64,
    first: Option<u64>,
    moved: u64,
    stalls: (u64, u64),
}

/// Lets conversations happen: with one half here or both; `begin` is called when nothing can refuse any more.
///
/// # Errors
/// When it does not begin. What happens later is told in what comes back.
pub fn converse<'c>(
    cast: &'c Cast<'c>,
    places: &[Option<Place>; 2],
    hours: Hours,
    stop: &'c Stop,
    begin: impl FnOnce(&[&Interface]),
) -> Result<Conversed<'c>, ConverseError> {
    let mut seats = Vec::new();
    for (place, side) in places.iter().zip([Direction::Forward, Direction::Backward]) {
        if let Some(place) = place {
            seats.push(Seat::open(cast, side, place, hours.manners)?);
        }
    }
    begin(&seats.iter().map(Seat::interface).collect::<Vec<_>>());
    let mut hall = Hall::new(cast, hours, stop, seats);
    let start = now();
    std::thread::scope(|scope| {
        let work = || {
            if hours.real_time {
                // where it is not allowed, lateness shows
                let _ = real_time();
            }
            sharpen();
            hall.run(start);
        };
        let thread = Builder::new().name("replay-hall".to_owned()).spawn_scoped(scope, work);
        thread.map(|thread| thread.join().expect("a thread that panicked has said why"))
    })
    .map_err(ConverseError::Thread)?;
    Ok(hall.close(start))
}

impl<'c> Hall<'c> {
    fn new(cast: &'c Cast<'c>, hours: Hours, stop: &'c Stop, seats: Vec<Seat>) -> Self {
        let mine = |side: Direction| seats.iter().any(|seat| seat.half.side() == side);
        let factor = hours.manners.thinking.factor;
        let at = |number: u32| match hours.start_rate {
            Some(rate) => (f64::from(number) * SECOND / rate) as u64,
            None => factor.map_or(0, |factor| (cast.script(number).first as f64 / factor) as u64),
        };
        let opened = (0..cast.conversations()).filter(|number| mine(cast.script(*number).opener()));
        let mut starts: Vec<(u64, u32)> = opened.map(|number| (at(number), number)).collect();
        if hours.pace == Pace::Thinking {
            starts.sort_unstable();
        }
        // one half alone sends its share of the rate
        let packets = cast.packets();
        let here: u64 = seats.iter().map(|seat| packets[seat.half.side().index()]).sum();
        let share = here as f64 / (packets[0] + packets[1]) as f64;
        let period = match hours.pace {
            Pace::Rate { per_second } => SECOND / (per_second * share).max(1e-9),
            Pace::Thinking => 0.0,
        };
        Hall {
            cast,
            hours,
            stop,
            seats,
            starts,
            next_start: 0,
            epoch: None,
            slot: 0,
            period,
            base: (0, 0),
            order: vec![0; cast.conversations() as usize],
            order_broken: 0,
            first: None,
            moved: 0,
            stalls: (0, 0),
        }
    }

    fn run(&mut self, start: u64) {
        let waits = !self.seats.iter().any(|seat| seat.half.side() == Direction::Forward)
            && self.cast.scripts().all.iter().any(|script| script.opener() == Direction::Forward);
        self.epoch = (!waits).then_some(start);
        (self.slot, self.base, self.moved) = (start, (0, start), start);
        let mut last = start;
        loop {
            let time = now();
            if time - last > STALL {
                let lost = time - last - NAP;
                self.stalls = (self.stalls.0 + 1, self.stalls.1 + lost);
                self.seats.iter_mut().for_each(|seat| seat.half.stalled(lost));
            }
            last = time;
            let done = self.hear().and_then(|()| self.speak(time)).and_then(|()| self.flush());
            if let Err(why) = done {
                self.stop.set(match why.raw_os_error() {
                    Some(libc::ENETDOWN) => Ended::InterfaceDown,
                    Some(libc::ENXIO | libc::ENODEV) => Ended::InterfaceGone,
                    _ => Ended::Failed,
                });
            }
            if self.hours.duration.is_some_and(|duration| time >= start + duration) {
                self.stop.set(Ended::Duration);
            }
            if self.stop.why().is_some() || self.is_over(time) {
                return;
            }
            self.wait(start);
        }
    }

    fn hear(&mut self) -> io::Result<()> {
        for seat in &mut self.seats {
            if seat.hear(self.cast)? {
                let time = now();
                self.moved = time;
                self.first.get_or_insert(time);
                self.epoch.get_or_insert(time);
            }
        }
        Ok(())
    }

    fn speak(&mut self, time: u64) -> io::Result<()> {
        match self.hours.pace {
            Pace::Thinking => {
                while self.may_begin(time) {
                    self.begin(time);
                }
                for at in 0..self.seats.len() {
                    self.empty(at, time)?;
                }
                Ok(())
            }
            Pace::Rate { .. } => self.paced(time),
        }
    }

    /// Sends all that is due at one half.
    fn empty(&mut self, at: usize, time: u64) -> io::Result<()> {
        loop {
            if !self.seats[at].has_room() {
                self.seats[at].flush()?;
                if !self.seats[at].has_room() {
                    return Ok(());
                }
            }
            let Some(send) = self.seats[at].half.poll(time) else { return Ok(()) };
            self.put(at, &send, time);
        }
    }

    /// Sends what may go by the rate.
    fn paced(&mut self, time: u64) -> io::Result<()> {
        while self.slot <= time {
            let due = |seat: &Seat| seat.half.next().filter(|next| *next <= time);
            let first = (0..self.seats.len()).filter_map(|at| Some((due(&self.seats[at])?, at))).min();
            let Some((_, at)) = first else {
                if self.may_begin(time) {
                    self.begin(time);
                    continue;
                }
                // what is not used is lost
                (self.slot, self.base) = (time, (0, time));
                return Ok(());
            };
            if !self.seats[at].has_room() {
                self.seats[at].flush()?;
                if !self.seats[at].has_room() {
                    return Ok(());
                }
            }
            if let Some(send) = self.seats[at].half.poll(time) {
                self.put(at, &send, time);
                self.base.0 += 1;
                self.slot = self.base.1 + (self.base.0 as f64 * self.period) as u64;
            }
        }
        Ok(())
    }

    fn put(&mut self, at: usize, send: &Send, time: u64) {
        let seat = &mut self.seats[at];
        seat.put(self.cast, send, time);
        self.first.get_or_insert(time);
        self.moved = time;
        if !send.again {
            let next = &mut self.order[send.conversation as usize];
            // the other half's packets in between are seen only if it is here
            let right = if self.seats.len() == 2 { send.position == *next } else { send.position >= *next };
            self.order_broken += u64::from(!right);
            *next = send.position + 1;
        }
    }

    /// Whether the next conversation begins now.
    fn may_begin(&self, time: u64) -> bool {
        let Some((at, _)) = self.starts.get(self.next_start) else { return false };
        let Some(epoch) = self.epoch else { return false };
        // at a rate they begin one after the other, unless there is a rate of starts too
        let waits = self.hours.pace == Pace::Thinking || self.hours.start_rate.is_some();
        let open = self.seats.iter().map(|seat| seat.half.open()).max().unwrap_or(0);
        (!waits || epoch + at <= time) && self.hours.concurrent.is_none_or(|most| open < most)
    }

    fn begin(&mut self, time: u64) {
        let (_, conversation) = self.starts[self.next_start];
        self.next_start += 1;
        let opener = self.cast.script(conversation).opener();
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.half.side() == opener) {
            seat.half.begin(conversation, time);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.seats.iter_mut().try_for_each(Seat::flush)
    }

    fn is_over(&self, time: u64) -> bool {
        let all = self.cast.conversations();
        if self.seats.iter().any(Seat::is_full) || self.next_start < self.starts.len() {
            return false;
        }
        if self.seats.len() == 2 && self.seats.iter().all(|seat| seat.half.completed() == all) {
            return true;
        }
        let Manners { loss, timeout, .. } = self.hours.manners;
        let opens = self.starts.len() as u64 == u64::from(all);
        let begun = self.seats.iter().all(|seat| seat.half.begun() == all);
        // what the other half misses of the end, it asks for by then
        let linger = loss.after.saturating_mul(u64::from(loss.resend) + 1);
        let linger = if opens || begun { linger.min(timeout) } else { timeout };
        let quiet = time.saturating_sub(self.moved) > linger;
        self.epoch.is_some() && self.seats.iter().all(|seat| seat.half.open() == 0) && quiet
    }

    /// Sleeps until a frame arrives or something is due.
    fn wait(&self, start: u64) {
        let time = now();
        let mut due = time + NAP;
        for next in self.seats.iter().filter_map(|seat| seat.half.next()) {
            due = due.min(next.max(self.slot));
        }
        if let (Some((at, _)), Some(epoch)) = (self.starts.get(self.next_start), self.epoch) {
            let waits = self.hours.pace == Pace::Thinking || self.hours.start_rate.is_some();
            let open = self.seats.iter().map(|seat| seat.half.open()).max().unwrap_or(0);
            if self.hours.concurrent.is_none_or(|most| open < most) {
                due = due.min(if waits { (epoch + at).max(self.slot) } else { self.slot });
            }
        }
        due = self.hours.duration.map_or(due, |duration| due.min(start + duration));
        if self.seats.iter().any(Seat::is_full) {
            due = due.min(time + FULL);
        }
        let wish = Timespec { tv_sec: 0, tv_nsec: due.saturating_sub(time) as _ };
        let mut ends: Vec<PollFd<'_>> = self.seats.iter().map(|seat| PollFd::new(seat, PollFlags::IN)).collect();
        // a signal or an interface that went away: the next round finds out
        let _ = poll(&mut ends, Some(&wish));
    }

    fn close(self, start: u64) -> Conversed<'c> {
        let (halves, seats) = self.seats.into_iter().map(Seat::close).unzip();
        Conversed {
            cast: self.cast,
            halves,
            seats,
            order_broken: self.order_broken,
            start,
            elapsed: self.first.map_or(0, |first| self.moved - first),
            stalls: self.stalls,
            ended: self.stop.why(),
        }
    }
}
