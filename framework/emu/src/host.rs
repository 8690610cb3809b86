//! The actix actor of a shard: it carries the life cycle from the supervisor to the shard, and nothing of the traffic.
//! Connections, pacer and bus call the shard directly; through a mailbox each event would cost 7 % more, and what waits
//! in it at the stop would be lost.

use actix::{Actor as _, ActorContext as _, Context, Handler, Message, MessageResult};
use rehearsal_core::{Body, SubjectId, Time};
use tokio::sync::oneshot;

use crate::shard::{Core, ShardEnd};

/// Speaks for a shard.
pub(crate) struct Host {
    shard: Core,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Host {
    /// Starts on the present arbiter; `tasks` take in traffic, and end when the books are closed.
    pub(crate) fn begin(shard: Core, tasks: Vec<tokio::task::AbortHandle>) -> actix::Addr<Host> {
        Host { shard, tasks }.start()
    }
}

impl actix::Actor for Host {
    type Context = Context<Self>;

    fn started(&mut self, cx: &mut Self::Context) {
        // assumed: far more than the life cycle of a run has steps
        cx.set_mailbox_capacity(1024);
    }
}

/// The steps of a run's life.
pub(crate) enum Step {
    /// Every actor is told that the run is assembled.
    Start,
    /// It is known when traffic begins.
    Begin(Time),
    /// The engine says something to actors.
    Say(SubjectId, Body),
    /// Drain.
    Stop,
    /// What is still under way is aborted.
    GiveUp,
    /// Every sender is done: close the books and tell the last second.
    Close,
    /// It is over.
    End(oneshot::Sender<ShardEnd>),
}

impl Message for Step {
    type Result = ();
}

impl Handler<Step> for Host {
    type Result = ();

    fn handle(&mut self, step: Step, cx: &mut Self::Context) {
        let mut shard = self.shard.borrow_mut();
        match step {
            Step::Start => shard.start(),
            Step::Begin(at) => shard.begin(at),
            Step::Say(subject, body) => shard.say(subject, body),
            Step::Stop => shard.stop(),
            Step::GiveUp => shard.give_up(),
            Step::Close => {
                self.tasks.drain(..).for_each(|task| task.abort());
                shard.close();
            }
            Step::End(reply) => {
                // the supervisor has waited long enough if it no longer listens
                let _ = reply.send(shard.end());
                cx.stop();
            }
        }
    }
}

/// The sink is done with a record.
pub(crate) struct Stored {
    /// The job's slot and generation.
    pub id: (u32, u32),
    /// Why it could not be stored.
    pub failure: Option<String>,
}

impl Message for Stored {
    type Result = ();
}

impl Handler<Stored> for Host {
    type Result = ();

    fn handle(&mut self, stored: Stored, _: &mut Self::Context) {
        self.shard.borrow_mut().stored(stored.id, stored.failure);
        self.shard.borrow().store().stored();
    }
}

/// Asks a shard how it stands.
pub(crate) struct Query;

/// How a shard stands.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Nothing of its senders is under way.
    pub drained: bool,
    /// No message waits in it.
    pub quiet: bool,
    /// Messages between shards, on the whole bus.
    pub in_transit: u64,
    /// Datagrams sent from it that have not arrived anywhere.
    pub datagrams_missing: u64,
    /// Events that its actors handled.
    pub events: u64,
    /// Exchanges that came due.
    pub generated: u64,
    /// Exchanges that are settled.
    pub settled: u64,
}

impl Message for Query {
    type Result = Standing;
}

impl Handler<Query> for Host {
    type Result = MessageResult<Query>;

    fn handle(&mut self, _: Query, _: &mut Self::Context) -> MessageResult<Query> {
        MessageResult(self.shard.borrow().standing())
    }
}
