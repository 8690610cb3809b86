//! Echoes: datagrams whose header comes back, so that their senders measure round trips. Nothing is sent again.

use std::net::SocketAddr;
use std::rc::Rc;

use rehearsal_core::dscp::Dscp;
use rehearsal_core::{ActorId, Head, Span, Status};
use rehearsal_models::path::Direction;
use rehearsal_models::transport::Window;

use super::super::requests::Stage;
use super::super::rides::Cargo;
use super::super::{Shard, State};
use crate::udp::{self, DATAGRAM_BYTES_MAX, ECHO_BYTES, Origin, Reach, Reflector, Sort, Stamp, Way};

/// An echo that an imposed link holds back.
pub(in crate::shard) struct Echo {
    reflector: Rc<Reflector>,
    to: SocketAddr,
    header: [u8; ECHO_BYTES],
    dscp: Dscp,
}

impl Echo {
    /// Sends it.
    pub(in crate::shard) fn send(&self) -> bool {
        self.reflector.echo(self.to, &self.header, self.dscp)
    }
}

impl State {
    /// An attempt leaves as a datagram, and waits for its echo.
    pub(in crate::shard) fn ask_echo(&mut self, slot: u32, to: SocketAddr) {
        let generation = self.live.generation(slot);
        let live = self.live.at_mut(slot);
        live.stage = Stage::Echoing;
        let (request, who, times) = (live.request, live.who, live.times);
        let books = &self.books[live.row];
        let group = &self.world.groups[books.group];
        let way = Way { origin: Origin::Node(group.node), to, dscp: group.dscp, sort: Reach::Echoing };
        let member = books.first + who - books.base;
        let mark = u64::from(slot) << 32 | u64::from(generation);
        let head = Head { from: Some(ActorId(who)), stream: request.stream, seq: request.seq, ..Head::default() };
        let (run, sort) = (self.world.run_hash, Sort::Asks(mark));
        let stamp = Stamp { run, sort, head, intended: times.intended, sent: times.sent };
        let mut datagram = self.udp.buffer();
        self.render_into(request.payload, member, &mut datagram);
        datagram.resize(datagram.len().clamp(ECHO_BYTES, DATAGRAM_BYTES_MAX), 0);
        stamp.write(&mut datagram);
        self.put_out(way, datagram.len(), datagram);
        self.hear_echoes();
    }

    /// Listens on sockets that echoes come back to and nobody listens on yet.
    fn hear_echoes(&mut self) {
        while let Some(socket) = self.udp.mute.pop() {
            let Some(shard) = self.me.upgrade() else { return };
            match Reflector::new(socket) {
                Ok(socket) => _ = tokio::task::spawn_local(udp::receive(shard, socket, None)),
                Err(why) => self.notes.note(format!("echoes could not be listened for: {why}")),
            }
        }
    }

    /// Sends the header of a datagram back to where it came from, over an imposed link if there is one.
    pub(super) fn echo(&mut self, actor: u32, stamp: &Stamp, reflector: &Rc<Reflector>, to: SocketAddr) {
        let (Sort::Asks(mark), Some(from)) = (stamp.sort, stamp.head.from) else { return };
        let dscp = self.world.groups[self.world.group_of(from.0)].dscp;
        let mut header = [0; ECHO_BYTES];
        Stamp { sort: Sort::Echo(mark), ..*stamp }.write(&mut header);
        let echo = Echo { reflector: reflector.clone(), to, header, dscp };
        match self.way_home(actor, from) {
            None => self.send_echo(&echo),
            Some(path) => {
                let cargo = Cargo::Echo(Box::new(echo));
                let there = (path, Direction::Down);
                let ride = self.rides.ride(cargo, there, ECHO_BYTES as u32, dscp, Window::default());
                self.set_off(ride, Span::ZERO);
            }
        }
    }

    pub(in crate::shard) fn send_echo(&mut self, echo: &Echo) {
        self.udp.refused += u64::from(!echo.send());
    }
}

impl Shard {
    /// Echoes of `each` bytes came in.
    pub(crate) fn echoes_in(&mut self, each: usize, bytes: &[u8]) {
        let now = self.state.now();
        for one in bytes.chunks(each) {
            let Some(Stamp { sort: Sort::Echo(mark), .. }) = Stamp::read(one, self.state.world.run_hash, now) else {
                continue;
            };
            let (slot, generation) = ((mark >> 32) as u32, mark as u32);
            match self.state.live.get_mut(slot, generation).filter(|live| live.stage == Stage::Echoing) {
                Some(live) => {
                    live.stage = Stage::Answered;
                    self.outcome(slot, Status::Success, ECHO_BYTES as u32);
                }
                None => self.state.late_replies += 1,
            }
        }
        self.settle();
    }
}
