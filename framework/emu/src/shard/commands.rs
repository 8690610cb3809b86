//! What an actor's wishes come to. No actor is called from here.

use rehearsal_core::{ActorId, Command, Role};

use super::{Local, State};

impl State {
    /// Acts on one wish of `who`, whose books are in `row`.
    pub(super) fn apply(&mut self, who: u32, row: usize, command: Command) {
        match command {
            Command::SetTimer { key, at } => {
                let place = self.timer(who, key.0);
                self.timers.set(place, who, key.0, at);
                if self.timers.crowded() {
                    self.drop_stale_timers();
                }
            }
            Command::CancelTimer { key } => {
                let place = self.timer(who, key.0);
                self.timers.cancel(place);
            }
            Command::Request(request) => self.request(who, row, request),
            Command::Abort(token) => self.abort(who, token),
            Command::Send(datagram) => self.datagram(who, row, datagram),
            Command::Respond { exchange, reply } => self.respond(exchange, reply),
            Command::Work { key, work } => self.work(who, key, work),
            Command::Publish { subject, body } => self.publish(Some(ActorId(who)), subject, body),
            Command::Flow(spec) => self.flow(who, row, *spec),
            Command::FlowSet { flow, set } => self.set_flow(who, flow, set),
            Command::Count { metric, by } => self.books[row].ledger.count(metric, by),
            Command::Record { metric, value } => self.books[row].ledger.value(metric, value),
            Command::Finished => self.finished(who, row),
        }
    }

    fn drop_stale_timers(&mut self) {
        let (world, row_of, books) = (&self.world, &self.row_of, &self.books);
        self.timers.rebuild(|who, key| {
            let books = &books[row_of[world.group_of(who)].expect("timers of actors here")];
            books.timers + ((who - books.base) * books.stride + key) as usize
        });
    }

    fn finished(&mut self, who: u32, row: usize) {
        let info = &self.world.groups[self.books[row].group];
        if info.role != Role::Sender {
            return;
        }
        let node = info.node;
        let Some(state) = self.nodes.iter_mut().find(|n| n.node == node) else { return };
        if let Some(unfinished) = &mut state.unfinished
            && state.finished.insert(who)
        {
            *unfinished -= 1;
        }
        self.check_done(node);
    }

    /// Tells that a node is done, once: its senders have finished and nothing of theirs is under way. Datagrams have
    /// no outcome to wait for.
    pub(super) fn check_done(&mut self, node: usize) {
        let world = &self.world;
        let quiet = |books: &super::Books| {
            let tally = &books.ledger.tally;
            world.groups[books.group].node != node || tally.open() == tally.datagrams_sent
        };
        let quiet = self.books.iter().all(quiet) && self.flows.iter().all(|f| f.ended() || f.node() != node);
        let Some(state) = self.nodes.iter_mut().find(|n| n.node == node) else { return };
        if quiet && state.unfinished == Some(0) {
            state.unfinished = None;
            self.queue.push_back(Local::NodeDone { node });
        }
    }
}
