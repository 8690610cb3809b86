//! Datagrams at their receiver, and messages that are counted as datagrams are.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use rehearsal_core::{Event, Payload, Time};
use rehearsal_models::seen::Place;

use super::super::{Shard, State};
use crate::udp::{HEADER_BYTES, Reflector, Sort, Stamp};

impl Shard {
    /// Datagrams of `each` bytes came in for a receiving actor, together.
    pub(crate) fn datagrams_in(
        &mut self,
        actor: u32,
        reflector: &Rc<Reflector>,
        from: SocketAddr,
        each: usize,
        bytes: &[u8],
    ) {
        if self.state.closed {
            return;
        }
        let now = self.state.now();
        // of one group after the other, so that what shards share is touched once for each
        let mut arrived: Option<(usize, u64)> = None;
        for one in bytes.chunks(each) {
            let Some((stamp, group, new)) = self.state.arrive(actor, one, now) else { continue };
            match stamp.sort {
                Sort::Asks(_) => self.state.echo(actor, &stamp, reflector, from),
                Sort::Echo(_) => continue,
                Sort::OneWay if new => match &mut arrived {
                    Some((same, count)) if *same == group => *count += 1,
                    other => self.state.settle_arrived(other.replace((group, 1))),
                },
                Sort::OneWay => {}
            }
            self.show(actor, &stamp, one.len(), now);
        }
        self.state.settle_arrived(arrived);
        self.settle();
    }

    /// A message came in over a broker for a receiving actor; whether it is one of ours.
    pub(crate) fn delivered(&mut self, actor: u32, bytes: &[u8]) -> bool {
        let now = self.state.now();
        if self.state.closed {
            return true;
        }
        let Some((stamp, group, new)) = self.state.arrive(actor, bytes, now) else { return false };
        self.state.settle_arrived(new.then_some((group, 1)));
        self.show(actor, &stamp, bytes.len(), now);
        self.settle();
        true
    }

    fn show(&mut self, actor: u32, stamp: &Stamp, bytes: usize, now: Time) {
        let payload = Payload::new(bytes.max(HEADER_BYTES) as u32, Payload::RECEIVED, stamp.head.seq);
        self.handle(actor, Event::Datagram { head: &stamp.head, times: &stamp.times(now), payload: &payload });
    }
}

impl State {
    /// Books one that came in: what its header says, the group that sent it, and whether it came for the first time.
    #[inline]
    fn arrive(&mut self, actor: u32, bytes: &[u8], now: Time) -> Option<(Stamp, usize, bool)> {
        let stamp = Stamp::read(bytes, self.world.run_hash, now)?;
        let from = stamp.head.from.filter(|f| self.world.knows(*f))?;
        let group = self.world.group_of(from.0);
        let (row, _) = self.place(actor);
        let ledger = &mut self.books[row].ledger;
        ledger.tally.datagrams_received += 1;
        ledger.tally.bytes_received += bytes.len() as u64;
        // another process may count its time from another moment: what the stamps differ by is then no delay
        let one_clock = self.world.options.remote.is_some() || self.world.is_local(group);
        let one_way = one_clock.then(|| now.since(stamp.sent));
        let key = (actor, from.0, stamp.head.stream);
        // a constant offset between the clocks is no variation
        let transit = now.as_nanos().wrapping_sub(stamp.sent.as_nanos()).cast_signed();
        let (place, variation) = self.arrived.arrive(key, stamp.head.seq, transit);
        ledger.arrived(one_way, &variation);
        match place {
            Place::InOrder => {}
            Place::Reordered => ledger.tally.datagrams_reordered += 1,
            Place::Duplicate => ledger.tally.datagrams_duplicate += 1,
        }
        Some((stamp, group, place != Place::Duplicate))
    }

    pub(in crate::shard) fn settle_arrived(&self, arrived: Option<(usize, u64)>) {
        if let Some((group, count)) = arrived {
            self.world.shared.arrived[group].fetch_add(count, Ordering::AcqRel);
        }
    }
}
