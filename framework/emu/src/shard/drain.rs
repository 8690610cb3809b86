//! The end of a run: stop, drain, close the books, hand them over.

use rehearsal_core::run::{Fault, GroupEnd};
use rehearsal_core::{ActorId, Event};

use super::{Shard, State};
use crate::host::Standing;
use crate::progress::Progress;
use crate::store::Store;

/// What a shard hands back.
#[derive(Debug)]
pub(crate) struct ShardEnd {
    pub groups: Vec<GroupEnd>,
    pub faults: Vec<Fault>,
    pub messages_dropped: u64,
    /// Dropped between shards, by any of them.
    pub bus_dropped: u64,
    pub late_replies: u64,
    pub events: u64,
    pub notes: Vec<String>,
}

impl Shard {
    /// Begins to drain: what has not left stays here, what is under way may end.
    pub(crate) fn stop(&mut self) {
        if std::mem::replace(&mut self.state.stopping, true) {
            return;
        }
        self.state.give_up(false);
        self.state.stop_flows();
        self.settle();
        self.tell_all(Event::Stop);
        self.report_flows();
        self.settle();
    }

    /// Aborts what is still under way.
    pub(crate) fn give_up(&mut self) {
        self.state.give_up(true);
        self.settle();
    }

    /// How the shard stands.
    pub(crate) fn standing(&self) -> Standing {
        let state = &self.state;
        let quiet = state.queue.is_empty();
        let mut progress = Progress { under_way: state.under_way() as u64, ..Progress::default() };
        for books in &state.books {
            progress.count(&books.ledger.tally);
        }
        Standing {
            drained: quiet && state.under_way() == 0,
            quiet,
            in_transit: state.bus.in_transit(),
            datagrams_missing: state.datagrams_missing(),
            progress,
        }
    }

    /// Closes the books and tells the last, partial second.
    pub(crate) fn close(&mut self) {
        let state = &mut self.state;
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        state.close_inbound();
        state.settle_datagrams();
        for books in &mut state.books {
            books.ledger.tally.close();
        }
        if state.sampling {
            state.tell_second();
        }
        self.settle();
    }

    /// Hands the books over.
    pub(crate) fn end(&mut self) -> ShardEnd {
        let state = &mut self.state;
        let groups = state.books.iter().map(|books| {
            let info = &state.world.groups[books.group];
            GroupEnd {
                group: books.group,
                tally: books.ledger.tally,
                schedule: books.ledger.schedule_digest(),
                counts: books.ledger.counts(&info.metrics),
                listen: info.serve.and_then(|_| state.world.addresses.get(&ActorId(books.base)).copied()),
            }
        });
        ShardEnd {
            groups: groups.collect(),
            faults: std::mem::take(&mut state.faults),
            messages_dropped: state.messages_dropped,
            bus_dropped: state.bus.dropped(),
            late_replies: state.late_replies,
            events: state.events,
            notes: state.end_notes(),
        }
    }

    /// The way to the sink.
    pub(crate) fn store(&self) -> Store {
        self.state.store.clone()
    }
}

impl State {
    fn end_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.udp.refused > 0 {
            notes.push(format!("{} datagrams found no room in this host's buffers", self.udp.refused));
        }
        notes
    }
}
