//! The run's sink on a thread of its own: records are stored in order, and no shard waits for a disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use actix::Addr;
use rehearsal_core::Body;
use rehearsal_core::sink::Sink;
use tokio::time::Instant;

use crate::host::{Host, Stored};
use crate::world::World;

/// Records that may wait for the sink. Assumed: a minute of reports of 1,000 nodes; what finds no room is not stored,
/// and its actor is told so.
const RECORDS_MAX: usize = 65_536;

/// Between two looks at whether the thread has ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(1);

/// A shard's way to the sink.
#[derive(Clone)]
pub(crate) struct Store {
    records: SyncSender<Option<Record>>,
    shard: usize,
    world: Arc<World>,
}

struct Record {
    shard: usize,
    id: (u32, u32),
    body: Body,
}

/// The sink's thread before it knows the shards that it answers to.
pub(crate) struct Keeper {
    records: Receiver<Option<Record>>,
    sender: SyncSender<Option<Record>>,
    world: Arc<World>,
}

impl Keeper {
    pub(crate) fn new(world: Arc<World>) -> Self {
        let (sender, records) = sync_channel(RECORDS_MAX);
        Keeper { records, sender, world }
    }

    /// The way to the sink from `shard`.
    pub(crate) fn store(&self, shard: usize) -> Store {
        Store { records: self.sender.clone(), shard, world: self.world.clone() }
    }

    /// Begins to store. The thread ends when it is told to, or when everybody has dropped the way to it.
    ///
    /// # Errors
    /// When the operating system refuses the thread.
    pub(crate) fn start(self, mut sink: Box<dyn Sink>, hosts: Vec<Addr<Host>>) -> std::io::Result<Storing> {
        let Keeper { records, sender, .. } = self;
        let thread = std::thread::Builder::new().name("rehearsal-store".to_owned()).spawn(move || {
            while let Ok(Some(Record { shard, id, body })) = records.recv() {
                let failure = sink.store(&body).err().map(|why| why.to_string());
                hosts[shard].do_send(Stored { id, failure });
            }
        })?;
        Ok(Storing { thread, sender })
    }
}

/// The sink's thread at work.
pub(crate) struct Storing {
    thread: JoinHandle<()>,
    sender: SyncSender<Option<Record>>,
}

impl Storing {
    /// Lets the thread store what it was given, and end; waits for it, but not beyond `until`: a sink that is stuck is
    /// left behind.
    pub(crate) async fn end(&self, until: Instant) {
        while !self.thread.is_finished() && Instant::now() < until {
            // a full queue is tried again; a thread that has ended is seen above
            let _ = self.sender.try_send(None);
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Store {
    /// Hands a record to the sink; false if there is no room.
    pub(crate) fn put(&self, id: (u32, u32), body: Body) -> bool {
        self.world.shared.stores.fetch_add(1, Ordering::AcqRel);
        let taken = self.records.try_send(Some(Record { shard: self.shard, id, body })).is_ok();
        if !taken {
            self.stored();
        }
        taken
    }

    /// A record is done with, and all that followed from it.
    pub(crate) fn stored(&self) {
        self.world.shared.stores.fetch_sub(1, Ordering::AcqRel);
    }
}
