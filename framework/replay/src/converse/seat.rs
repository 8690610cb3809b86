//! A half at its interface: what it hears and sends, and what is counted there.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use hdrhistogram::Histogram;
use rehearsal_core::dialogue::{Half, Heard, Manners, Outcome, Send, Talk};

use super::cast::Cast;
use super::hall::{ConverseError, Place};
use super::local;
use super::result::{SeatFacts, Times};
use crate::packet::Direction;
use crate::receive::enter_space;
use crate::send::wire::{self, Counters};
use crate::sys::hear::Hearing;
use crate::sys::interface::Interface;
use crate::sys::packet::{BATCH, PacketSocket};
use crate::timing::wait::now;

/// Batches of arrivals that are taken before anything is sent.
const TURNS: usize = 16;
/// Bytes of a frame that are kept beyond the longest of the template: tags that were put on on the way.
const MORE: usize = 64;

/// A half, its interface, and its books.
pub(super) struct Seat {
    pub half: Half,
    place: Place,
    interface: Interface,
    hearing: Hearing,
    socket: PacketSocket,
    /// Frames that are to be sent; of these so many are in use.
    outbox: Vec<Vec<u8>>,
    used: usize,
    before: Option<Counters>,
    facts: SeatFacts,
    round_trips: Histogram<u64>,
    late: Histogram<u64>,
}

/// What is opened inside of a network namespace.
struct Opened {
    interface: Interface,
    hearing: Hearing,
    socket: PacketSocket,
    local: BTreeSet<IpAddr>,
    before: Option<Counters>,
}

impl Seat {
    /// Opens the interface of one side.
    pub fn open(cast: &Cast<'_>, side: Direction, place: &Place, manners: Manners) -> Result<Self, ConverseError> {
        let longest = cast.longest();
        let opened = inside(place.space.as_deref(), || open(place, longest + MORE))??;
        let Opened { interface, hearing, socket, local, before } = opened;
        if longest > interface.frame_max(false) {
            let (mtu, name) = (interface.mtu, interface.name);
            return Err(ConverseError::TooLong { name, mtu, longest });
        }
        for conversation in 0..cast.conversations() {
            if let Some(address) = cast.hosts(conversation).into_iter().find(|host| local.contains(host)) {
                return Err(ConverseError::Local { address, name: interface.name });
            }
        }
        let facts = SeatFacts::of(side, &interface);
        let half = Half::new(side, &cast.scripts().repertoire(), cast.conversations(), manners);
        let [round_trips, late] = [super::result::histogram(), super::result::histogram()];
        Ok(Seat {
            half,
            place: place.clone(),
            interface,
            hearing,
            socket,
            outbox: Vec::new(),
            used: 0,
            before,
            facts,
            round_trips,
            late,
        })
    }

    /// Hears what has come; whether anything of a conversation was among it.
    pub fn hear(&mut self, cast: &Cast<'_>) -> io::Result<bool> {
        let Seat { half, hearing, facts, round_trips, .. } = self;
        let mut any = false;
        for _ in 0..TURNS {
            let time = now();
            let taken = hearing.take(|bytes| {
                let known = cast.know(bytes).filter(|known| known.side != half.side());
                let Some(known) = known else {
                    facts.foreign += 1;
                    return;
                };
                any = true;
                match half.hear(known.conversation, known.key, time) {
                    Heard::New { ahead, round_trip, .. } => {
                        facts.arrived += 1;
                        facts.reordered += u64::from(ahead);
                        round_trip.iter().for_each(|time| round_trips.saturating_record(*time));
                    }
                    Heard::Again => facts.again += 1,
                    Heard::Strange => facts.strange += 1,
                }
            })?;
            if taken < BATCH {
                break;
            }
        }
        Ok(any)
    }

    /// Whether another frame can be put down.
    pub fn has_room(&self) -> bool {
        self.used < BATCH
    }

    /// Whether frames are waiting for the path.
    pub fn is_full(&self) -> bool {
        self.used > 0
    }

    /// Puts a packet down to be sent.
    pub fn put(&mut self, cast: &Cast<'_>, send: &Send, time: u64) {
        if self.outbox.len() == self.used {
            self.outbox.push(Vec::new());
        }
        let frame = &mut self.outbox[self.used];
        self.used += 1;
        cast.frame(send.conversation, self.half.script(send.conversation).step(send.position).packet, frame);
        if let Some(hop) = self.place.next_hop
            && frame.len() >= 12
        {
            frame[..6].copy_from_slice(&hop);
            frame[6..12].copy_from_slice(&self.interface.mac);
        }
        if send.again {
            self.facts.repeated += 1;
        } else {
            self.late.saturating_record(time.saturating_sub(send.due));
        }
    }

    /// Sends what was put down, as far as the path takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.used {
            let mut frames: [&[u8]; BATCH] = [&[]; BATCH];
            for (to, frame) in frames.iter_mut().zip(&self.outbox[sent..self.used]) {
                *to = frame;
            }
            match self.socket.send(&frames[..self.used - sent]) {
                Ok(taken) => {
                    self.facts.sent += taken as u64;
                    self.facts.bytes += frames[..taken].iter().map(|frame| frame.len() as u64).sum::<u64>();
                    sent += taken;
                }
                Err(why) if is_full(&why) => {
                    self.facts.full += 1;
                    break;
                }
                Err(why) if matches!(why.raw_os_error(), Some(libc::EMSGSIZE | libc::EINVAL)) => {
                    self.facts.refused += 1;
                    sent += 1;
                }
                Err(why) => return Err(why),
            }
        }
        self.outbox[..self.used].rotate_left(sent);
        self.used -= sent;
        Ok(())
    }

    /// Its half, and what was counted.
    pub fn close(mut self) -> (Half, SeatFacts) {
        let name = &self.interface.name;
        let after = inside(self.place.space.as_deref(), || Counters::read(name)).ok().flatten();
        self.facts.wire = self.before.zip(after).map(|(before, after)| after.since(&before));
        self.facts.missed = self.hearing.dropped().unwrap_or(0);
        self.facts.round_trip = Times::of(&self.round_trips);
        self.facts.late = Times::of(&self.late);
        let talks = self.half.talks();
        let open = |talk: &&Talk| talk.outcome == Outcome::Unfinished;
        self.facts.open_at_end = talks.iter().filter(open).count() as u64;
        (self.half, self.facts)
    }

    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }
}

impl AsFd for Seat {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.hearing.as_fd()
    }
}

fn is_full(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::WouldBlock || why.raw_os_error() == Some(libc::ENOBUFS)
}

fn open(place: &Place, longest: usize) -> Result<Opened, ConverseError> {
    let name = &place.interface;
    let interface = Interface::read(name).map_err(|_| ConverseError::Missing {
        name: name.clone(),
        there: format!("there are: {}", wire::names().join(", ")),
    })?;
    if !interface.up {
        return Err(ConverseError::Down(name.clone()));
    }
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => ConverseError::NotPermitted,
        _ => ConverseError::Open { name: name.clone(), source },
    };
    let hearing = Hearing::open(interface.index, longest).map_err(failed)?;
    let socket = PacketSocket::open(interface.index).map_err(failed)?;
    let before = Counters::read(name);
    Ok(Opened { interface, hearing, socket, local: local::addresses(), before })
}

/// Does something inside of a network namespace, on a thread that goes there.
fn inside<T: std::marker::Send>(
    space: Option<&Path>,
    work: impl FnOnce() -> T + std::marker::Send,
) -> Result<T, ConverseError> {
    let Some(space) = space else { return Ok(work()) };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter_space(space)?;
            Ok(work())
        });
        thread.join().expect("a thread that panicked has said why")
    })
}
