//! The run's sink on a thread of its own: records are stored in order, and no shard waits for a disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use actix::Addr;
use rehearsal_core::Body;
use rehearsal_core::sink::Sink;

use crate::host::{Host, Stored};
use crate::world::World;

/// Records that may wait for the sink. Assumed: a minute of reports of 1,000 nodes; what finds no room is not stored,
/// and its actor is told so.
const RECORDS_MAX: usize = 65_536;

/// A shard's way to the sink.
#[derive(Clone)]
pub(crate) struct Store {
    records: SyncSender<Record>,
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
    records: Receiver<Record>,
    sender: SyncSender<Record>,
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

    /// Begins to store. The thread ends when every shard has dropped its [`Store`].
    ///
    /// # Errors
    /// When the operating system refuses the thread.
    pub(crate) fn start(self, mut sink: Box<dyn Sink>, hosts: Vec<Addr<Host>>) -> std::io::Result<JoinHandle<()>> {
        let Keeper { records, sender, .. } = self;
        drop(sender);
        std::thread::Builder::new().name("rehearsal-store".to_owned()).spawn(move || {
            for Record { shard, id, body } in records {
                let failure = sink.store(&body).err().map(|why| why.to_string());
                hosts[shard].do_send(Stored { id, failure });
            }
        })
    }
}

impl Store {
    /// Hands a record to the sink; false if there is no room.
    pub(crate) fn put(&self, id: (u32, u32), body: Body) -> bool {
        self.world.shared.stores.fetch_add(1, Ordering::AcqRel);
        let taken = self.records.try_send(Record { shard: self.shard, id, body }).is_ok();
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
