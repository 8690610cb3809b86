//! Links that are imposed in user space: what goes over one is held back here until it comes out of it, by the model and
//! the random numbers that the simulator uses.
//!
//! Each message rides on its sender's side: a request where its actor runs, an answer where the receiver does. So all
//! traffic of a link shares one queue, wherever the other end is. An exchange rides before its carrier gets it, and
//! payloads are rendered when they come out: what waits here costs a hundred bytes, not its payload.

use rehearsal_core::dscp::Dscp;
use rehearsal_core::parts::slab::Slab;
use rehearsal_core::{Head, Payload, Span, SubjectId, Time};
use rehearsal_models::link::Load;
use rehearsal_models::link::classes::Decided;
use rehearsal_models::path::{Direction, Links, Offer, Taken};
use rehearsal_models::transport::{RETRANSMISSIONS_MAX, Window, retransmission};

use super::State;
use super::datagrams::Echo;
use super::timers::class;
use crate::udp::{Origin, Target};

/// Messages that may be on the links of a shard at once; what comes beyond is dropped as by a full queue. Assumed: a
/// second of delay at a million messages a second.
const RIDES_MAX: usize = 1_000_000;
/// A message comes out late by at most this part of its link's delay.
const DELAY_PARTS: u64 = 256;

/// The imposed links of a shard, and what is on them.
pub(super) struct Rides {
    pub(super) links: Links,
    /// Whether any link of the experiment is imposed here.
    pub(super) any: bool,
    under_way: Slab<Ride>,
    /// Datagrams among them.
    flying: usize,
}

/// A message on its way.
pub(super) struct Ride {
    cargo: Cargo,
    path: u32,
    direction: Direction,
    /// The link; `None` if only the wait before it is imposed.
    link: Option<u32>,
    load: Load,
    dscp: Dscp,
    /// What its connection has learnt.
    window: Window,
    /// Propagation there and back.
    round_trip: Span,
    /// The link's delay.
    delay: Span,
    offered: Time,
    tries: u8,
    /// Whether it is on the link, or waits to be offered to it.
    rides: bool,
}

/// What is moved.
pub(super) enum Cargo {
    /// An attempt, by its slot and generation.
    Request(u32, u32),
    /// An answer, by the slot and generation of its request.
    Reply(u32, u32),
    /// A datagram.
    Datagram(Box<Parcel>),
    /// A datagram's header on its way back.
    Echo(Box<Echo>),
}

/// A datagram that has left its actor and not its node.
pub(super) struct Parcel {
    /// Row of its group's books.
    pub row: usize,
    pub origin: Origin,
    pub node: usize,
    pub member: u32,
    pub to: SubjectId,
    pub target: Target,
    pub head: Head,
    pub intended: Time,
    pub sent: Time,
    pub payload: Payload,
    pub dscp: Dscp,
}

impl Rides {
    /// Nothing on the imposed links between `nodes` nodes.
    pub(super) fn new(nodes: usize, any: bool) -> Self {
        Rides { links: Links::imposed(nodes), any, under_way: Slab::default(), flying: 0 }
    }

    /// Datagrams on links.
    pub(super) fn flying(&self) -> usize {
        self.flying
    }

    /// A message of `payload` bytes that takes a path in one direction.
    pub(super) fn ride(
        &mut self,
        cargo: Cargo,
        (path, direction): (u32, Direction),
        payload: u32,
        dscp: Dscp,
        window: Window,
    ) -> Ride {
        let at = self.links.at(path);
        let (link, load) = (at.link(direction), at.load(direction, payload, &window));
        let delay = if direction == Direction::Up { at.delay_up } else { at.delay_down };
        let round_trip = at.round_trip;
        let (offered, tries, rides) = (Time::ZERO, 0, false);
        Ride { cargo, path, direction, link, load, dscp, window, round_trip, delay, offered, tries, rides }
    }
}

impl Ride {
    fn offer(&self, slot: u32) -> Offer {
        let Ride { path, direction, load, dscp, .. } = *self;
        Offer { path, direction, load, dscp, again: self.tries > 0, token: u64::from(slot) }
    }
}

impl State {
    /// The imposed path from a node to a subject's owner, if any part of it is imposed.
    pub(super) fn imposed_path(&mut self, node: usize, to: SubjectId) -> Option<u32> {
        if !self.rides.any {
            return None;
        }
        let owner = self.world.subjects.owner(to)?;
        let there = self.world.groups[self.world.group_of(owner.0)].node;
        let path = self.rides.links.path(&self.world.plan, node as u32, there as u32);
        let at = self.rides.links.at(path);
        (at.up.is_some() || at.down.is_some()).then_some(path)
    }

    /// Sends a message on its way, after a wait.
    pub(super) fn set_off(&mut self, ride: Ride, wait: Span) {
        if wait.is_zero() {
            return self.onto_link(ride);
        }
        let at = self.now().saturating_add(wait);
        self.keep(ride, at);
    }

    fn onto_link(&mut self, mut ride: Ride) {
        if ride.link.is_none() {
            return self.comes_out(ride.cargo);
        }
        let now = self.now();
        (ride.offered, ride.rides) = (now, true);
        let Some(slot) = self.stow(ride) else { return };
        let Rides { links, under_way, .. } = &mut self.rides;
        let ride = under_way.at_mut(slot);
        let taken = links.offer(now, &ride.offer(slot), &mut ride.window);
        self.taken(slot, taken);
    }

    /// What has become of an offer. A link has lost it, or had no room for it: a stream sends it again later, a datagram is
    /// gone.
    fn taken(&mut self, slot: u32, taken: Taken) {
        let ride = self.rides.under_way.at_mut(slot);
        let (path, direction, delay, window) = (ride.path, ride.direction, ride.delay, ride.window);
        if let Cargo::Request(slot, generation) = ride.cargo
            && let Some(live) = self.live.get_mut(slot, generation)
        {
            live.window = window;
        }
        match taken {
            Taken::Out(at) => self.wake_for(slot, at, delay),
            Taken::Queued => {
                if let Some(cell) = self.rides.links.cell(path, direction) {
                    self.choices(cell);
                }
            }
            Taken::Full => {
                let ride = self.unstow(slot);
                self.retransmit(ride);
            }
            Taken::Lost => {
                let ride = self.unstow(slot);
                self.given_up(&ride.cargo);
            }
        }
    }

    /// A link that chooses packet by packet is looked at.
    pub(super) fn visit_link(&mut self, cell: u32) {
        let now = self.now();
        self.rides.links.visit(cell, now);
        self.choices(cell);
    }

    fn choices(&mut self, cell: u32) {
        while let Some(Decided { token, leaves, offered }) = self.rides.links.decided(cell) {
            let slot = token as u32;
            let Rides { links, under_way, .. } = &mut self.rides;
            let ride = under_way.at_mut(slot);
            let offer = ride.offer(slot);
            let taken = match leaves {
                Some(left) => links.travel(offered, left, &offer, &mut ride.window),
                None => links.drop_one(&offer),
            };
            self.taken(slot, taken);
        }
        let now = self.now();
        if let Some(at) = self.rides.links.wake(cell, now) {
            self.timers.push_exact(at, class::LINK, 0, u64::from(cell));
        }
    }

    /// What found no room is offered again later. What was offered in vain too often is left to the deadline.
    fn retransmit(&mut self, mut ride: Ride) {
        ride.tries += 1;
        ride.rides = false;
        if !self.rides.links.at(ride.path).carrier.is_reliable() || ride.tries > RETRANSMISSIONS_MAX {
            return self.given_up(&ride.cargo);
        }
        let at = self.now().saturating_add(retransmission(ride.round_trip, ride.tries));
        self.keep(ride, at);
    }

    fn given_up(&mut self, cargo: &Cargo) {
        if let Cargo::Reply(slot, generation) = *cargo {
            self.reply_lost(slot, generation);
        }
    }

    fn keep(&mut self, ride: Ride, at: Time) {
        let delay = ride.delay;
        if let Some(slot) = self.stow(ride) {
            self.wake_for(slot, at, delay);
        }
    }

    fn wake_for(&mut self, slot: u32, at: Time, delay: Span) {
        let fine = Span::from_nanos(delay.as_nanos() / DELAY_PARTS).min(self.world.options.quantum);
        self.timers.push_exact(at.round_up(fine), class::RIDE, 0, u64::from(slot));
    }

    /// Finds room for a message that waits or rides, before it is offered to anything.
    fn stow(&mut self, ride: Ride) -> Option<u32> {
        if self.rides.under_way.len() >= RIDES_MAX {
            self.notes.note(format!("messages beyond {RIDES_MAX} on imposed links were dropped"));
            self.given_up(&ride.cargo);
            return None;
        }
        self.rides.flying += usize::from(matches!(ride.cargo, Cargo::Datagram(_)));
        Some(self.rides.under_way.insert(ride))
    }

    fn unstow(&mut self, slot: u32) -> Ride {
        let ride = self.rides.under_way.remove(slot);
        self.rides.flying -= usize::from(matches!(ride.cargo, Cargo::Datagram(_)));
        ride
    }

    /// The time of a message on its way has come.
    pub(super) fn ride_due(&mut self, slot: u32) {
        let ride = self.unstow(slot);
        if let Some(link) = ride.link.filter(|_| ride.rides) {
            let now = self.now();
            self.rides.links.delivered(link, ride.offered, now, ride.load.bytes);
            self.comes_out(ride.cargo);
        } else if self.is_wanted(&ride.cargo) {
            self.onto_link(ride);
        }
    }

    fn is_wanted(&self, cargo: &Cargo) -> bool {
        match cargo {
            Cargo::Request(slot, generation) => self.live.live(*slot, *generation),
            Cargo::Reply(slot, generation) => self.inbound.live(*slot, *generation),
            Cargo::Datagram(_) | Cargo::Echo(_) => true,
        }
    }

    fn comes_out(&mut self, cargo: Cargo) {
        match cargo {
            Cargo::Request(slot, generation) => {
                if self.live.live(slot, generation) {
                    self.dispatch(slot);
                }
            }
            Cargo::Reply(slot, generation) => self.release(slot, generation),
            Cargo::Datagram(parcel) => self.post(&parcel),
            Cargo::Echo(echo) => self.send_echo(&echo),
        }
    }
}
