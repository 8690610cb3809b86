//! What a shard's thread is given, and how it begins.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use actix::Addr;
use actix_rt::Arbiter;
use rehearsal_bus::{Inbox, Port};
use tokio::sync::oneshot;

use crate::error::EmuError;
use crate::frames::{self, FrameMouth, Listening};
use crate::host::Host;
use crate::http::server;
use crate::mqtt;
use crate::nats;
use crate::notes::Notes;
use crate::pacer::{self, Alarm};
use crate::preflight::Bound;
use crate::shard::{Core, Parts, Shard};
use crate::store::{Keeper, Store};
use crate::tcp;
use crate::udp;
use crate::world::{Actors, World};

/// Messages of other shards handled before other tasks have their turn.
const INBOX_BATCH: usize = 256;

/// Priority of the threads that pace traffic, where the system grants it: on a busy host they go before ordinary programs,
/// and still leave half of a core to one that is as urgent.
const NICE: i32 = -10;

/// Everything that one shard begins with.
pub(crate) struct Seed {
    world: Arc<World>,
    index: usize,
    actors: Vec<Actors>,
    bus: Port,
    inbox: Inbox,
    notes: Notes,
    store: Store,
    tcp: Vec<(u32, bool, TcpListener)>,
    udp: Vec<(u32, UdpSocket)>,
    quic: Vec<(u32, UdpSocket)>,
}

impl Seed {
    /// A seed for each shard: its nodes' actors and their sockets.
    pub(crate) fn for_each(
        world: &Arc<World>,
        actors: Vec<Actors>,
        bound: Vec<Bound>,
        ends: Vec<(Port, Inbox)>,
        notes: &Notes,
        keeper: &Keeper,
    ) -> Vec<Seed> {
        let seed = |(index, (bus, inbox))| Seed {
            world: world.clone(),
            index,
            actors: Vec::new(),
            bus,
            inbox,
            notes: notes.clone(),
            store: keeper.store(index),
            tcp: Vec::new(),
            udp: Vec::new(),
            quic: Vec::new(),
        };
        let mut seeds: Vec<Seed> = ends.into_iter().enumerate().map(seed).collect();
        for (group, pool) in actors {
            seeds[world.shard_of[world.groups[group].node]].actors.push((group, pool));
        }
        for bound in bound {
            let seed = &mut seeds[world.shard_of(bound.actor)];
            seed.tcp.extend(bound.sockets.tcp.map(|socket| (bound.actor.0, bound.framed, socket)));
            seed.udp.extend(bound.sockets.udp.map(|socket| (bound.actor.0, socket)));
            seed.quic.extend(bound.sockets.quic.map(|socket| (bound.actor.0, socket)));
        }
        seeds
    }

    /// Starts a thread and builds the shard there. The receiver resolves when the thread has let go of everything.
    ///
    /// # Errors
    /// When the operating system refuses the thread or a descriptor.
    pub(crate) async fn plant(self) -> Result<(Arbiter, Addr<Host>, oneshot::Receiver<()>), EmuError> {
        let failed = |source| EmuError::Start { what: "a shard's thread", source };
        let index = self.index;
        let arbiter = Arbiter::try_with_tokio_rt(runtime).map_err(failed)?;
        let (told, begun) = oneshot::channel();
        let (held, gone) = oneshot::channel();
        arbiter.spawn(async move {
            // if nobody listens any more, the run was given up meanwhile
            let _ = told.send(self.begin().await);
            let _held: oneshot::Sender<()> = held;
            std::future::pending::<()>().await;
        });
        let host = begun.await.map_err(|_| EmuError::ShardLost { shard: index })??;
        Ok((arbiter, host, gone))
    }

    async fn begin(self) -> Result<Addr<Host>, EmuError> {
        let failed = |source| EmuError::Start { what: "a shard's thread", source };
        let Seed { world, index, actors, bus, inbox, notes, store, tcp, udp, quic } = self;
        if rustix::process::setpriority_process(None, NICE).is_ok() && index == 0 {
            notes.note(format!("threads that pace traffic ran at nice {NICE}"));
        }
        let opened = mqtt::open(&world, index).await?;
        let (outbox, line) = nats::open(&world, index).await?.unzip();
        let (mouth, listening) = framed(&world, index)?;
        let alarm = Alarm::new(world.clock).map_err(failed)?;
        let room = server::Room::new(world.options.connections_max);
        let parts = Parts {
            world,
            index,
            actors,
            bus,
            notes: notes.clone(),
            store,
            udp: udp::Sockets::default(),
            mouth,
            nats: outbox,
        };
        let shard = Shard::new(parts);
        watch(pacer::run(shard.clone(), alarm), index, &notes);
        watch(hear(shard.clone(), inbox), index, &notes);
        let mut tasks = Vec::new();
        for (actor, framed, socket) in tcp {
            let listener = tokio::net::TcpListener::from_std(socket).map_err(failed)?;
            let (shard, room) = (shard.clone(), room.clone());
            let task = match framed {
                true => tokio::task::spawn_local(tcp::server::listen(shard, listener, actor, room)),
                false => tokio::task::spawn_local(server::listen(shard, listener, actor, room)),
            };
            tasks.push(task.abort_handle());
        }
        for (actor, socket) in udp {
            let socket = udp::Reflector::new(socket).map_err(failed)?;
            tasks.push(tokio::task::spawn_local(udp::receive(shard.clone(), socket, Some(actor))).abort_handle());
        }
        if let Some(listening) = listening {
            tasks.push(tokio::task::spawn_local(listening.run(shard.clone())).abort_handle());
        }
        for (actor, socket) in quic {
            let task = server::three::listen(shard.clone(), socket, actor, room.clone());
            tasks.push(tokio::task::spawn_local(task).abort_handle());
        }
        tasks.extend(line.into_iter().flat_map(|line| nats::begin(&shard, line)));
        tasks.extend(mqtt::begin(&shard, opened));
        Ok(Host::begin(shard, tasks))
    }
}

/// What sends whole frames, and what takes them.
type Framed = (Option<Box<dyn FrameMouth>>, Option<Listening>);

/// Opens what sends and takes whole frames, where anybody of the shard does; receivers make themselves known.
fn framed(world: &World, index: usize) -> Result<Framed, EmuError> {
    let (sends, receivers) = frames::of_shard(world, index);
    let Some(ports) = world.options.frames.as_ref().filter(|_| sends || !receivers.is_empty()) else {
        return Ok((None, None));
    };
    let failed = |source| EmuError::Start { what: "the sockets for whole frames", source };
    let mouth = ports.mouth().map_err(failed)?;
    if receivers.is_empty() {
        return Ok((Some(mouth), None));
    }
    let listening = Listening::new(ports.ear().map_err(failed)?).map_err(failed)?;
    frames::announce(&*mouth, &receivers).map_err(failed)?;
    Ok((Some(mouth), Some(listening)))
}

/// A shard's event loop: one thread for its tasks; for what would block it as many as there are cores, and one for the
/// telemetry.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(cores + 1)
        .thread_name("rehearsal-work")
        .on_thread_start(|| {
            // what blocks inherits the shard's priority, and must not compete with it; lowering is always granted
            let _ = rustix::process::setpriority_process(None, 0);
        })
        .build()
}

/// Runs a task that a shard cannot do without.
fn watch(task: impl Future<Output = ()> + 'static, shard: usize, notes: &Notes) {
    let notes = notes.clone();
    let task = tokio::task::spawn_local(task);
    tokio::task::spawn_local(async move {
        if task.await.is_err_and(|why| why.is_panic()) {
            notes.broken(shard);
        }
    });
}

/// Hands over what other shards publish.
async fn hear(shard: Core, mut inbox: Inbox) {
    while let Some(delivery) = inbox.receive().await {
        shard.borrow_mut().deliver(&delivery);
        inbox.handled();
        for _ in 0..INBOX_BATCH {
            let Some(delivery) = inbox.try_receive() else { break };
            shard.borrow_mut().deliver(&delivery);
            inbox.handled();
        }
        tokio::task::yield_now().await;
    }
}
