//! The end of a run: stop, drain, close the books, hand them over.

use rehearsal_core::parts::tally::Tally;
use rehearsal_core::run::{ConnectionEnd, Fault, GroupEnd, LinkEnd};
use rehearsal_core::{ActorId, Event};

use super::{Shard, State};
use crate::host::Standing;
use crate::losses::Losses;
use crate::store::Store;

/// Times that a shard which is late goes on firing timers at the stop, some hundred each; then the stop is the stop.
const CATCH_UP_MAX: usize = 64;

/// What a shard hands back.
#[derive(Debug)]
pub(crate) struct ShardEnd {
    pub groups: Vec<GroupEnd>,
    pub faults: Vec<Fault>,
    pub messages_dropped: u64,
    /// Dropped between shards, by any of them.
    pub bus_dropped: u64,
    pub late_replies: u64,
    pub losses: Losses,
    pub links: Vec<LinkEnd>,
    pub connections: Vec<ConnectionEnd>,
    pub events: u64,
    pub notes: Vec<String>,
}

impl Shard {
    /// Begins to drain: what has not left stays here, what is under way may end. What was due before is generated
    /// first, however late this shard is, so that a schedule is the same whatever the load.
    pub(crate) fn stop(&mut self) {
        if self.state.stopping {
            return;
        }
        for _ in 0..CATCH_UP_MAX {
            self.settle();
            if !self.state.timers.nudged() {
                break;
            }
        }
        self.state.timers.nudge();
        self.state.stopping = true;
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
        let quiet = state.queue.is_empty() && state.seconds.is_told();
        let sum = |of: fn(&Tally) -> u64| state.books.iter().map(|b| of(&b.ledger.tally)).sum();
        Standing {
            drained: quiet && state.under_way() == 0 && state.rides.flying() == 0,
            quiet,
            in_transit: state.bus.in_transit(),
            datagrams_missing: state.datagrams_missing(),
            events: state.events,
            generated: sum(|t| t.generated),
            settled: sum(|t| t.generated - t.open()),
        }
    }

    /// Hands the books over.
    pub(crate) fn end(&mut self) -> ShardEnd {
        self.close_now();
        let state = &mut self.state;
        let groups = state.books.iter().map(|books| {
            let info = &state.world.groups[books.group];
            GroupEnd {
                group: books.group,
                tally: books.ledger.tally,
                schedule: books.ledger.schedule_digest(),
                counts: books.ledger.counts(&info.metrics),
                datagrams_elsewhere: books.elsewhere,
                listen: info.serve.and_then(|_| state.world.addresses.get(&ActorId(books.base)).copied()),
            }
        });
        ShardEnd {
            groups: groups.collect(),
            faults: std::mem::take(&mut state.faults),
            messages_dropped: state.messages_dropped,
            bus_dropped: state.bus.dropped(),
            late_replies: state.late_replies,
            losses: std::mem::take(&mut state.losses),
            links: state.rides.links.ends(),
            connections: state.dialled.ends(&state.world.plan),
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
    /// Settles whatever is open.
    pub(super) fn close_books(&mut self) {
        self.close_inbound();
        self.settle_datagrams();
        let gathered = self.world.options.remote.is_some();
        for books in &mut self.books {
            let tally = &mut books.ledger.tally;
            tally.close();
            if gathered {
                // datagrams to other processes stay open: the leader settles them by their receivers' counts
                tally.aborted -= books.elsewhere;
                tally.aborted_attempts -= books.elsewhere;
            }
        }
    }

    fn end_notes(&self) -> Vec<String> {
        let mut notes = self.nats.as_ref().map(|nats| nats.notes()).unwrap_or_default();
        let refused = self.publishers.refused();
        if refused > 0 {
            notes.push(format!("{refused} publications of QoS 0 found no room before the MQTT broker"));
        }
        if self.udp.refused > 0 {
            notes.push(format!("{} datagrams found no room in this host's buffers", self.udp.refused));
        }
        notes
    }
}
