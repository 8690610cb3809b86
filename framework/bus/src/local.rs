//! The local bus: a port and an inbox for each shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rehearsal_core::assembly::Routes;
use rehearsal_core::{ActorId, Body, SubjectId};
use tokio::sync::mpsc;

use crate::split::Split;

/// Deliveries that may wait for one shard, from all others together. Assumed: some ten seconds of the telemetry of
/// 1,000 nodes (6 messages a second each), at 64 bytes each 4 MiB.
pub const INBOX_DELIVERIES_MAX: usize = 65_536;

/// A message on its way to another shard, which hands it to each of its own hearers.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Where it was published.
    pub subject: SubjectId,
    /// What it says.
    pub body: Body,
}

/// A shard's way onto the bus.
#[derive(Debug)]
pub struct Port {
    split: Split,
    peers: Arc<[mpsc::Sender<Delivery>]>,
    counts: Arc<Counts>,
}

/// What other shards published for this one.
#[derive(Debug)]
pub struct Inbox {
    queue: mpsc::Receiver<Delivery>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    transit: AtomicU64,
    dropped: AtomicU64,
}

/// A bus between `shards` shards: a port and an inbox for each, in their order. `subjects` is the number of subjects
/// known, `shard_of` tells where an actor lives.
pub fn local(routes: &Routes, subjects: u32, shards: usize, shard_of: &dyn Fn(ActorId) -> usize) -> Vec<(Port, Inbox)> {
    with_room(routes, subjects, shards, shard_of, None, INBOX_DELIVERIES_MAX)
}

/// As [`local`], with one more port and inbox at the end, for whoever speaks for other processes. It gets what is
/// published here on the subjects that `heard_elsewhere` names, and nothing of what it sends comes back to it.
pub fn local_and_beyond(
    routes: &Routes,
    heard_elsewhere: &[bool],
    shards: usize,
    shard_of: &dyn Fn(ActorId) -> usize,
) -> Vec<(Port, Inbox)> {
    with_room(routes, heard_elsewhere.len() as u32, shards, shard_of, Some(heard_elsewhere), INBOX_DELIVERIES_MAX)
}

fn with_room(
    routes: &Routes,
    subjects: u32,
    shards: usize,
    shard_of: &dyn Fn(ActorId) -> usize,
    heard_elsewhere: Option<&[bool]>,
    room: usize,
) -> Vec<(Port, Inbox)> {
    let counts = Arc::new(Counts::default());
    let (peers, queues): (Vec<_>, Vec<_>) =
        (0..shards + usize::from(heard_elsewhere.is_some())).map(|_| mpsc::channel(room)).unzip();
    let peers: Arc<[mpsc::Sender<Delivery>]> = peers.into();
    let ends = queues.into_iter().enumerate().map(|(shard, queue)| {
        let beyond = heard_elsewhere.map(|heard| (shards, heard)).filter(|_| shard != shards);
        let split = Split::new(routes, subjects, shard, shard_of, beyond);
        (Port { split, peers: peers.clone(), counts: counts.clone() }, Inbox { queue, counts: counts.clone() })
    });
    ends.collect()
}

impl Port {
    /// The hearers of `subject` in this shard, which delivers to them itself.
    #[inline]
    pub fn here(&self, subject: SubjectId) -> &[ActorId] {
        &self.split.row(subject).here
    }

    /// Sends a message to the other shards that have a hearer. Never waits: what finds no room is dropped and counted,
    /// once for each actor that would have heard it.
    pub fn send(&self, subject: SubjectId, body: &Body) {
        for &(shard, hearers) in &self.split.row(subject).there {
            self.counts.transit.fetch_add(1, Ordering::AcqRel);
            if self.peers[shard].try_send(Delivery { subject, body: body.clone() }).is_err() {
                self.counts.transit.fetch_sub(1, Ordering::AcqRel);
                self.counts.dropped.fetch_add(hearers, Ordering::Relaxed);
            }
        }
    }

    /// Whether another shard hears `subject`.
    #[inline]
    pub fn is_heard_elsewhere(&self, subject: SubjectId) -> bool {
        !self.split.row(subject).there.is_empty()
    }

    /// Deliveries that found no room, on the whole bus.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Messages between shards that are not yet handled, on the whole bus.
    pub fn in_transit(&self) -> u64 {
        self.counts.transit.load(Ordering::Acquire)
    }
}

impl Inbox {
    /// The next message, in each publisher's order; `None` once every port is gone. Call [`Inbox::handled`] after it.
    pub async fn receive(&mut self) -> Option<Delivery> {
        self.queue.recv().await
    }

    /// The next message, if one is there. Call [`Inbox::handled`] after it.
    pub fn try_receive(&mut self) -> Option<Delivery> {
        self.queue.try_recv().ok()
    }

    /// The message that was received last, and all that followed from it in this shard, is done with.
    pub fn handled(&self) {
        self.counts.transit.fetch_sub(1, Ordering::AcqRel);
    }
}
